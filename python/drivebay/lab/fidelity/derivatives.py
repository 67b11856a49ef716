"""Derivatives of all published rows, and of all figures of their runs, by all free parameters.

A parameter is moved by a quarter of its range, to where there is more room: a secant over what is
plausible, which is steadier than a tangent. Only the drives that have it are run again, and of
their tests only those that anything of its section touches, which one run with the whole section
moved tells bit by bit. A row of several drives is the sum of what each of them changes. What
is smaller than the scatter between seeds is no derivative.
Every evaluation is kept in a file of `folder` as soon as it is done, so that a killed run goes on.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from drivebay.analysis import Measured
from drivebay.common.errors import Interrupted, UserError
from drivebay.definitions import scaling
from drivebay.definitions.profiles import Profile
from drivebay.definitions.suites import Test
from drivebay.lab.fidelity import conditions, free
from drivebay.lab.fidelity.arrivals import PER_Z, arrivals, shifted, trace_of
from drivebay.lab.fidelity.free import Free, free_of, moved
from drivebay.lab.fidelity.posterior import EDGE
from drivebay.lab.pool import Pool, Worker
from drivebay.lab.validate.plan import Plan, Row, Run
from drivebay.lab.validate.runs import SEED, alike, as_run, profile_of, test_of, whole_of
from drivebay.lab.validate.values import NotReached
from drivebay.lab.validate.verdicts import reproduced
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

Runs = dict[Run, Measured]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Derivatives:
    """What came out: `rows` are the names, `start` z of each parameter, `jacobian` (m, n) by z.

    `full`: the runs in their whole length. `figures`: for each run and key of a figure the
    derivatives of its logarithm by the parameters, by their number. `stuck`: parameters
    that no valid drive has elsewhere.
    """

    rows: tuple[str, ...]
    parameters: tuple[Free, ...]
    drives: tuple[tuple[str, ...], ...]
    start: np.ndarray
    jacobian: np.ndarray
    noise: np.ndarray
    full: Mapping[Run, Measured]
    figures: Mapping[Run, Mapping[str, Mapping[int, float]]]
    stuck: tuple[int, ...]


@functools.cache
def recipe() -> str:
    """Of the code that decides what a short run is: kept evaluations of another are run again."""
    files = (conditions.__file__, free.__file__, scaling.__file__, __file__)
    return hashlib.sha256(b"".join(Path(one).read_bytes() for one in files)).hexdigest()[:12]


def transformed(row: Row, value: Any) -> float:
    """A row's figure as it enters: its logarithm, or itself where it may be 0 or below.

    Raises
    ------
    NotReached
        If it is 0 and its bounds are not.
    """
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
    say: Say = field(default=print)
    rows_only: bool = False

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.rows = tuple(row for row in self.plan.rows if numeric(row))
        wanted = sorted({run for row in self.rows for run in row.needs})
        self.same = alike(wanted)
        self.by_drive: dict[str, list[Run]] = {}
        for run in sorted(set(self.same.values())):
            self.by_drive.setdefault(run.drive, []).append(run)
        self.profiles = {name: whole_of(runs[0]) for name, runs in self.by_drive.items()}
        self.free = {name: free_of(one) for name, one in self.profiles.items()}
        as_is = {name: profile_of(runs[0]) for name, runs in self.by_drive.items()}
        self.marks = {name: self._mark(name, as_is) for name in self.by_drive}
        largest = max((VirtualTarget(one).memory_bytes for one in as_is.values()), default=1)
        self._pool = Pool(workers_with_states(largest))

    def _mark(self, name: str, as_is: Mapping[str, Profile]) -> str:
        """Of all that a drive's evaluations depend on besides the model: its profile and tests, its
        rows, and the other drives of these. So what is kept of a drive outlives new drives and rows
        that have nothing to do with it."""
        rows = [row for row in self.rows if any(self.same[run].drive == name for run in row.needs)]
        runs = {self.same[run] for row in rows for run in row.needs} | set(self.by_drive[name])
        told = []
        for run in sorted(runs):
            test = self.plan.tests[run.test].model_dump_json(exclude_defaults=True)
            full_size = run.test in self.plan.full_size
            told.append((run.drive, as_is[run.drive].json(), test, full_size))
        words = json.dumps([name, told, [repr(row) for row in rows]])
        return hashlib.sha256(words.encode()).hexdigest()[:12]

    def condition(self, run: Run, profile: Profile, *, whole: bool) -> tuple[Profile, Test]:
        """The drive and the test of a run, in its whole length or the shorter one."""
        test, drive = test_of(run, self.plan), as_run(run, profile)
        if whole:
            return drive, test
        return conditions.shorter(drive, test, full_size=run.test in self.plan.full_size)

    def measure(
        self,
        worker: Worker,
        runs: Iterable[Run],
        profile: Profile,
        *,
        seed: int = SEED,
        whole: Iterable[Run] = (),
    ) -> Runs:
        """Runs of one drive, those of one prepared state one after the other."""
        whole = set(whole)
        groups: dict[str, list[tuple[Run, Profile, Test]]] = {}
        for run in runs:
            small, test = self.condition(run, profile, whole=run in whole)
            groups.setdefault(small.json(), []).append((run, small, test))
        found: Runs = {}
        for group in groups.values():
            group.sort(key=lambda one: key_of(one[2]))
            worker.set_profile(group[0][1], [test for _, _, test in group], seed=seed)
            for run, _, test in group:
                found[run] = worker.run_test(test)
        return found

    def each(
        self, tasks: Sequence[tuple[str, Callable[[Worker], Any]]], what: str
    ) -> dict[str, Any]:
        """Every task's result by its name: kept ones from their files, the others run."""
        kept = {name: self._read(name) for name, _ in tasks}
        todo = [task for task in tasks if kept[task[0]] is None]
        done = len(tasks) - len(todo)

        def work(worker: Worker, task: tuple[str, Callable[[Worker], Any]]) -> None:
            nonlocal done
            name, run = task
            kept[name] = run(worker)
            self._write(name, kept[name])
            done += 1
            self.say(f"{what}: {done} of {len(tasks)}")

        self._pool.run(todo, work, interrupted=Interrupted("interrupted", HINT))
        return kept

    def _path(self, name: str) -> Path:
        return self.folder / f"{hashlib.sha256(name.encode()).hexdigest()[:20]}.pickle"

    def _read(self, name: str) -> Any:
        try:
            return pickle.loads(self._path(name).read_bytes())
        except (OSError, EOFError, pickle.UnpicklingError):
            return None

    def _write(self, name: str, value: Any) -> None:
        path = self._path(name)
        part = path.with_suffix(".part")
        part.write_bytes(pickle.dumps(value))
        part.replace(path)

    def value(self, row: Row, runs: Mapping[Run, Measured]) -> float | None:
        """The row's figure, transformed; None if these runs have none."""
        try:
            found = reproduced(row, {run: runs[self.same[run]] for run in row.needs})
            return transformed(row, found) if math.isfinite(found) else None
        except NotReached:
            return None


