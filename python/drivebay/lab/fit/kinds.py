"""Suitability of a drive's model by kind of figure: published rows of each kind, and those within
bounds.

Each row belongs to one kind of figure, by its test and metric (`RULES`). The model is good for a
kind if enough rows that it was not calibrated on are within their bounds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drivebay.analysis import fidelity
from drivebay.lab.fit.parameters import SETTINGS

# Smallest number of rows, not used for calibration, for a kind to count as good.
LEAST_PREDICTED = 2
GOOD_FROM = 0.7
# Shares of rows within bounds: good from the first on, not good below the second.
BAD_BELOW = 0.5
# Number of listed rows that are furthest off.
LISTED = 3

# Kinds of published figures, in the order in which they are listed.
KINDS = tuple(SETTINGS["kinds"])
# Patterns of test and metric for the kinds, from published/fit.toml. A row is of one kind only,
# which tests/test_kinds.py checks.
RULES = tuple(
    (kind, re.compile(test), re.compile(metric))
    for kind, rules in SETTINGS["kinds"].items()
    for test, metric in rules
)

# A row of the recorded run of `drivebay validate`.
RowOf = Mapping[str, Any]


@dataclass(frozen=True)
class Kind:
    """Counts of a drive's rows of one kind: all, those within bounds, and the same for rows that
    the model was not calibrated on.
    """

    name: str
    rows: int
    within: int
    predicted: int
    predicted_within: int

    @property
    def share(self) -> float:
        """Share within bounds: of all rows, or of those that the model was not calibrated on,
        whichever is lower. A single such row does not count.

        >>> Kind("mixed loads", 10, 8, 4, 1).share
        0.25
        """
        shares = [self.within / self.rows]
        if self.predicted >= LEAST_PREDICTED:
            shares.append(self.predicted_within / self.predicted)
        return min(shares)

    @property
    def good(self) -> bool:
        """True if the model is good for this kind.

        >>> Kind("TRIM", 3, 3, 1, 1).good, Kind("TRIM", 3, 3, 2, 2).good
        (False, True)
        """
        return self.predicted >= LEAST_PREDICTED and self.share >= GOOD_FROM

    @property
    def bad(self) -> bool:
        """True if the model is not good for this kind.

        >>> Kind("TRIM", 3, 1, 1, 0).bad, Kind("TRIM", 4, 2, 1, 0).bad
        (True, False)
        """
        return self.share < BAD_BELOW

    @property
    def words(self) -> str:
        """Describes the kind with its counts.

        >>> Kind("TRIM", 3, 2, 1, 1).words
        'TRIM (2 of 3; predicted 1 of 1)'
        """
        more = f"; predicted {self.predicted_within} of {self.predicted}" if self.predicted else ""
        return f"{self.name} ({self.within} of {self.rows}{more})"


def kinds_of(test: str, metric: str) -> list[str]:
    """All kinds whose rules match a row; more or fewer than one means that a rule is wrong or
    missing.

    >>> kinds_of("spec-sheet", "4KB random read")
    ['data-sheet rates']
    """
    matches = {
        kind
        for kind, tests, metrics in RULES
        if tests.fullmatch(test) and metrics.fullmatch(metric)
    }
    return sorted(matches, key=KINDS.index)


def kind_of(row: RowOf) -> str:
    """The kind of a row. Raises ValueError if no rule matches it, or those of several kinds do."""
    matches = kinds_of(row["test"], row["metric"])
    if len(matches) != 1:
        raise ValueError(
            f"{row['id']} ({row['test']}, {row['metric']}) matches {len(matches)} kinds: "
            "RULES of drivebay.lab.fit.kinds must give each row one"
        )
    return matches[0]


def within(row: RowOf) -> bool:
    """True if a row is within its bounds; a row that the model was not calibrated on is judged
    by its leave-one-out prediction.
    """
    left_out = row["loo_ok"] if row["class"] == fidelity.PREDICTED else None
    return bool(row["ok"] if left_out is None else left_out)


def kinds(rows: Iterable[RowOf]) -> list[Kind]:
    """Groups a drive's rows by kind; kinds without a row are left out."""
    by_kind: dict[str, list[RowOf]] = {}
    for row in rows:
        by_kind.setdefault(kind_of(row), []).append(row)
    return [_counted(name, by_kind[name]) for name in KINDS if name in by_kind]


def _counted(name: str, rows: Sequence[RowOf]) -> Kind:
    predicted = [row for row in rows if row["class"] == fidelity.PREDICTED]
    held, held_predicted = (sum(map(within, some)) for some in (rows, predicted))
    return Kind(name, len(rows), held, len(predicted), held_predicted)


def furthest(rows: Iterable[RowOf], most: int = LISTED) -> list[RowOf]:
    """The rows out of bounds that are furthest off, as factors."""
    off = [row for row in rows if not row["ok"] and row["error_pct"] is not None]
    return sorted(off, key=_distance, reverse=True)[:most]


def _distance(row: RowOf) -> float:
    """Error of a row: the logarithm of the factor between published and reproduced; for a change
    in percent, of the factor between the rates after it. Infinite for a figure of the other
    sign.
    """
    published, reproduced = row["published"], row["reproduced"]
    if row["metric"].endswith("delta") and not isinstance(published, str):
        factor = (100 + reproduced) / (100 + published)
    else:
        side = -1 if row["bounds"] and row["bounds"][1] <= 0 else 1
        factor = 1 + side * row["error_pct"] / 100
    return abs(math.log(factor)) if factor > 0 else math.inf
