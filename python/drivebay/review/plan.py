"""What a review is going to do, and how long that is likely to take."""

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
    """One test and the wall-clock seconds that it is likely to take."""

    test: Test
    estimate_s: float


@dataclass(frozen=True)
class Plan:
    """The tests to be run, in the suite's order."""

    steps: tuple[Planned, ...]

    @property
    def total_s(self) -> float:
        """Seconds if they run one after the other."""
        return sum(step.estimate_s for step in self.steps)

    def longest_first(self) -> list[Planned]:
        """The order for running side by side: whatever is long must not start last."""
        return sorted(self.steps, key=lambda step: (-step.estimate_s, step.test.id))


def make_plan(target: Target, tests: tuple[Test, ...]) -> Plan:
    """The plan for these tests on this target; nothing is touched."""
    return Plan(tuple(Planned(test, max(target.estimate_s(test), 0.001)) for test in tests))


def default_jobs(target: Target, tests: int) -> int:
    """How many tests to run side by side: real drives one, virtual ones as many as there are
    processors for and memory to hold them."""
    if target.kind != "virtual" or tests == 0:
        return 1
    in_memory = available_bytes() * 4 // 5 // max(1, target.memory_bytes)
    return max(1, min(len(os.sched_getaffinity(0)), tests, in_memory))


def copies_max(target: Target, jobs: int) -> int:
    """How many prepared states may be kept beside the drives under test, in half of the memory."""
    if target.kind != "virtual":
        return 0
    return max(0, available_bytes() // 2 // max(1, target.memory_bytes) - jobs)


class Sink(Protocol):
    """Told of a review's progress. The middle three methods are called from worker threads, and
    `stopping` may be."""

    def begin(self, plan: Plan, *, jobs: int) -> None:
        """The review starts; the plan has only the tests still to be run."""
        return

    def started(self, test_id: str) -> None:
        """Called when a test starts."""
        return

    def progressed(
        self, test_id: str, what: str, done_s: float, planned_s: float, figures: Mapping[str, float]
    ) -> None:
        """How far a test is, in seconds of the drive's time; up to ten times a second."""
        return

    def ended(self, test_id: str, state: str) -> None:
        """A test has ended: "done", "failed" or "cancelled"."""
        return

    def warn(self, message: str) -> None:
        """Something that the user should know and that stops nothing."""
        return

    def stopping(self) -> None:
        """The review was asked to stop, and waits for the running tests to give up."""
        return

    def end(self) -> None:
        """No more is coming."""
        return


class Silent(Sink):
    """A sink that shows nothing."""
