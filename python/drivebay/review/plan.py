"""Plan of a review: its tests and their likely duration."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from drivebay.common.memory import available_bytes
from drivebay.definitions.suites import Test
from drivebay.targets.base import Target


@dataclass(frozen=True)
class Planned:
    """One test and its estimated duration in wall-clock seconds."""

    test: Test
    estimate_s: float


@dataclass(frozen=True)
class Plan:
    """The tests to run, in the suite's order."""

    steps: tuple[Planned, ...]

    @property
    def total_s(self) -> float:
        """Seconds if the tests run one after the other."""
        return sum(step.estimate_s for step in self.steps)

    def longest_first(self) -> list[Planned]:
        """Order for running in parallel: long tests must not start last."""
        return sorted(self.steps, key=lambda step: (-step.estimate_s, step.test.id))


def make_plan(target: Target, tests: tuple[Test, ...]) -> Plan:
    """Makes the plan for these tests on this target, without touching it."""
    return Plan(tuple(Planned(test, max(target.estimate_s(test), 0.001)) for test in tests))


def default_jobs(target: Target, tests: int) -> int:
    """Number of tests to run in parallel: one on a real drive; virtual ones as processors and
    memory allow.
    """
    if target.kind != "virtual" or tests == 0:
        return 1
    in_memory = available_bytes() * 4 // 5 // max(1, target.memory_bytes)
    return max(1, min(len(os.sched_getaffinity(0)), tests, in_memory))


def copies_max(target: Target, jobs: int) -> int:
    """Number of prepared states that may be kept in addition to the drives under test, in half
    of the memory.
    """
    if target.kind != "virtual":
        return 0
    return max(0, available_bytes() // 2 // max(1, target.memory_bytes) - jobs)


class Sink(Protocol):
    """Receives a review's progress. The methods `started`, `progressed` and `ended` are called
    from worker threads, and `stopping` may be.
    """

    def begin(self, plan: Plan, *, jobs: int) -> None:
        """The review starts; the plan has only the tests that remain."""
        return

    def started(self, test_id: str) -> None:
        """A test starts."""
        return

    def progressed(
        self, test_id: str, what: str, done_s: float, planned_s: float, figures: Mapping[str, float]
    ) -> None:
        """Progress of a test, in seconds of the drive's time; up to ten times a second."""
        return

    def ended(self, test_id: str, state: str) -> None:
        """A test has ended: "done", "failed" or "cancelled"."""
        return

    def warn(self, message: str) -> None:
        """A warning for the user; the review continues."""
        return

    def stopping(self) -> None:
        """The review was asked to stop, and waits for the running tests to give up."""
        return

    def end(self) -> None:
        """The review has ended."""
        return


class Silent(Sink):
    """A sink that shows nothing."""
