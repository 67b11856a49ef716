"""Thermal throttling: time that a drive keeps its initial rate, and its rate afterwards.

Source: the AnandTech SM951 review of 2015: 128 KiB sequential write at queue depth 32, rate and
temperature over time. "Throttled" is interpreted as: the rate falls under half of its start and
stays there for 10 s. A full cache looks the same; if the target reports its throttle stage,
`by_heat` distinguishes the two.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drivebay.analysis.timeline import Spread, Timeline, fall_second, spread

START_S = 10
STAY_S = 10


@dataclass(frozen=True)
class Thermal:
    """Figures of one thermal run; rates in 10^6 bytes per second, from 1 s samples.

    `fall_s` is None if the rate never fell under half of its start and stayed there; then `before`
    covers the whole run and `after` is None. `moved_gb` is 10^9 bytes before the fall.
    """

    fall_s: int | None
    initial: Spread
    before: Spread
    after: Spread | None
    moved_gb: float
    temperature_at_fall_c: float | None
    by_heat: bool | None


def thermal(timeline: Timeline) -> Thermal | None:
    """Computes the figures; None if there is no full second."""
    rate = timeline.rate_mb_s
    initial = spread(rate[:START_S])
    if initial is None:
        return None
    fall_s = fall_second(rate, start_s=START_S, stay_s=STAY_S)
    before = spread(rate[:fall_s]) or initial
    # The second of the fall holds a part of both rates.
    after = spread(rate[fall_s + 1 :]) if fall_s is not None else None
    return Thermal(
        fall_s=fall_s,
        initial=initial,
        before=before,
        after=after,
        moved_gb=float(rate[:fall_s].sum()) / 1e3,
        temperature_at_fall_c=_at(timeline.temperature_c, fall_s),
        by_heat=_by_heat(timeline, fall_s),
    )


def _at(values: np.ndarray, second: int | None) -> float | None:
    if second is None or np.isnan(values[second]):
        return None
    return float(values[second])


def _by_heat(timeline: Timeline, fall_s: int | None) -> bool | None:
    """True if the drive itself reports throttling at the fall; None if it does not report it."""
    if fall_s is None:
        return None
    stages = timeline.throttle_stage[fall_s : fall_s + STAY_S]
    known = stages[~np.isnan(stages)]
    return bool((known > 0).any()) if len(known) else None
