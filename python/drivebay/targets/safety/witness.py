"""Process that outlives a killed drivebay, and marks how the kill has left its target (marks).

Started when a target is claimed, as a process with its own session. It has a file open for reading;
a device, which may vanish and come back, it opens afterwards, if the attachment is still the same.
It reads its standard input: a byte means that drivebay has ended normally, the end without a byte
that it was killed. Then it waits until drivebay has ended (a pidfd), kills the fio that drivebay
had started, and marks the target, if nothing else may have written to it since: fio ended within
`AT_ONCE_S`, nobody opened the target until then nor wrote to it afterwards, and nobody has it open
for writing or mapped.

Leaves out: a power cut, and a kill of all processes: then the mark stays open, and is valid for
nobody. Not detected: writes of another program within some milliseconds of the kill, if it had the
target open before and closes it in that time.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time

from drivebay.common import inotify
from drivebay.targets.safety import in_use, marks, watch

# Same as in targets.fio.job: in the environment of each fio.
FIO_VARIABLE = "DRIVEBAY_TARGET"
# A fio that has not ended this long after its kill waits for a drive that hangs: writes during
# that time could be anyone's. guess: requests of a healthy drive end within tens of milliseconds.
AT_ONCE_S = 1.0
_EVENTS = inotify.WRITES | inotify.IN_OPEN
# Requests of a killed process may end after it; guess.
SETTLE_S = 0.05


class Witness:
    """The witness process of one target; call `close` when the target is released. `fd`: the
    target. `path`: its path. `device`: for a device, its lasting name, and the kernel's number
    of its attachment.
    """

    def __init__(
        self, fd: int, path: str, session: str, device: tuple[str, str] | None = None
    ) -> None:
        node = os.devnull if device else f"/proc/self/fd/{fd}"
        own = os.open(node, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        us, events = os.pidfd_open(os.getpid()), inotify.Watch(-1)
        # without a watch, a target that a fio had open is not marked after a kill
        with contextlib.suppress(OSError):
            events = inotify.Watch.opened(path if device else f"/proc/self/fd/{fd}", _EVENTS)
        numbers = [str(number) for number in (own, us, os.getpid(), events.fd)]
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__, *numbers, path, session, *(device or ())],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[number for number in (own, us, events.fd) if number >= 0],
                start_new_session=True,
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(filter(os.path.isabs, sys.path)),
                },
            )
        finally:
            os.close(own)
            os.close(us)
            events.close()

    def close(self) -> None:
        """Ends the witness; drivebay itself marks how it has left the target."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(b".")
            self._process.stdin.close()
        self._process.wait()


def main() -> None:
    """Waits until drivebay and its fio have ended, then marks the target."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    fd, drivebay, pid, events_fd = (int(text) for text in sys.argv[1:5])
    path, session, *device = sys.argv[5:]
    events = inotify.Watch(events_fd) if events_fd >= 0 else None
    if sys.stdin.buffer.read(1):
        return
    watch.wait_for_end(drivebay)
    if events is not None:
        events.seen()  # events of drivebay and fio
    fios = watch.started_by(pid, FIO_VARIABLE)
    if not watch.end_all(fios, AT_ONCE_S):
        return
    if fios and (events is None or events.seen() & inotify.IN_OPEN):
        return
    time.sleep(SETTLE_S)
    if device:
        _note_device(path, session, events, *device)
        return
    mark = marks.of_file(path)
    if mark is not None and (mark.state, mark.session) == ("open", session):
        marks.wait_a_tick(fd)
        status = os.fstat(fd)
        if not _used_by_others(status, path, events):
            seen = (status.st_mtime_ns, status.st_ctime_ns)
            marks.note(fd, path, "killed", session, expected=seen)


def _used_by_others(status: os.stat_result, path: str, events: inotify.Watch | None) -> bool:
    users = in_use.writers(status) or in_use.mappers(status, path)
    return bool(users or (events is not None and events.seen() & inotify.WRITES))


def _note_device(
    path: str, session: str, events: inotify.Watch | None, identity: str, sequence: str
) -> None:
    if _used_by_others(os.stat(path), path, events):
        return
    with in_use.opened(path) as fd:
        if in_use.attachment(os.fstat(fd).st_rdev) == sequence:
            marks.note_device(fd, identity, "killed", session)


if __name__ == "__main__":
    main()
