"""Latency figures from histograms: merged counts, percentiles, shares.

A histogram has exact counts in bins at most 1.6 % wide. A percentile is nearest-rank over the
counts, reported as the largest latency that its bin can hold (`high_ns - 1`): never below the true
value and at most 1.6 % above it. Percentiles are never averaged: histograms are merged first.

Leaves out: interpolation inside a bin, which would look exact and is not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

PERCENTILES: tuple[float, ...] = (50.0, 99.0, 99.9, 99.99)
BIN_ERROR_PERCENT = 1.6


@dataclass(frozen=True)
class Histogram:
    """Counts of latencies in bins `low_ns <= latency < high_ns`, ascending, without overlap.

    `low_ns`, `high_ns`, `count`: int64 arrays, shape (k,).
    """

    low_ns: npt.NDArray[np.int64]
    high_ns: npt.NDArray[np.int64]
    count: npt.NDArray[np.int64]

    @property
    def total(self) -> int:
        """Number of I/Os counted."""
        return int(self.count.sum())


def empty() -> Histogram:
    """A histogram without counts."""
    none = np.zeros(0, dtype=np.int64)
    return Histogram(none, none, none)


def from_table(table: pa.Table) -> Histogram:
    """Makes the histogram of both directions together. Raises ValueError if bins overlap without
    being the same bin.
    """
    columns = (table.column(name).to_numpy() for name in ("low_ns", "high_ns", "count"))
    low, high, count = (np.asarray(column, dtype=np.int64) for column in columns)
    return merge([Histogram(low, high, count)])


def by_direction(table: pa.Table) -> dict[str, Histogram]:
    """Makes separate histograms of "read" and of "write", for directions with I/Os."""
    kinds = pc.unique(table.column("direction")).to_pylist()
    return {kind: from_table(table.filter(pc.field("direction") == kind)) for kind in kinds}


def merge(parts: Sequence[Histogram]) -> Histogram:
    """Adds up histograms; bins with the same edges are added. Raises ValueError if bins overlap
    without being the same bin: they were counted on different grids.

    >>> a = Histogram(np.array([0, 10]), np.array([10, 20]), np.array([1, 2]))
    >>> merge([a, a]).count.tolist()
    [2, 4]
    """
    if not parts:
        return empty()
    low = np.concatenate([part.low_ns for part in parts])
    high = np.concatenate([part.high_ns for part in parts])
    count = np.concatenate([part.count for part in parts])
    kept = count > 0
    edges, place = np.unique(np.stack([low[kept], high[kept]]), axis=1, return_inverse=True)
    merged = np.zeros(edges.shape[1], dtype=np.int64)
    np.add.at(merged, place.reshape(-1), count[kept])
    if np.any(edges[0, 1:] < edges[1, :-1]) or np.any(edges[1] <= edges[0]):
        raise ValueError("histogram bins overlap: they were counted on different grids")
    return Histogram(edges[0], edges[1], merged)


def percentile_ns(histogram: Histogram, q: float) -> int:
    """The nearest-rank percentile, as the largest latency its bin can hold, in nanoseconds. Raises
    ValueError if the histogram is empty or `q` is out of range. `q`: percent, in (0, 100].

    >>> percentile_ns(Histogram(np.array([0, 10]), np.array([10, 20]), np.array([1, 1])), 50)
    9
    """
    if not 0 < q <= 100:
        raise ValueError(f"percentile {q} is not in (0, 100]")
    total = histogram.total
    if total == 0:
        raise ValueError("no I/O was counted: there is no percentile")
    rank = math.ceil(Fraction(str(q)) * total / 100)
    index = int(np.searchsorted(np.cumsum(histogram.count), rank))
    return int(histogram.high_ns[index]) - 1


def percentile_supported(total: int, q: float) -> bool:
    """True if at least one of `total` I/Os lies above the percentile, so that it differs from the
    maximum: p99.99 needs 10,000 I/Os.

    >>> percentile_supported(9_999, 99.99), percentile_supported(10_000, 99.99)
    (False, True)
    """
    return (100 - Fraction(str(q))) * total >= 100


def mean_us(histogram: Histogram) -> float | None:
    """Mean computed from the middles of the bins: at most 0.8 % off. None without I/Os."""
    middles = (histogram.low_ns + histogram.high_ns - 1) / 2e3
    return float(np.average(middles, weights=histogram.count)) if histogram.total else None


def percentiles_us(histogram: Histogram) -> dict[float, float | None]:
    """The usual percentiles in microseconds; None for a percentile with too few I/Os."""
    known = {q: percentile_supported(histogram.total, q) for q in PERCENTILES}
    return {q: percentile_ns(histogram, q) / 1e3 if enough else None for q, enough in known.items()}


def share_slower_percent(histogram: Histogram, limit_ns: int) -> float:
    """Share of I/Os slower than `limit_ns`, in percent; the bin of the limit counts in full."""
    total = histogram.total
    return 100 * int(histogram.count[histogram.high_ns > limit_ns].sum()) / total if total else 0.0


def slower_percent(histogram: Histogram) -> npt.NDArray[np.float64]:
    """For each bin, the share of I/Os at or above its upper edge, in percent.

    >>> slower_percent(Histogram(np.array([0, 10]), np.array([10, 20]), np.array([1, 3]))).tolist()
    [75.0, 0.0]
    """
    total = max(histogram.total, 1)
    return np.asarray(100 * (total - np.cumsum(histogram.count)) / total, dtype=float)


def for_drawing(histogram: Histogram, *, bins_per_octave: int = 16) -> Histogram:
    """Merges adjacent bins to a width that the eye can distinguish; no bin is split.

    A bin is assigned by its lower edge, so that the sum of counts stays exact.
    """
    if histogram.total == 0:
        return histogram
    octave = np.floor(np.log2(np.maximum(histogram.low_ns, 1)) * bins_per_octave + 1e-9)
    starts = np.flatnonzero(np.diff(octave, prepend=octave[0] - 1))
    ends = np.append(starts[1:], len(octave)) - 1
    count = np.add.reduceat(histogram.count, starts)
    return Histogram(histogram.low_ns[starts], histogram.high_ns[ends], count)
