"""A trace played on a real file or block device: checked, taken, played by the core, let go of.

A replay that writes obeys what a review obeys: a device only with its serial number named and
nothing found on it, a file only if nobody else uses it, and never a byte beyond it. A replay of the
reads only opens its target for reading, and needs no word: also a drive in use may be read.

Leaves out: when requests are due and where they go (docs/concepts/replay.md), how they are sent
(crates/replay).
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from drivebay import _core
from drivebay.common.errors import DrivebayError, EnvironmentProblem, UserError
from drivebay.targets.replay.figures import Replayed, replayed
from drivebay.targets.safety import in_use, locks, target_device
from drivebay.targets.safety.target_device import ExclusiveHandle, OverwritePermission, TargetDevice

HOLES_SHARE = 0.95
"""A file with less of its size in blocks has holes, and reads of those never reach the drive."""


@dataclass(frozen=True)
class What:
    """What is played: a trace's file, or one of "destroyer", "heavy", "light", synthesized.

    `scale` times the published number of I/Os; `format` None to detect it.
    """

    file: Path | None = None
    format: str | None = None
    synth: str | None = None
    scale: float = 1.0
    seed: int = 1


@dataclass(frozen=True)
class How:
    """How it is played; times in seconds, `spin_us` in microseconds.

    `idle_max_s` cuts idle stretches of the recording; `time_percent` of its length is taken. Both
    are for mode "recorded".
    """

    mode: Literal["recorded", "dependencies"] = "recorded"
    idle_max_s: float | None = None
    time_percent: int = 100
    rule: Literal["fold", "scale"] = "fold"
    only_reads: bool = False
    trim: bool = False
    zeros: bool = False
    seed: int = 1
    depth: int = 1024
    spin_us: int = 80
    length_max_s: float | None = None
    failures_max: int | None = None
    buffered: bool = False


@dataclass(frozen=True)
class Survey:
    """What a look through the trace found; `length_s` is None where only the drive can say."""

    requests: int
    reads: int
    writes: int
    recorded_bytes: int
    length_s: float | None


class Job:
    """What is to be played and how; the same for one command and for a suite's test."""

    def __init__(self, what: What, how: How) -> None:
        self.what, self.how = what, how
        self.watch = _core.ReplayWatch()
        self._sort = False
        self._found: Survey | None = None

    def survey(self) -> Survey:
        """Read the whole trace once, so that nothing is written for one that is damaged.

        Raises
        ------
        UserError, EnvironmentProblem
            What is wrong with it, with its place.
        """
        if self._found is None:
            with _core_errors():
                try:
                    raw = json.loads(_core.replay_survey(self._plan(only_reads=False)))
                except _core.TraceOrderError:
                    self._sort = True
                    raw = json.loads(_core.replay_survey(self._plan(only_reads=False)))
            length = raw["length_ns"]
            self._found = Survey(
                requests=raw["requests"],
                reads=raw["reads"],
                writes=raw["writes"],
                recorded_bytes=raw["recorded_bytes"],
                length_s=None if length is None else length / 1e9,
            )
        return self._found

    @property
    def writes(self) -> bool:
        """Whether the target's content will be changed."""
        if self.how.only_reads:
            return False
        return self.how.trim or self.survey().writes > 0

    def play(self, target: TargetDevice, fd: int) -> Replayed:
        """Play it through a descriptor of the target; what is out when it is stopped is waited for.

        Raises
        ------
        UserError, EnvironmentProblem
            If it cannot begin. Whatever happens later is in the result.
        """
        found = self.survey()
        sizes = (target.size_bytes, target.logical_block_bytes, found.recorded_bytes)
        # Of a trace without writes the target is opened for reading alone.
        plan = self._plan(only_reads=not self.writes)
        path = f"/proc/self/fd/{fd}"
        with _core_errors(path=path, shown=target.given):
            return replayed(_core.replay_real(plan, path, sizes, self.watch))

    def _plan(self, *, only_reads: bool) -> str:
        what, how = self.what, self.how
        if what.file is not None:
            play: dict[str, Any] = {
                "file": {"path": str(what.file), "format": what.format, "sort": self._sort}
            }
        else:
            play = {"synth": {"name": what.synth, "scale": what.scale, "seed": what.seed}}
        pace: dict[str, Any] = {"mode": how.mode}
        if how.mode == "recorded":
            pace |= {"idle_max_ns": _ns(how.idle_max_s), "time_percent": how.time_percent}
        plan = {
            "what": play,
            "pace": pace,
            "rule": how.rule,
            "only_reads": only_reads,
            "trim": how.trim,
            "zeros": how.zeros,
            "seed": how.seed,
            "depth": how.depth,
            "spin_us": how.spin_us,
            "length_max_ns": _ns(how.length_max_s),
            "failures_max": how.failures_max,
            "buffered": how.buffered,
        }
        return json.dumps(plan)


