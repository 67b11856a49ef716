"""Where the engine tells how far a review has come; the command line draws it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from drivebay.review.plan import Plan


class Sink(Protocol):
    """Told of a review's progress. The middle three methods are called from worker threads."""

    def begin(self, plan: Plan, *, jobs: int) -> None:
        """The review starts; the plan has only the tests still to be run."""
        ...

    def started(self, test_id: str) -> None:
        """A test starts."""
        ...

    def progressed(
        self, test_id: str, what: str, done_s: float, planned_s: float, figures: Mapping[str, float]
    ) -> None:
        """How far a test is, in seconds of the drive's time; up to ten times a second."""
        ...

    def ended(self, test_id: str, state: str) -> None:
        """A test has ended: "done", "failed" or "cancelled"."""
        ...

    def warn(self, message: str) -> None:
        """Something that the user should know and that stops nothing."""
        ...

    def stopping(self) -> None:
        """The review was asked to stop, and waits for the running tests to give up."""
        ...

    def end(self) -> None:
        """No more is coming."""
        ...


class Silent:
    """A sink that shows nothing."""

    def begin(self, plan: Plan, *, jobs: int) -> None:
        """Nothing."""

    def started(self, test_id: str) -> None:
        """Nothing."""

    def progressed(
        self, test_id: str, what: str, done_s: float, planned_s: float, figures: Mapping[str, float]
    ) -> None:
        """Nothing."""

    def ended(self, test_id: str, state: str) -> None:
        """Nothing."""

    def warn(self, message: str) -> None:
        """Nothing."""

    def stopping(self) -> None:
        """Nothing."""

    def end(self) -> None:
        """Nothing."""
