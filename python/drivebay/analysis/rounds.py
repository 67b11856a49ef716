"""Rounds until steady: how what is tracked came to rest, and over which rounds the figures are.

Source: SNIA Solid State Storage Performance Test Specification 2.0.1: the steady-state convergence
plot has all rounds, the measurement window plot the last ones with their mean, the least-squares
line, and the bounds of 10 % on both sides of the mean that a range of 20 % allows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from drivebay.definitions.suites import Rounds


@dataclass(frozen=True)
class PhaseRounds:
    """What is needed to know of a phase."""

    label: str
    block_bytes: int
    metrics: Mapping[str, float]


@dataclass(frozen=True)
class Tracked:
    """What one phase did from round to round, in the unit of all that is tracked.

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
    every phase's rate by round. `unit` is "IOPS", "MB/s" where all blocks are large, or "µs"."""

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


def rounds(rule: Rounds, phases: Sequence[PhaseRounds], *, large: bool) -> RoundsFound | None:
    """What the phases' metrics tell of the rounds; None where there are too few. Loads of `large`
    blocks are known by their data rate."""
    scales = {one.label: one.block_bytes / 1e6 if large else 1.0 for one in phases}
    rates = {
        one.label: tuple(value * scales[one.label] for value in history(one.metrics, "iops"))
        for one in phases
    }
    latencies = {one.label: history(one.metrics, "latency_us") for one in phases}
    values = rates if rule.variable == "iops" else latencies
    tracked = []
    for label in rule.tracked:
        one = _tracked(label, rule, values.get(label, ()))
        if one is None:
            return None
        tracked.append(one)
    unit = "MB/s" if large else "IOPS"
    return RoundsFound(
        count=len(tracked[0].values),
        window=rule.window_rounds,
        reached=all(one.steady for one in tracked),
        unit=unit if rule.variable == "iops" else "µs",
        tracked=tuple(tracked),
        history=rates,
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
