"""What a fit runs and what it is compared with: drives, tests on them, observed figures.

The two kinds are in `folder` (a review's result) and `rows` (published figures).
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drivebay.analysis import Measured
from drivebay.definitions.profiles import Profile
from drivebay.definitions.suites import Test
from drivebay.lab.calibrate.observations import Observation
from drivebay.lab.calibrate.parameters import Parameter

Figures = Mapping[str, float | None]
"""What a job gave, by key; None for a figure that it has not."""


@dataclass(frozen=True, order=True)
class Job:
    """A test on a drive; `drive` is "" for the fitted one, else as in published/validation.toml."""

    drive: str
    test: str


@dataclass(frozen=True)
class Experiment(ABC):
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

    @abstractmethod
    def profile(
        self, job: Job, parameters: Sequence[Parameter], values: Sequence[float]
    ) -> Profile:
        """The drive of a job with these values; raises UserError if there can be no such drive."""

    @abstractmethod
    def moves(self, job: Job, parameter: Parameter) -> bool:
        """Whether the job's drive has this parameter from the fitted one."""

    @abstractmethod
    def jobs_of(self, observation: Observation) -> tuple[Job, ...]:
        """The jobs that an observation is read from."""

    @abstractmethod
    def keep(self, job: Job, found: Measured) -> Figures:
        """Of a job's figures those that observations are read from."""

    @abstractmethod
    def read(self, observation: Observation, done: Mapping[Job, Figures]) -> float | None:
        """The observation's figure from what its jobs gave; None if a job has none."""

    @abstractmethod
    def bound_percent(self, observation: Observation, *, held_out: bool) -> float:
        """How far the figure may be off."""


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
