"""Outlives a drivebay that is killed, and says how that has left its target (marks).

Started when a target is claimed, as a process of its own session. It has a file open to be read; a
device, which may vanish and come back, it opens afterwards, if that is the same attachment still.
It reads its standard input: a byte says that drivebay has ended in order, the end without one that
it was killed. fio, which the kernel has told to end, is waited for then.

Leaves out: a power cut, and who kills everything: then the mark stays open, and holds for nobody;
what another program writes before it has looked, some hundredths of a second after the kill.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time

from drivebay.targets.safety import in_use, marks

FIO_VARIABLE = "DRIVEBAY_TARGET"
"""As targets.fio.job has it: in the environment of each fio."""
FIO_S = 20.0
SETTLE_S = 0.05
"""Requests of a process that was killed end after it; guess."""


class Witness:
    """The process beside us, for one target; `close` when it is ours no more. `fd`: the target.
    `path`: where it is. `device`: of a device, what names it for ever, and the kernel's number of
    its attachment."""

    def __init__(
        self, fd: int, path: str, session: str, device: tuple[str, str] | None = None
    ) -> None:
        node = os.devnull if device else f"/proc/self/fd/{fd}"
        own = os.open(node, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__, str(own), path, session, *(device or ())],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[own],
                start_new_session=True,
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(filter(os.path.isabs, sys.path)),
                    marks.WITNESS_VARIABLE: f"/proc/{os.getpid()}/fd/{own}",
                },
            )
        finally:
            os.close(own)

    def close(self) -> None:
        """Drivebay says itself how it has left the target."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(b".")
            self._process.stdin.close()
        self._process.wait()


def main() -> None:
    """Until drivebay has ended, and what it had started."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    fd = int(sys.argv[1])
    path, session, *device = sys.argv[2:]
    if sys.stdin.buffer.read(1):
        return
    deadline = time.monotonic() + FIO_S
    while in_use.orphans(FIO_VARIABLE) and time.monotonic() < deadline:
        time.sleep(SETTLE_S)
    time.sleep(SETTLE_S)
    if device:
        _note_device(path, session, *device)
        return
    mark = marks.of_file(path)
    if mark is not None and (mark.state, mark.session) == ("open", session):
        status = os.fstat(fd)
        marks.wait_a_tick(fd)
        seen = (status.st_mtime_ns, status.st_ctime_ns)
        marks.note(fd, path, "killed", session, expected=seen)


def _note_device(path: str, session: str, identity: str, sequence: str) -> None:
    with in_use.opened(path) as fd:
        if in_use.attachment(os.fstat(fd).st_rdev) == sequence:
            marks.note_device(fd, identity, "killed", session)


if __name__ == "__main__":
    main()