def _called(bench: Bench, what: str, name: str, rest: Any) -> str:
    """The name under which a short run of a drive is kept."""
    return f"{what} {name} {bench.marks[name]} {rest} {recipe()}"


def derivatives(bench: Bench) -> Derivatives:
    """All of it; hours of a drive's time each, some minutes here."""
    full = whole_runs(bench)
    base, noise = _base(bench)
    touched = _touched(bench, base, full, noise)
    moves = _moves(bench, base, full, touched)
    return _assembled(bench, base, full, noise, moves)


def whole_runs(bench: Bench) -> Runs:
    """Every run in its whole length, those of one drive and state in one task."""
    tasks = []
    for name, runs in bench.by_drive.items():
        by_state: dict[str, list[Run]] = {}
        for run in runs:
            by_state.setdefault(key_of(bench.plan.tests[run.test]), []).append(run)
        for state, some in by_state.items():

            def run_all(worker: Worker, name: str = name, some: list[Run] = some) -> Runs:
                return bench.measure(worker, some, bench.profiles[name], whole=some)

            tasks.append((f"full {name} {bench.marks[name]} {state}", run_all))
    found: Runs = {}
    for runs_done in bench.each(tasks, "whole runs").values():
        found |= runs_done
    return found


def _base(bench: Bench) -> tuple[Runs, np.ndarray]:
    """The short runs where the parameters stand, and each row's scatter between seeds."""
    tasks = []
    for seed in SEEDS:
        for name, runs in bench.by_drive.items():

            def run_all(
                worker: Worker, name: str = name, runs: list[Run] = runs, seed: int = seed
            ) -> Runs:
                return bench.measure(worker, runs, bench.profiles[name], seed=seed)

            tasks.append((_called(bench, "base", name, seed), run_all))
    done = bench.each(tasks, "short runs")
    by_seed: list[Runs] = []
    for seed in SEEDS:
        merged: Runs = {}
        for name in bench.by_drive:
            merged |= done[_called(bench, "base", name, seed)]
        by_seed.append(merged)
    noise = np.zeros(len(bench.rows))
    for i, row in enumerate(bench.rows):
        values = [value for runs in by_seed if (value := bench.value(row, runs)) is not None]
        noise[i] = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return by_seed[0], noise


