"""Replicates: the same run with other seeds, and the uncertainty of their mean.

Sources: Student's t (Abramowitz and Stegun 1964, 26.7.3 and 26.7.4, exact for whole degrees of
freedom); Law, Simulation Modeling and Analysis (5th ed. 2015, 4.5 intervals, 9.4.1 sequential
stopping by relative precision, 10.2 paired comparison, 11.2 common random numbers). Intervals are
exact if the replicates are normal; means over many I/Os are nearly so, percentiles of few I/Os are
not. Stopping at a precision examines the interval several times, and so covers the mean a little
less often than stated (docs/concepts/sweeps.md has the measurement).
"""

from __future__ import annotations

import functools
import math
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drivebay.common.errors import UserError

# Values of a figure by point and seed.
ByPoint = Mapping[tuple[Any, ...], Mapping[int | None, float]]
CONFIDENCE = 0.95
# Smallest number of replicates at which a run may stop, however similar they are.
FEWEST = 5


def next_look(n: int) -> int:
    """Number of replicates at which the precision is checked next. Checks are few, as each is a
    chance to stop by luck.

    >>> next_look(5), next_look(8), next_look(40)
    (6, 10, 50)
    """
    return n + max(1, n // 4)


@functools.cache
def t_quantile(confidence: float, freedom: int) -> float:
    """Bound that the absolute value of Student's t stays below with this probability.

    >>> round(t_quantile(0.95, 1), 3), round(t_quantile(0.95, 9), 3), round(t_quantile(0.9, 30), 3)
    (12.706, 2.262, 1.697)
    """
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, freedom) < confidence else (low, middle)
    return math.sqrt(freedom) * math.tan(low)


def _within(angle: float, freedom: int) -> float:
    """P(|T| < t), with t = sqrt(freedom) * tan(angle)."""
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    term = cosine if odd else 1.0
    total = term if freedom > 1 else 0.0
    for step in range(2 + odd, freedom - 1, 2):
        term *= cosine**2 * (step - 1) / step
        total += term
    return (angle + sine * total) * 2 / math.pi if odd else sine * total


@dataclass(frozen=True)
class Estimate:
    """A mean of replicates, and the interval that covers the true mean with this confidence.

    Attributes
    ----------
    mean, sd
        Mean and standard deviation of the replicates, in the figure's unit.
    half_width
        Half of the interval; infinite for one replicate.
    n
        Number of replicates.
    confidence
        Confidence of the interval, 0 to 1.
    """

    mean: float
    sd: float
    half_width: float
    n: int
    confidence: float

    @property
    def low(self) -> float:
        """Lower end of the interval."""
        return self.mean - self.half_width

    @property
    def high(self) -> float:
        """Upper end of the interval."""
        return self.mean + self.half_width

    @property
    def relative(self) -> float:
        """Half of the interval as a share of the mean."""
        if self.half_width == 0:
            return 0.0
        return self.half_width / abs(self.mean) if self.mean else math.inf

    def __str__(self) -> str:
        return (
            f"{self.mean:.6g} ± {self.half_width:.2g} "
            f"({100 * self.confidence:g} %, {self.n} replicates)"
        )


def estimate(values: Sequence[float], *, confidence: float = CONFIDENCE) -> Estimate:
    """Computes the mean of replicates with its confidence interval by Student's t. Raises UserError
    if there are no values, or the confidence is out of range.

    Parameters
    ----------
    values : one for each replicate, independent of each other.
    confidence : probability that the interval covers the true mean, between 0 and 1.

    >>> print(estimate([10.0, 12.0, 11.0, 13.0]))
    11.5 ± 2.1 (95 %, 4 replicates)
    """
    if not 0 < confidence < 1:
        raise UserError(f"confidence = {confidence} is not allowed", "0.95 is 95 %")
    if not values:
        raise UserError("there are no replicates to estimate from", "give some seeds")
    mean, n = statistics.fmean(values), len(values)
    if n == 1:
        return Estimate(mean, math.nan, math.inf, 1, confidence)
    sd = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    half = t_quantile(confidence, n - 1) * sd / math.sqrt(n)
    return Estimate(mean, sd, half, n, confidence)


def difference(
    values: Sequence[float], baseline: Sequence[float], *, confidence: float = CONFIDENCE
) -> Estimate:
    """Paired difference: the mean of `values` less `baseline`, seed by seed. With the same seeds
    both have the same random draws, whose common effect is not part of the interval (common
    random numbers).

    >>> print(difference([11.0, 21.0, 31.0], [10.0, 20.0, 30.5]))
    0.833333 ± 0.72 (95 %, 3 replicates)
    """
    if len(values) != len(baseline):
        raise UserError(
            f"{len(values)} replicates cannot be paired with {len(baseline)}",
            "run both with the same seeds",
        )
    pairs = zip(values, baseline, strict=True)
    return estimate([value - other for value, other in pairs], confidence=confidence)


@dataclass(frozen=True)
class Precision:
    """Required precision of replicates: half of the interval is at most this share of the mean,
    for the named figure, or for all main figures if none is named.
    """

    figure: str | None
    relative: float
    confidence: float

    @classmethod
    def parse(cls, text: str) -> Precision:
        """Parses "1% at 95%" or "iops 1% at 95%". Raises ValueError if the text has another form.

        >>> Precision.parse("waf 0.5% at 99%")
        Precision(figure='waf', relative=0.005, confidence=0.99)
        """
        number = r"(\d{1,3}(?:\.\d{1,6})?)\s*%"
        match = re.fullmatch(rf"(?:([a-z]\w{{0,79}})\s+)?{number}\s+at\s+{number}", text.strip())
        if match is None:
            raise ValueError(f"'{text}' is not allowed; must be as '1% at 95%' or 'iops 1% at 95%'")
        relative, confidence = float(match[2]) / 100, float(match[3]) / 100
        if not (0 < relative < 1 and 0.5 <= confidence < 1):
            raise ValueError(
                f"'{text}' is not allowed; must be above 0% and below 100%, at 50% to below 100%"
            )
        return cls(match[1], relative, confidence)

    def is_met(self, values: Sequence[float]) -> bool:
        """True if these replicates are enough."""
        if len(values) < FEWEST:
            return False
        return estimate(values, confidence=self.confidence).relative <= self.relative


@dataclass(frozen=True)
class PointEstimate:
    """A point of a sweep: its parameters, its mean, and the paired difference from the first
    point with the same seeds; None for that first point, and for points with other seeds.
    """

    values: Mapping[str, Any]
    estimate: Estimate
    difference: Estimate | None


@dataclass(frozen=True)
class FigurePoints:
    """A main figure of a test at every point, in the order of the runs."""

    key: str
    label: str
    unit: str
    points: tuple[PointEstimate, ...]


def at_points(names: Sequence[str], points: ByPoint) -> tuple[PointEstimate, ...]:
    """Estimates a figure at every point that has a value; `names` are those of its parameters."""
    estimates: list[PointEstimate] = []
    baseline: Mapping[int | None, float] | None = None
    for point, seeds in points.items():
        if not seeds:
            continue
        paired = None
        if baseline is None:
            baseline = seeds
        elif baseline.keys() == seeds.keys():
            paired = difference([seeds[seed] for seed in baseline], list(baseline.values()))
        values = dict(zip(names, point, strict=True))
        estimates.append(PointEstimate(values, estimate(list(seeds.values())), paired))
    return tuple(estimates)
