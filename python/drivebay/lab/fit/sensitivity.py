"""Derivatives of all published rows, and of all figures of their runs, by all free parameters.

A parameter is moved by a quarter of its range, to where there is more room: a secant over what is
plausible, which is steadier than a tangent. Only the drives that have it are run again, and of
their tests only those that anything of its section touches, which one run with the whole section
moved tells bit by bit. A row of several drives is the sum of what each of them changes. What
is smaller than the scatter between seeds is no derivative.
Every evaluation is in a journal in `folder` as soon as it is done, so that a killed run goes on.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from drivebay.analysis import Measured
from drivebay.common.errors import Interrupted, UserError
from drivebay.definitions import scaling
from drivebay.definitions.profiles import Profile
from drivebay.lab.evaluator import Evaluator, Made
from drivebay.lab.fit import conditions, parameters
from drivebay.lab.fit.arrivals import PER_Z, arrivals, shifted
from drivebay.lab.fit.linear import EDGE, Floats
from drivebay.lab.fit.parameters import Parameter, free_parameters, moved
from drivebay.lab.journal import Evaluation, Journal
from drivebay.lab.validate.plan import Plan, Row, Run
from drivebay.lab.validate.runs import SEED, alike, as_run, profile_of, test_of, whole_of
from drivebay.lab.validate.values import Figures, NotReached, kept
from drivebay.lab.validate.verdicts import names_of, reproduced
from drivebay.targets.virtual.states import key_of, workers_with_states
from drivebay.targets.virtual.target import VirtualTarget

STEP = 0.25
"""How far a parameter is moved, of its range."""
SEEDS = (SEED, SEED + 1)
NOISE_FACTOR = 2.0
"""A change under so many standard deviations between seeds is none."""
EVERYWHERE = frozenset({"controller", "nand"})
"""Sections that touch every test."""
LEAST_CHANGE = 0.001
"""A change of a row under this is none, where rows alone are asked for."""
LEAST_SCREENED = 3
"""From so many parameters on a run with all of them moved saves more than it costs."""
HINT = "start again, it goes on: make fidelity"

Runs = Mapping[Run, Figures]
At = tuple[tuple[str, float], ...]
"""Coordinates of a drive's parameters by their names, of those that do not stand where they are."""


@dataclass(frozen=True)
class Derivatives:
    """What came out: `rows` are the names, `start` z of each parameter, `jacobian` (m, n) by z.

    `full`: the runs in their whole length. `figures`: for each run and key of a figure the
    derivatives of its logarithm by the parameters, by their number. `stuck`: parameters
    that no valid drive has elsewhere.
    """

    rows: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    drives: tuple[tuple[str, ...], ...]
    start: Floats
    jacobian: Floats
    noise: Floats
    full: Runs
    figures: Mapping[Run, Mapping[str, Mapping[int, float]]]
    stuck: tuple[int, ...]


@functools.cache
def recipe() -> str:
    """Of the code that decides what a short run is: kept evaluations of another are run again."""
    files = (conditions.__file__, parameters.__file__, scaling.__file__, __file__)
    return hashlib.sha256(b"".join(Path(one).read_bytes() for one in files)).hexdigest()[:12]


def transformed(row: Row, value: Any) -> float:
    """A row's figure as it enters: its logarithm, or itself where it may be 0 or below. Raises
    NotReached if it is 0 and its bounds are not."""
    assert row.bounds is not None
    if row.bounds[0] <= 0:
        return float(value)
    if value <= 0:
        raise NotReached("0")
    return math.log(value)


def numeric(row: Row) -> bool:
    """Whether a row has a figure that runs give."""
    return not row.not_covered and not row.catalog and row.bounds is not None


def z_of(coordinate: float) -> float:
    """A coordinate from 0 to 1 in standard deviations of the range, from its middle."""
    return (coordinate - 0.5) * 2 * EDGE


def coordinate_of(z: float) -> float:
    """The coordinate from 0 to 1 of a z."""
    return min(1.0, max(0.0, 0.5 + z / (2 * EDGE)))


