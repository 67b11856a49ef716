"""Derivatives of all published rows, and of all figures of their runs, by all free parameters.

A parameter is moved by a quarter of its range, towards the larger part of it: a secant over the
plausible range, which is steadier than a tangent. Only the drives that have the parameter are run
again, and only those of their tests that depend on its section; a run with the whole section moved
shows the dependence bit by bit. The derivative of a row of several drives is the sum over the
drives. Changes smaller than the scatter between seeds count as zero. Every finished evaluation is
stored in a journal in `folder`, so that a killed run can continue.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from drivebay.analysis import Measured
from drivebay.common.errors import Interrupted, UserError
from drivebay.definitions import profiles, scaling
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

# Step of a parameter, as a share of its range.
STEP = 0.25
SEEDS = (SEED, SEED + 1)
# Number of standard deviations between seeds below which a change counts as zero.
NOISE_FACTOR = 2.0
# Sections that affect every test.
EVERYWHERE = frozenset({"controller", "nand"})
# Change of a row below which it counts as zero, if only rows are requested.
LEAST_CHANGE = 0.001
# Number of parameters from which on a run with all of them moved saves more than it costs.
LEAST_SCREENED = 3
HINT = "start again, it goes on: make fidelity"

Runs = Mapping[Run, Figures]
Key = TypeVar("Key")
# A drive, and a section of its profile.
Section = tuple[str, str]
# Coordinates of a drive's parameters by their names, for those that differ from the profile's.
At = tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Derivatives:
    """Derivatives: `rows` are the names, `start` z of each parameter, `jacobian` (m, n) by z.

    `full`: the runs in their whole length. `figures`: for each run and key of a figure the
    derivatives of its logarithm by the parameters, by their number. `stuck`: parameters that no
    valid drive has at another value.
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
    """Hash of the code that defines short runs: evaluations stored with other code are run
    again.
    """
    modules = (conditions.__file__, parameters.__file__, scaling.__file__, __file__)
    files = (*modules, parameters.SETTINGS_FILE)
    return hashlib.sha256(b"".join(Path(path).read_bytes() for path in files)).hexdigest()[:12]


def transformed(row: Row, value: Any) -> float:
    """A row's figure as it is used here: its logarithm, or its value if that may be 0 or below.
    Raises NotReached if it is 0 and its bounds are not.
    """
    assert row.bounds is not None
    if row.bounds[0] <= 0:
        return float(value)
    if value <= 0:
        raise NotReached("0")
    return math.log(value)


def numeric(row: Row) -> bool:
    """True if a row has a figure that comes from runs."""
    return not row.not_covered and not row.catalog and row.bounds is not None


def z_of(coordinate: float) -> float:
    """Converts a coordinate from 0 to 1 to standard deviations of the range, from its middle."""
    return (coordinate - 0.5) * 2 * EDGE


def coordinate_of(z: float) -> float:
    """Converts a z to a coordinate from 0 to 1."""
    return min(1.0, max(0.0, 0.5 + z / (2 * EDGE)))


