"""Plan of the loads that make a twin: which to run on a drive, and the parameters to fit.

The plan is a greedy D-optimal design (Fedorov, Theory of Optimal Experiments, 1972): of the suite's
tests the one that shrinks the volume of the parameters' posterior most per minute, then the next,
until the budget is spent. The derivatives are those of the base, scaled down (`linear` has the
posterior). Leaves out: that the drive may lie far from the base, where other loads would tell more.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from drivebay.common.errors import UserError
from drivebay.definitions.profiles import Profile
from drivebay.definitions.suites import Suite, Test
from drivebay.lab.fit import search
from drivebay.lab.fit.experiment import SCALE, Experiment, Job, Observation
from drivebay.lab.fit.linear import PRIOR, Floats
from drivebay.lab.fit.observed import TAIL, TAIL_SCALE, tails
from drivebay.lab.fit.parameters import (
    BUILD,
    LEFT_OUT,
    OPEN_FACTOR,
    Parameter,
    numbers,
    possible,
    select_parameters,
)
from drivebay.lab.journal import Journal
from drivebay.targets.fio.steps import FIRST_GUESS_BYTES_PER_S, Written, seconds_of_parts
from drivebay.targets.virtual.states import workers_with_states

# Capacity of the base whose derivatives make the plan.
SMALL_BYTES = int(8e9)
# Gain of a test, in nats, below which it is not worth its time.
LEAST_GAIN = 0.1
# Sections on which loads of seconds without a power meter do not depend.
NOT_BY_LOADS = {*LEFT_OUT, "thermal", "energy", "power"}


@dataclass(frozen=True)
class Plan:
    """Tests to run, in the suite's order, with their likely seconds; `gains` in nats, by id, in the
    order in which they were chosen.
    """

    tests: tuple[Test, ...]
    seconds: float
    gains: dict[str, float]


def usual_parameters(
    profile: Profile, names: Sequence[str] = (), *, wide: bool = False
) -> tuple[Parameter, ...]:
    """The named parameters, by default all with a range that short loads may depend on. `wide`:
    half and twice the ends of their ranges if the core takes them, as for a drive of another model.
    """
    if wide:
        wider = []
        for p in usual_parameters(profile, names):
            ends = ((p.low / OPEN_FACTOR, p.low), (p.high * OPEN_FACTOR, p.high))
            low, high = (end if possible(profile, p, end) else own for end, own in ends)
            wider.append(p if p.whole else replace(p, low=low, high=high))
        return tuple(wider)
    if names:
        return select_parameters(profile, names)
    own = f"host.{profile.raw['host_interface']['protocol']['value']}."
    chosen: list[Parameter] = []
    for path, leaf in numbers(profile.raw):
        section, key = path.split(".")[0], path.rpartition(".")[2]
        fixed = section in NOT_BY_LOADS or key in BUILD or not leaf.get("range")
        if not fixed and (section != "host" or path.startswith(own)):
            with contextlib.suppress(UserError):  # a number of which only some values are possible
                chosen += select_parameters(profile, [path])
    return tuple(chosen)


def plan(
    base: Profile,
    parameters: tuple[Parameter, ...],
    suite: Suite,
    *,
    capacity_bytes: int,
    budget_s: float,
    jobs: int | None = None,
) -> Plan:
    """Chooses tests of the suite for a drive of this size. Raises UserError if the budget allows
    none, or none tells about the parameters.
    """
    names, slopes, fill_mb_s = _slopes(base, parameters, suite, jobs)
    pending = {
        test.id: slopes[[name.startswith(f"{test.id}/") for name in names]] for test in suite.tests
    }
    information = PRIOR * np.eye(len(parameters))
    gains: dict[str, float] = {}

    def seconds(ids: Collection[str]) -> float:
        written = Written(bytes_per_s=fill_mb_s * 1e6)
        total = 0.0
        for test in suite.in_real_time().tests:
            if test.id in ids:
                total += sum(seconds_of_parts(test, capacity_bytes, written))
                written.extents = [(0, capacity_bytes)]
        return total

    def gain(rows: Floats) -> float:
        more = np.linalg.slogdet(information + rows.T @ rows)[1]
        return float(more - np.linalg.slogdet(information)[1]) / 2

    while pending:
        spent = seconds(gains)
        costs = {name: seconds({*gains, name}) - spent for name in pending}
        worth = {
            name: gain(rows) for name, rows in pending.items() if spent + costs[name] <= budget_s
        }
        worth = {name: value for name, value in worth.items() if value >= LEAST_GAIN}
        if not worth:
            break
        best = max(worth, key=lambda name: worth[name] / costs[name])
        gains[best] = worth[best]
        rows = pending.pop(best)
        information = information + rows.T @ rows
    if not gains:
        least = min(seconds({test.id}) for test in suite.tests)
        raise UserError(
            f"no load tells about these parameters within {budget_s / 60:g} minutes",
            f"the shortest takes {least / 60:.0f} minutes: --budget; or fit others: --fit",
        )
    return Plan(tuple(test for test in suite.tests if test.id in gains), seconds(gains), gains)


def _slopes(
    base: Profile, parameters: tuple[Parameter, ...], suite: Suite, jobs: int | None
) -> tuple[list[str], Floats, float]:
    """Names and derivatives of all figures of the suite's short forms, and the fill's rate."""
    tests = {Job("", test.id): test for test in suite.shortened().tests}
    figures = [
        Observation(f"{job.test}/{key}", job.test, key, "", 1.0, scale, figures=((job, key),))
        for job, test in tests.items()
        for phase in test.phases
        for key in (f"rate@{phase.label}", *tails(phase.label, phase.workload))
        for scale in [TAIL_SCALE if key.startswith(TAIL) else SCALE]
    ]
    made = Experiment(base, tests, tests, tuple(figures), (), (), "", (), 1, SMALL_BYTES)
    workers = jobs or workers_with_states(base.memory_bytes)
    again = "give the same command again"
    trials = search.Trials(made, parameters, Journal(), jobs=workers, hint=again)
    start = tuple(parameter.start for parameter in parameters)
    (here,) = trials.run([start], list(tests))
    known = [(one, one.read(here)) for one in figures]
    seen = tuple(replace(one, value=value) for one, value in known if value)
    active = tuple(range(len(parameters)))
    problem = search.Problem(parameters, seen, tuple(tests), active, start, trials)
    slopes = search.derivatives(problem, start, search.SCREEN)
    rates = [one.value for one in seen if one.name.startswith("write-sequential/rate@")]
    return [one.name for one in seen], slopes, max(rates, default=FIRST_GUESS_BYTES_PER_S / 1e6)
