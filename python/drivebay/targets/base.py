"""Interface between the suite and its targets: a virtual drive, a file, a block device.

Only this interface has several implementations. A target prepares itself and runs phases, one test
at a time; it does not know result folders, suites' names or reports.
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
    """Progress of one test, written by the target and read by the display; may be cancelled.

    `report` is called with the current activity ("fill", "qd4"), the drive's seconds done and
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
    """A device or file under test. A target inherits the defaults here for methods that do not
    apply to it.
    """

    kind: Literal["virtual", "file", "block"]
    # Short name for titles and folder names: a catalog name, a file's name, a device's model.
    name: str

    @property
    def capacity_bytes(self) -> int:
        """User capacity."""

    def identity(self) -> dict[str, Any]:
        """Returns the recorded facts of the target: model, serial, size, resolved profile; JSON
        values only, the same at every call, without the time of day.
        """

    def check(self, tests: tuple[Test, ...]) -> None:
        """Raise a `DrivebayError` if these tests must not or cannot run here (safety, size,
        permission, missing fio). Called before anything is touched and again on resume."""

    def estimate_s(self, test: Test) -> float:
        """Wall-clock seconds that the test is likely to take on this target."""

    @property
    def destroys(self) -> bool:
        """True if data that is not drivebay's may be destroyed, once `check` has let the tests
        pass.
        """
        return False

    @property
    def memory_bytes(self) -> int:
        """Memory of this machine that a running test takes; limits how many run at once."""
        return 0

    def expect(self, tests: tuple[Test, ...], *, seed: int, copies_max: int) -> None:
        """Called before the first test with all tests of the review, on this target or on others in
        parallel; with the review's seed; and with the number of prepared states that fit in
        memory. A real drive's state cannot be kept.
        """
        return

    def recorded_in(self, folder: Path) -> None:
        """Called once there is a result folder: a real drive stores there what was authorised, and
        treats data that a killed run of this review left half-written as its own.
        """
        return

    def claim(self, test: Test) -> bool:
        """True if the test can begin without waiting for a state that another test prepares; then
        other tests that need the same state wait for this one.
        """
        return True

    def run_test(self, test: Test, *, seed: int, progress: Progress) -> list[PhaseResult]:
        """Prepare and run all phases of one test; raises `Cancelled` when asked to stop."""

    def close(self) -> None:
        """Release all resources; children are stopped and waited for."""