@dataclass
class Bench:
    """Rows and their runs, and the folder in which evaluations are stored.

    `rows_only`: a section of parameters is left out for a test if moving all of it changes no row
    beyond its scatter; otherwise only if it changes no figure at all.
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
        self.free = {name: free_parameters(profile) for name, profile in self.profiles.items()}
        as_is = {name: profile_of(runs[0]) for name, runs in self.by_drive.items()}
        self._marks = {name: self._mark(name, as_is) for name in self.by_drive}
        memory = (VirtualTarget(profile).memory_bytes for profile in as_is.values())
        largest = max(memory, default=1)
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
        """Hash of everything that a drive's evaluations depend on except the model: its profile
        and tests, its rows, and the other drives of these rows. So stored evaluations of a
        drive stay valid when unrelated drives and rows are added.
        """
        rows = [row for row in self.rows if any(self.same[run].drive == name for run in row.needs)]
        runs = {self.same[run] for row in rows for run in row.needs} | set(self.by_drive[name])
        parts = []
        for run in sorted(runs):
            test = self.plan.tests[run.test].model_dump_json(exclude_defaults=True)
            full_size = run.test in self.plan.full_size
            parts.append((run.drive, profiles.values(as_is[run.drive].raw), test, full_size))
        content = json.dumps([name, parts, [repr(row) for row in rows]], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:12]

    def _made(self, group: Sequence[Evaluation]) -> Made:
        drive = group[0].run.drive
        profile = self.drive_at(drive, group[0].at)
        made = []
        for evaluation in group:
            member, test = as_run(evaluation.run, profile), test_of(evaluation.run, self.plan)
            if not evaluation.full:
                full_size = evaluation.run.test in self.plan.full_size
                member, test = conditions.shorter(member, test, full_size=full_size)
            VirtualTarget(member).check((test,))
            made.append((evaluation, member, test))
        return made

    def _kept(self, run: Run, measured: Measured) -> Figures:
        """All figures of a run with their units, and the values that rows use."""
        units = {key: each.unit for key, each in measured.figures.items() if each.value is not None}
        names = {"rates", *units}
        for row in self.rows:
            if run in {self.same[needed] for needed in row.needs}:
                names |= names_of(row)
        return {**kept(measured, names), "units": units}

    def drive_at(self, drive: str, at: At) -> Profile:
        """Returns a drive of whole size with parameters at other coordinates; raises UserError."""
        values = {self.free[drive][name]: x for name, x in at}
        return moved(self.profiles[drive], values) if values else self.profiles[drive]

    def evaluation(self, run: Run, at: At = (), *, full: bool, seed: int = SEED) -> Evaluation:
        """The evaluation of a run with parameters at other coordinates, in its whole length or
        in a short one.
        """
        return Evaluation(run, tuple(sorted(at)), full, seed, self._marks[run.drive])

    def run(self, wanted: Iterable[Evaluation], stage: str) -> Mapping[Evaluation, Figures]:
        """Returns the figures of these evaluations; empty if the model refuses the drive."""
        self._evaluator.report_to(lambda n, asked: self.say(f"{stage}: {n} of {asked} drives run"))
        return self._evaluator.run(wanted)

    def run_each(
        self, wanted: Mapping[Key, Sequence[Evaluation]], stage: str
    ) -> dict[Key, Mapping[Evaluation, Figures]]:
        """Returns the figures of several groups of evaluations."""
        results = self.run((some for group in wanted.values() for some in group), stage)
        return {key: {some: results[some] for some in group} for key, group in wanted.items()}

    def value(self, row: Row, runs: Runs) -> float | None:
        """The row's figure, transformed; None if these runs do not give it."""
        try:
            figure = reproduced(row, {run: runs[self.same[run]] for run in row.needs})
            return transformed(row, figure) if math.isfinite(figure) else None
        except NotReached:
            return None

    def trace_of(self, run: Run) -> str:
        """Name of the trace that a run replays; empty for other tests."""
        phases = self.plan.tests[run.test].phases
        return next((phase.replay.trace for phase in phases if phase.replay is not None), "")

    @property
    def runs(self) -> list[Run]:
        """Every run, once."""
        return [run for runs in self.by_drive.values() for run in runs]

    def moved(self, runs: Iterable[Run], section: str, at: At) -> list[Evaluation]:
        """The evaluations of runs with parameters of a section at other coordinates, in their
        whole length if derivatives by parameters of this section need it.
        """
        tests = self.plan.tests
        return [
            self.evaluation(run, at, full=conditions.wholly_for(tests[run.test], section))
            for run in runs
        ]


def derivatives(bench: Bench) -> Derivatives:
    """Computes all derivatives; each run simulates hours of a drive's time in some minutes."""
    full = whole_runs(bench)
    base, noise = _base(bench)
    touched = _touched(bench, base, full, noise)
    moves = _moves(bench, touched)
    return _assembled(bench, base, full, noise, moves)


