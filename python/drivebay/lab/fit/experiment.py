"""What a fit runs and what it is compared with: drives, tests on them, observed figures.

They are made of a review's result or of published rows (`observed`).
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
from drivebay.definitions.suites import Test
from drivebay.lab.fit.parameters import Parameter, with_values
from drivebay.lab.validate.plan import Run
from drivebay.lab.validate.runs import as_run
from drivebay.lab.validate.values import Figures, NotReached, kept, value_of

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


Job = Run
"""A test on a drive; its drive is "" for the fitted one."""


@dataclass(frozen=True)
class Observation:
    """A figure to be met.

    `name` is TEST/KEY, or the id of a published row. `value` is in `unit`; of a "range" it is the
    lower end and `high` the upper one. `scale` is the relative error that counts as one,
    `bound_percent` how far it may be off. It is read from one figure of a job or is the ratio of
    two (`figures`), times `factor`, less `less`.
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
    def jobs(self) -> tuple[Job, ...]:
        """The jobs that it is read from."""
        return tuple(job for job, _ in self.figures)

    def read(self, done: Mapping[Job, Figures]) -> float | None:
        """The figure from what its jobs gave; None if a job has none."""
        try:
            value, *over = (value_of(done[job], key) for job, key in self.figures)
            return float(value / (over[0] if over else 1.0) * self.factor - self.less)
        except (NotReached, KeyError, ZeroDivisionError):
            return None

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


@dataclass(frozen=True)
class Experiment:
    """What is run, and the observations that it is compared with.

    `tests` are those that evaluations run, `full` the same in the length in which they were
    measured, and the held-out ones. `observations` are fitted, `whole` are all figures of those
    tests, `held_out` those of the other ones. `words` names the data; `notes` what to know
    of it. `seed` is that of the virtual drives.
    """

    base: Profile
    tests: Mapping[Job, Test]
    full: Mapping[Job, Test]
    observations: tuple[Observation, ...]
    whole: tuple[Observation, ...]
    held_out: tuple[Observation, ...]
    words: str
    notes: tuple[str, ...]
    seed: int

    def profile(self, job: Job, values: Mapping[Parameter, float]) -> Profile:
        """The drive of a job with those of these values that it has from the fitted one. Raises
        UserError if there can be no such drive."""
        own = {one: value for one, value in values.items() if self.moves(job, one)}
        if not job.drive:
            return with_values(self.base, list(own), list(own.values()))
        member = job.in_its_host(catalog.load(job.profile))
        fitted = with_values(member, list(own), list(own.values())) if own else member
        return as_run(job, changed(fitted, job.variants))

    def moves(self, job: Job, parameter: Parameter) -> bool:
        """Whether the job's drive has this parameter, value and source, from the fitted one."""
        if not job.drive:
            return True
        own = leaves.at(catalog.load(job.profile).raw, parameter.name)
        return own is not None and bool(own == leaves.at(self.base.raw, parameter.name))

    def keep(self, job: Job, found: Measured) -> Figures:
        """Of a job's figures those that observations are read from."""
        every = (*self.observations, *self.whole, *self.held_out)
        return kept(found, {key for one in every for own, key in one.figures if own == job})


def fingerprint(experiment: Experiment, parameters: Sequence[Parameter]) -> dict[str, Any]:
    """All that an evaluation's outcome depends on, for the journal's head; JSON values."""
    return {
        "profile": json.loads(experiment.base.json()),
        "parameters": [
            {"name": one.name, "start": one.start, "low": one.low, "high": one.high}
            for one in parameters
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
