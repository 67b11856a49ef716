"""Experiments from the input of a fit: a review's result, or published rows.

A result's tests are run on the fitted drive, in short forms where the result itself shows that
these give the same figures (`shorten`); an observation is named TEST/KEY. Published rows run drives
of the catalog, each with those fitted values that it shares with the same profile; an observation
is named by its row's id. Only rows with a figure, or a ratio of two, are used, not statements in
words.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from drivebay.analysis import Figure, Measured, review
from drivebay.common.errors import UserError
from drivebay.definitions import profiles as catalog
from drivebay.definitions.profiles import Profile
from drivebay.definitions.scaling import near, scaled, with_load
from drivebay.definitions.suites import Prepare, Test, Workload
from drivebay.lab.fit.experiment import (
    KINDS_OF_PHASES,
    USUAL_KINDS,
    Experiment,
    Observation,
    Relation,
    figures_of,
    scale_of,
)
from drivebay.lab.fit.shorten import shortened
from drivebay.lab.validate.plan import WITHIN_PERCENT, Row, Run, load_plan
from drivebay.lab.validate.runs import SEED
from drivebay.lab.validate.values import NotReached, value_of
from drivebay.results import Result, load

# Largest error of a held-out figure that counts as predicted.
HELD_OUT_PERCENT = 10.0
# Kind of the 99th percentiles, their largest error that counts as predicted, and the relative
# error that counts as one unit; guess: their repeatability.
TAIL, TAIL_PERCENT, TAIL_SCALE = "p99", 25.0, 0.05
# Smallest step of their derivatives at the end, as a share of the range: percentiles are read from
# bins of 1.6 %, which a smaller step mistakes for a slope.
TAIL_STEP = 0.2
# Of loads one phase in so many is held out, unless others are named.
HOLD_OUT_ONE_IN = 5
# State of a drive whose preparation is not known.
USUAL = (Prepare(kind="fill"), Prepare(kind="rest", seconds=60))
# Bound of a row whose relation has no bound of its own (under, over, between): as for an exact
# one.
BOUND_PERCENT = 5.0


def experiment_for(
    data: Path | str | Sequence[str],
    base: Profile,
    *,
    only: Sequence[str] = (),
    hold_out: Sequence[str] = (),
    seed: int = 1,
    loads: bool = False,
) -> Experiment:
    """Makes the experiment for a fit; raises UserError if the data has no figure to fit to."""
    if isinstance(data, Sequence) and not isinstance(data, str):
        return rows_experiment(list(data), base, only, hold_out)
    if isinstance(data, str) and not Path(data).exists():
        if data in catalog.names():
            about = [row.published.id for row in load_plan().of_drives([data]).rows]
            return rows_experiment(about, base, only, hold_out, lenient=True)
        if all(part[:1] == "S" and part[1:].isdigit() for part in data.split(",")):
            return rows_experiment(data.split(","), base, only, hold_out)
        raise UserError(
            f"'{data}' is neither a result folder nor published rows",
            f"make one: drivebay review DRIVE --out {data}; or name rows: S058,S060",
        )
    return folder_experiment(Path(data), base, only, hold_out, seed, loads=loads)


def folder_experiment(
    folder: Path,
    base: Profile,
    only: Sequence[str],
    hold_out: Sequence[str],
    seed: int,
    *,
    loads: bool = False,
) -> Experiment:
    """Makes the experiment for a result folder. Raises UserError if a test is unknown or has not
    been run, if nothing can be fitted to, or if the folder's drive differs in size from the
    base. `loads`: as for `fitting.fit`.
    """
    result = load(folder)
    base, part, notes = _placed(base, result, loads=loads)
    tests = dict(review(result).tests)
    for name, measured in tests.items():
        test = measured.test
        if "imported" in result.target:
            test = test.model_copy(update={"prepare": USUAL})
        test = test if part is None else _on_part(test, part, base.capacity_bytes)
        tests[name] = replace(measured, test=test)
    _check_names(folder, [step.id for step in result.steps], tests, only, hold_out)
    kinds = KINDS_OF_PHASES if loads else USUAL_KINDS
    used = [
        name
        for name, measured in tests.items()
        if name in hold_out or (name in only if only else measured.test.kind in kinds)
    ]
    away = set(hold_out)
    if loads and not hold_out:
        phases = [f"{name}/{phase.label}" for name in used for phase in tests[name].phases]
        away = set(phases[HOLD_OUT_ONE_IN // 2 :: HOLD_OUT_ONE_IN])
    fitted: dict[Run, Test] = {}
    full: dict[Run, Test] = {}
    observations: list[Observation] = []
    whole: list[Observation] = []
    held_out: list[Observation] = []
    for name in used:
        measured = tests[name]
        kept = []
        for one in _observations(measured, loads=loads):
            label = one.name.rpartition("@")[2]
            if away.isdisjoint({name, f"{name}/{label}"}):
                kept.append(one)
            else:
                held_out.append(replace(one, bound_percent=_bound(one)))
        if loads or name in hold_out or kept:
            full[Run("", name)] = measured.test
        if loads or kept:  # held-out loads are screened too
            fitted[Run("", name)], cut = _short(measured, loads=loads)
            for one in kept:
                key = one.name.partition("/")[2]
                if cut is None or one.kind == TAIL:
                    observations.append(one)
                elif key in cut:
                    observations.append(replace(one, value=cut[key]))
            whole += kept
    missing = ", ".join(step.id for step in result.missing)
    if not observations:
        raise UserError(
            f"{folder} has no figure to fit to" + (f"; not run: {missing}" if missing else ""),
            f"drivebay review --resume {folder}" if missing else "--only TEST names a test",
        )
    left = [name for name in tests if name not in used]
    notes += _notes(folder, result, [] if loads else left)
    drive = result.target.get("name") or result.target.get("model")
    kind = "virtual drive" if result.simulated else "drive"
    length = ", quick" if result.quick else ""
    description = f"a review of the {kind} {drive} ({result.suite.name}{length})"
    return Experiment(
        base,
        fitted,
        full,
        tuple(observations),
        tuple(whole),
        tuple(held_out),
        description,
        tuple(notes),
        seed,
        step=TAIL_STEP if loads else 0.0,
    )


def _short(measured: Measured, *, loads: bool) -> tuple[Test, dict[str, float] | None]:
    """The short form of a test; of loads only if it has all phases, as some are held out."""
    short, cut = shortened(measured)
    if loads and len(short.phases) < len(measured.test.phases):
        return measured.test, None
    return short, cut


def _check_names(
    folder: Path,
    known: Sequence[str],
    tests: Mapping[str, Measured],
    only: Sequence[str],
    hold_out: Sequence[str],
) -> None:
    for option, names in (("--only", only), ("--hold-out", hold_out)):
        for name in names:
            name, _, phase = name.partition("/")
            if name not in known:
                raise UserError(
                    f"{option} {name}: the result has no such test; it has {', '.join(known)}",
                    f"{option} {known[0]}",
                )
            if name not in tests:
                raise UserError(
                    f"{option} {name}: this test of {folder} has not been run",
                    f"drivebay review --resume {folder}",
                )
            labels = [one.label for one in tests[name].phases]
            if phase and phase not in labels:
                raise UserError(
                    f"{option} {name}/{phase}: the test's phases are {', '.join(labels)}",
                    f"{option} {name}/{labels[0]}",
                )
    if both := sorted(set(only) & set(hold_out)):
        raise UserError(
            f"--hold-out {both[0]}: --only names it too", "hold out a test, or fit to it"
        )


def _notes(folder: Path, result: Result, left: Sequence[str]) -> list[str]:
    notes = []
    if result.quick:
        notes.append(
            f"{folder.name} is a quick review: it shows neither steady state nor heat, so values "
            "on which only those depend cannot be fitted to it"
        )
    if result.missing:
        notes.append(f"not run in {folder.name}: {', '.join(step.id for step in result.missing)}")
    if left:
        notes.append(
            f"left out: {', '.join(left)} (--only TEST fits to it, --hold-out TEST predicts it)"
        )
    return notes


def _placed(base: Profile, result: Result, *, loads: bool) -> tuple[Profile, int | None, list[str]]:
    """The base, for loads scaled to a smaller drive; the bytes of a file that loads ran on, if it
    is smaller than the drive; and notes. Raises UserError if a drive has another size.
    """
    target: Mapping[str, Any] = result.target
    size = int(target.get("capacity_bytes") or 0)
    if loads and (target["kind"] == "file" or "imported" in target):
        return base, size if 0 < size < base.capacity_bytes else None, []
    if not size or abs(size / base.capacity_bytes - 1) <= 0.01:
        return base, None, []
    sizes = f"the drive in the result has {size:,} bytes, {base.name} has {base.capacity_bytes:,}"
    if loads and size < base.capacity_bytes:
        smaller = scaled(base, near(base, size / base.capacity_bytes))
        return smaller, None, [f"{sizes}: its blocks are scaled, dies and channels are not"]
    sectors = size // 4096 * 8
    raise UserError(
        sizes,
        f"begin from a profile of its size: drive.capacity_sectors = {sectors} and "
        "nand.blocks_per_plane to go with it",
    )


def _on_part(test: Test, part: int, capacity: int) -> Test:
    """The test on the first `part` bytes of a drive."""

    def moved(step: Any, load: Any) -> Any:
        start, length = load.span(part)
        begin = 100 * start / capacity
        span = {"span_start_percent": begin, "span_percent": 100 - begin, "span_bytes": length}
        return step.model_copy(update=span) if step is load else with_load(step, **span)

    prepare = tuple(
        moved(step, step.load or step) if step.load or step.kind == "fill" else step
        for step in test.prepare
    )
    phases = tuple(moved(phase, phase.workload) for phase in test.phases)
    return test.model_copy(update={"prepare": prepare, "phases": phases})


def tails(label: str, workload: Workload) -> list[str]:
    """Keys of the 99th percentiles of a phase, each direction of a mix on its own."""
    sides = ("_read", "_write") if 0 < workload.read_percent < 100 else ("",)
    return [f"{TAIL}{side}@{label}" for side in sides]


def _observations(measured: Measured, *, loads: bool) -> list[Observation]:
    """Observations of every figure of a test that has a value, if its load is known."""
    name, figures = measured.test.id, figures_of(measured)
    if loads:
        figures = {key: figure for key, figure in figures.items() if key.startswith("rate@")}
        for key in (key for phase in measured.phases for key in tails(phase.label, phase.workload)):
            with contextlib.suppress(NotReached, KeyError):
                label = key.replace("_", " ").replace("@", ", ")
                figures[key] = Figure(key, label, value_of(measured, key), "us")
    unknown = {
        phase.label
        for phase in measured.phases
        if {"pattern", "queue_depth"}.intersection(phase.workload.unknown)
    }
    made = [
        Observation(
            f"{name}/{key}",
            name,
            figure.label,
            figure.unit,
            figure.value,
            scale_of(figure),
            figures=((Run("", name), key),),
        )
        for key, figure in figures.items()
        if figure.value is not None and figure.value > 0 and key.rpartition("@")[2] not in unknown
    ]
    return [
        replace(one, scale=max(one.scale, TAIL_SCALE), bound_percent=_bound(one))
        if one.kind == TAIL
        else one
        for one in made
    ]


def _bound(one: Observation) -> float:
    return TAIL_PERCENT if one.kind == TAIL else HELD_OUT_PERCENT


def rows_experiment(
    ids: Sequence[str],
    base: Profile,
    only: Sequence[str],
    hold_out: Sequence[str],
    *,
    lenient: bool = False,
) -> Experiment:
    """Makes the experiment for published rows.

    `lenient`: rows without figures are left out, and named, instead of refused. Raises UserError if
    a row is unknown or has no figure, or if no row is left to fit to.
    """
    plan = load_plan().only(ids)
    wanted = {row.published.id: row for row in plan.rows}
    for option, names in (("--only", only), ("--hold-out", hold_out)):
        if unknown := sorted(set(names) - wanted.keys()):
            raise UserError(
                f"{option} {unknown[0]}: this row was not given", f"{option} {next(iter(wanted))}"
            )
    observations: dict[str, Observation] = {}
    refused = []
    for name, row in wanted.items():
        observation = _row_observation(row)
        if observation is None:
            refused.append(name)
        elif not only or name in only or name in hold_out:
            observations[name] = observation
    if refused and not lenient:
        raise UserError(
            f"row {refused[0]} is neither a measured figure nor a ratio of two: it cannot be used",
            f"leave it out; it says: {wanted[refused[0]].published.text}",
        )
    if not observations.keys() - set(hold_out):
        raise UserError(
            "no published row has a figure to fit to", "rows are as in: drivebay validate"
        )
    chosen = tuple(observations[name] for name in observations if name not in hold_out)
    held_out = tuple(observations[name] for name in hold_out if name in observations)
    fitted, full = (
        {job: plan.tests[job.test] for observation in some for job in observation.jobs}
        for some in (chosen, (*chosen, *held_out))
    )
    description = f"published rows {', '.join(observation.name for observation in chosen)}"
    notes = [f"not figures, left out: {', '.join(refused)}"] if refused else []
    return Experiment(base, fitted, full, chosen, chosen, held_out, description, tuple(notes), SEED)


def _row_observation(row: Row) -> Observation | None:
    """The observation of a row with one figure or a ratio of two; None for others."""
    figure = row.published
    if not row.value or row.change:
        return None
    bound = WITHIN_PERCENT.get(figure.relation, BOUND_PERCENT)
    relation: Relation = "eq"
    value, high = figure.value, None
    if row.range is not None or figure.relation == "range":
        assert row.bounds is not None
        relation, (value, high) = "range", row.bounds
    if value is None or value <= 0:
        return None
    parts = [text.rpartition("/") for text in (row.value, row.over) if text]
    return Observation(
        figure.id,
        figure.test,
        f"{figure.test}, {figure.metric}",
        figure.unit,
        value,
        bound / 200,  # half of the bound
        relation,
        high,
        bound,
        tuple((Run.of(run), key) for run, _, key in parts),
        row.factor,
        row.less,
    )
