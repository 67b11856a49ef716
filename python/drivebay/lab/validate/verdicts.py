"""Verdicts on published rows: error and agreement of the reproduced figures.

A row agrees when its figure lies within both ends of its bounds: 5 % of a printed figure, 10 % of
an "about" or a ratio, or the range that the row gives for words and one-sided bounds.
"""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from drivebay.analysis import fidelity
from drivebay.analysis.likeness import kind_of
from drivebay.definitions import profiles as catalog
from drivebay.lab.validate import values
from drivebay.lab.validate.plan import Plan, Row
from drivebay.lab.validate.statements import STATEMENTS
from drivebay.lab.validate.values import Runs


@dataclass(frozen=True)
class Verdict:
    """A covered row; `error_percent` is None if there is no number to compare with. `kind` is
    the kind of its figure (`analysis.likeness`), "" for a value of the catalog.
    """

    row: Row
    reproduced: float | str
    error_percent: float | None
    ok: bool
    kind: str = ""


@dataclass(frozen=True)
class Validation:
    """All verdicts, and the rows that no model can answer."""

    verdicts: tuple[Verdict, ...]
    not_covered: tuple[Row, ...]

    @property
    def ok(self) -> int:
        """Number of rows within their bounds."""
        return sum(verdict.ok for verdict in self.verdicts)

    @property
    def median_abs_error_pct(self) -> float | None:
        """Median absolute error of the rows that have one."""
        errors = [abs(v.error_percent) for v in self.verdicts if v.error_percent is not None]
        return statistics.median(errors) if errors else None


def judge(plan: Plan, runs: Runs) -> Validation:
    """Compares every row of the plan with the runs."""
    return judged(plan, lambda row: reproduced(row, runs))


def judged(plan: Plan, figure_of: Callable[[Row], Any]) -> Validation:
    """Compares every row of the plan with its figure, for which `figure_of` may raise
    NotReached.
    """
    covered = [row for row in plan.rows if not row.not_covered]
    verdicts = tuple(replace(_verdict(row, figure_of), kind=_kind(row, plan)) for row in covered)
    return Validation(verdicts, tuple(row for row in plan.rows if row.not_covered))


def _kind(row: Row, plan: Plan) -> str:
    if not row.needs:
        return ""
    run, unit = row.needs[0], row.published.printed_unit
    return kind_of(plan.tests[run.test], min(names_of(row)), unit, _unit_bytes(run.profile))


@functools.cache
def _unit_bytes(drive: str) -> int:
    return fidelity.unit_bytes(catalog.load(drive).raw)


def _verdict(row: Row, figure_of: Callable[[Row], Any]) -> Verdict:
    try:
        mine = figure_of(row)
    except values.NotReached as why:
        return Verdict(row, str(why), None, False)
    bounds = row.bounds
    if isinstance(mine, str) or bounds is None:
        return Verdict(row, mine, None, _says(row, str(mine)))
    return Verdict(row, mine, error_percent(row, mine), bounds[0] <= mine <= bounds[1])


def error_percent(row: Row, mine: float) -> float | None:
    """Error of a figure, in percent of the printed one; for a range the distance to it, 0
    within. None for a printed 0, which has no percentages.
    """
    printed, bounds = row.published.value, row.bounds
    if printed is None or row.range is not None or row.published.relation == "range":
        assert bounds is not None, "a row in words has a range"
        printed = min(max(mine, bounds[0]), bounds[1])
    return 100 * (mine - printed) / abs(printed) if printed else None


def _says(row: Row, mine: str) -> bool:
    """True if the words of the catalog's text contain those of the published one, or the
    reverse.
    """
    own, theirs = (
        {word.strip("(),") for word in text.lower().split()} for text in (mine, row.published.text)
    )
    return own <= theirs or theirs <= own or mine.lower() in row.published.text.lower()


def names_of(row: Row) -> set[str]:
    """Figures of its runs that a row uses."""
    names = {text.rpartition("/")[2] for text in (row.value, row.over, row.change) if text}
    return names | (STATEMENTS[row.statement].names if row.statement else set())


def reproduced(row: Row, runs: Runs) -> Any:
    """The row's figure from the runs, or the text of a catalog entry. Raises NotReached if the
    runs have no such figure.
    """
    if row.statement:
        return STATEMENTS[row.statement]([runs[run] for run in row.needs])
    if row.catalog:
        name, _, dotted = row.catalog.rpartition("/")
        entry = values.leaf(catalog.load(name or row.published.drive), dotted)
        if row.ratio:
            other, _, key = row.ratio.rpartition("/")
            entry /= values.leaf(catalog.load(other), key)
        return entry * row.factor if isinstance(entry, int | float) else entry
    value = values.figure(runs, row.value)
    if row.over:
        return value / values.figure(runs, row.over) * row.factor
    if row.change:
        return 100 * (value / values.figure(runs, row.change) - 1) * row.factor
    return value * row.factor - row.less
