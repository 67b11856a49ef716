"""Comparison of two sets of recordings: an interval for the change of each figure, and a verdict.

Source: Welch's t interval for two means (Welch, Biometrika 34, 1947), of the logarithms of the
figures, so that it bounds a ratio. The degrees of freedom are rounded down. A change is shown only
if the whole interval is beyond the threshold.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from drivebay.analysis.replicates import CONFIDENCE, t_quantile
from drivebay.common.errors import UserError
from drivebay.gate.timing import Timed

FEWEST = 3
"""Smallest number of recordings of each set."""
NEVER = 1e-3
"""Stands for 0 in a ratio: less than any figure."""


class Change(NamedTuple):
    """Medians of a figure in both sets; the change in per cent, both ends of its interval, and the
    verdict: "same", "worse", "better" or "unclear".
    """

    base: float
    new: float
    percent: float
    low: float
    high: float
    verdict: str


def change(base: Sequence[float], new: Sequence[float], threshold: float) -> Change:
    """Computes the change of a figure; `threshold` is in per cent.

    >>> change([100, 101, 102], [110, 111, 112], 1.0).verdict
    'worse'
    """
    sets = [[math.log(max(value, NEVER)) for value in values] for values in (base, new)]
    shift = statistics.fmean(sets[1]) - statistics.fmean(sets[0])
    errors = [statistics.variance(logs) / len(logs) for logs in sets]
    half = 0.0
    if any(errors):
        parts = [error**2 / (len(logs) - 1) for error, logs in zip(errors, sets, strict=True)]
        freedom = math.floor(sum(errors) ** 2 / sum(parts) + 1e-9)
        half = t_quantile(CONFIDENCE, freedom) * math.sqrt(sum(errors))
    percent, low, high = (100 * math.expm1(shift + add) for add in (0, -half, half))
    verdict = "same" if -threshold <= low and high <= threshold else "unclear"
    if low > threshold or high < -threshold:
        verdict = "worse" if low > threshold else "better"
    return Change(statistics.median(base), statistics.median(new), percent, low, high, verdict)


def changes(
    base: Sequence[Timed], new: Sequence[Timed], threshold: float
) -> tuple[dict[str, Change], dict[str, Change]]:
    """Computes the changes of all figures that both sets have; and of those classes of requests
    that have changed, the largest difference first. Raises UserError if a set is too small.
    """
    if min(len(base), len(new)) < FEWEST:
        raise UserError(
            f"an interval needs at least {FEWEST} recordings of each", "gate record --runs 5"
        )

    def all_of(kind: str) -> dict[str, Change]:
        names = dict.fromkeys(name for timed in (*base, *new) for name in getattr(timed, kind))
        pairs = {
            name: [[getattr(timed, kind).get(name, 0) for timed in set_] for set_ in (base, new)]
            for name in names
        }
        return {
            name: change(*pair, threshold)
            for name, pair in pairs.items()
            if any(map(any, pair)) and not any(math.isnan(v) for values in pair for v in values)
        }

    classes = [item for item in all_of("classes").items() if item[1].verdict in ("worse", "better")]
    classes.sort(key=lambda item: -abs(item[1].new - item[1].base))
    return all_of("figures"), dict(classes)
