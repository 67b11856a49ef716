"""Score of the model: errors of rows that it was not fitted to.

Each row has one class. It is fitted if the profile takes its figure, if it was in view when a value
was chosen (`calibrated_on`), or if a fit used it (leverage of a half or more). Other rows are
predicted, or contradicted if another publication contradicts them. Leverage and the shift of each
row without itself come from the stored results of `make fidelity`, those of today's drives from
separate results; the rows' figures are those of the present run.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from drivebay.analysis import fidelity
from drivebay.lab.validate.plan import Row
from drivebay.lab.validate.verdicts import Validation, Verdict, error_percent

# Leverage from which on a fit counts as having used a row.
FITTED_FROM = 0.5


@dataclass(frozen=True)
class Scored:
    """A row with the data of its fit; None if none is stored.

    `left_out` is the prediction with the row and those that state the same left out of the fit,
    `left_out_percent` its error.
    """

    verdict: Verdict
    leverage: float | None
    left_out: float | None = None
    left_out_percent: float | None = None

    @property
    def row(self) -> Row:
        """The published row of this score."""
        return self.verdict.row

    @property
    def class_of(self) -> str:
        """The row's class: `fidelity.FITTED`, `PREDICTED` or `CONTRADICTED`."""
        leverage = float(self.row.scored) if self.leverage is None else self.leverage
        if self.in_profile or self.row.calibrated_on or leverage >= FITTED_FROM:
            return fidelity.FITTED
        return fidelity.CONTRADICTED if self.row.conflict else fidelity.PREDICTED

    @property
    def predicted(self) -> bool:
        """True if the model was not fitted to this figure, and no publication contradicts it."""
        return self.class_of == fidelity.PREDICTED

    @property
    def in_profile(self) -> bool:
        """True if the figure is a value of the profile."""
        return bool(self.row.catalog)

    @property
    def own(self) -> float | None:
        """The model's figure without the row in the fit, or of a fit that is not known."""
        mine = self.verdict.reproduced
        return self.left_out if self.left_out is not None or isinstance(mine, str) else mine

    @property
    def off(self) -> float | None:
        """Logarithm of the published number over the predicted one, for rows that intervals are
        calibrated on.
        """
        row, mine = self.row.published, self.own
        usable = self.predicted and self.has_number and row.relation in ("eq", "approx")
        if not usable or row.unit not in fidelity.UNITS or not row.value or not mine or mine <= 0:
            return None
        return math.log(row.value / mine)

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 90 % interval that the other sources' rows of this kind give."""
        if not self.own or self.own <= 0 or self.row.published.unit not in fidelity.UNITS:
            return None
        return fidelity.around(self.own, self.verdict.kind, without=self.row.published.publication)

    @property
    def error_percent(self) -> float | None:
        """The error without the row in the fit; the plain error if there was no fit."""
        return self.left_out_percent if self.leverage is not None else self.verdict.error_percent

    @property
    def has_number(self) -> bool:
        """True if a number was printed, so that an error can be computed."""
        return bool(self.row.published.value) and self.row.range is None

    @property
    def left_out_ok(self) -> bool:
        """True if it is within the row's bounds without having been fitted."""
        if self.leverage is None:
            return bool(self.verdict.ok)
        low, high = self.row.bounds or (math.inf, -math.inf)
        return self.left_out is not None and low <= self.left_out <= high

    @property
    def within(self) -> bool | None:
        """True if the interval contains the published number, or overlaps the published range."""
        if self.interval is None or self.row.bounds is None:
            return None
        low, high = self.row.bounds
        if self.has_number:
            low = high = float(self.row.published.value or 0)
        return low <= self.interval[1] and self.interval[0] <= high


def scored(validation: Validation) -> tuple[Scored, ...]:
    """Scores every row of a run."""
    return tuple(map(_scored, validation.verdicts))


def _scored(verdict: Verdict) -> Scored:
    row = verdict.row
    kept = fidelity.kept() if row.scored else fidelity.kept_modern()
    rows = kept.get("rows", {})
    if not row.scored and row.published.drive not in kept.get("drives", ()):
        return Scored(verdict, None)
    if row.catalog or row.bounds is None:
        return Scored(verdict, 1.0)
    known: dict[str, Any] | None = rows.get(row.published.id)
    if known is None or isinstance(verdict.reproduced, str):
        # A row of today's drives that is newer than the derivatives counts without leverage.
        unknown = 0.0 if rows and row.scored else None
        return Scored(verdict, known["leverage"] if known else unknown)
    mine = math.log(max(verdict.reproduced, 1e-12)) if known["log"] else verdict.reproduced
    mine += known["shift"]
    left_out = math.exp(min(mine, 700.0)) if known["log"] else mine
    return Scored(verdict, known["leverage"], left_out, error_percent(row, left_out))


def summary(rows: Sequence[Scored]) -> dict[str, float | None]:
    """Computes the figures of the headline, of the predicted rows with a printed number: their
    number, the median and the ninth decile of their absolute errors, the share within bounds, and
    of `n_intervals` published values with an interval the share in it. Words and ranks that were
    predicted, and those of them that hold. Number of rows that are fitted, of these in the
    profiles, and contradicted.
    """
    predicted = [row for row in rows if row.predicted]
    numbers = [row for row in predicted if row.has_number]
    words = [row for row in predicted if not row.has_number]
    errors = [abs(row.error_percent) for row in numbers if row.error_percent is not None]
    held = [bool(row.within) for row in numbers if row.off is not None and row.interval]
    classes = [row.class_of for row in rows]
    within = sum(row.left_out_ok for row in numbers)
    return {
        "n_predicted": len(numbers),
        "median_abs_loo_error_pct": statistics.median(errors) if errors else None,
        "p90_abs_loo_error_pct": ninth_decile(errors),
        "within_share": within / len(numbers) if numbers else None,
        "n_intervals": len(held),
        "coverage_90": sum(held) / len(held) if held else None,
        "n_words": len(words),
        "n_words_hold": sum(row.left_out_ok for row in words),
        "n_fitted": classes.count(fidelity.FITTED),
        "n_in_profile": sum(row.in_profile for row in rows),
        "n_contradicted": classes.count(fidelity.CONTRADICTED),
    }


def ninth_decile(errors: Sequence[float]) -> float | None:
    """Ninth decile: the smallest error that at least nine in ten do not exceed."""
    return sorted(errors)[math.ceil(0.9 * len(errors)) - 1] if errors else None


def by_drive(rows: Sequence[Scored]) -> dict[str, list[Scored]]:
    """Groups rows by drive."""
    names = sorted({row.row.published.drive for row in rows})
    return {name: [row for row in rows if row.row.published.drive == name] for name in names}
