"""Experiment of a fit: drives, tests on them, and the observed figures to compare with.

Experiments are made from a review's result or from published rows (`observed`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from drivebay.analysis import Figure, Measured
from drivebay.definitions import leaves
from drivebay.definitions import profiles as catalog
from drivebay.definitions.modifications import changed
from drivebay.definitions.profiles import Profile
from drivebay.definitions.scaling import with_capacity
from drivebay.definitions.suites import Test
from drivebay.lab.fit.parameters import Parameter, with_values
from drivebay.lab.validate.plan import Run
from drivebay.lab.validate.runs import as_run
from drivebay.lab.validate.values import Figures, NotReached, kept, value_of

# Relative error of a folder's figure that counts as one unit; guess: the repeatability of
# reviews.
SCALE = 0.01
# Error of an evaluation that lacks the figure (a rate that never falls): a factor of two.
MISSING = math.log(2)
# Number of scales beyond which errors count less and less: a figure that the model cannot
# reproduce must not spoil the others (the knee of the soft L1 loss).
FAR = 3.0

Relation = Literal["eq", "lt", "gt", "range"]

# Kinds of tests with a figure for every phase's rate; other kinds have only the keys below.
KINDS_OF_PHASES = {"ladder", "ladders", "mixed", "sizes", "loads", "compression"}
KEYS = {
    "consistency": ("mean_iops", "burst_iops", "burst_s"),
    "thermal": ("throttle_after_s", "initial_rate", "throttled_rate"),
    "trace": ("rate", "latency_mean"),
}
# Kinds that are fitted to by default, the power of each phase too; traces take long, and are better
# held out for predictions.
USUAL_KINDS = KINDS_OF_PHASES | {"consistency", "thermal"}


# A test on a drive; its drive is "" for the fitted one.
Job = Run


@dataclass(frozen=True)
class Observation:
    """A figure to be reproduced.

    `name` is TEST/KEY, or the id of a published row. `value` is in `unit`; for a "range" it is the
    lower end and `high` the upper one. `scale` is the relative error that counts as one unit,
    `bound_percent` the largest acceptable error. The figure is read from one figure of a job or is
    the ratio of two (`figures`), times `factor`, less `less`.
    """

    name: str
    test: str
    label: str
    unit: str
    value: float
    scale: float
    relation: Relation = "eq"
    high: float | None = None
    bound_percent: float = 3.0
    figures: tuple[tuple[Job, str], ...] = ()
    factor: float = 1.0
    less: float = 0.0

    @property
    def kind(self) -> str:
        """Kind of the figure: "rate", "p99" of any direction, "mean_iops"; of a published row
        "row".
        """
        key = self.name.partition("/")[2]
        return key.partition("@")[0].partition("_read")[0].partition("_write")[0] or "row"

    @property
    def jobs(self) -> tuple[Job, ...]:
        """The jobs that the figure is read from."""
        return tuple(job for job, _ in self.figures)

    def read(self, done: Mapping[Job, Figures]) -> float | None:
        """Computes the figure from its jobs' figures; None if a job lacks one."""
        try:
            value, *over = (value_of(done[job], key) for job, key in self.figures)
            return float(value / (over[0] if over else 1.0) * self.factor - self.less)
        except (NotReached, KeyError, ZeroDivisionError):
            return None

    def error(self, mine: float | None) -> float:
        """Logarithm of the ratio to the observed value; 0 if a bound holds.

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
    """Figures of a test that can be fitted to, by key: rate@PHASE, power@PHASE (MB/s, W), and
    those of its kind; missing ones have the value None.
    """
    kind = test.test.kind
    figures: dict[str, Figure] = {}
    for key in KEYS.get(kind, () if kind in KINDS_OF_PHASES else test.main):
        if key == "mean_iops" and "mean_rate" in test.main:
            key = "mean_rate"
        if key in test.figures:
            figures[key] = test.figures[key]
    for phase in test.phases:
        step, label, power = phase.step, phase.step.label, phase.step.power
        if kind in KINDS_OF_PHASES:
            key, name = f"rate@{label}", f"Rate, {label}"
            sd, n = (step.rate.sd, step.rate.n) if step.rate else (None, 0)
            figures[key] = Figure(key, name, step.rate_mb_s, "MB/s", sd, n=n)
        if kind in USUAL_KINDS and power is not None:
            key, name = f"power@{label}", f"Power, {label}"
            figures[key] = Figure(key, name, power.mean, "W", power.sd, n=power.n)
    return figures


def scale_of(figure: Figure) -> float:
    """Relative error that counts as one unit: 1 %, combined with the standard error of the
    samples.
    """
    if figure.value is None or figure.spread is None or figure.value <= 0:
        return SCALE
    standard_error = figure.spread / math.sqrt(max(figure.n, 1))
    if "resolution" in figure.spread_kind:
        standard_error = figure.spread / math.sqrt(12)  # uniform over one step
    return math.hypot(SCALE, standard_error / figure.value)


def loss(residuals: Mapping[str, float]) -> float:
    """Soft L1: quadratic up to about `FAR` scales, then linear; 0 if all figures are met."""
    square = FAR * FAR
    return sum(2 * square * (math.sqrt(1 + (r * r) / square) - 1) for r in residuals.values())


@dataclass(frozen=True)
class Experiment:
    """The tests to run, and the observations to compare them with.

    `tests` are those that evaluations run, `full` the same in their measured length, with the
    held-out ones. `observations` are fitted, `whole` are all figures of those tests, `held_out`
    those of the held-out ones. `description` names the data; `notes` are remarks about it. `seed`
    is that of the virtual drives, which are scaled to `size_bytes` if it is not 0. `step`: smallest
    step of the derivatives at the end, as a share of the range.
    """

    base: Profile
    tests: Mapping[Job, Test]
    full: Mapping[Job, Test]
    observations: tuple[Observation, ...]
    whole: tuple[Observation, ...]
    held_out: tuple[Observation, ...]
    description: str
    notes: tuple[str, ...]
    seed: int
    size_bytes: int = 0
    step: float = 0.0

    def profile(self, job: Job, values: Mapping[Parameter, float]) -> Profile:
        """The drive of a job, with the values that it shares with the fitted drive. Raises
        UserError if such a drive is not possible.
        """
        own = [parameter for parameter in values if self.moves(job, parameter)]
        member = job.in_its_host(catalog.load(job.profile)) if job.drive else self.base
        if own or not job.drive:
            member = with_values(member, own, [values[parameter] for parameter in own])
        if self.size_bytes:
            member = with_capacity(member, min(self.size_bytes, member.capacity_bytes))
        return as_run(job, changed(member, job.variants)) if job.drive else member

    def moves(self, job: Job, parameter: Parameter) -> bool:
        """True if the job's drive shares this parameter, value and source, with the fitted
        drive.
        """
        if not job.drive:
            return True
        own = leaves.at(catalog.load(job.profile).raw, parameter.name)
        return own is not None and bool(own == leaves.at(self.base.raw, parameter.name))

    def keep(self, job: Job, measured: Measured) -> Figures:
        """Figures of a job that observations are read from."""
        every = (*self.observations, *self.whole, *self.held_out)
        keys = {key for observation in every for own, key in observation.figures if own == job}
        return kept(measured, keys)


def fingerprint(experiment: Experiment, parameters: Sequence[Parameter]) -> dict[str, Any]:
    """All data that an evaluation's outcome depends on, for the journal's head; JSON values."""
    return {
        "profile": json.loads(experiment.base.json()),
        "parameters": [
            {key: getattr(parameter, key) for key in ("name", "start", "low", "high")}
            for parameter in parameters
        ],
        "tests": _data(experiment.tests),
        "full": _data(experiment.full),
        "observations": [
            [observation.name, observation.value, observation.scale]
            for observation in (*experiment.observations, *experiment.held_out)
        ],
        "seed": experiment.seed,
    }


def _data(tests: Mapping[Job, Test]) -> dict[str, Any]:
    return {
        f"{job.drive}/{job.test}": tests[job].model_dump(mode="json", exclude_defaults=True)
        for job in sorted(tests)
    }
