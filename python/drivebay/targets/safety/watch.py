"""Detection of programs that open or change a file or device under examination, and of processes
that end.

Sources: pidfd_open(2) and pidfd_send_signal(2); proc(5) for the environment and start
of a process. Times and contents are each read once. A write between two examinations is detected
here: a program that has the file open now is found in /proc (in_use), and one that closed it since
the watch began left an event. A mapping of the file keeps it open, so it leaves that event as well.

Leaves out: writes from another host (network file systems), and stores through a mapping by a
process that we may not inspect and that keeps the mapping.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from drivebay.common.files import system_errors
from drivebay.common.inotify import WRITES, Watch
from drivebay.targets.safety import in_use


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
