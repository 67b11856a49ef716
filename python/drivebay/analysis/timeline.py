"""Series of a phase with one row per full second, and figures computed from such rows alone.

A phase that ends in the middle of a second has a last row that covers less than a second: it is
left out of rates, so that a mean over rows is a mean over seconds. Some targets have no row for a
second without completions: it counts as zero I/Os. Unknown values are NaN.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from drivebay.results.records import SENSORS, SERIES_SCHEMA

Floats = npt.NDArray[np.float64]
Marked = npt.NDArray[np.bool_]
MB = 1e6
# guess: below this share of the median of the other seconds, throttling reduces the rate.
CUT = 0.9
# guess: throttling that takes a smaller share of the latency is a light step.
HEAT_PERCENT = 10.0

_KNOWN = {"phase", *SERIES_SCHEMA.names}
_PARTIAL_S = 0.05  # a row that covers at least 0.95 s counts as a full second


@dataclass(frozen=True)
class Timeline:
    """Data of each full second; arrays of shape (n,), index = second of the phase.

    `ios` and `rate_mb_s` are I/Os and 10^6 bytes completed in that second. `latency_ms_mean`,
    `latency_ms_max`, `temperature_c`, `power_w` and `throttle_stage` are NaN if unknown.
    `seconds_total` is the length of the phase, partial second included. `more` has all further
    columns that a target wrote for each second, by name. `slowed` is True in seconds in which
    reported throttling reduces the rate; `heat_percent` is the share of throttling in the
    latency, empty if unknown.
    """

    ios: Floats
    rate_mb_s: Floats
    latency_ms_mean: Floats
    latency_ms_max: Floats
    temperature_c: Floats
    power_w: Floats
    throttle_stage: Floats
    seconds_total: float
    more: Mapping[str, Floats] = field(default_factory=dict)
    slowed: Marked = field(default_factory=lambda: np.zeros(0, dtype=bool))
    heat_percent: Floats = field(default_factory=lambda: np.zeros(0))

    @property
    def light(self) -> Marked:
        """True in seconds in which the drive reports throttling that does not reduce the rate."""
        return (self.throttle_stage > 0) & ~self.slowed

    @property
    def n(self) -> int:
        """Number of full seconds."""
        return len(self.ios)

    def last(self, seconds: float) -> slice:
        """The last whole seconds, at most `seconds` of them."""
        return slice(max(0, self.n - round(seconds)), self.n)


@dataclass(frozen=True)
class Spread:
    """Mean of 1 s samples, their standard deviation (n - 1), and their number."""

    mean: float
    sd: float | None
    n: int


def from_table(series: pa.Table, duration_s: float) -> Timeline:
    """Makes a timeline from a phase's series. `series`: columns as in
    `drivebay.results.records.SERIES_SCHEMA`; rows in any order. Without rows nothing is known
    of single seconds, and there are no samples. `duration_s`: length of the phase.
    """
    second = np.asarray(series.column("second").to_numpy(), dtype=np.int64)
    n = int(duration_s + _PARTIAL_S) if len(second) else 0
    kept = (second >= 0) & (second < n)
    place = second[kept]

    def counts(*names: str) -> Floats:
        out = np.zeros(n)
        for name in names:
            np.add.at(out, place, np.asarray(series.column(name).to_numpy(), dtype=float)[kept])
        return out

    def values(name: str, scale: float = 1.0) -> Floats:
        out = np.full(n, np.nan)
        column = series.column(name).to_numpy(zero_copy_only=False)
        out[place] = np.asarray(column, dtype=float)[kept] * scale
        return out

    sensors: dict[str, Any] = {name: values(name) for name in SENSORS}
    return Timeline(
        ios=counts("reads", "writes"),
        rate_mb_s=counts("read_bytes", "write_bytes") / MB,
        latency_ms_mean=values("latency_ns_mean", 1e-6),
        latency_ms_max=values("latency_ns_max", 1e-6),
        **sensors,
        seconds_total=duration_s,
        more={name: values(name) for name in _further_columns(series)},
    )


def slowed(timeline: Timeline, heat_percent: Floats | None = None) -> Timeline:
    """Adds the seconds in which reported throttling reduces the rate: it takes `HEAT_PERCENT` of
    the second's latency, or without a breakdown of the latency the rate is below `CUT` of the
    median of the seconds without throttling.
    """
    reported = timeline.throttle_stage > 0
    if heat_percent is not None:
        cut = reported & (heat_percent >= HEAT_PERCENT)
        return replace(timeline, slowed=cut, heat_percent=heat_percent)
    usual = timeline.rate_mb_s[~reported]
    least = CUT * float(np.median(usual)) if len(usual) else 0.0
    return replace(timeline, slowed=reported & (timeline.rate_mb_s < least))


def _further_columns(series: pa.Table) -> list[str]:
    return [
        column.name
        for column in series.schema
        if column.name not in _KNOWN
        and (pa.types.is_integer(column.type) or pa.types.is_floating(column.type))
    ]


def joined(parts: list[Timeline]) -> Timeline:
    """Concatenates phases to one timeline; partial seconds in between are dropped."""

    def all_of(name: str, kind: type = float) -> Any:
        return np.concatenate([getattr(part, name) for part in parts] or [np.zeros(0, dtype=kind)])

    columns = ("ios", "rate_mb_s", "latency_ms_mean", "latency_ms_max", *SENSORS)
    more = {
        name: np.concatenate([part.more.get(name, np.full(part.n, np.nan)) for part in parts])
        for name in dict.fromkeys(name for part in parts for name in part.more)
    }
    return Timeline(
        **{name: all_of(name) for name in columns},
        seconds_total=sum(part.seconds_total for part in parts),
        more=more,
        slowed=all_of("slowed", bool),
    )


def spread(samples: Floats) -> Spread | None:
    """Mean and standard deviation of the known samples; None if there are none.

    >>> spread(np.array([1.0, 3.0, np.nan]))
    Spread(mean=2.0, sd=1.4142135623730951, n=2)
    """
    known = samples[~np.isnan(samples)]
    if len(known) == 0:
        return None
    sd = float(known.std(ddof=1)) if len(known) > 1 else None
    return Spread(float(known.mean()), sd, len(known))


def highest(samples: Floats) -> float | None:
    """The highest known sample; None if there are none."""
    known = samples[~np.isnan(samples)]
    return float(known.max()) if len(known) else None


def fall_second(samples: Floats, *, start_s: int, stay_s: int, share: float = 0.5) -> int | None:
    """The first second whose sample falls below this share of the start and stays there.

    The start is the median of the first `start_s` samples; "stays" means that the `stay_s` samples
    from that second on (or all remaining ones) are below it. None if that never happens.

    >>> fall_second(np.array([10.0, 10, 10, 4, 10, 4, 4, 4]), start_s=3, stay_s=2)
    5
    """
    if len(samples) == 0:
        return None
    low = samples < float(np.median(samples[:start_s])) * share
    for second in np.flatnonzero(low):
        if low[second : second + stay_s].all():
            return int(second)
    return None


def spans(marked: Marked, *, gap_s: int = 3) -> list[tuple[int, int]]:
    """Intervals [start, end) of marked seconds.

    Intervals less than `gap_s` apart are merged: a drive at its limit toggles every few seconds.
    """
    spans: list[tuple[int, int]] = []
    for second in np.flatnonzero(marked).tolist():
        if spans and second - spans[-1][1] < gap_s:
            spans[-1] = (spans[-1][0], second + 1)
        else:
            spans.append((second, second + 1))
    return spans


def thinned(samples: Floats, seconds: int, *, highest: bool = False) -> Floats:
    """Reduces samples to one value per interval of so many seconds (the last may be shorter).

    The value is the mean of the known samples, or the highest; NaN if none is known.

    >>> thinned(np.array([1.0, 3.0, np.nan, np.nan, 8.0]), 2)
    array([ 2., nan,  8.])
    """
    if seconds == 1 or len(samples) == 0:
        return samples
    starts = np.arange(0, len(samples), seconds)
    known = ~np.isnan(samples)
    counts = np.add.reduceat(known.astype(float), starts)
    if highest:
        reduced = np.maximum.reduceat(np.where(known, samples, -np.inf), starts)
    else:
        reduced = np.add.reduceat(np.where(known, samples, 0.0), starts) / np.maximum(counts, 1)
    return np.where(counts > 0, reduced, np.nan)


@dataclass(frozen=True)
class Intervals:
    """Intervals of equal length; arrays of shape (n,): their ends, the data moved from the start
    to the end, the mean of the IOPS, and the mean latency over the interval's I/Os.
    """

    end_s: Floats
    written_gb: Floats
    ios: Floats
    latency_ms_mean: Floats


def intervals(line: Timeline, seconds: int) -> Intervals:
    """Divides the run into intervals of so many seconds; the last one may be shorter."""
    starts = np.arange(0, line.n, seconds)
    ends = np.minimum(starts + seconds, line.n)
    known = np.where(np.isnan(line.latency_ms_mean), 0.0, line.latency_ms_mean) * line.ios
    ios = np.add.reduceat(line.ios, starts) if line.n else np.zeros(0)
    sums = np.add.reduceat(known, starts) if line.n else np.zeros(0)
    moved = np.cumsum(line.rate_mb_s) / 1e3
    return Intervals(
        end_s=ends.astype(float),
        written_gb=moved[ends - 1] if line.n else np.zeros(0),
        ios=ios / np.maximum(ends - starts, 1),
        latency_ms_mean=np.divide(sums, ios, out=np.full(len(ios), np.nan), where=ios > 0),
    )
