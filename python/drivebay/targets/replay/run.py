"""A trace played on a real file or block device: checked, claimed, played by the core, released.

A replay that writes follows the rules of a review: a device only with its serial number named and
no data found on it, a file only if nobody else uses it, and never a byte beyond it. A replay that
only reads opens its target for reading, and needs no permission: a drive in use may be read.

Leaves out: when requests are due and where they go (docs/concepts/replay.md), how they are sent
(crates/replay).
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from drivebay import _core
from drivebay._core import ReplayOptions, Survey, TraceSource
from drivebay.common import errors
from drivebay.common.errors import DrivebayError, EnvironmentProblem, UserError
from drivebay.common.threads import repeated
from drivebay.definitions.suites import Phase, Replay
from drivebay.results.records import PhaseResult
from drivebay.targets.base import Progress
from drivebay.targets.replay.figures import Replayed, replayed
from drivebay.targets.safety import in_use, locks, target_device
from drivebay.targets.safety.handle import ExclusiveHandle
from drivebay.targets.safety.target_device import OverwritePermission, TargetDevice

__all__ = ["Job", "RealReplay", "ReplayOptions", "Survey", "TraceSource"]

# A file with a smaller share of its size in blocks has holes, and reads of holes never reach the
# drive.
HOLES_SHARE = 0.95


class Job:
    """A trace and its replay options; the same for one command and for a suite's test."""

    def __init__(self, source: TraceSource, options: ReplayOptions) -> None:
        self.source, self.options = source, options
        self.control = _core.ReplayControl()
        self._found: Survey | None = None

    def survey(self) -> Survey:
        """Reads the whole trace once, so that nothing is written for a damaged one. Raises
        UserError or EnvironmentProblem with the defect and its position.
        """
        if self._found is None:
            try:
                self._found = _core.replay_survey(self.source, self.options)
            except errors.TraceOrderError:
                self.source = self.source.sorted()
                self._found = _core.replay_survey(self.source, self.options)
        return self._found

    @property
    def writes(self) -> bool:
        """True if the replay changes the target's content."""
        if self.options.only_reads:
            return False
        return self.options.trim or self.survey().writes > 0

    def play(self, target: TargetDevice, fd: int) -> Replayed:
        """Plays the trace through a descriptor of the target; when stopped, it waits for
        outstanding requests. Raises UserError or EnvironmentProblem if it cannot begin. Later
        problems are in the result.
        """
        found = self.survey()
        path = f"/proc/self/fd/{fd}"
        try:
            result = _core.replay_real(
                self.source,
                self.options,
                path,
                capacity_bytes=target.size_bytes,
                block_bytes=target.logical_block_bytes,
                recorded_bytes=found.recorded_bytes,
                # A trace without writes opens the target for reading only.
                only_reads=not self.writes,
                control=self.control,
            )
        except DrivebayError as problem:  # messages use the target's name as the user gave it
            message = problem.message.replace(path, target.given)
            raise type(problem)(message, problem.hint) from None
        return replayed(result)


class RealReplay:
    """One replay as a command: `check` reports obstacles, `play` runs it. Raises UserError or
    EnvironmentProblem if there is nothing at `path` that could be played on.
    """

    def __init__(
        self,
        source: TraceSource,
        options: ReplayOptions,
        path: str,
        *,
        permission: OverwritePermission,
    ) -> None:
        self.target = target_device.find(path)
        self.job = Job(source, options)
        self._permission = permission
        if source.path is not None:
            _refuse_own_trace(source.path, self.target)

    def check(self) -> list[str]:
        """Checks that the trace may and can be played there; returns notes for the user, in
        sentences. Writes nothing. Raises UserError or EnvironmentProblem with the reasons
        against it.
        """
        permission, target, options = self._permission, self.target, self.job.options
        if self.job.writes:
            target_device.check(
                target, permission=permission, will_write=True, direct=not options.buffered
            )
            notes = _note_on_holes(target)
        else:
            if permission.destroy_data is not None:
                raise UserError(
                    "--destroy-data has no meaning for a replay that only reads", "leave it out"
                )
            notes = _note_on_holes(target) + _notes_on_mounts(target)
        if options.buffered:
            notes.append("through the page cache: memory is measured as much as the drive")
        return notes

    @property
    def destroys(self) -> bool:
        """True if data that is not drivebay's may be destroyed, once `check` has let it pass."""
        return self.job.writes and target_device.destroys(self.target, self._permission)

    def yes_was_typed(self) -> None:
        """Records that the owner typed YES, after `check`."""
        self._permission = replace(self._permission, typed_yes=True)

    @contextlib.contextmanager
    def lock(self, waiting: Callable[[str], None], *, no_wait: bool = False) -> Iterator[None]:
        """Holds the bottlenecks that the drive shares with others during the replay, as a review
        does; `waiting` is called twice a second with the reason for waiting. Raises UserError if
        another drivebay has this very file.
        """
        target_device.refuse_if_held(self.target)
        drive = in_use.drive_below(self.target.storage_number)
        with locks.drive_lock(drive, self.target.given, waiting, no_wait=no_wait):
            yield

    def play(self) -> Replayed:
        """Replay the trace on the target. Raises UserError or EnvironmentProblem if it cannot
        begin, or may no longer."""
        with self._descriptor() as fd:
            return self.job.play(self.target, fd)

    @contextlib.contextmanager
    def _descriptor(self) -> Iterator[int]:
        if self.job.writes:
            handle = ExclusiveHandle(self.target, permission=self._permission)
            with contextlib.closing(handle):
                yield handle.fd(to_write=True)
        else:
            with target_device.to_read(self.target) as fd:
                status = os.fstat(fd)
                if (status.st_dev, status.st_ino, status.st_rdev) != self.target.inode:
                    given = self.target.given
                    raise UserError(f"{given} is no longer what it was", "give the command again")
                yield fd


