"""Published rows as a experiment: the runs of `drivebay validate` that they are compared with.

The drives of a family take the values that they have from the fitted one, and keep their own. Rows
in words, about a difference in percent, or about a shape or rank are no observations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from drivebay.analysis import Measured
from drivebay.common.errors import UserError
from drivebay.definitions import profiles as catalog
from drivebay.definitions.modifications import changed
from drivebay.definitions.profiles import Profile
from drivebay.lab.calibrate.experiment import Experiment, Figures, Job, Observation, Relation
from drivebay.lab.calibrate.parameters import Parameter, leaf_at, with_values
from drivebay.lab.validate import load_plan
from drivebay.lab.validate.plan import WITHIN_PERCENT, Row, Run
from drivebay.lab.validate.runs import SEED, as_run
from drivebay.lab.validate.values import NotReached
from drivebay.lab.validate.values import figure as paper_figure

BOUND_PERCENT = 5.0
"""Of a row whose relation has no bound of its own (under, over, between): as of an exact one."""


@dataclass(frozen=True)
class RowsExperiment(Experiment):
    """Runs of drives of the catalog; an observation is named by its row's id."""

    rows: tuple[Row, ...]

    def profile(
        self, job: Job, parameters: Sequence[Parameter], values: Sequence[float]
    ) -> Profile:
        """The job's drive, with those of the values that it has from the fitted one."""
        run = Run(job.drive, job.test)
        shared = frozenset(one.name for one in parameters if self.moves(job, one))
        member = run.in_its_host(catalog.load(run.profile))
        fitted = with_values(member, parameters, values, only=shared) if shared else member
        return as_run(run, changed(fitted, run.variants))

    def moves(self, job: Job, parameter: Parameter) -> bool:
        """Whether value and source are the fitted drive's."""
        member = catalog.load(Run(job.drive, job.test).profile)
        try:
            own = leaf_at(member.raw, parameter.name)
            return bool(own == leaf_at(self.base.raw, parameter.name))
        except (KeyError, IndexError, ValueError):
            return False

    def jobs_of(self, observation: Observation) -> tuple[Job, ...]:
        """The runs that its row needs."""
        return tuple(Job(run.drive, run.test) for run in self._row(observation).needs)

    def keep(self, job: Job, found: Measured) -> Figures:
        """The figures that rows name, by their words DRIVE/TEST/FIGURE."""
        texts = {text for row in self.rows for text in (row.value, row.over) if text}
        kept: dict[str, float | None] = {}
        for text in sorted(texts):
            if _job(text) == job:
                try:
                    kept[text] = paper_figure({Run(job.drive, job.test): found}, text)
                except NotReached:
                    kept[text] = None
        return kept

    def read(self, observation: Observation, done: Mapping[Job, Figures]) -> float | None:
        """The row's figure, or the ratio of its two."""
        row = self._row(observation)
        parts = [done[_job(text)].get(text) for text in (row.value, row.over) if text]
        if None in parts or 0 in parts[1:]:
            return None
        value, *over = (part for part in parts if part is not None)
        return value / (over[0] if over else 1.0) * row.factor - row.less

    def bound_percent(self, observation: Observation, *, held_out: bool) -> float:
        """That of `drivebay validate`."""
        return _bound_percent(self._row(observation))

    def _row(self, observation: Observation) -> Row:
        return next(row for row in self.rows if row.published.id == observation.name)


def _job(text: str) -> Job:
    """The job of a published row's "DRIVE/TEST/FIGURE"."""
    run = Run.of(text.rpartition("/")[0])
    return Job(run.drive, run.test)


def _bound_percent(row: Row) -> float:
    return WITHIN_PERCENT.get(row.published.relation, BOUND_PERCENT)


def rows_experiment(
    ids: Sequence[str],
    base: Profile,
    only: Sequence[str],
    hold_out: Sequence[str],
    *,
    lenient: bool = False,
) -> RowsExperiment:
    """What published rows give to observation at.

    `lenient`: rows that are no figures are left out, and named, instead of refused.

    Raises
    ------
    UserError
        If a row is unknown, is no figure, or none is left to fit to.
    """
    plan = load_plan().only(ids)
    wanted = {row.published.id: row for row in plan.rows}
    for option, names in (("--only", only), ("--hold-out", hold_out)):
        if names and (unknown := sorted(set(names) - wanted.keys())):
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
    if not set(observations) - set(hold_out):
        raise UserError(
            "no published row has a figure to fit to", "rows are as in: drivebay validate"
        )
    jobs = {name: [Job(run.drive, run.test) for run in wanted[name].needs] for name in observations}
    fitted = {
        job: plan.tests[job.test]
        for name in observations
        if name not in hold_out
        for job in jobs[name]
    }
    full = {job: plan.tests[job.test] for name in observations for job in jobs[name]}
    chosen = tuple(
        observation for name, observation in observations.items() if name not in hold_out
    )
    held_out = tuple(observations[name] for name in hold_out if name in observations)
    words = f"published rows {', '.join(observation.name for observation in chosen)}"
    notes = [f"not figures, left out: {', '.join(refused)}"] if refused else []
    return RowsExperiment(
        base,
        fitted,
        full,
        chosen,
        chosen,
        held_out,
        words,
        tuple(notes),
        SEED,
        tuple(wanted.values()),
    )


def _row_observation(row: Row) -> Observation | None:
    """The observation of a row with one figure or a ratio of two; None for others."""
    figure = row.published
    if not row.value or row.change:
        return None
    relation: Relation = "eq"
    scale = _bound_percent(row) / 200  # half of the bound
    high = None
    value = figure.value
    if row.range is not None or figure.relation == "range":
        assert row.bounds is not None
        relation, (value, high) = "range", row.bounds
    if value is None or value <= 0:
        return None
    label = f"{figure.test}, {figure.metric}"
    return Observation(figure.id, figure.test, label, figure.unit, value, scale, relation, high)
