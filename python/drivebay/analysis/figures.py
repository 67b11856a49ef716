"""The shape of every test's figures: one number with its unit, spread and samples; a phase; a test.

A figure that cannot be computed is there with value None and a note that says why, never left out
in silence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from drivebay.analysis import timeline
from drivebay.analysis.consistency import Consistency
from drivebay.analysis.ladder import Step
from drivebay.analysis.latency import Histogram
from drivebay.analysis.rounds import RoundsFound
from drivebay.analysis.stages import OverTime, StageShare
from drivebay.analysis.storage_bench import StorageBench
from drivebay.analysis.thermal import Thermal
from drivebay.analysis.timeline import Spread, Timeline
from drivebay.analysis.trim import Trim
from drivebay.definitions.suites import Test, Workload

SAMPLES = "samples of 1 s"
IOS = "I/Os"
SD = "standard deviation of 1 s samples"
TOO_SHORT = "the run is shorter than one second"
SLOW_MS = (10, 100)
"""The reviews' limits: the share of I/Os slower than these."""
SMALL_BLOCK_BYTES = 8192
"""Up to this size a load is known by its IOPS, above it by its data rate."""


@dataclass(frozen=True)
class Figure:
    """One number with what is needed to believe it.

    `spread` is in the figure's own unit, of the kind `spread_kind` says; `n` counts `n_kind`.
    `place` says at which load an extreme was found ("at 128 KiB"), so that drives with different
    places have one label. `interval` holds a virtual drive's figure with 90 %, as far as its
    parameters leave it open.
    """

    key: str
    label: str
    value: float | None
    unit: str
    spread: float | None = None
    spread_kind: str = ""
    n: int = 0
    n_kind: str = SAMPLES
    note: str = ""
    place: str = ""
    interval: tuple[float, float] | None = None
    missing: str = "–"
    """Printed instead of a value that is None: "never" for an event that did not happen."""


def sampled(
    key: str, label: str, value: float | None, unit: str, some: Spread | None, note: str = ""
) -> Figure:
    """A figure with the spread and the number of the 1 s samples that it rests on."""
    sd, n = (some.sd, some.n) if some else (None, 0)
    return Figure(key, label, value, unit, sd, SD, n, note=note)


def rate(key: str, label: str, step: Step) -> Figure:
    """A phase's data rate."""
    return sampled(key, label, step.rate_mb_s, "MB/s", step.rate)


def iops(key: str, label: str, step: Step) -> Figure:
    """A phase's I/Os per second."""
    return sampled(key, label, step.iops, "IOPS", step.ios)


def per_io(key: str, label: str, value: float | None, unit: str, n: int, note: str = "") -> Figure:
    """A figure that rests on single I/Os."""
    return Figure(key, label, value, unit, n=n, n_kind=IOS, note=note)


@dataclass(frozen=True)
class PhaseFigures:
    """One phase, computed: its timeline, merged histogram, stages, power and the ladder's row.
    `directions` are the histograms of "read" and "write" alone, of each that has some."""

    label: str
    workload: Workload
    timeline: Timeline
    histogram: Histogram
    stages: tuple[StageShare, ...]
    step: Step
    throttled_s: float | None = None
    stages_over_time: OverTime | None = None
    bench: StorageBench | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    directions: Mapping[str, Histogram] = field(default_factory=dict)


@dataclass(frozen=True)
class Measured:
    """One test's figures, by key, in the order to be read; `main` are those of the short table.

    `consistency`, `thermal` and `rounds` are there for tests of that kind alone, and None where the
    run was too short for a single full second.
    """

    test: Test
    phases: tuple[PhaseFigures, ...]
    figures: Mapping[str, Figure]
    main: tuple[str, ...] = ()
    consistency: Consistency | None = None
    thermal: Thermal | None = None
    trim: Trim | None = None
    rounds: RoundsFound | None = None

    @property
    def steps(self) -> tuple[Step, ...]:
        """The ladder's rows, one per phase."""
        return tuple(phase.step for phase in self.phases)

    @property
    def whole(self) -> Timeline:
        """All phases one after the other."""
        return timeline.joined([phase.timeline for phase in self.phases])


def by_key(rows: Iterable[Figure]) -> dict[str, Figure]:
    """The figures by key; a test's own one goes before that of its phase."""
    found: dict[str, Figure] = {}
    for row in rows:
        found.setdefault(row.key, row)
    return found
