"""Detection of programs that open, change or close a file. Source: inotify(7)."""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct

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
