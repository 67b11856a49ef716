"""Rounds until steady state: the course of the tracked phases, and the rounds that figures come
from.

Source: SNIA Solid State Storage Performance Test Specification 2.0.1: the steady-state convergence
plot has all rounds, the measurement window plot the last ones with their mean, the least-squares
line, and the bounds of 10 % on both sides of the mean that a range of 20 % allows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from drivebay.definitions.suites import Rounds
from drivebay.definitions.suites.parts import Window


@dataclass(frozen=True)
class PhaseRounds:
    """Input data of a phase."""

    label: str
    block_bytes: int
    metrics: Mapping[str, float]


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


def rounds(rule: Rounds, phases: Sequence[PhaseRounds], *, large: bool) -> RoundsFound | None:
    """Evaluates the rounds from the phases' metrics; None if there are too few rounds. Loads of
    `large` blocks are described by their data rate.
    """
    scales = {phase.label: phase.block_bytes / 1e6 if large else 1.0 for phase in phases}
    rates = {
        phase.label: tuple(value * scales[phase.label] for value in history(phase.metrics, "iops"))
        for phase in phases
    }
    latencies = {phase.label: history(phase.metrics, "latency_us") for phase in phases}
    values = rates if rule.variable == "iops" else latencies
    tracked = []
    for label in rule.tracked:
        course = _tracked(label, rule, values.get(label, ()))
        if course is None:
            return None
        tracked.append(course)
    unit = "MB/s" if large else "IOPS"
    return RoundsFound(
        count=len(tracked[0].values),
        window=rule.window_rounds,
        reached=all(state.steady for state in tracked),
        unit=unit if rule.variable == "iops" else "µs",
        tracked=tuple(tracked),
        history=rates,
    )


def _tracked(label: str, rule: Rounds, values: Sequence[float]) -> Tracked | None:
    window = rule.window(values)
    if window is None:
        return None
    return Tracked(**vars(window), label=label, values=tuple(values))
