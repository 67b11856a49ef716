"""Latencies of a run: exact counts in narrow bins, which can be added over runs.

Counts are exact. Bins are at most 1/64 wide (1.6 %) and the same in every run, so a merged
histogram equals a single histogram of all the I/Os. Percentiles are computed from merged counts,
never from averaged percentiles.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from drivebay.analysis.latency import Histogram, merge, percentile_ns


@dataclass(frozen=True, eq=False)
class Latencies:
    """Histogram of latencies. `a + b` and `sum([a, b, c])` merge histograms.

    Attributes
    ----------
    bins
        `low_ns`, `high_ns` (exclusive) and `count`, int64 arrays, shape (k,), ascending.
    sum_ns
        Sum of all latencies; exact if the run knows it.

    >>> fast = Latencies.of(np.array([20_000, 21_000, 22_000]))
    >>> both = fast + Latencies.of(np.array([900_000]))
    >>> both.count, both.percentile_us(50), both.percentile_us(99)
    (4, 21.247, 901.119)
    >>> both.bounds_us(99)
    (892.928, 901.119)
    """

    bins: Histogram
    sum_ns: float

    @staticmethod
    def of(latency_ns: npt.ArrayLike) -> Latencies:
        """Histogram of latencies in nanoseconds, shape (n,), with the bins of a run."""
        values = np.asarray(latency_ns, dtype=np.int64).reshape(-1)
        # 64 bins per octave above 64 ns, one per ns below: the grid of the core's recorder.
        octave = np.maximum(np.frexp(values.astype(float))[1] - 7, 0)
        low = values >> octave << octave
        edges, count = np.unique(np.stack([low, low + (1 << octave)]), axis=1, return_counts=True)
        return Latencies(Histogram(edges[0], edges[1], count), float(values.sum()))

    @property
    def count(self) -> int:
        """Number of I/Os counted."""
        return self.bins.total

    @property
    def mean_us(self) -> float:
        """Mean, in microseconds; NaN if nothing was counted."""
        return self.sum_ns / self.count / 1e3 if self.count else float("nan")

    def percentile_us(self, q: float) -> float:
        """Nearest-rank percentile in microseconds: never below the true one, at most 1.6 % above
        it.

        Parameters
        ----------
        q
            Percent, above 0, up to 100 (the maximum).

        Raises
        ------
        ValueError
            If nothing was counted, or `q` is out of range.
        """
        return percentile_ns(self.bins, q) / 1e3

    def bounds_us(self, q: float) -> tuple[float, float]:
        """Lower and upper bound of the percentile, in microseconds and both inclusive.

        Raises
        ------
        ValueError
            As `percentile_us`.
        """
        high = percentile_ns(self.bins, q)
        index = int(np.searchsorted(self.bins.high_ns, high + 1))
        return int(self.bins.low_ns[index]) / 1e3, high / 1e3

    def over(self, us: float) -> float:
        """Share of I/Os, 0 to 1, in bins that lie completely above this number of microseconds; an
        I/O in the bin of `us` itself does not count.
        """
        if not self.count:
            return 0.0
        return float(self.bins.count[self.bins.low_ns > us * 1e3].sum()) / self.count

    def __add__(self, other: Latencies) -> Latencies:
        if not isinstance(other, Latencies):
            return NotImplemented
        return Latencies(merge([self.bins, other.bins]), self.sum_ns + other.sum_ns)

    def __radd__(self, other: object) -> Latencies:
        # sum() starts with 0.
        return self if other == 0 else NotImplemented

    def __repr__(self) -> str:
        if not self.count:
            return "<Latencies of no I/Os>"
        tail = ", ".join(f"p{q:g} {self.percentile_us(q):,.1f}" for q in (50, 99, 99.9))
        return f"<Latencies of {self.count:,} I/Os: mean {self.mean_us:,.1f}, {tail} us>"
