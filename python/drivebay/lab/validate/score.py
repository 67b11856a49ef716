"""The score: errors of rows that the model was not calibrated on.

Leverage and the shift of each row without itself come from the kept results of `make fidelity`,
those of today's drives from results of their own; the rows' figures are those of the present run. A
row of leverage under a half is predicted. A value of the catalog that a row is compared with has
leverage 1: it is what the model was given.
Where no leverage is known of today's drives, as of a new one, rows are predicted from facts: all
but those that a value of the profile was read off, or that were in view when one was fitted. So it
is with a row of a drive with leverage if no derivative was taken by what it was calibrated with:
leverage cannot show that."""

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
"""A key of a profile among the words of `calibrated_on`, as "nand.read_us"."""


@dataclass(frozen=True)
class Scored:
    """A row with what is known of its fit; None where nothing is kept.

    `left_out` is what comes out if the row and those that state the same are left out of the fit,
    `left_out_percent` its error, `interval` holds it with 90 %.
    """

    verdict: Verdict
    leverage: float | None
    left_out: float | None = None
    left_out_percent: float | None = None
    interval: tuple[float, float] | None = None

    @property
    def row(self) -> Row:
        """The published row that this score is of."""
        return self.verdict.row

    @property
    def predicted(self) -> bool:
        """Whether the model was not calibrated on this figure, directly or by a fit."""
        if self.leverage is None:
            return not self.row.scored and not self.row.calibrated_on and not self.row.catalog
        return self.leverage < PREDICTED_BELOW

    @property
    def in_profile(self) -> bool:
        """Whether the figure is a value of the profile, or was called one before any fit."""
        return bool(self.row.catalog or (self.leverage is None and self.row.calibrated_on))

    @property
    def error_percent(self) -> float | None:
        """The error without the row in the fit; as it is, where there was no fit."""
        return self.left_out_percent if self.leverage is not None else self.verdict.error_percent

    @property
    def has_number(self) -> bool:
        """Whether a number was printed that the figure can be off from."""
        return bool(self.row.published.value) and self.row.range is None

    @property
    def left_out_ok(self) -> bool:
        """Whether it is within the row's bounds without having been fitted."""
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
        """Whether the interval holds what was published: the number, or a part of the range."""
        if self.interval is None or self.row.bounds is None:
            return None
        low, high = self.row.bounds
        if self.has_number:
            low = high = float(self.row.published.value or 0)
        return low <= self.interval[1] and self.interval[0] <= high


@dataclass(frozen=True)
class Summary:
    """Of the predicted rows: how many, the median and the ninth decile of their absolute errors (of
    `n_numbers` rows with a printed number), the share within bounds, the share of published values
    within their intervals; how many rows are in the profiles, or were fitted to; and of the
    predicted ones that no other publication contradicts the share within bounds."""

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
    """Every row of a run with its score."""
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
        # A row of today's drives that is newer than the derivatives counts as it is.
        unknown = 0.0 if rows and row.scored else None
        return Scored(verdict, known["leverage"] if known else unknown)
    log = known["log"]
    mine = math.log(max(verdict.reproduced, 1e-12)) if log else verdict.reproduced
    ends = [mine + known["shift"] + side * fidelity.Z_90 * known["sd"] for side in (-1, 0, 1)]
    low, left_out, high = (math.exp(min(one, 700.0)) for one in ends) if log else ends
    error = error_percent(row, left_out)
    return Scored(verdict, known["leverage"], left_out, error, (low, high))


def _unseen(row: Row) -> bool:
    """Whether a row was calibrated on by keys of the profile, of none of which derivatives are
    known."""
    keys = KEY.findall(row.calibrated_on)
    known = fidelity.derived_modern(row.published.drive)
    return bool(keys) and not any(f"{one}.".startswith(f"{key}.") for key in keys for one in known)


def summary(rows: Sequence[Scored]) -> Summary:
    """The figures of the headline."""
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
    """Nine in ten are at most so large: the smallest of them of which that is true."""
    return sorted(errors)[math.ceil(0.9 * len(errors)) - 1] if errors else None


def by_drive(rows: Sequence[Scored]) -> dict[str, list[Scored]]:
    """Each drive's rows."""
    drives: dict[str, list[Scored]] = {}
    for row in rows:
        drives.setdefault(row.row.published.drive, []).append(row)
    return dict(sorted(drives.items()))
