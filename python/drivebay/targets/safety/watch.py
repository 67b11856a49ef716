"""Detection of programs that open or change a file or device under examination, and of processes
that end.

Sources: inotify(7); pidfd_open(2) and pidfd_send_signal(2); proc(5) for the environment and start
of a process. Times and contents are each read once. A write between two examinations is detected
here: a program that has the file open now is found in /proc (in_use), and one that closed it since
the watch began left an event. A mapping of the file keeps it open, so it leaves that event as well.

Leaves out: writes from another host (network file systems), and stores through a mapping by a
process that we may not inspect and that keeps the mapping.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import select
import signal
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from drivebay.common.files import system_errors
from drivebay.targets.safety import in_use

IN_MODIFY, IN_CLOSE_WRITE, IN_OPEN, IN_Q_OVERFLOW = 0x2, 0x8, 0x20, 0x4000
WRITES = IN_MODIFY | IN_CLOSE_WRITE
_EVENTS_BYTES = 65536


class Watch:
    """Events of a file (not a folder, whose events have names) since the watch was made, by the
    descriptor that `opened` has returned.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd

    @classmethod
    def opened(cls, path: str, mask: int = WRITES) -> Watch:
        """Opens a watch; `mask` as in inotify(7). Raises OSError if the kernel provides none."""
        libc = ctypes.CDLL(None, use_errno=True)
        watch = cls(libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        if watch.fd < 0 or libc.inotify_add_watch(watch.fd, os.fsencode(path), mask) < 0:
            number = ctypes.get_errno()
            watch.close()
            raise OSError(number, os.strerror(number), path)
        return watch

    def seen(self) -> int:
        """Returns the kinds of the events since the last call, all kinds if some were lost; 0: no
        event.
        """
        kinds = 0
        with contextlib.suppress(BlockingIOError):
            while events := os.read(self.fd, _EVENTS_BYTES):
                for _, kind, _, _ in struct.iter_unpack("=iIII", events):
                    kinds |= ~0 if kind & IN_Q_OVERFLOW else kind
        return kinds

    def close(self) -> None:
        """Ends the watch."""
        if self.fd >= 0:
            os.close(self.fd)


@contextlib.contextmanager
def writers_watched(fd: int, path: str, mask: int = WRITES) -> Iterator[Callable[[], bool]]:
    """Yields a function that is True if another program has the open file open for writing, has it
    mapped, or has changed or closed it since the last call. Raises EnvironmentProblem if the
    kernel provides no watch: then this cannot be known.
    """
    with system_errors(
        f"{path}: cannot be watched for writes by other programs",
        "raise the limit: sysctl fs.inotify.max_user_instances=1024",
    ):
        watch = Watch.opened(f"/proc/self/fd/{fd}", mask)

    def disturbed() -> bool:
        status = os.fstat(fd)
        users = in_use.writers(status) or in_use.mappers(status, path)
        return bool(watch.seen() or users)

    try:
        yield disturbed
    finally:
        watch.close()


# --- processes ------------------------------------------------------------------------------------


def has_ended(pid: int, started: int) -> bool:
    """True if the process with this number, which was running when another one started (in clock
    ticks since the boot), has ended: a zombie has, one that is still exiting has not.
    """
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return _is_over(fd, 0) or _started(in_use.PROC / str(pid)) > started
    finally:
        os.close(fd)


def _is_over(pidfd: int, within_s: float) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(within_s * 1000))


def wait_for_end(pidfd: int) -> None:
    """Returns when the process has ended and its children have been notified."""
    select.select([pidfd], [], [])


def _started(process: Path) -> int:
    """Start time of a process, in clock ticks since the boot; 0 if it no longer exists."""
    fields = in_use.read(process / "stat").rpartition(")")[2].split()
    return int(fields[19]) if len(fields) > 19 else 0


def _with_variable(name: str) -> Iterator[tuple[int, int]]:
    """Yields processes with `name`=/proc/PID/fd/N in their environment: their number, and PID."""
    for process in in_use.PROC.glob("[0-9]*"):
        try:
            environment = (process / "environ").read_bytes()
        except OSError:  # another user's process, which drivebay did not start, or it has ended
            continue
        for parent in re.findall(rf"\b{name}=/proc/(\d+)/fd/".encode(), environment):
            yield int(process.name), int(parent)


def started_by(parent: int, variable: str) -> list[int]:
    """Returns running processes that the drivebay with this process number has started."""
    return [pid for pid, by in _with_variable(variable) if by == parent]


def orphans(variable: str) -> list[int]:
    """Returns processes that a drivebay has started and that have outlived it."""
    return [
        pid
        for pid, parent in _with_variable(variable)
        if has_ended(parent, _started(in_use.PROC / str(pid)))
    ]


def has_argument(text: str) -> bool:
    """True if another process has this text as an argument."""
    wanted, own = text.encode(), str(os.getpid())
    for process in in_use.PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            if process.name != own and wanted in (process / "cmdline").read_bytes().split(b"\0"):
                return True
    return False


def end_all(pids: list[int], within_s: float) -> bool:
    """Kills these processes; True if all had ended within this time."""
    deadline, ended = time.monotonic() + within_s, True
    for pid in pids:
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(fd, signal.SIGKILL)
            ended = _is_over(fd, max(0.0, deadline - time.monotonic())) and ended
        finally:
            os.close(fd)
    return ended
