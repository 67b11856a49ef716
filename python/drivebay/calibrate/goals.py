"""From what a user gives to what is run and aimed at: a result folder, or published rows.

A goal has jobs (a drive and a test) and aims (figures of them). Of a result folder every job is one
of its tests on the drive that is fitted, in its short form where the folder shows that the short
form tells the same (`shorten`). Of published rows the jobs are those of `drivebay paper`: drives of
a family take the values that they share with the fitted one, and keep those of their own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from drivebay import catalog
from drivebay.analysis import Measured, review
from drivebay.calibrate.aims import KEYS, KINDS_OF_PHASES, Aim, Relation, figures_of, scale_of
from drivebay.calibrate.parameters import Parameter, leaf_at, with_values
from drivebay.calibrate.shorten import shortened
from drivebay.catalog import Profile
from drivebay.errors import UserError
from drivebay.paper import load_plan
from drivebay.paper.plan import Plan, Row, Run
from drivebay.paper.values import NotReached
from drivebay.paper.values import figure as paper_figure
from drivebay.results import load
from drivebay.suites import Test

USUAL_KINDS = KINDS_OF_PHASES | {"consistency", "thermal"}
"""Kinds of tests that are fitted to unless the user says which; traces are long, and better kept as
predictions."""
assert KEYS.keys() | KINDS_OF_PHASES >= USUAL_KINDS


@dataclass(frozen=True, order=True)
class Job:
    """A test on a drive; `drive` is "" for the fitted one, else as in published/paper.toml."""

    drive: str
    test: str


@dataclass(frozen=True)
class Goal:
    """What is run, and what is aimed at.

    `tests` are those that trials run, `full` the same in the length in which they were measured.
    `aims` are fitted, `whole` are all figures of those tests, `held` those of the tests that were
    held out. `words` says what was given; `notes` what the user should know of it.
    """

    base: Profile
    tests: Mapping[Job, Test]
    full: Mapping[Job, Test]
    aims: tuple[Aim, ...]
    whole: tuple[Aim, ...]
    held: tuple[Aim, ...]
    words: str
    notes: tuple[str, ...] = ()
    plan: Plan | None = None
    seed: int = 1

    def profile(
        self, job: Job, parameters: Sequence[Parameter], values: Sequence[float]
    ) -> Profile:
        """The drive of a job with these values."""
        if not job.drive:
            return with_values(self.base, parameters, values)
        run = Run(job.drive, job.test)
        member = catalog.load(run.profile)
        shared = frozenset(one.name for one in parameters if _shared(self.base, member, one.name))
        changed = with_values(member, parameters, values, only=shared) if shared else member
        return changed.with_(*run.variants)

    def moves(self, job: Job, parameter: Parameter) -> bool:
        """Whether the job's drive has this parameter from the fitted one."""
        return not job.drive or _shared(
            self.base, catalog.load(Run(job.drive, job.test).profile), parameter.name
        )

    def jobs_of(self, aim: Aim) -> tuple[Job, ...]:
        """The jobs that an aim is read from."""
        if self.plan is None:
            return (Job("", aim.test),)
        return tuple(Job(run.drive, run.test) for run in self._row(aim).needs)

    def read(self, aim: Aim, done: Mapping[Job, Mapping[str, float | None]]) -> float | None:
        """The aim's figure from what its jobs gave; None if a job has none."""
        if self.plan is None:
            return done[Job("", aim.test)].get(aim.name.partition("/")[2])
        row = self._row(aim)
        parts = [done[_job(text)].get(text) for text in (row.value, row.over) if text]
        if None in parts or 0 in parts[1:]:
            return None
        value, *over = (part for part in parts if part is not None)
        return value / (over[0] if over else 1.0) * row.factor

    def keep(self, job: Job, found: Measured) -> dict[str, float | None]:
        """Of a job's figures those that aims are read from."""
        if self.plan is None:
            return {key: figure.value for key, figure in figures_of(found).items()}
        rows = [self._row(aim) for aim in (*self.aims, *self.held)]
        texts = {text for row in rows for text in (row.value, row.over) if text}
        kept: dict[str, float | None] = {}
        for text in sorted(texts):
            if _job(text) == job:
                try:
                    kept[text] = paper_figure({Run(job.drive, job.test): found}, text)
                except NotReached:
                    kept[text] = None
        return kept

    def _row(self, aim: Aim) -> Row:
        assert self.plan is not None
        return next(row for row in self.plan.rows if row.published.id == aim.name)


