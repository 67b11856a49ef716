"""Rounds until steady: how what is tracked came to rest, and over which rounds the figures are.

Source: SNIA Solid State Storage Performance Test Specification 2.0.1: the steady-state convergence
plot has all rounds, the measurement window plot the last ones with their mean, the least-squares
line, and the bounds of 10 % on both sides of the mean that a range of 20 % allows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from drivebay.suites import Rounds

UNITS = {"iops": "IOPS", "latency": "µs"}


@dataclass(frozen=True)
class Tracked:
    """What one phase did from round to round, in IOPS or in microseconds of mean latency.

    `values` has all rounds, the first first; mean, line and excursions are those of the window.
    `line` is the least-squares line's value in the window's first round, and its rise per round.
    Excursions are in percent of the mean, as the criterion has them.
    """

    label: str
    values: tuple[float, ...]
    mean: float
    line: tuple[float, float]
    range_percent: float
    slope_percent: float
    steady: bool


@dataclass(frozen=True)
class RoundsFound:
    """All rounds of a test. `window` counts the rounds that the figures are from; `history` has
    every phase's IOPS by round."""

    count: int
    window: int
    reached: bool
    unit: str
    tracked: tuple[Tracked, ...]
    history: Mapping[str, tuple[float, ...]]


def history(metrics: Mapping[str, float], value: str) -> tuple[float, ...]:
    """A phase's `value` ("iops", "latency_us", "latency_max_us") in every round.

    >>> history({"round_1_iops": 5.0, "round_2_iops": 7.0, "waf": 1.0}, "iops")
    (5.0, 7.0)
    """
    found: list[float] = []
    while (name := f"round_{len(found) + 1}_{value}") in metrics:
        found.append(metrics[name])
    return tuple(found)


def rounds(rule: Rounds, metrics: Mapping[str, Mapping[str, float]]) -> RoundsFound | None:
    """What the phases' metrics, by label, tell of the rounds; None where there are too few."""
    value = "iops" if rule.variable == "iops" else "latency_us"
    tracked = []
    for label in rule.tracked:
        one = _tracked(label, rule, history(metrics.get(label, {}), value))
        if one is None:
            return None
        tracked.append(one)
    return RoundsFound(
        count=len(tracked[0].values),
        window=rule.window_rounds,
        reached=all(one.steady for one in tracked),
        unit=UNITS[rule.variable],
        tracked=tuple(tracked),
        history={label: history(one, "iops") for label, one in metrics.items()},
    )


def _tracked(label: str, rule: Rounds, values: Sequence[float]) -> Tracked | None:
    window = rule.window(values)
    if window is None:
        return None
    last = values[-rule.window_rounds :]
    count = len(last)
    mean, middle = sum(last) / count, (count - 1) / 2
    rise = sum((place - middle) * value for place, value in enumerate(last))
    slope = rise / sum((place - middle) ** 2 for place in range(count))
    return Tracked(
        label=label,
        values=tuple(values),
        mean=mean,
        line=(mean - slope * middle, slope),
        range_percent=window.range_percent,
        slope_percent=window.slope_percent,
        steady=window.steady,
    )
