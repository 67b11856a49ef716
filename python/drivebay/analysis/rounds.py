"""Rounds until steady state: the course of the tracked phases, and the rounds that figures come
from.

Source: SNIA Solid State Storage Performance Test Specification 2.0.1: the steady-state convergence
plot has all rounds, the measurement window plot the last ones with their mean, the least-squares
line, and the bounds of 10 % on both sides of the mean that a range of 20 % allows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from drivebay.definitions.suites.parts import Window


@dataclass(frozen=True)
class Tracked(Window):
    """Course of one phase from round to round, in the common unit of the tracked phases.

    `values` has all rounds in order.
    """

    label: str
    values: tuple[float, ...]


@dataclass(frozen=True)
class RoundsFound:
    """All rounds of a test. `window` is the number of rounds that the figures come from;
    `history` has every phase's rate by round. `unit` is "IOPS", "MB/s" if all blocks are
    large, or "µs".
    """

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
    values: list[float] = []
    while (name := f"round_{len(values) + 1}_{value}") in metrics:
        values.append(metrics[name])
    return tuple(values)
