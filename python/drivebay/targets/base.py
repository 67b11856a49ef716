"""What the suite asks of anything that it tests: a virtual drive, a file, a block device.

This is the one place with several implementations. A target prepares itself and runs phases, one
test at a time; it knows nothing of result folders, suites' names or reports.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Protocol

from drivebay.common.errors import Cancelled
from drivebay.definitions.suites import Test
from drivebay.results.records import PhaseResult


class Progress:
    """How far one test has come, written by the target and read by the display; may be cancelled.

    `report` is called with what is being done now ("fill", "qd4"), the drive's seconds done and
    planned of the whole test, and current figures such as `{"temperature_c": 51.0, "iops": 7.6e3}`.
    """

    def __init__(
        self, report: Callable[[str, float, float, dict[str, float]], None] | None = None
    ) -> None:
        self._report = report
        self._cancelled = threading.Event()
        self._cancel_hooks: list[Callable[[], None]] = []

    def report(self, what: str, done_s: float, planned_s: float, **figures: float) -> None:
        """Report to the display; cheap enough for ten times a second."""
        if self._report is not None:
            self._report(what, done_s, planned_s, figures)

    def cancel(self) -> None:
        """Ask the running test to stop soon; may be called from any thread."""
        self._cancelled.set()
        for hook in list(self._cancel_hooks):
            hook()

    def on_cancel(self, hook: Callable[[], None]) -> None:
        """Have `hook` called on every `cancel()` (at once if already cancelled)."""
        self._cancel_hooks.append(hook)
        if self._cancelled.is_set():
            hook()

    def check(self) -> None:
        """Raise `Cancelled` if somebody asked to stop."""
        if self._cancelled.is_set():
            raise Cancelled


class Target(Protocol):
    """A thing under test. What has no meaning for a target is inherited as it is here."""

    kind: Literal["virtual", "file", "block"]
    name: str
    """Short name for titles and folder names: a catalog name, a file's name, a device's model."""

    @property
    def capacity_bytes(self) -> int:
        """User capacity."""
        ...

    def identity(self) -> dict[str, Any]:
        """What is recorded of the target: model, serial, size, resolved profile; JSON values only,
        the same at every call, no time of day."""
        ...

    def check(self, tests: tuple[Test, ...]) -> None:
        """Raise a `DrivebayError` if these tests must not or cannot run here (safety, size,
        permission, missing fio). Called before anything is touched and again on resume."""
        ...

    def estimate_s(self, test: Test) -> float:
        """Wall-clock seconds that the test is likely to take on this target."""
        ...

    @property
    def destroys(self) -> bool:
        """Whether data that is not drivebay's may go, once `check` has let the tests pass."""
        return False

    @property
    def memory_bytes(self) -> int:
        """Memory of this machine that a running test takes; bounds how many run at once."""
        return 0

    def expect(self, tests: tuple[Test, ...], *, seed: int, copies_max: int) -> None:
        """Called before the first test: all that the review is to run, on this target or on one
        beside it; the review's seed; and how many prepared states there is memory for. A real
        drive's state cannot be kept."""
        return

    def recorded_in(self, folder: Path) -> None:
        """Called once there is a result: a real drive keeps there what was authorised, and takes
        what a killed review of it has left half-written for its own."""
        return

    def claim(self, test: Test) -> bool:
        """Whether the test can begin without waiting for what another one prepares; if so, others
        that need the same wait for it."""
        return True

    def run_test(self, test: Test, *, seed: int, progress: Progress) -> list[PhaseResult]:
        """Prepare and run all phases of one test; raises `Cancelled` when asked to stop."""
        ...

    def close(self) -> None:
        """Release what is held; children stopped and waited for."""
        ...
