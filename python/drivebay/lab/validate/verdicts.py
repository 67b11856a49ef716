"""Published beside reproduced: error and verdict of every row.

Bounds: "eq" within 5 %, "approx" and "ratio_to" within 10 %, "lt", "gt" and "range" hold, a shape
or rank as a predicate. A printed 0 is met by what rounds to it.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any

from drivebay.definitions import profiles as catalog
from drivebay.lab.validate import predicates, values
from drivebay.lab.validate.plan import Plan, Row
from drivebay.lab.validate.values import Runs

WITHIN_PERCENT = {"eq": 5.0, "approx": 10.0, "ratio_to": 10.0}
ROUNDED = 0.05


@dataclass(frozen=True)
class Verdict:
    """A row that is covered; `error_percent` is None where the published value is in words."""

    row: Row
    reproduced: float | str
    error_percent: float | None
    ok: bool


@dataclass(frozen=True)
class Validation:
    """All verdicts, and the rows that no model can answer."""

    verdicts: tuple[Verdict, ...]
    not_covered: tuple[Row, ...]

    @property
    def ok(self) -> int:
        """How many rows are within their bounds."""
        return sum(verdict.ok for verdict in self.verdicts)

    @property
    def median_abs_error_pct(self) -> float | None:
        """Over the rows that have an error."""
        errors = [abs(v.error_percent) for v in self.verdicts if v.error_percent is not None]
        return statistics.median(errors) if errors else None


def judge(plan: Plan, runs: Runs) -> Validation:
    """Compares every row of the plan with the runs."""
    verdicts = tuple(_verdict(row, runs) for row in plan.rows if not row.not_covered)
    return Validation(verdicts, tuple(row for row in plan.rows if row.not_covered))


def _verdict(row: Row, runs: Runs) -> Verdict:
    try:
        return _compared(row, runs)
    except values.NotReached as why:
        return Verdict(row, str(why), None, False)


def _compared(row: Row, runs: Runs) -> Verdict:
    if row.predicate:
        named = [runs[run] for run in row.needs]
        reproduced, ok = predicates.PREDICATES[row.predicate](named)
    else:
        reproduced, ok = _value(row, runs), None
    published = _published(row)
    if isinstance(reproduced, str) or published is None:
        fits = ok if ok is not None else _says(row, str(reproduced))
        return Verdict(row, reproduced, None, bool(fits))
    error, within = compared(row.published.relation, published, reproduced)
    return Verdict(row, reproduced, error, bool(within))


def _published(row: Row) -> float | tuple[float, float] | None:
    if row.published.relation == "range":
        low, _, high = row.published.text.partition("..")
        return float(low), float(high)
    return row.published.value if row.bound is None else row.bound


def _says(row: Row, reproduced: str) -> bool:
    """Whether the catalog's words contain the published ones, or are part of them."""
    mine, theirs = (
        {word.strip("(),") for word in text.lower().split()}
        for text in (reproduced, row.published.text)
    )
    return mine <= theirs or theirs <= mine or reproduced.lower() in row.published.text.lower()


def compared(
    relation: str, published: float | tuple[float, float], reproduced: float
) -> tuple[float | None, bool]:
    """Error in percent, and whether it is within the relation's bound.

    >>> compared("approx", 7500.0, 7880.0)
    (5.066666666666666, True)
    >>> compared("range", (60.0, 90.0), 99.0)
    (10.0, False)
    """
    if isinstance(published, tuple):
        low, high = published
        bound = low if reproduced < low else high
        error = 0.0 if low <= reproduced <= high else 100 * (reproduced - bound) / bound
        return error, error == 0.0
    if relation in ("lt", "gt"):
        holds = reproduced < published if relation == "lt" else reproduced > published
        return (0.0 if holds else 100 * (reproduced - published) / published), holds
    if published == 0:
        return None, abs(reproduced) < ROUNDED
    error = 100 * (reproduced - published) / abs(published)
    return error, abs(error) <= WITHIN_PERCENT[relation]


def _value(row: Row, runs: Runs) -> Any:
    if row.catalog:
        name, _, dotted = row.catalog.rpartition("/")
        found = values.leaf(catalog.load(name or row.published.drive), dotted)
        if row.ratio:
            other, _, key = row.ratio.rpartition("/")
            found /= values.leaf(catalog.load(other), key)
        return found * row.factor if isinstance(found, int | float) else found
    value = values.figure(runs, row.value)
    if row.over:
        return value / values.figure(runs, row.over) * row.factor
    if row.change:
        return 100 * (value / values.figure(runs, row.change) - 1) * row.factor
    return value * row.factor