def _whole_runs(bench: Bench, name: str, section: str) -> set[Run]:
    return {
        run
        for run in bench.by_drive[name]
        if conditions.wholly_for(bench.plan.tests[run.test], section)
    }


def _target(one: Free) -> tuple[float, ...]:
    """Where a parameter is moved to, and where else if the model takes no such drive."""
    sign = 1 if one.start <= 0.5 else -1
    ends = (one.start + sign * STEP, one.start - sign * STEP, one.start + sign * STEP / 4)
    return tuple(end for end in ends if 0 <= end <= 1)


def _together(profile: Profile, some: Sequence[Free]) -> list[tuple[Free, float]]:
    """Each parameter with the first of its targets that the model takes alone."""
    taken = []
    for one in some:
        for at in _target(one):
            try:
                moved(profile, [(one, at)])
            except UserError:
                continue
            taken.append((one, at))
            break
    return taken


def _sections(bench: Bench, name: str) -> dict[str, list[Free]]:
    found: dict[str, list[Free]] = {}
    for one in bench.free[name].values():
        found.setdefault(one.section, []).append(one)
    return found


def _touched(
    bench: Bench, base: Runs, full: Runs, noise: np.ndarray
) -> dict[tuple[str, str], set[Run]]:
    """The runs of a drive that moving a whole section changes at all; all of them where the section
    is too small, or touches everything, to be worth a run of its own."""
    tasks = []
    for name, runs in bench.by_drive.items():
        for section, some in _sections(bench, name).items():
            if section in EVERYWHERE or len(some) < LEAST_SCREENED:
                continue

            def screen(
                worker: Worker,
                name: str = name,
                section: str = section,
                some: list[Free] = some,
                runs: list[Run] = runs,
            ) -> list[Run]:
                whole = _whole_runs(bench, name, section)
                try:
                    profile = moved(bench.profiles[name], _together(bench.profiles[name], some))
                    after = bench.measure(worker, runs, profile, whole=whole)
                except UserError:
                    return list(runs)
                if bench.rows_only:
                    some_rows = _rows_changed(bench, dict(base) | {r: full[r] for r in whole},
                                              after, noise)  # fmt: skip
                    return [run for run in runs if run in some_rows]
                before = {run: (full if run in whole else base)[run] for run in runs}
                return [run for run in runs if _told(before[run]) != _told(after[run])]

            tasks.append((_called(bench, "screen", name, section), screen))
    done = bench.each(tasks, "sections")
    return {
        (name, section): set(done.get(_called(bench, "screen", name, section), runs))
        for name, runs in bench.by_drive.items()
        for section in _sections(bench, name)
    }


def _rows_changed(bench: Bench, before: Runs, after: Runs, noise: np.ndarray) -> set[Run]:
    """The runs of which some row changes by more than its scatter."""
    found: set[Run] = set()
    for row, scatter in zip(bench.rows, noise, strict=True):
        mine = {bench.same[run] for run in row.needs} & set(after)
        if mine:
            then, now = bench.value(row, before), bench.value(row, dict(before) | after)
            least = max(LEAST_CHANGE, NOISE_FACTOR * scatter)
            if then != now and (then is None or now is None or abs(now - then) > least):
                found |= mine
    return found


def _told(found: Measured) -> str:
    """All figures of a test in one text."""
    figures = {key: figure.value for key, figure in found.figures.items()}
    rates = [[phase.step.rate_mb_s, phase.step.iops] for phase in found.phases]
    return json.dumps([figures, rates])


