"""Experiments from the input of a fit: a review's result, or published rows.

A result's tests are run on the fitted drive, in short forms where the result itself shows that
these give the same figures (`shorten`); an observation is named TEST/KEY. Published rows run drives
of the catalog, each with those fitted values that it shares with the same profile; an observation
is named by its row's id. Only rows with a figure, or a ratio of two, are used, not statements in
words.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from drivebay.analysis import Figure, Measured, review
from drivebay.common.errors import UserError
from drivebay.definitions import profiles as catalog
from drivebay.definitions.profiles import Profile
from drivebay.definitions.suites import Test
from drivebay.lab.fit.experiment import (
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
from drivebay.results import Result, load

# Largest error of a held-out figure that counts as predicted.
HELD_OUT_PERCENT = 10.0
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
    return folder_experiment(Path(data), base, only, hold_out, seed)


def folder_experiment(
    folder: Path, base: Profile, only: Sequence[str], hold_out: Sequence[str], seed: int
) -> Experiment:
    """Makes the experiment for a result folder. Raises UserError if a test is unknown or has not
    been run, if nothing can be fitted to, or if the folder's drive differs in size from the
    base.
    """
    result = load(folder)
    tests = review(result).tests
    _check_names(folder, [step.id for step in result.steps], tests, only, hold_out)
    used = [
        name
        for name, measured in tests.items()
        if name not in hold_out and (name in only if only else measured.test.kind in USUAL_KINDS)
    ]
    fitted: dict[Run, Test] = {}
    full: dict[Run, Test] = {}
    observations: list[Observation] = []
    whole: list[Observation] = []
    for name in used:
        all_of_it = _observations(tests[name])
        if not all_of_it:
            continue
        short, measured = shortened(tests[name])
        fitted[Run("", name)], full[Run("", name)] = short, tests[name].test
        for observation in all_of_it:
            key = observation.name.partition("/")[2]
            if measured is None:
                observations.append(observation)
            elif key in measured:
                observations.append(replace(observation, value=measured[key]))
        whole += all_of_it
    missing = ", ".join(step.id for step in result.missing)
    if not observations:
        raise UserError(
            f"{folder} has no figure to fit to" + (f"; not run: {missing}" if missing else ""),
            f"drivebay review --resume {folder}" if missing else "--only TEST names a test",
        )
    held_out = [
        replace(observation, bound_percent=HELD_OUT_PERCENT)
        for name in hold_out
        for observation in _observations(tests[name])
    ]
    full |= {Run("", name): tests[name].test for name in hold_out}
    notes = _notes(folder, result, [n for n in tests if n not in used and n not in hold_out])
    _same_size(result.target, base)
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
    )


def _check_names(
    folder: Path,
    known: Sequence[str],
    tests: Collection[str],
    only: Sequence[str],
    hold_out: Sequence[str],
) -> None:
    for option, names in (("--only", only), ("--hold-out", hold_out)):
        for name in names:
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


def _same_size(target: Mapping[str, Any], base: Profile) -> None:
    capacity = int(target.get("capacity_bytes") or 0)
    if capacity and abs(capacity / base.capacity_bytes - 1) > 0.01:
        sectors = capacity // 4096 * 8
        raise UserError(
            f"the drive in the result has {capacity:,} bytes, {base.name} has "
            f"{base.capacity_bytes:,}",
            f"begin from a profile of its size: drive.capacity_sectors = {sectors} and "
            "nand.blocks_per_plane to go with it",
        )


def observations_of(measured: Measured, figures: Mapping[str, Figure]) -> list[Observation]:
    """Observations of these figures of a test, if they have a value."""
    name = measured.test.id
    return [
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
        if figure.value is not None and figure.value > 0
    ]


def _observations(measured: Measured) -> list[Observation]:
    return observations_of(measured, figures_of(measured))


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
