"""Comparison of two sets of recordings: an interval for the change of each figure, and a verdict.

Source: Welch's t interval for two means (Welch, Biometrika 34, 1947), of the logarithms of the
figures, so that it bounds a ratio. The degrees of freedom are rounded down. A change is shown only
if the whole interval is beyond the threshold.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from drivebay.analysis.replicates import CONFIDENCE, t_quantile
from drivebay.common.errors import UserError
from drivebay.gate.timing import FIGURES, Timed

FEWEST = 3
"""Smallest number of recordings of each set."""
NEVER = 1e-3
"""Stands for 0 in a ratio: less than any figure."""


@dataclass(frozen=True)
class Change:
    """Medians of a figure in both sets; the change in per cent and both ends of its interval."""

    base: float
    new: float
    percent: float
    low: float
    high: float
    verdict: Literal["same", "worse", "better", "unclear"]


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
    verdict: Literal["same", "worse", "better", "unclear"] = "unclear"
    if low > threshold:
        verdict = "worse"
    elif high < -threshold:
        verdict = "better"
    elif -threshold <= low and high <= threshold:
        verdict = "same"
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
    figures = {}
    for name in FIGURES:
        pair = [[t.figures.get(name, math.nan) for t in timeds] for timeds in (base, new)]
        if all(math.isfinite(value) for values in pair for value in values):
            figures[name] = change(*pair, threshold)
    names = {name for timed in (*base, *new) for name in timed.classes}
    classes = {
        name: change(*([t.classes[name] for t in timeds] for timeds in (base, new)), threshold)
        for name in sorted(names)
    }
    shown = [item for item in classes.items() if item[1].verdict in ("worse", "better")]
    return figures, dict(sorted(shown, key=lambda item: -abs(item[1].new - item[1].base)))