def whole_runs(bench: Bench) -> Runs:
    """Runs every run in its whole length."""
    results = bench.run((bench.evaluation(run, full=True) for run in bench.runs), "whole runs")
    return {evaluation.run: figures for evaluation, figures in results.items()}


def _base(bench: Bench) -> tuple[Runs, Floats]:
    """The short runs with the profiles' own values, and each row's scatter between seeds."""
    wanted = [bench.evaluation(run, full=False, seed=seed) for seed in SEEDS for run in bench.runs]
    by_seed: dict[int, dict[Run, Figures]] = {seed: {} for seed in SEEDS}
    for evaluation, figures in bench.run(wanted, "short runs").items():
        by_seed[evaluation.seed][evaluation.run] = figures
    noise = np.zeros(len(bench.rows))
    for i, row in enumerate(bench.rows):
        values = [bench.value(row, runs) for runs in by_seed.values()]
        if None not in values:
            noise[i] = np.std(np.array(values, dtype=float), ddof=1)
    return by_seed[SEED], noise


def _targets(parameter: Parameter) -> tuple[float, ...]:
    """Coordinates to move a parameter to: the first choice, and alternatives if the model
    refuses the drive.
    """
    sign = 1 if parameter.at <= 0.5 else -1
    ends = (parameter.at + sign * STEP, parameter.at - sign * STEP, parameter.at + sign * STEP / 4)
    return tuple(end for end in ends if 0 <= end <= 1)


def _together(bench: Bench, drive: str, some: Sequence[Parameter]) -> At:
    """Each parameter with the first of its targets that the model accepts by itself."""
    taken = []
    for parameter in some:
        for x in _targets(parameter):
            try:
                bench.drive_at(drive, ((parameter.name, x),))
            except UserError:
                continue
            taken.append((parameter.name, x))
            break
    return tuple(taken)


def _touched(bench: Bench, base: Runs, full: Runs, noise: Floats) -> dict[Section, set[Run]]:
    """Runs of a drive that change at all when a whole section is moved; all runs if the section
    is too small, or affects everything, so that such a run would not pay.
    """
    touched: dict[Section, set[Run]] = {}
    wanted: dict[Section, list[Evaluation]] = {}
    for name, runs in bench.by_drive.items():
        sections: dict[str, list[Parameter]] = {}
        for parameter in bench.free[name].values():
            sections.setdefault(parameter.section, []).append(parameter)
        for section, members in sections.items():
            touched[name, section] = set(runs)
            if section not in EVERYWHERE and len(members) >= LEAST_SCREENED:
                at = _together(bench, name, members)
                wanted[name, section] = bench.moved(runs, section, at)
    for key, results in bench.run_each(wanted, "sections").items():
        if not all(results.values()):
            continue
        after = {evaluation.run: figures for evaluation, figures in results.items()}
        before = {some.run: (full if some.full else base)[some.run] for some in results}
        if bench.rows_only:
            touched[key] = _rows_changed(bench, {**base, **before}, after, noise)
        else:
            touched[key] = {run for run in after if before[run] != after[run]}
    return touched


def _rows_changed(bench: Bench, before: Runs, after: Runs, noise: Floats) -> set[Run]:
    """The runs with a row that changes by more than its scatter."""
    changed: set[Run] = set()
    for row, scatter in zip(bench.rows, noise, strict=True):
        mine = {bench.same[run] for run in row.needs} & set(after)
        if mine:
            then, now = bench.value(row, before), bench.value(row, {**before, **after})
            least = max(LEAST_CHANGE, NOISE_FACTOR * scatter)
            if then != now and (then is None or now is None or abs(now - then) > least):
                changed |= mine
    return changed


# Result of each move by drive and parameter: the distance in z, and the figures; None if the
# parameter is stuck.
Moves = Mapping[tuple[str, str], tuple[float, Mapping[Evaluation, Figures]] | None]