@dataclass
class Bench:
    """What is run: rows, their runs, and the folder in which evaluations are kept.

    `rows_only`: a section of parameters is left out of a test already if moving all of it changes
    no row beyond its scatter, not only if it changes no figure at all.
    """

    plan: Plan
    folder: Path
    say: Callable[[str], None] = field(default=print)
    rows_only: bool = False

    def __post_init__(self) -> None:
        self.rows = tuple(row for row in self.plan.rows if numeric(row))
        self.same = alike(sorted({run for row in self.rows for run in row.needs}))
        self.by_drive: dict[str, list[Run]] = {}
        for run in sorted(set(self.same.values())):
            self.by_drive.setdefault(run.drive, []).append(run)
        self.profiles = {name: whole_of(runs[0]) for name, runs in self.by_drive.items()}
        self.free = {name: free_parameters(one) for name, one in self.profiles.items()}
        as_is = {name: profile_of(runs[0]) for name, runs in self.by_drive.items()}
        self._marks = {name: self._mark(name, as_is) for name in self.by_drive}
        largest = max((VirtualTarget(one).memory_bytes for one in as_is.values()), default=1)
        self.folder.mkdir(parents=True, exist_ok=True)
        journal = Journal()
        journal.open(self.folder / f"{recipe()}.journal.jsonl", {"recipe": recipe()}, resume=True)
        self._evaluator = Evaluator(
            journal,
            self._made,
            self._kept,
            part=lambda one: key_of(self.plan.tests[one.run.test]) if one.full else None,
            jobs=workers_with_states(largest),
            interrupted=Interrupted("interrupted", HINT),
        )

    def _mark(self, name: str, as_is: Mapping[str, Profile]) -> str:
        """Of all that a drive's evaluations depend on besides the model: its profile and tests, its
        rows, and the other drives of these. So what is kept of a drive outlives new drives and rows
        that have nothing to do with it."""
        rows = [row for row in self.rows if any(self.same[run].drive == name for run in row.needs)]
        runs = {self.same[run] for row in rows for run in row.needs} | set(self.by_drive[name])
        parts = []
        for run in sorted(runs):
            test = self.plan.tests[run.test].model_dump_json(exclude_defaults=True)
            full_size = run.test in self.plan.full_size
            parts.append((run.drive, as_is[run.drive].json(), test, full_size))
        words = json.dumps([name, parts, [repr(row) for row in rows]])
        return hashlib.sha256(words.encode()).hexdigest()[:12]

    def _made(self, group: Sequence[Evaluation]) -> Made:
        drive = group[0].run.drive
        profile = self.drive_at(drive, group[0].at)
        made = []
        for one in group:
            member, test = as_run(one.run, profile), test_of(one.run, self.plan)
            if not one.full:
                full_size = one.run.test in self.plan.full_size
                member, test = conditions.shorter(member, test, full_size=full_size)
            VirtualTarget(member).check((test,))
            made.append((one, member, test))
        return made

    def _kept(self, run: Run, found: Measured) -> Figures:
        """All figures of a run with their units, and those that rows look at."""
        units = {key: one.unit for key, one in found.figures.items() if one.value is not None}
        names = {"rates", *units}
        for row in self.rows:
            if run in {self.same[one] for one in row.needs}:
                names |= names_of(row)
        return {**kept(found, names), "units": units}

    def drive_at(self, drive: str, at: At) -> Profile:
        """A drive of whole size with parameters at other coordinates; raises UserError."""
        values = {self.free[drive][name]: x for name, x in at}
        return moved(self.profiles[drive], values) if values else self.profiles[drive]

    def evaluation(self, run: Run, at: At = (), *, full: bool, seed: int = SEED) -> Evaluation:
        """A run with parameters at other coordinates, in its whole length or in a short one."""
        return Evaluation(run, tuple(sorted(at)), full, seed, self._marks[run.drive])

    def run(self, wanted: Iterable[Evaluation], what: str) -> Mapping[Evaluation, Figures]:
        """The figures of these; none where the model takes no such drive."""
        self._evaluator.report_to(lambda n, asked: self.say(f"{what}: {n} of {asked} drives run"))
        return self._evaluator.run(wanted)

    def value(self, row: Row, runs: Runs) -> float | None:
        """The row's figure, transformed; None if these runs have none."""
        try:
            found = reproduced(row, {run: runs[self.same[run]] for run in row.needs})
            return transformed(row, found) if math.isfinite(found) else None
        except NotReached:
            return None

    def trace_of(self, run: Run) -> str:
        """The trace that a run replays; empty for other tests."""
        phases = self.plan.tests[run.test].phases
        return next((one.replay.trace for one in phases if one.replay is not None), "")

    @property
    def runs(self) -> list[Run]:
        """Every run, once."""
        return [run for runs in self.by_drive.values() for run in runs]

    def whole_for(self, run: Run, section: str) -> bool:
        """Whether derivatives by parameters of this section need the run in its whole length."""
        return conditions.wholly_for(self.plan.tests[run.test], section)


