"""Purge: tell the storage that nothing in the span is needed any more, and see whether it listened.

Sources: fallocate(2) for files; BLKDISCARD of linux/fs.h for block devices; reading back because
erases that do not erase are a known complaint (nvme-cli issues 84, 600, 2677).
A file gets a hole as large as itself; whether the drive below hears of it depends on the file
system (mount option discard). A device gets a discard of all its blocks. Marks written before
tell afterwards whether the old data is still there.

Leaves out: NVMe Format and Sanitize and ATA Secure Erase, which may brick a drive that loses power
meanwhile. Effect: a drive that ignores discards is not purged; the record says so.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import struct
from collections.abc import Callable
from typing import Any, Literal

MARK_BYTES = 4096
MARKS = 16
CHUNK_BYTES = 2**30
_PUNCH_HOLE_KEEP_SIZE = 0x02 | 0x01
_BLKDISCARD = 0x1277
_UNSUPPORTED = (errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL, errno.ENOSYS)


def purge(
    fd: int,
    *,
    kind: Literal["file", "block"],
    capacity_bytes: int,
    seed: int,
    step: Callable[[float], None],
) -> dict[str, Any]:
    """Discard the first `capacity_bytes` of an open file or device.

    `step` is called with the share done (0 to 1) between chunks, and may raise to stop.

    Returns
    -------
    A record for the result: `method`, `supported`, `marks`, `marks_gone` (None if not supported).
    Marks that are still there after a supported purge mean that the storage did not forget.

    Raises
    ------
    OSError
        If reading, writing or discarding fails.
    """
    method = "fallocate(PUNCH_HOLE)" if kind == "file" else "ioctl(BLKDISCARD)"
    places = mark_places(capacity_bytes)
    marks = {place: _mark(seed, place) for place in places}
    with DirectIo(fd) as direct:
        for place, mark in marks.items():
            direct.write(place, mark)
        os.fsync(fd)
        done = 0
        while done < capacity_bytes:
            step(done / capacity_bytes)
            length = min(CHUNK_BYTES, capacity_bytes - done)
            try:
                _discard(fd, kind, done, length)
            except OSError as problem:
                if problem.errno not in _UNSUPPORTED or done > 0:
                    raise
                return {"method": method, "supported": False, "marks": MARKS, "marks_gone": None}
            done += length
        os.fsync(fd)
        gone = sum(direct.read(place) != mark for place, mark in marks.items())
    return {"method": method, "supported": True, "marks": len(marks), "marks_gone": gone}


def mark_places(capacity_bytes: int) -> list[int]:
    """Offsets of the marks: spread evenly, with the first and the last 4 KiB.

    >>> mark_places(2**20)[0], mark_places(2**20)[-1], len(mark_places(2**20))
    (0, 1044480, 16)
    """
    last = capacity_bytes // MARK_BYTES - 1
    return [last * index // (MARKS - 1) * MARK_BYTES for index in range(MARKS)]


def _mark(seed: int, place: int) -> bytes:
    return struct.pack("<QQ", seed & 2**64 - 1, place) * (MARK_BYTES // 16)


def _discard(fd: int, kind: str, start: int, length: int) -> None:
    if kind == "block":
        fcntl.ioctl(fd, _BLKDISCARD, struct.pack("QQ", start, length))
        return
    libc = ctypes.CDLL(None, use_errno=True)
    libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    if libc.fallocate(fd, _PUNCH_HOLE_KEEP_SIZE, start, length) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


class DirectIo:
    """Reads and writes of 4 KiB past the page cache, through an O_DIRECT descriptor of our own."""

    def __init__(self, fd: int) -> None:
        self._fd = os.open(f"/proc/self/fd/{fd}", os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC)
        self._page = mmap.mmap(-1, MARK_BYTES)  # aligned to the page, as O_DIRECT wants it

    def write(self, offset: int, data: bytes) -> None:
        """Write one mark."""
        self._page[:] = data
        os.pwritev(self._fd, [self._page], offset)

    def read(self, offset: int) -> bytes:
        """Read 4 KiB."""
        os.preadv(self._fd, [self._page], offset)
        return bytes(self._page)

    def __enter__(self) -> DirectIo:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)
        self._page.close()