def _job(text: str) -> Job:
    """The job of a published row's "DRIVE/TEST/FIGURE"."""
    run = Run.of(text.rpartition("/")[0])
    return Job(run.drive, run.test)


def _shared(base: Profile, member: Profile, name: str) -> bool:
    """Whether both have the same leaf there: value and source."""
    try:
        return bool(leaf_at(base.raw, name) == leaf_at(member.raw, name))
    except (KeyError, IndexError, ValueError):
        return False


def goal(
    given: Path | str | Sequence[str],
    base: Profile,
    *,
    only: Sequence[str] = (),
    hold: Sequence[str] = (),
    seed: int = 1,
) -> Goal:
    """What to run and aim at, from a result folder or published rows.

    Parameters
    ----------
    given : a result folder; or ids of published rows, "S058,S060", or a list of them; or the name
        of a drive of the catalog, for all rows about it.
    only, hold : tests of the folder (or rows) that are fitted alone, and that are kept out of the
        fit to be predicted.

    Raises
    ------
    UserError
        If it is neither, or has no figure to fit to.
    """
    if isinstance(given, Sequence) and not isinstance(given, str):
        return _of_rows(list(given), base, only, hold, seed)
    if isinstance(given, str) and not Path(given).exists():
        if given in catalog.names():
            about = [row.published.id for row in load_plan().of_drives([given]).rows]
            return _of_rows(about, base, only, hold, seed, lenient=True)
        if all(_is_row_id(part) for part in given.split(",")):
            return _of_rows(given.split(","), base, only, hold, seed)
        raise UserError(
            f"'{given}' is neither a result folder nor published rows",
            f"make one: drivebay review DRIVE --out {given}; or name rows: S058,S060",
        )
    return _of_folder(Path(given), base, only, hold, seed)


def _is_row_id(text: str) -> bool:
    return text[:1] == "S" and text[1:].isdigit()


def _of_folder(
    folder: Path, base: Profile, only: Sequence[str], hold: Sequence[str], seed: int
) -> Goal:
    result = load(folder)
    tests = review(result).tests
    known = [step.id for step in result.steps]
    for option, names in (("--only", only), ("--hold", hold)):
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
    if both := sorted(set(only) & set(hold)):
        raise UserError(
            f"--hold {both[0]}: it is named with --only, too", "hold out a test, or fit to it"
        )
    used = [
        name
        for name, found in tests.items()
        if name not in hold and (name in only if only else found.test.kind in USUAL_KINDS)
    ]
    fitted: dict[Job, Test] = {}
    full: dict[Job, Test] = {}
    aims: list[Aim] = []
    whole: list[Aim] = []
    for name in used:
        all_of_it = _aims(tests[name])
        if not all_of_it:
            continue
        short, told = shortened(tests[name])
        fitted[Job("", name)], full[Job("", name)] = short, tests[name].test
        for aim in all_of_it:
            key = aim.name.partition("/")[2]
            if told is None or key in told:
                aims.append(aim if told is None else replace(aim, value=told[key]))
        whole += all_of_it
    if not aims:
        missing = f"; not run: {', '.join(step.id for step in result.missing)}" * bool(
            result.missing
        )
        raise UserError(
            f"{folder} has no figure to fit to{missing}",
            f"drivebay review --resume {folder}" if result.missing else "--only TEST names a test",
        )
    held = [aim for name in hold for aim in _aims(tests[name])]
    full |= {Job("", name): tests[name].test for name in hold}
    notes = []
    if result.quick:
        notes.append(
            f"{folder.name} is a quick review: it shows neither steady state nor heat, so values "
            "on which only those depend cannot be fitted to it"
        )
    if result.missing:
        notes.append(f"not run in {folder.name}: {', '.join(step.id for step in result.missing)}")
    if left := [name for name in tests if name not in used and name not in hold]:
        notes.append(
            f"left out: {', '.join(left)} (--only TEST fits to it, --hold TEST predicts it)"
        )
    _same_size(result.target, base)
    drive = str(result.target.get("name") or result.target.get("model"))
    kind = "virtual drive" if result.simulated else "drive"
    length = ", quick" if result.quick else ""
    words = f"a review of the {kind} {drive} ({result.suite.name}{length})"
    return Goal(
        base, fitted, full, tuple(aims), tuple(whole), tuple(held), words, tuple(notes), seed=seed
    )


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


