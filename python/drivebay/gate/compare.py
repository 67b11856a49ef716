"""Comparison of two sets of recordings: an interval for the change of each figure, and a verdict.

Source: the Hodges-Lehmann estimate of a shift, and Moses' interval from the Mann-Whitney statistic
(Hollander, Wolfe and Chicken, Nonparametric Statistical Methods, 3rd ed. 2014, 4.2 and 4.3), of the
logarithms of the figures, so that they become a ratio. No distribution is assumed; with seven
recordings each, one that is disturbed does not reach the ends of the interval. A change is shown
only if the whole interval is beyond the threshold.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

from drivebay.analysis.replicates import CONFIDENCE
from drivebay.common.errors import UserError
from drivebay.gate.timing import FIGURES

# Smallest number of recordings of each set that has an interval.
FEWEST = 4
# Least threshold in per cent. A hundredth of the requests, often 20 reads that wait for programs,
# decides the p99 latency: by 2.6 % between equal sets of PostgreSQL. guess: twice that.
COARSE = {"p99 latency": 5.0}
# Stands for 0 in a ratio: less than any figure.
NEVER = 1e-3


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


@cache
def _orders(n: int, m: int, u: int) -> int:
    """Number of orders of `n` and `m` values in which `u` pairs are inverted."""
    if u < 0 or min(n, m) == 0:
        return int(u == 0)
    return _orders(n - 1, m, u - m) + _orders(n, m - 1, u)


def _rank(n: int, m: int) -> int:
    """Rank of the difference at the lower end of the interval, from 0.

    >>> _rank(4, 4), _rank(5, 5), _rank(7, 7)
    (0, 2, 8)
    """
    rank, tail = -1, 0
    while (tail := tail + _orders(n, m, rank + 1)) <= math.comb(n + m, n) * (1 - CONFIDENCE) / 2:
        rank += 1
    return rank


def change(base: Sequence[float], new: Sequence[float], threshold: float) -> Change:
    """Computes the change of a figure; `threshold` is in per cent.

    >>> change([100, 101, 102, 103], [110, 111, 112, 113], 1.0).verdict
    'worse'
    """
    sets = [[math.log(max(value, NEVER)) for value in values] for values in (base, new)]
    shifts = sorted(after - before for before in sets[0] for after in sets[1])
    rank = _rank(len(base), len(new))
    ends = (statistics.median(shifts), shifts[rank], shifts[-1 - rank])
    percent, low, high = (100 * math.expm1(shift) for shift in ends)
    verdict = "same" if -threshold <= low and high <= threshold else "unclear"
    if low > threshold or high < -threshold:
        verdict = "worse" if low > threshold else "better"
    return Change(statistics.median(base), statistics.median(new), percent, low, high, verdict)


def changes(
    base: Sequence[Mapping[str, float]], new: Sequence[Mapping[str, float]], threshold: float
) -> dict[str, Change]:
    """Computes the changes of the figures that both sets have; and of those classes of requests
    that have changed, the largest difference first. Raises UserError if a set is too small.
    """
    if min(len(base), len(new)) < FEWEST:
        raise UserError(
            f"an interval needs at least {FEWEST} recordings of each", "gate record --runs 7"
        )
    figures, classes = dict[str, Change](), dict[str, Change]()
    for name in dict.fromkeys(name for timed in (*base, *new) for name in timed):
        pair = [[timed.get(name, 0) for timed in timeds] for timeds in (base, new)]
        if not any(map(any, pair)) or any(math.isnan(value) for part in pair for value in part):
            continue
        found = change(pair[0], pair[1], max(threshold, COARSE.get(name, 0.0)))
        if name in FIGURES:
            figures[name] = found
        elif found.verdict in ("worse", "better"):
            classes[name] = found
    largest = sorted(classes, key=lambda name: -abs(classes[name].new - classes[name].base))
    return {**figures, **{name: classes[name] for name in largest}}
