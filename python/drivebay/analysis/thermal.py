"""Thermal throttling: time that a drive keeps its initial rate, and its rate afterwards.

Source: the AnandTech SM951 review of 2015: 128 KiB sequential write at queue depth 32, rate and
temperature over time. "Throttled" is interpreted as: the rate falls under half of its start and
stays there for 10 s. A full cache looks the same; if the target reports its throttle stage,
`by_heat` distinguishes the two.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drivebay.analysis.timeline import Spread, Timeline, fall_second, slowed, spread

START_S = 10
STAY_S = 10


@dataclass(frozen=True)
class Throttling:
    """Seconds in which throttling reduces the rate, and all others; rates in 10^6 bytes per
    second."""

    start_s: int
    seconds: int
    rate: Spread
    other: Spread


@dataclass(frozen=True)
class Thermal:
    """Figures of one thermal run; rates in 10^6 bytes per second, from 1 s samples.

    `fall_s` is None if the rate never fell under half of its start and stayed; then
    `before` covers the whole run and `after` is None. `written_gb` is 10^9 bytes before the fall.
    `light_s` is the first second before the fall in which the drive reports throttling that does
    not reduce the rate, and `light_percent` its share of their latency; None if unknown.
    `throttling` is None if it reduces the rate in no second.
    """

    fall_s: int | None
    initial: Spread
    before: Spread
    after: Spread | None
    moved_gb: float
    temperature_at_fall_c: float | None
    by_heat: bool | None
    light_s: int | None = None
    light_percent: float | None = None
    throttling: Throttling | None = None


def thermal(timeline: Timeline) -> Thermal | None:
    """Computes the figures; None if there is no full second."""
    if len(timeline.slowed) != timeline.n:
        timeline = slowed(timeline)
    rate = timeline.rate_mb_s
    initial = spread(rate[:START_S])
    if initial is None:
        return None
    fall_s = fall_second(rate, start_s=START_S, stay_s=STAY_S)
    before = spread(rate[:fall_s]) or initial
    # The second of the fall holds a part of both rates.
    after = spread(rate[fall_s + 1 :]) if fall_s is not None else None
    light = np.flatnonzero(timeline.light[:fall_s])
    cost = spread(timeline.heat_percent[light]) if len(timeline.heat_percent) else None
    return Thermal(
        fall_s=fall_s,
        initial=initial,
        before=before,
        after=after,
        moved_gb=float(rate[:fall_s].sum()) / 1e3,
        temperature_at_fall_c=_at(timeline.temperature_c, fall_s),
        by_heat=_by_heat(timeline, fall_s),
        light_s=int(light[0]) if len(light) else None,
        light_percent=cost.mean if cost else None,
        throttling=_throttling(timeline),
    )


def _throttling(timeline: Timeline) -> Throttling | None:
    """Throttling that reduces the rate; None without any."""
    rate, cut = timeline.rate_mb_s, timeline.slowed
    slow, other = spread(rate[cut]), spread(rate[~cut])
    if slow is None or other is None:
        return None
    return Throttling(int(np.flatnonzero(cut)[0]), slow.n, slow, other)


def _at(values: np.ndarray, second: int | None) -> float | None:
    if second is None or np.isnan(values[second]):
        return None
    return float(values[second])


def _by_heat(timeline: Timeline, fall_s: int | None) -> bool | None:
    """True if heat reduces the rate at the fall, or without a breakdown of the latency if the drive
    reports throttling; None if it does not report it.
    """
    if fall_s is None:
        return None
    if timeline.heat_percent.any():
        return bool(timeline.slowed[fall_s : fall_s + STAY_S].any())
    stages = timeline.throttle_stage[fall_s : fall_s + STAY_S]
    known = stages[~np.isnan(stages)]
    return bool((known > 0).any()) if len(known) else None
