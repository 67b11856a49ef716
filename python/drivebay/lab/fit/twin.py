"""Twin of a drive from loads: which to run, and the fit to those that were run.

The plan is a greedy D-optimal design (Fedorov, Theory of Optimal Experiments, 1972): of the suite's
tests the one that shrinks the volume of the parameters' posterior most per minute, then the next,
until the budget is spent. The derivatives are those of the base, scaled down (`linear` has the
posterior). Leaves out: that the drive may lie far from the base, where other loads would tell more.

The fit has the rate and the 99th percentile of each phase, each direction of a mix on its own. A
part of the phases is held out.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from drivebay.analysis import Figure, Measured, review
from drivebay.common.errors import UserError
from drivebay.definitions.profiles import Profile
from drivebay.definitions.scaling import near, scaled, with_load
from drivebay.definitions.suites import Prepare, Suite, Test, Workload
from drivebay.lab.fit import fitting, search
from drivebay.lab.fit.experiment import (
    KINDS_OF_PHASES,
    SCALE,
    Experiment,
    Job,
    Observation,
    figures_of,
)
from drivebay.lab.fit.linear import PRIOR, Floats
from drivebay.lab.fit.observed import HELD_OUT_PERCENT, observations_of
from drivebay.lab.fit.outcome import Calibration
from drivebay.lab.fit.parameters import BUILD, LEFT_OUT, Parameter, numbers, select_parameters
from drivebay.lab.fit.shorten import shortened
from drivebay.lab.journal import Journal
from drivebay.lab.validate.values import NotReached, value_of
from drivebay.results import Result, load
from drivebay.results.files import unique
from drivebay.targets.fio.steps import Written, seconds_of_parts
from drivebay.targets.virtual.states import workers_with_states

# Capacity of the base whose derivatives make the plan.
SMALL_BYTES = int(8e9)
# Gain of a test, in nats, below which it is not worth its time.
LEAST_GAIN = 0.1
# Relative error of a tail that counts as one unit; guess: repeatability of a 99th percentile.
TAIL_SCALE = 0.05
TAIL_PERCENT = 25.0
# Without --hold-out, one phase in so many is held out.
HOLD_OUT_ONE_IN = 5
# Sections on which loads of seconds without a power meter do not depend.
NOT_BY_LOADS = {*LEFT_OUT, "thermal", "energy", "power"}
# State of a drive whose preparation is not known.
USUAL = (Prepare(kind="fill"), Prepare(kind="rest", seconds=60))


@dataclass(frozen=True)
class Plan:
    """Tests to run, in the suite's order, with their likely seconds; `gains` in nats, by id, in the
    order in which they were chosen.
    """

    tests: tuple[Test, ...]
    seconds: float
    gains: dict[str, float]


def usual_parameters(profile: Profile, names: Sequence[str] = ()) -> tuple[Parameter, ...]:
    """The named parameters, by default all with a range that short loads may depend on."""
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
    progress: Callable[[str, int], None] | None = None,
) -> Plan:
    """Chooses tests of the suite for a drive of this size. Raises UserError if the budget allows
    none, or none tells about the parameters.
    """
    names, slopes, fill_mb_s = _slopes(base, parameters, suite, jobs, progress)
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
        least = min(suite.tests, key=lambda test: seconds({test.id}))
        minutes = math.ceil(seconds({least.id}) / 60)
        raise UserError(
            f"no load tells about these parameters within {budget_s / 60:g} minutes",
            f"--budget {minutes}m is enough for {least.id}; or fit others: --fit",
        )
    return Plan(tuple(test for test in suite.tests if test.id in gains), seconds(gains), gains)


def _slopes(
    base: Profile,
    parameters: tuple[Parameter, ...],
    suite: Suite,
    jobs: int | None,
    progress: Callable[[str, int], None] | None,
) -> tuple[list[str], Floats, float]:
    """Names and derivatives of all figures of the suite's short forms, and the fill's rate."""
    tests = {Job("", test.id): test for test in suite.shortened().tests}
    figures = [
        Observation(f"{job.test}/{key}", job.test, key, "", 1.0, _scale(key), figures=((job, key),))
        for job, test in tests.items()
        for phase in test.phases
        for key in (f"rate@{phase.label}", *_tails(phase.label, phase.workload))
    ]
    made = Experiment(base, tests, tests, tuple(figures), (), (), "", (), 1, SMALL_BYTES)
    interrupted = "give the same command again"
    workers = jobs or workers_with_states(base.memory_bytes)
    trials = search.Trials(made, parameters, Journal(), jobs=workers, hint=interrupted)
    if progress is not None:
        trials.report_to(lambda count: progress("plan", count))
    start = tuple(parameter.start for parameter in parameters)
    (here,) = trials.run([start], list(tests))
    known = [(one, one.read(here)) for one in figures]
    seen = tuple(replace(one, value=value) for one, value in known if value)
    active = tuple(range(len(parameters)))
    problem = search.Problem(parameters, seen, tuple(tests), active, start, trials)
    slopes = search.derivatives(problem, start, fitting.SCREEN)
    rates = [one.value for one in seen if one.name.startswith("write-sequential/rate@")]
    return [one.name for one in seen], slopes, max(rates, default=400.0)


def _tails(label: str, workload: Workload) -> list[str]:
    sides = ("_read", "_write") if 0 < workload.read_percent < 100 else ("",)
    return [f"p99{side}@{label}" for side in sides]


def _scale(key: str) -> float:
    return TAIL_SCALE if key.startswith("p99") else SCALE


def _bound(key: str) -> float:
    return TAIL_PERCENT if key.startswith("p99") else HELD_OUT_PERCENT


def twin(
    folders: Sequence[Path],
    *,
    base: Profile,
    parameters: Sequence[str] = (),
    hold_out: Sequence[str] = (),
    out: Path | None = None,
    jobs: int | None = None,
    seed: int = 1,
    resume: bool = False,
    progress: Callable[[str, int], None] | None = None,
) -> Calibration:
    """Fits a profile to the loads in these result folders.

    Parameters
    ----------
    base, parameters, out, jobs, seed, resume, progress : as for `fit`; by default all parameters
        that short loads may depend on.
    hold_out : tests or phases (TEST/PHASE) to predict; by default every fifth phase.
    """
    wanted = loads_experiment(folders, base, hold_out, seed)
    named = usual_parameters(wanted.base, parameters)
    return fitting.fit_to(
        wanted, named, out, evaluations=0, jobs=jobs, seed=seed, resume=resume, progress=progress
    )


def loads_experiment(
    folders: Sequence[Path], base: Profile, hold_out: Sequence[str], seed: int
) -> Experiment:
    """Makes the experiment of all phases in these folders. Raises UserError if a folder has none,
    if a name to hold out is unknown, or if the drives differ in size.
    """
    tests: dict[Job, Test] = {}
    full: dict[Job, Test] = {}
    fitted: list[Observation] = []
    whole: list[Observation] = []
    held_out: list[Observation] = []
    notes: list[str] = []
    results = [load(folder) for folder in folders]
    base, limits = _placed(base, results, notes)
    taken: set[str] = set()
    phases: list[str] = []
    for result, limit in zip(results, limits, strict=True):
        for measured in review(result).tests.values():
            if measured.test.kind not in KINDS_OF_PHASES:
                notes.append(f"left out: {measured.test.id}, which is no test of single loads")
                continue
            test = measured.test.model_copy(update={"id": unique(measured.test.id, taken)})
            test = _on_part(test, limit, base.capacity_bytes)
            measured = replace(measured, test=test)
            short, cut = shortened(measured)
            if cut is None or len(short.phases) < len(test.phases):
                short, cut = test, {}
            job = Job("", test.id)
            tests[job], full[job] = short, test
            for phase, observations in _observations(measured):
                phases.append(f"{test.id}/{phase}")
                usual = len(phases) % HOLD_OUT_ONE_IN == HOLD_OUT_ONE_IN // 2
                if not {test.id, phases[-1]}.isdisjoint(hold_out) if hold_out else usual:
                    held_out += observations
                    continue
                whole += observations
                values = [cut.get(one.name.partition("/")[2], one.value) for one in observations]
                fitted += [
                    replace(one, value=value)
                    for one, value in zip(observations, values, strict=True)
                ]
    known = {*phases, *(name.partition("/")[0] for name in phases)}
    if unknown := [name for name in hold_out if name not in known]:
        raise UserError(
            f"--hold-out {unknown[0]}: there is no such load; there are {', '.join(phases)}",
            f"--hold-out {phases[0] if phases else 'TEST'}",
        )
    if not fitted:
        raise UserError(
            f"{folders[0]} has no load to fit to", "a review, or fio's JSON, with at least one"
        )
    kinds = {result.target.get("name") or result.target.get("model") for result in results}
    description = f"loads of {', '.join(map(str, sorted(kinds, key=str)))}"
    return Experiment(
        base, tests, full, tuple(fitted), tuple(whole), tuple(held_out), description,
        tuple(dict.fromkeys(notes)), seed,
    )  # fmt: skip


def _observations(measured: Measured) -> Iterator[tuple[str, list[Observation]]]:
    """The observations of each phase whose load is known."""
    rates = figures_of(measured)
    for phase in measured.phases:
        if {"pattern", "queue_depth"}.intersection(phase.workload.unknown):
            continue
        figures = {f"rate@{phase.label}": rates[f"rate@{phase.label}"]}
        for key in _tails(phase.label, phase.workload):
            with contextlib.suppress(NotReached, KeyError):
                label = f"p99{key[3:].replace('_', ' ').replace('@', ', ')}"
                figures[key] = Figure(key, label, value_of(measured, key), "us")
        yield (
            phase.label,
            [
                replace(one, scale=max(one.scale, _scale(key)), bound_percent=_bound(key))
                for key in figures
                for one in observations_of(measured, {key: figures[key]})
            ],
        )


def _placed(
    base: Profile, results: Sequence[Result], notes: list[str]
) -> tuple[Profile, list[int | None]]:
    """The base scaled to the drives' size, and for each result the bytes of its file, if it is
    smaller than the drive.
    """
    limits: list[int | None] = []
    sizes: set[int] = set()
    for result in results:
        target: Any = result.target
        size = int(target.get("capacity_bytes") or 0)
        part = target["kind"] == "file" or "imported" in target
        limits.append(size if part and 0 < size < base.capacity_bytes else None)
        if size and not part:
            sizes.add(size)
    if len(sizes) > 1:
        raise UserError(
            f"the results are of drives of {min(sizes):,} and {max(sizes):,} bytes",
            "give the results of one drive",
        )
    size = next(iter(sizes), base.capacity_bytes)
    if abs(size / base.capacity_bytes - 1) > 0.01:
        notes.append(
            f"the drive has {size:,} bytes, {base.name} {base.capacity_bytes:,}: its blocks are "
            "scaled, dies and channels stay"
        )
        if size > base.capacity_bytes:
            notes[-1] = f"the drive has {size:,} bytes: its loads are run on all of {base.name}"
        else:
            base = scaled(base, near(base, size / base.capacity_bytes))
    return base, limits


def _on_part(test: Test, limit: int | None, capacity: int) -> Test:
    """The test on the first `limit` bytes of a larger drive; with the usual preparation if its own
    is not known.
    """
    test = test if test.prepare else test.model_copy(update={"prepare": USUAL})
    if limit is None:
        return test
    size = limit

    def step(part: Prepare) -> Prepare:
        if part.load is not None:
            return with_load(part, **_span(part.load, size, capacity))
        return part.model_copy(update=_span(part, size, capacity)) if part.kind == "fill" else part

    phases = tuple(
        with_load(phase, **_span(phase.workload, size, capacity)).model_copy(
            update={"before": tuple(map(step, phase.before))}
        )
        for phase in test.phases
    )
    return test.model_copy(update={"prepare": tuple(map(step, test.prepare)), "phases": phases})


def _span(part: Any, limit: int, capacity: int) -> dict[str, Any]:
    start, length = part.span(limit)
    begin = 100 * start / capacity
    return {"span_start_percent": begin, "span_percent": 100 - begin, "span_bytes": length}