def _moves(
    bench: Bench, base: Runs, full: Runs, touched: Mapping[tuple[str, str], set[Run]]
) -> dict[tuple[str, str], Any]:
    """What moving each parameter of each drive changes, per z."""
    tasks, keys = [], {}
    for name in bench.by_drive:
        for key, one in bench.free[name].items():
            runs = sorted(touched[name, one.section])
            if runs:
                task = _called(bench, "move", name, f"{key} {STEP}")
                keys[task] = (name, key)

                def move(
                    worker: Worker, name: str = name, one: Free = one, runs: list[Run] = runs
                ) -> Any:
                    return _move(bench, worker, name, one, runs, base, full)

                tasks.append((task, move))
    done = bench.each(tasks, "parameters")
    return {keys[task]: found for task, found in done.items()}


def _move(
    bench: Bench, worker: Worker, name: str, one: Free, runs: list[Run], base: Runs, full: Runs
) -> dict[str, Any]:
    whole = _whole_runs(bench, name, one.section) & set(runs)
    for at in _target(one):
        try:
            profile = moved(bench.profiles[name], [(one, at)])
            after = bench.measure(worker, runs, profile, whole=whole)
            break
        except UserError:
            continue
    else:
        return {"stuck": True}
    step = z_of(at) - z_of(one.start)
    rows: dict[str, float] = {}
    for part, before in ((whole, full), (set(runs) - whole, base)):
        new = dict(before) | {run: after[run] for run in part}
        for row in bench.rows:
            if part & {bench.same[run] for run in row.needs}:
                then, now = bench.value(row, before), bench.value(row, new)
                if then is not None and now is not None and then != now:
                    name_of = row.published.id
                    rows[name_of] = rows.get(name_of, 0.0) + (now - then) / step
    figures = {
        run: _changes((full if run in whole else base)[run], after[run], step) for run in runs
    }
    return {"rows": rows, "figures": figures}


def _changes(before: Measured, after: Measured, step: float) -> dict[str, float]:
    """Derivatives of the logarithms of a test's figures."""
    found = {}
    for key, figure in after.figures.items():
        old = before.figures.get(key)
        if old and old.value and figure.value and old.value > 0 and figure.value > 0:
            change = math.log(figure.value / old.value) / step
            if change:
                found[key] = change
    return found


def _assembled(
    bench: Bench, base: Runs, full: Runs, noise: np.ndarray, moves: Mapping[tuple[str, str], Any]
) -> Derivatives:
    names = tuple(row.published.id for row in bench.rows)
    number = {name: i for i, name in enumerate(names)}
    frees: dict[str, Free] = {}
    drives: dict[str, list[str]] = {}
    for name, some in bench.free.items():
        for key, one in some.items():
            frees.setdefault(key, one)
            drives.setdefault(key, []).append(name)
    traces = arrivals({trace_of(one) for one in base.values()} - {""})
    for one in traces.values():
        frees[one.key], drives[one.key] = one, []
    order = {key: i for i, key in enumerate(frees)}
    jacobian = np.zeros((len(names), len(frees)))
    figures: dict[Run, dict[str, dict[int, float]]] = {}
    stuck = set()
    for (_, key), found in moves.items():
        if found.get("stuck"):
            stuck.add(order[key])
            continue
        for row, change in found["rows"].items():
            if abs(change) * STEP * 2 * EDGE > NOISE_FACTOR * noise[number[row]]:
                jacobian[number[row], order[key]] += change
        for run, changes in found["figures"].items():
            for figure, change in changes.items():
                figures.setdefault(run, {}).setdefault(figure, {})[order[key]] = change
    for (trace, figure), one in traces.items():
        changed = shifted(base, trace, figure, PER_Z)
        for i, row in enumerate(bench.rows):
            then, now = bench.value(row, base), bench.value(row, changed)
            if then is not None and now is not None:
                jacobian[i, order[one.key]] = now - then
        for run, measured in base.items():
            if trace_of(measured) == trace:
                known = figures.setdefault(run, {}).setdefault(figure, {})
                known[order[one.key]] = PER_Z
    start = np.array([z_of(one.start) for one in frees.values()])
    return Derivatives(
        names,
        tuple(frees.values()),
        tuple(tuple(drives[key]) for key in frees),
        start,
        jacobian,
        noise,
        full,
        figures,
        tuple(sorted(stuck)),
    )