def _refuse_own_trace(trace: Path, target: TargetDevice) -> None:
    with contextlib.suppress(OSError):
        status = os.stat(trace)
        if (status.st_dev, status.st_ino) == target.inode[:2]:
            raise UserError(
                f"{target.given} is the trace itself; it would be overwritten",
                "name another file to play it on: truncate -s 4G disk.img",
            )


def _note_on_holes(target: TargetDevice) -> list[str]:
    if target.device is not None or target.size_bytes == 0:
        return []
    share = os.stat(target.path).st_blocks * 512 / target.size_bytes
    if share >= HOLES_SHARE:
        return []
    return [
        f"only {share:.0%} of the file has data; reads of holes never reach the drive, and writes "
        "into them make the file system work"
    ]


def _notes_on_mounts(target: TargetDevice) -> list[str]:
    if target.device is None:
        return []
    names = (target.device.name, *in_use.partitions(target.device.name))
    points = [point for name in names for point in in_use.mount_points(name)]
    return [f"mounted at {point}: others may use it at the same time" for point in points]


LOOK_EVERY_S = 0.25
# Share of late requests from which the machine, not only the drive, affects the result.
LATE_SHARE = 0.01


def play(
    phase: Phase,
    load: Replay,
    handle: ExclusiveHandle,
    *,
    seed: int,
    progress: Progress,
    at: Callable[..., None],
    warn: Callable[[str], None],
) -> tuple[PhaseResult, float]:
    """Returns the phase's result, and its start on this process's monotonic clock. Raises Cancelled
    when asked to stop, without outstanding requests; UserError or EnvironmentProblem if the
    trace is damaged, or the replay cannot begin or ends early. `at`: called with the seconds
    done, and figures. `warn`: called with the reasons why figures are suspect.
    """
    job = Job(load.source(load.seed), load.options(seed=seed))
    progress.on_cancel(job.control.stop)
    job.survey()
    progress.check()
    before = (0.0, 0, 0)

    def look() -> None:
        """Reports the replay's progress."""
        nonlocal before
        now, (seconds_before, done_before, moved_before) = job.control.progress(), before
        seconds = now.elapsed_ns / 1e9
        if (passed := seconds - seconds_before) < LOOK_EVERY_S / 2:
            return
        before = seconds, now.done, now.bytes
        iops, moved = (now.done - done_before) / passed, (now.bytes - moved_before) / passed
        with contextlib.suppress(errors.Cancelled):  # the core has been stopped as well
            at(seconds, iops=iops, data_bytes_per_s=moved)

    with repeated(look, every_s=LOOK_EVERY_S):
        done = job.play(handle.target, handle.fd(to_write=True))
    zero = time.monotonic() - done.figures["length_s"]
    progress.check()
    if done.ended != "complete":
        raise EnvironmentProblem(
            f"{phase.label}: the replay ended early: {done.reason or done.ended}",
            "look for the cause with: dmesg | tail",
        )
    for sentence in validity_warnings(done):
        warn(sentence)
    result = PhaseResult.counted(
        phase.label,
        phase.workload,
        done.figures["wall_s"],
        series=done.series,
        histogram=done.histogram,
        metrics=done.metrics,
        artefacts={"replay.json": json.dumps(done.figures, indent=1).encode()},
    )
    return result, zero


def validity_warnings(done: Replayed) -> Iterator[str]:
    """Yields the reasons why a replay's figures are suspect, in sentences."""
    figures = done.figures
    own = figures["late"] - figures["late_queue_full"]
    if figures["issued"] and own / figures["issued"] > LATE_SHARE:
        yield (
            f"{own:,} of {figures['issued']:,} requests were issued late because of this machine, "
            f"the latest by {figures['lateness_us_max'] / 1e3:.1f} ms; latencies include it"
        )
    for failure in figures["failures"]:
        yield f"{failure['count']:,} x {failure['op']} failed with {failure['error']}"
    if figures["unanswered"]:
        yield f"{figures['unanswered']:,} requests never came back"