class RealReplay:
    """One replay as a command: `check` says what forbids it, `play` does it.

    Raises
    ------
    UserError, EnvironmentProblem
        If there is nothing at `path` that could be played on.
    """

    def __init__(self, what: What, how: How, path: str, *, permission: OverwritePermission) -> None:
        self.target = target_device.find(path)
        self.job = Job(what, how)
        self._permission = permission
        if what.file is not None:
            _refuse_own_trace(what.file, self.target)

    def check(self) -> list[str]:
        """Whether it may and can be played there; what else to know of it, in sentences. Writes
        nothing.

        Raises
        ------
        UserError, EnvironmentProblem
            With what speaks against it.
        """
        permission, target, how = self._permission, self.target, self.job.how
        if self.job.writes:
            target_device.check(
                target, permission=permission, will_write=True, direct=not how.buffered
            )
            notes = _note_on_holes(target)
        else:
            if permission.destroy_data is not None:
                raise UserError(
                    "--destroy-data has no meaning for a replay that only reads", "leave it out"
                )
            notes = _note_on_holes(target) + _notes_on_mounts(target)
        if how.buffered:
            notes.append("through the page cache: memory is measured as much as the drive")
        return notes

    @contextlib.contextmanager
    def lock(self, waiting: Callable[[str], None]) -> Iterator[None]:
        """Hold what the drive shares with others while it is played on, as a review does; `waiting`
        is told twice a second what is waited for.

        Raises
        ------
        UserError
            If another drivebay has this very file.
        """
        target_device.refuse_if_held(self.target)
        drive = in_use.drive_below(self.target.storage_number)
        with locks.drive_lock(drive, self.target.given, waiting):
            yield

    def play(self) -> Replayed:
        """Play it.

        Raises
        ------
        UserError, EnvironmentProblem
            If it cannot begin, or may no longer.
        """
        with self._descriptor() as fd:
            return self.job.play(self.target, fd)

    @contextlib.contextmanager
    def _descriptor(self) -> Iterator[int]:
        if self.job.writes:
            handle = ExclusiveHandle(self.target, permission=self._permission)
            try:
                yield handle.fd(to_write=True)
            finally:
                handle.close()
            return
        fd = _open_to_read(self.target)
        try:
            yield fd
        finally:
            os.close(fd)


def _ns(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1e9)


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


def _open_to_read(target: TargetDevice) -> int:
    try:
        fd = os.open(target.path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as problem:
        raise EnvironmentProblem(
            f"{target.given}: cannot be read: {problem.strerror}",
            "run as its owner, or as root: sudo drivebay replay ...",
        ) from None
    status = os.fstat(fd)
    if (status.st_dev, status.st_ino, status.st_rdev) != target.inode:
        os.close(fd)
        raise UserError(f"{target.given} is no longer what it was", "give the command again")
    return fd


@contextlib.contextmanager
def _core_errors(*, path: str = "", shown: str = "") -> Iterator[None]:
    """The core's errors as ours, with the target's name for the descriptor's path."""
    try:
        yield
    except _core.CoreError as problem:
        text = str(problem).replace(path, shown) if path else str(problem)
        message, _, hint = text.partition("\nhint: ")
        machine = (_core.ReplayMachineError, _core.TraceFileError)
        kind: type[DrivebayError] = (
            EnvironmentProblem if isinstance(problem, machine) else UserError
        )
        raise kind(message, hint) from None
