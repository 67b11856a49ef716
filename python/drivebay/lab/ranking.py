"""Ranks drives for a load: a suite's tests on scaled drives, with the 90 % intervals of the rates.

A drive is scaled to about 16 GB, filled, and (unless it is to be fresh) overwritten twice at random
before the tests. Leaves out: heat, as a scaled drive is not busy for long enough to warm up.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from drivebay.analysis import fidelity, likeness
from drivebay.analysis.ladder import Step
from drivebay.analysis.phases import unsteady
from drivebay.common.errors import Interrupted, UserError
from drivebay.definitions import scaling
from drivebay.definitions.profiles import Profile
from drivebay.definitions.suites import Prepare, Suite, Test, Workload
from drivebay.lab.pool import Pool, Worker

# guess: enough blocks for garbage collection to be as on the whole drive, and seconds to simulate.
CAPACITY_BYTES = 16e9
OVERWRITES = Workload(
    pattern="random",
    read_percent=0,
    block_bytes=4096,
    queue_depth=32,
    duration_s=86_400,
    until_written_percent=200,
)


@dataclass(frozen=True)
class Ranked:
    """Figures of a drive under one load; those of a load with syncs have no percentiles, as the
    syncs' times are not in them. `interval` is that of the IOPS. `rank` is the range of places that
    the intervals allow; None for a stand-in.
    """

    drive: str
    test: str
    load: str
    figures: Step
    interval: tuple[float, float] | None
    unsteady: str
    stand_in: bool
    rank: tuple[int, int] | None = None

    @property
    def ends(self) -> tuple[float, float]:
        """Both ends of the interval, or the IOPS without one."""
        return self.interval or (self.figures.iops, self.figures.iops)


def rank(
    suite: Suite,
    profiles: Sequence[Profile],
    *,
    fresh: bool = False,
    seed: int = 1,
    ended: Callable[[str], None] = lambda drive: None,
) -> tuple[list[list[Ranked]], dict[str, str]]:
    """Runs the suite on the drives. Returns the figures of each load, from the highest rate to the
    lowest, and the reasons for drives that cannot run it. `ended`: called after each drive.
    """
    measured: dict[tuple[str, str], list[Ranked]] = {
        (test.id, phase.label): [] for test in suite.tests for phase in test.phases
    }
    refused: dict[str, str] = {}

    def measure(worker: Worker, profile: Profile) -> None:
        share = scaling.near(profile, min(1.0, CAPACITY_BYTES / profile.capacity_bytes))
        tests = [scaling.scaled_test(_aged(test, fresh), share) for test in suite.tests]
        try:
            worker.set_profile(scaling.scaled(profile, share), tests, seed=seed)
            rows = [row for test in tests for row in _rows(worker, test, profile, fresh)]
        except UserError as problem:
            refused[profile.name] = problem.message
        else:
            for row in rows:
                measured[row.test, row.load].append(row)
        ended(profile.name)

    interrupted = Interrupted("interrupted", "name fewer drives: drivebay rank LOAD --drives NAMES")
    Pool(os.cpu_count() or 1).run(profiles, measure, interrupted=interrupted)
    return list(map(_in_order, measured.values())), refused


def _aged(test: Test, fresh: bool) -> Test:
    """The test with overwrites after its last fill."""
    last = max((at for at, s in enumerate(test.prepare, 1) if s.kind == "fill"), default=0)
    aging = () if fresh or not last else (Prepare(kind="load", load=OVERWRITES),)
    return test.model_copy(update={"prepare": (*test.prepare[:last], *aging, *test.prepare[last:])})


def _rows(worker: Worker, test: Test, profile: Profile, fresh: bool) -> list[Ranked]:
    known = fidelity.known_of(profile.name, profile.raw)
    phases = {phase.label: phase for phase in worker.run_test(test).phases}
    rows = []
    for group in test.groups:
        loads = [phase.workload for phase in group]
        unit_bytes = fidelity.unit_bytes(profile.raw)
        kind = likeness.kind_of_loads(loads, unit_bytes, behind=not fresh)
        for phase in (phases[phase.label] for phase in group):
            step = replace(phase.step, percentiles_us={}) if phase.workload.fsync else phase.step
            interval = fidelity.around(step.iops, kind) if known else None
            about = (unsteady(phase), profile.stand_in is not None)
            rows.append(Ranked(profile.name, test.id, phase.label, step, interval, *about))
    return rows


def _in_order(rows: list[Ranked]) -> list[Ranked]:
    """Rows from the highest rate to the lowest, with ranks."""
    rows = sorted(rows, key=lambda row: (-row.figures.iops, row.drive))
    counted = [row.ends for row in rows if not row.stand_in]

    def places(row: Ranked) -> tuple[int, int] | None:
        above = sum(other[0] > row.ends[1] for other in counted)
        below = sum(other[1] < row.ends[0] for other in counted)
        return None if row.stand_in else (1 + above, len(counted) - below)

    return [replace(row, rank=places(row)) for row in rows]