def _moves(bench: Bench, touched: Mapping[Section, set[Run]]) -> Moves:
    """Moves each parameter of each drive; if the model refuses the drive, to the next target."""
    pending = {
        (name, parameter.name): list(_targets(parameter))
        for name in bench.by_drive
        for parameter in bench.free[name].values()
        if touched[name, parameter.section]
    }
    moves: dict[tuple[str, str], Any] = dict.fromkeys(pending)
    while pending := {key: ends for key, ends in pending.items() if ends}:
        wanted = {}
        for (name, key), ends in pending.items():
            section = bench.free[name][key].section
            runs = sorted(touched[name, section])
            wanted[name, key] = bench.moved(runs, section, ((key, ends[0]),))
        for (name, key), results in bench.run_each(wanted, "parameters").items():
            x = pending[name, key].pop(0)
            if all(results.values()):
                moves[name, key] = z_of(x) - z_of(bench.free[name][key].at), results
                del pending[name, key]
    return moves


def _row_changes(bench: Bench, before: Runs, after: Runs) -> Iterable[tuple[int, float]]:
    """Yields the rows of changed runs, each with its change."""
    new = {**before, **after}
    for i, row in enumerate(bench.rows):
        if any(bench.same[run] in after for run in row.needs):
            then, now = bench.value(row, before), bench.value(row, new)
            if then is not None and now is not None and then != now:
                yield i, now - then


def _changes(before: Figures, after: Figures) -> Iterable[tuple[str, float]]:
    """Yields the changes of the logarithms of a test's figures."""
    for key in after["units"]:
        old, new = before.get(key), after[key]
        if isinstance(old, int | float) and old > 0 and new > 0 and new != old:
            yield key, math.log(new / old)


def _assembled(bench: Bench, base: Runs, full: Runs, noise: Floats, moves: Moves) -> Derivatives:
    frees: dict[str, Parameter] = {}
    drives: dict[str, list[str]] = {}
    for name, some in bench.free.items():
        for parameter in some.values():
            frees.setdefault(parameter.key, parameter)
            drives.setdefault(parameter.key, []).append(name)
    traces = arrivals({bench.trace_of(run) for run in bench.runs} - {""})
    for parameter in traces.values():
        frees[parameter.key], drives[parameter.key] = parameter, []
    order = {key: i for i, key in enumerate(frees)}
    jacobian = np.zeros((len(bench.rows), len(frees)))
    figures: dict[Run, dict[str, dict[int, float]]] = {}
    stuck = set()
    for (name, path), move in moves.items():
        j = order[bench.free[name][path].key]
        if move is None:
            stuck.add(j)
            continue
        step, results = move
        by_row: dict[int, float] = {}
        for is_full, before in ((True, full), (False, base)):
            after = {some.run: values for some, values in results.items() if some.full == is_full}
            for i, change in _row_changes(bench, before, after):
                by_row[i] = by_row.get(i, 0.0) + change / step
            for run, values in after.items():
                for key, change in _changes(before[run], values):
                    figures.setdefault(run, {}).setdefault(key, {})[j] = change / step
        for i, change in by_row.items():
            if abs(change) * STEP * 2 * EDGE > NOISE_FACTOR * noise[i]:
                jacobian[i, j] += change
    for (trace, figure), parameter in traces.items():
        replays = {run: base[run] for run in bench.runs if bench.trace_of(run) == trace}
        for i, change in _row_changes(bench, base, shifted(replays, figure, PER_Z)):
            jacobian[i, order[parameter.key]] = change
        for run in replays:
            figures.setdefault(run, {}).setdefault(figure, {})[order[parameter.key]] = PER_Z
    return Derivatives(
        tuple(row.published.id for row in bench.rows),
        tuple(frees.values()),
        tuple(tuple(drives[key]) for key in frees),
        np.array([z_of(parameter.at) for parameter in frees.values()]),
        jacobian,
        noise,
        full,
        figures,
        tuple(sorted(stuck)),
    )
