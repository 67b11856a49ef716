"""What the suite asks of anything that it tests: a virtual drive, a file, a block device.

This is the one place with several implementations. A target prepares itself and runs phases, one
test at a time; it knows nothing of result folders, suites' names or reports.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import pyarrow as pa

from drivebay.definitions.suites import Test, Workload

SERIES_SCHEMA = pa.schema(
    [
        ("second", pa.int32()),
        ("reads", pa.int64()),
        ("writes", pa.int64()),
        ("read_bytes", pa.int64()),
        ("write_bytes", pa.int64()),
        ("latency_ns_mean", pa.float64()),
        ("latency_ns_max", pa.int64()),
        ("temperature_c", pa.float64()),
        ("power_w", pa.float64()),
        ("throttle_stage", pa.int32()),
    ]
)
HISTOGRAM_SCHEMA = pa.schema(
    [
        ("direction", pa.string()),
        ("low_ns", pa.int64()),
        ("high_ns", pa.int64()),
        ("count", pa.int64()),
    ]
)
TELEMETRY_SCHEMA = pa.schema(
    [("second", pa.float64()), ("name", pa.string()), ("value", pa.float64())]
)
STAGES_SCHEMA = pa.schema([("second", pa.int32()), ("stage", pa.string()), ("ns", pa.int64())])


@dataclass(frozen=True)
class PhaseResult:
    """One phase's figures.

    `series`, `histogram` and `stages` follow the schemas above; `stages` is None where the target
    cannot see inside (real drives). `metrics` holds what only this target knows, for example
    `{"waf": 7.4}`; `artefacts` maps file names to bytes to be kept with the result. `telemetry` has
    what sensors of the drive and the host said, at seconds from the phase's start (negative before
    it), None where there are none. `conditions`, of a test's first phase, says under which
    conditions the whole test ran; JSON values.
    """

    label: str
    workload: Workload
    duration_s: float
    reads: int
    writes: int
    read_bytes: int
    write_bytes: int
    series: pa.Table
    histogram: pa.Table
    stages: pa.Table | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    artefacts: dict[str, bytes] = field(default_factory=dict)
    telemetry: pa.Table | None = None
    conditions: dict[str, Any] = field(default_factory=dict)


class Cancelled(Exception):
    """Raised inside `run_test` after `Progress.cancel()`; nothing of the test is kept."""


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
        """Tell the display; cheap enough for ten times a second."""
        if self._report is not None:
            self._report(what, done_s, planned_s, figures)

    def cancel(self) -> None:
        """Ask the running test to stop soon; may be called from any thread."""
        self._cancelled.set()
        for hook in list(self._cancel_hooks):
            hook()

    def on_cancel(self, hook: Callable[[], None]) -> None:
        """Have `hook` called once on `cancel()` (at once if already cancelled)."""
        self._cancel_hooks.append(hook)
        if self._cancelled.is_set():
            hook()

    def check(self) -> None:
        """Raise `Cancelled` if somebody asked to stop."""
        if self._cancelled.is_set():
            raise Cancelled

    @property
    def cancelled(self) -> bool:
        """True after `cancel()`."""
        return self._cancelled.is_set()


class Target(Protocol):
    """A thing under test."""

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
    def memory_bytes(self) -> int:
        """Memory of this machine that a running test takes; bounds how many run at once."""
        ...

    def expect(self, tests: tuple[Test, ...], *, seed: int, copies_max: int) -> None:
        """Told before the first test: all that the review is to run, on this target or on one
        beside it; the review's seed; and how many prepared states there is memory for."""
        ...

    def claim(self, test: Test) -> bool:
        """Whether the test can begin without waiting for what another one prepares; if so, others
        that need the same wait for it."""
        ...

    def run_test(self, test: Test, *, seed: int, progress: Progress) -> list[PhaseResult]:
        """Prepare and run all phases of one test; raises `Cancelled` when asked to stop."""
        ...

    def close(self) -> None:
        """Release what is held; children stopped and waited for."""
        ...