def _aims(found: Measured) -> list[Aim]:
    """Every figure of a test that has a value."""
    name = found.test.id
    return [
        Aim(f"{name}/{key}", name, figure.label, figure.unit, figure.value, scale_of(figure))
        for key, figure in figures_of(found).items()
        if figure.value is not None and figure.value > 0
    ]


def _of_rows(
    ids: Sequence[str],
    base: Profile,
    only: Sequence[str],
    hold: Sequence[str],
    seed: int,
    *,
    lenient: bool = False,
) -> Goal:
    plan = load_plan().only(ids)
    wanted = {row.published.id: row for row in plan.rows}
    for option, names in (("--only", only), ("--hold", hold)):
        if names and (unknown := sorted(set(names) - wanted.keys())):
            raise UserError(
                f"{option} {unknown[0]}: this row was not given", f"{option} {next(iter(wanted))}"
            )
    aims: dict[str, Aim] = {}
    refused = []
    for name, row in wanted.items():
        aim = _row_aim(row)
        if aim is None:
            refused.append(name)
        elif not only or name in only or name in hold:
            aims[name] = aim
    if refused and not lenient:
        raise UserError(
            f"row {refused[0]} is no measured figure nor a ratio of two: it cannot be fitted to",
            f"leave it out; it says: {wanted[refused[0]].published.text}",
        )
    if not set(aims) - set(hold):
        raise UserError("no published row has a figure to fit to", "rows are as in: drivebay paper")
    jobs = {name: [Job(run.drive, run.test) for run in wanted[name].needs] for name in aims}
    fitted = {job: plan.tests[job.test] for name in aims if name not in hold for job in jobs[name]}
    full = {job: plan.tests[job.test] for name in aims for job in jobs[name]}
    chosen = tuple(aim for name, aim in aims.items() if name not in hold)
    held = tuple(aims[name] for name in hold if name in aims)
    words = f"published rows {', '.join(aim.name for aim in chosen)}"
    notes = [f"not figures, left out: {', '.join(refused)}"] if refused else []
    # As `drivebay paper` runs them.
    return Goal(
        base, fitted, full, chosen, chosen, held, words, tuple(notes), replace(plan), seed=1
    )


def _row_aim(row: Row) -> Aim | None:
    """The aim of a row that is compared with a figure or a ratio of two; None for others."""
    figure = row.published
    if not row.value or row.change:
        return None
    relation: Relation = "eq"
    scale = 0.05 if figure.relation in ("approx", "ratio_to") else 0.025
    high = None
    value = figure.value if row.bound is None else row.bound
    if figure.relation == "range":
        low_text, _, high_text = figure.text.partition("..")
        relation, value, high = "range", float(low_text), float(high_text)
    elif figure.relation in ("lt", "gt"):
        relation = "lt" if figure.relation == "lt" else "gt"
    if value is None or value <= 0:
        return None
    label = f"{figure.test}, {figure.metric}"
    return Aim(figure.id, figure.test, label, figure.unit, value, scale, relation, high)


def fingerprint(goal_: Goal, parameters: Sequence[Parameter]) -> dict[str, Any]:
    """All that a trial's outcome depends on, for the journal's head; JSON values."""
    return {
        "profile": json.loads(goal_.base.json()),
        "parameters": [
            {"name": one.name, "start": one.start, "low": one.low, "high": one.high}
            for one in parameters
        ],
        "tests": {
            f"{job.drive}/{job.test}": test.model_dump(mode="json", exclude_defaults=True)
            for job, test in sorted(goal_.full.items() | goal_.tests.items(), key=lambda x: x[0])
        },
        "aims": [[aim.name, aim.value, aim.scale] for aim in (*goal_.aims, *goal_.held)],
        "seed": goal_.seed,
    }
