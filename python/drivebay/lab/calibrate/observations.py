"""Observed figures, how sure each is, and the residuals of an evaluation.

Chosen here, of each kind of test, are figures that tell something of their own: with a constant
queue depth rate and mean latency say the same (Little's law), so only the rate is taken. Each has a
scale, the relative error that counts as one: 1 % of what a folder holds, more where its seconds
scatter or resolve no finer; of what was published half of the row's bound.
Leaves out: percentiles (their histograms' bins would make steps); temperatures (sensors differ).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from drivebay.analysis import Figure, Measured

SCALE = 0.01
"""A relative error of a folder's figure that counts as one; guess: what reviews repeat to."""
MISSING = math.log(2)
"""An evaluation without the figure (a rate that never falls) counts as wrong by a factor of two."""
FAR = 3.0
"""From so many scales on an error counts ever less: one figure that the model cannot give must not
spoil the others (the knee of the soft L1 loss)."""

Relation = Literal["eq", "lt", "gt", "range"]

KINDS_OF_PHASES = {"ladder", "ladders", "mixed", "sizes", "loads", "compression"}
"""Kinds of which every phase's rate is a figure; of other kinds only the keys below."""
KEYS = {
    "consistency": ("mean_iops", "burst_iops", "burst_s"),
    "thermal": ("throttle_after_s", "initial_rate", "throttled_rate"),
    "trace": ("rate", "latency_mean"),
}
POWERED = KINDS_OF_PHASES | {"consistency", "thermal"}


@dataclass(frozen=True)
class Observation:
    """A figure to be met.

    `name` is TEST/KEY, or the id of a published row. `value` is in `unit`; of a "range" it is the
    lower end and `high` the upper one. `scale` is the relative error that counts as one.
    """

    name: str
    test: str
    label: str
    unit: str
    value: float
    scale: float
    relation: Relation = "eq"
    high: float | None = None

    def error(self, mine: float | None) -> float:
        """Logarithm of the ratio to what was given; 0 where a bound holds.

        >>> observation = Observation("S061", "random-read", "read", "IOPS", 90e3, 0.05, "gt")
        >>> observation.error(95e3), round(observation.error(81e3), 3)
        (0.0, -0.105)
        """
        if mine is None or not mine > 0:
            return -MISSING
        apart = math.log(mine / self.value)
        if self.relation == "gt":
            return min(0.0, apart)
        if self.relation == "lt":
            return max(0.0, apart)
        if self.relation == "range" and self.high is not None and apart > 0:
            return max(0.0, math.log(mine / self.high))
        return apart

    def residual(self, mine: float | None) -> float:
        """The error in units of `scale`."""
        return self.error(mine) / self.scale


def figures_of(test: Measured) -> dict[str, Figure]:
    """The figures of a test that can be fitted to, by key: rate@PHASE, power@PHASE (MB/s, W), and
    those of its kind; with value None where there is none."""
    kind = test.test.kind
    found: dict[str, Figure] = {}
    for key in KEYS.get(kind, () if kind in KINDS_OF_PHASES else test.main):
        if key == "mean_iops" and "mean_rate" in test.main:
            key = "mean_rate"
        if key in test.figures:
            found[key] = test.figures[key]
    for phase in test.phases:
        step = phase.step
        if kind in KINDS_OF_PHASES:
            sd, n = (step.rate.sd, step.rate.n) if step.rate else (None, 0)
            name = f"Rate, {step.label}"
            found[f"rate@{step.label}"] = Figure(
                f"rate@{step.label}", name, step.rate_mb_s, "MB/s", sd, n=n
            )
        if kind in POWERED and step.power is not None:
            name = f"Power, {step.label}"
            found[f"power@{step.label}"] = Figure(
                f"power@{step.label}", name, step.power.mean, "W", step.power.sd, n=step.power.n
            )
    return found


def scale_of(figure: Figure) -> float:
    """How far a figure may be off to count as one: 1 %, and what its samples leave open."""
    if figure.value is None or figure.spread is None or figure.value <= 0:
        return SCALE
    standard_error = figure.spread / math.sqrt(max(figure.n, 1))
    if "resolution" in figure.spread_kind:
        standard_error = figure.spread / math.sqrt(12)  # uniform over one step
    return math.hypot(SCALE, standard_error / figure.value)


def loss(residuals: Mapping[str, float]) -> float:
    """Soft L1: squares up to some `FAR` scales, then linear; 0 if all figures are met."""
    square = FAR * FAR
    return sum(2 * square * (math.sqrt(1 + (r * r) / square) - 1) for r in residuals.values())