def derivatives(bench: Bench) -> Derivatives:
    """All of it; hours of a drive's time each, some minutes here."""
    full = whole_runs(bench)
    base, noise = _base(bench)
    touched = _touched(bench, base, full, noise)
    moves = _moves(bench, base, full, touched)
    return _assembled(bench, base, full, noise, moves)


def whole_runs(bench: Bench) -> Runs:
    """Every run in its whole length."""
    wanted = {run: bench.evaluation(run, full=True) for run in bench.runs}
    found = bench.run(wanted.values(), "whole runs")
    return {run: found[one] for run, one in wanted.items()}


def _base(bench: Bench) -> tuple[Runs, Floats]:
    """The short runs where the parameters stand, and each row's scatter between seeds."""
    wanted = [
        {run: bench.evaluation(run, full=False, seed=seed) for run in bench.runs} for seed in SEEDS
    ]
    found = bench.run((one for some in wanted for one in some.values()), "short runs")
    by_seed = [{run: found[one] for run, one in some.items()} for some in wanted]
    noise = np.zeros(len(bench.rows))
    for i, row in enumerate(bench.rows):
        values = [value for runs in by_seed if (value := bench.value(row, runs)) is not None]
        noise[i] = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return by_seed[0], noise


def _targets(one: Parameter) -> tuple[float, ...]:
    """Where a parameter is moved to, and where else if the model takes no such drive."""
    sign = 1 if one.at <= 0.5 else -1
    ends = (one.at + sign * STEP, one.at - sign * STEP, one.at + sign * STEP / 4)
    return tuple(end for end in ends if 0 <= end <= 1)


def _together(bench: Bench, drive: str, some: Sequence[Parameter]) -> At:
    """Each parameter with the first of its targets that the model takes alone."""
    taken = []
    for one in some:
        for x in _targets(one):
            try:
                bench.drive_at(drive, ((one.name, x),))
            except UserError:
                continue
            taken.append((one.name, x))
            break
    return tuple(taken)


def _touched(
    bench: Bench, base: Runs, full: Runs, noise: Floats
) -> dict[tuple[str, str], set[Run]]:
    """The runs of a drive that moving a whole section changes at all; all of them where the section
    is too small, or touches everything, to be worth a run of its own."""
    touched: dict[tuple[str, str], set[Run]] = {}
    wanted: dict[tuple[str, str], dict[Run, Evaluation]] = {}
    for name, runs in bench.by_drive.items():
        sections: dict[str, list[Parameter]] = {}
        for one in bench.free[name].values():
            sections.setdefault(one.section, []).append(one)
        for section, members in sections.items():
            touched[name, section] = set(runs)
            if section not in EVERYWHERE and len(members) >= LEAST_SCREENED:
                at = _together(bench, name, members)
                wanted[name, section] = {
                    run: bench.evaluation(run, at, full=bench.whole_for(run, section))
                    for run in runs
                }
    found = bench.run((one for some in wanted.values() for one in some.values()), "sections")
    for (name, section), some in wanted.items():
        after = {run: found[one] for run, one in some.items()}
        if not all(after.values()):
            continue
        before = {run: (full if one.full else base)[run] for run, one in some.items()}
        if bench.rows_only:
            touched[name, section] = _rows_changed(bench, {**base, **before}, after, noise)
        else:
            touched[name, section] = {run for run in some if before[run] != after[run]}
    return touched


def _rows_changed(bench: Bench, before: Runs, after: Runs, noise: Floats) -> set[Run]:
    """The runs of which some row changes by more than its scatter."""
    found: set[Run] = set()
    for row, scatter in zip(bench.rows, noise, strict=True):
        mine = {bench.same[run] for run in row.needs} & set(after)
        if mine:
            then, now = bench.value(row, before), bench.value(row, {**before, **after})
            least = max(LEAST_CHANGE, NOISE_FACTOR * scatter)
            if then != now and (then is None or now is None or abs(now - then) > least):
                found |= mine
    return found


