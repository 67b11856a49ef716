"""Score of the model: errors of rows that it was not calibrated on.

Leverage and the shift of each row without itself come from the stored results of `make fidelity`,
those of today's drives from separate results; the rows' figures are those of the present run. A row
of leverage under a half counts as predicted. A catalog value that a row is compared with has
leverage 1: it is an input of the model. If no leverage is known of a drive of today, such as a new
one, its rows count as predicted from facts, except those that a value of the profile was read off,
or that were in view when one was fitted. The same applies to a row of a drive with leverage if
there is no derivative by the keys that it was calibrated with, since leverage cannot show that
calibration.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from drivebay.analysis import fidelity
from drivebay.lab.validate.plan import Row
from drivebay.lab.validate.verdicts import Validation, Verdict, error_percent

PREDICTED_BELOW = 0.5
KEY = re.compile(r"[a-z_]\w*(?:\.\w+)+")
"""Pattern of a profile key within `calibrated_on`, such as "nand.read_us"."""


@dataclass(frozen=True)
class Scored:
    """A row with the data of its fit; None if none is stored.

    `left_out` is the prediction with the row and those that state the same left out of the fit,
    `left_out_percent` its error, `interval` contains it with 90 %.
    """

    verdict: Verdict
    leverage: float | None
    left_out: float | None = None
    left_out_percent: float | None = None
    interval: tuple[float, float] | None = None

    @property
    def row(self) -> Row:
        """The published row of this score."""
        return self.verdict.row

    @property
    def predicted(self) -> bool:
        """True if the model was not calibrated on this figure, directly or by a fit."""
        if self.leverage is None:
            return not self.row.scored and not self.row.calibrated_on and not self.row.catalog
        return self.leverage < PREDICTED_BELOW

    @property
    def in_profile(self) -> bool:
        """True if the figure is a value of the profile, or was marked as one before any fit."""
        return bool(self.row.catalog or (self.leverage is None and self.row.calibrated_on))

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
        bounds = self.row.bounds
        return (
            bounds is not None
            and self.left_out is not None
            and bounds[0] <= self.left_out <= bounds[1]
        )

    @property
    def within(self) -> bool | None:
        """True if the interval contains the published number, or overlaps the published range."""
        if self.interval is None or self.row.bounds is None:
            return None
        low, high = self.row.bounds
        if self.has_number:
            low = high = float(self.row.published.value or 0)
        return low <= self.interval[1] and self.interval[0] <= high


@dataclass(frozen=True)
class Summary:
    """Statistics of the predicted rows: their number, the median and the ninth decile of their
    absolute errors (of `n_numbers` rows with a printed number), the share within bounds, the
    share of published values within their intervals; the number of rows that are in the
    profiles, or were fitted to; and for the predicted rows that no other publication
    contradicts the share within bounds.
    """

    n_predicted: int
    n_numbers: int
    median_abs_loo_error_pct: float | None
    p90_abs_loo_error_pct: float | None
    within_share: float | None
    coverage_90: float | None
    n_in_profile: int
    n_fitted: int
    n_contradicted: int
    within_of_others: float | None


def scored(validation: Validation) -> tuple[Scored, ...]:
    """Scores every row of a run."""
    return tuple(map(_scored, validation.verdicts))


def _scored(verdict: Verdict) -> Scored:
    row = verdict.row
    kept = fidelity.kept() if row.scored else fidelity.kept_modern()
    rows = kept.get("rows", {})
    if not row.scored and (row.published.drive not in kept.get("drives", ()) or _unseen(row)):
        return Scored(verdict, None)
    if row.catalog or row.bounds is None:
        return Scored(verdict, 1.0)
    known: dict[str, Any] | None = rows.get(row.published.id)
    if known is None or isinstance(verdict.reproduced, str):
        # A row of today's drives that is newer than the derivatives counts without leverage.
        unknown = 0.0 if rows and row.scored else None
        return Scored(verdict, known["leverage"] if known else unknown)
    log = known["log"]
    mine = math.log(max(verdict.reproduced, 1e-12)) if log else verdict.reproduced
    ends = [mine + known["shift"] + side * fidelity.Z_90 * known["sd"] for side in (-1, 0, 1)]
    low, left_out, high = (math.exp(min(end, 700.0)) for end in ends) if log else ends
    error = error_percent(row, left_out)
    return Scored(verdict, known["leverage"], left_out, error, (low, high))


def _unseen(row: Row) -> bool:
    """True if a row was calibrated on by keys of the profile for which no derivatives are known."""
    keys = KEY.findall(row.calibrated_on)
    known = fidelity.derived_modern(row.published.drive)
    return bool(keys) and not any(
        f"{derived}.".startswith(f"{key}.") for key in keys for derived in known
    )


def summary(rows: Sequence[Scored]) -> Summary:
    """Computes the figures of the headline."""
    predicted = [row for row in rows if row.predicted]
    errors = [
        abs(row.error_percent)
        for row in predicted
        if row.has_number and row.error_percent is not None
    ]
    held = [row.within for row in predicted if row.within is not None]
    others = [row for row in predicted if not row.row.conflict]
    return Summary(
        len(predicted),
        len(errors),
        statistics.median(errors) if errors else None,
        ninth_decile(errors),
        _within(predicted),
        sum(held) / len(held) if held else None,
        sum(row.in_profile for row in rows),
        sum(not (row.leverage is None or row.predicted or row.in_profile) for row in rows),
        len(predicted) - len(others),
        _within(others),
    )


def _within(rows: Sequence[Scored]) -> float | None:
    """The share within bounds."""
    return sum(row.left_out_ok for row in rows) / len(rows) if rows else None


def ninth_decile(errors: Sequence[float]) -> float | None:
    """Ninth decile: the smallest error that at least nine in ten do not exceed."""
    return sorted(errors)[math.ceil(0.9 * len(errors)) - 1] if errors else None


def by_drive(rows: Sequence[Scored]) -> dict[str, list[Scored]]:
    """Groups rows by drive."""
    drives: dict[str, list[Scored]] = {}
    for row in rows:
        drives.setdefault(row.row.published.drive, []).append(row)
    return dict(sorted(drives.items()))
