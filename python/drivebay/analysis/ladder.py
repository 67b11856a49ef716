"""Ladder of queue depths: rate, IOPS and latency of each step, and the mean over some of them.

Source: the AnandTech 2015 client suite: the bar is the mean of the data rates at queue depths 1, 2
and 4; the line has one point per depth. Percentiles of a step come from its merged histogram; the
mean over depths is a mean of rates, which may be averaged, never of percentiles.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from drivebay.analysis import latency
from drivebay.analysis.timeline import MB, Spread, Timeline, spread


@dataclass(frozen=True)
class Step:
    """Figures of one queue depth.

    `rate_mb_s` and `iops` are totals over the step's length, partial second included; `rate` and
    `ios` are the 1 s samples' mean and standard deviation (None if the step is under a second).
    `latency_mean_us` is None if the target returned no latencies. `power` and `waf` are None if
    unknown.
    """

    label: str
    queue_depth: int
    rate_mb_s: float
    iops: float
    rate: Spread | None
    ios: Spread | None
    total_ios: int
    latency_mean_us: float | None
    percentiles_us: dict[float, float | None]
    power: Spread | None
    waf: float | None


def step(
    label: str,
    queue_depth: int,
    timeline: Timeline,
    histogram: latency.Histogram,
    *,
    total_ios: int,
    total_bytes: int,
    latency_mean_ns: float | None,
    metrics: Mapping[str, float],
) -> Step:
    """Computes a step's figures from its totals, its timeline and its merged histogram; rates and
    percentiles that another program reports (`results.foreign`) are among its metrics."""
    length = timeline.seconds_total
    counted = latency.percentiles_us(histogram).items()
    return Step(
        label=label,
        queue_depth=queue_depth,
        rate_mb_s=metrics.get("mb_per_s", total_bytes / MB / length if length else 0.0),
        iops=metrics.get("iops", total_ios / length if length else 0.0),
        rate=spread(timeline.rate_mb_s),
        ios=spread(timeline.ios),
        total_ios=total_ios,
        latency_mean_us=None if latency_mean_ns is None else latency_mean_ns / 1e3,
        percentiles_us={q: metrics.get(f"latency_us_p{q:g}") or us for q, us in counted},
        power=spread(timeline.power_w),
        waf=metrics.get("waf"),
    )


def mean_rate(steps: Sequence[Step]) -> Spread | None:
    """Mean of the data rates; its deviation is that of the mean's 1 s samples (variances added).
    None if there are no steps.
    """
    if not steps:
        return None
    known = [step.rate for step in steps if step.rate is not None]
    deviations = [sample.sd for sample in known if sample.sd is not None]
    whole = len(deviations) == len(steps)
    sd = math.sqrt(sum(sd * sd for sd in deviations)) / len(steps) if whole else None
    mean = sum(step.rate_mb_s for step in steps) / len(steps)
    return Spread(mean, sd, sum(sample.n for sample in known))


def mean_over(steps: Sequence[Step], queue_depths: Sequence[int]) -> Spread | None:
    """Mean of the rates at these depths; None if one of them is missing."""
    chosen = [step for depth in queue_depths for step in steps if step.queue_depth == depth]
    return mean_rate(chosen) if len(chosen) == len(queue_depths) else None