Moves = Mapping[tuple[str, str], tuple[float, Mapping[Evaluation, Figures]] | None]
"""By drive and parameter: by how many z it was moved, and what came out; None if it is stuck."""


def _moves(
    bench: Bench, base: Runs, full: Runs, touched: Mapping[tuple[str, str], set[Run]]
) -> Moves:
    """What moving each parameter of each drive gives: where the model takes no such drive, at its
    next target."""
    pending = {
        (name, one.name): list(_targets(one))
        for name in bench.by_drive
        for one in bench.free[name].values()
        if touched[name, one.section]
    }
    moves: dict[tuple[str, str], Any] = dict.fromkeys(pending)
    while pending := {key: ends for key, ends in pending.items() if ends}:
        wanted = {}
        for (name, key), ends in pending.items():
            section, at = bench.free[name][key].section, ((key, ends[0]),)
            wanted[name, key] = [
                bench.evaluation(run, at, full=bench.whole_for(run, section))
                for run in sorted(touched[name, section])
            ]
        found = bench.run((one for some in wanted.values() for one in some), "parameters")
        for (name, key), some in wanted.items():
            x = pending[name, key].pop(0)
            if all(found[one] for one in some):
                step = z_of(x) - z_of(bench.free[name][key].at)
                moves[name, key] = step, {one: found[one] for one in some}
                del pending[name, key]
    return moves


def _row_changes(
    bench: Bench, before: Runs, after: Mapping[Run, Figures]
) -> Iterable[tuple[int, float]]:
    """Of the rows of runs that came out otherwise, by how much."""
    new = {**before, **after}
    for i, row in enumerate(bench.rows):
        if any(bench.same[run] in after for run in row.needs):
            then, now = bench.value(row, before), bench.value(row, new)
            if then is not None and now is not None and then != now:
                yield i, now - then


def _changes(before: Figures, after: Figures) -> Iterable[tuple[str, float]]:
    """By how much the logarithms of a test's figures change."""
    for key in after["units"]:
        old, new = before.get(key), after[key]
        if isinstance(old, int | float) and old > 0 and new > 0 and new != old:
            yield key, math.log(new / old)


def _assembled(bench: Bench, base: Runs, full: Runs, noise: Floats, moves: Moves) -> Derivatives:
    frees: dict[str, Parameter] = {}
    drives: dict[str, list[str]] = {}
    for name, some in bench.free.items():
        for one in some.values():
            frees.setdefault(one.key, one)
            drives.setdefault(one.key, []).append(name)
    traces = arrivals({bench.trace_of(run) for run in bench.runs} - {""})
    for one in traces.values():
        frees[one.key], drives[one.key] = one, []
    order = {key: i for i, key in enumerate(frees)}
    jacobian = np.zeros((len(bench.rows), len(frees)))
    figures: dict[Run, dict[str, dict[int, float]]] = {}
    stuck = set()
    for (name, path), move in moves.items():
        j = order[bench.free[name][path].key]
        if move is None:
            stuck.add(j)
            continue
        step, found = move
        by_row: dict[int, float] = {}
        for is_full, before in ((True, full), (False, base)):
            after = {one.run: values for one, values in found.items() if one.full == is_full}
            for i, change in _row_changes(bench, before, after):
                by_row[i] = by_row.get(i, 0.0) + change / step
            for run, values in after.items():
                for key, change in _changes(before[run], values):
                    figures.setdefault(run, {}).setdefault(key, {})[j] = change / step
        for i, change in by_row.items():
            if abs(change) * STEP * 2 * EDGE > NOISE_FACTOR * noise[i]:
                jacobian[i, j] += change
    for (trace, figure), one in traces.items():
        replays = {run: base[run] for run in bench.runs if bench.trace_of(run) == trace}
        for i, change in _row_changes(bench, base, shifted(replays, figure, PER_Z)):
            jacobian[i, order[one.key]] = change
        for run in replays:
            figures.setdefault(run, {}).setdefault(figure, {})[order[one.key]] = PER_Z
    return Derivatives(
        tuple(row.published.id for row in bench.rows),
        tuple(frees.values()),
        tuple(tuple(drives[key]) for key in frees),
        np.array([z_of(one.at) for one in frees.values()]),
        jacobian,
        noise,
        full,
        figures,
        tuple(sorted(stuck)),
    )
