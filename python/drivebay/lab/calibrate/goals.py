"""What a fit runs and aims at, whatever it was given: drives, tests on them, figures of those.

The two kinds are in `folder` (a review's result) and `rows` (published figures); `given` chooses.
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
from drivebay.lab.calibrate.aims import Aim
from drivebay.lab.calibrate.parameters import Parameter

Figures = Mapping[str, float | None]
"""What a job gave, by key; None for a figure that it has not."""


@dataclass(frozen=True, order=True)
class Job:
    """A test on a drive; `drive` is "" for the fitted one, else as in published/validation.toml."""

    drive: str
    test: str


@dataclass(frozen=True)
class Goal(ABC):
    """What is run, and what is aimed at.

    `tests` are those that trials run, `full` the same in the length in which they were measured,
    and the held-out ones. `aims` are fitted, `whole` are all figures of those tests, `held` those
    of the tests that were held out. `words` says what was given; `notes` what the user should know
    of it. `seed` is that of the virtual drives.
    """

    base: Profile
    tests: Mapping[Job, Test]
    full: Mapping[Job, Test]
    aims: tuple[Aim, ...]
    whole: tuple[Aim, ...]
    held: tuple[Aim, ...]
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
    def jobs_of(self, aim: Aim) -> tuple[Job, ...]:
        """The jobs that an aim is read from."""

    @abstractmethod
    def keep(self, job: Job, found: Measured) -> Figures:
        """Of a job's figures those that aims are read from."""

    @abstractmethod
    def read(self, aim: Aim, done: Mapping[Job, Figures]) -> float | None:
        """The aim's figure from what its jobs gave; None if a job has none."""

    @abstractmethod
    def bound_percent(self, aim: Aim, *, held: bool) -> float:
        """How far the figure may be off."""


def fingerprint(goal_: Goal, parameters: Sequence[Parameter]) -> dict[str, Any]:
    """All that a trial's outcome depends on, for the journal's head; JSON values."""
    return {
        "profile": json.loads(goal_.base.json()),
        "parameters": [
            {"name": one.name, "start": one.start, "low": one.low, "high": one.high}
            for one in parameters
        ],
        "tests": _data(goal_.tests),
        "full": _data(goal_.full),
        "aims": [[aim.name, aim.value, aim.scale] for aim in (*goal_.aims, *goal_.held)],
        "seed": goal_.seed,
    }


def _data(tests: Mapping[Job, Test]) -> dict[str, Any]:
    return {
        f"{job.drive}/{job.test}": tests[job].model_dump(mode="json", exclude_defaults=True)
        for job in sorted(tests)
    }
