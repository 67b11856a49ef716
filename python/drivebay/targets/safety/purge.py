"""Purge: makes the storage discard everything in the span, and checks the result.

Sources: fallocate(2) for files; BLKDISCARD of linux/fs.h for block devices; the drive's own erases
(erase); reading back because erases that do not erase are a known complaint (nvme-cli issues 84,
600, 2677). A file gets a hole as large as itself; the file system decides whether the drive below
is informed (mount option discard). A device is purged by the strongest erase that it offers, else
by a discard of all its blocks. Marks written before show afterwards if the old data is still there;
if it is, the next method is tried; the record lists all of them.

Leaves out: unreachable copies in the flash; only readable data is checked.
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

from drivebay.targets.safety import erase
from drivebay.targets.safety.erase import EraseError, EraseMethod
from drivebay.targets.safety.handle import ExclusiveHandle

MARK_BYTES = 4096
MARKS = 16
CHUNK_BYTES = 2**30
_PUNCH_HOLE_KEEP_SIZE = 0x02 | 0x01
_BLKDISCARD = 0x1277
_UNSUPPORTED = (errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL, errno.ENOSYS)


def purge(
    handle: ExclusiveHandle, *, own_erases: bool, seed: int, step: Callable[[float], None]
) -> dict[str, Any]:
    """Purge the file or device that is held.

    `own_erases` allows a device's own (NVMe Format and so on) besides discarding. `step` is called
    with the share done (0 to 1), and may raise to stop. The device may have moved afterwards:
    `handle` has followed it. Raises OSError if reading, writing or discarding fails; DrivebayError
    if the device may no longer be written, or is gone after an erase.

    Returns
    -------
    A record for the result: `method` (None if nothing worked), `supported`, `marks`, `marks_gone`
    (None if not supported), `reads_after` ("zeros", "ones", "other") and `tried`: each way with its
    `outcome` ("not offered", "failed", "done") and `why`. Marks that are still there after a
    supported purge mean that the storage kept its data.
    """
    device = handle.target.device
    methods = erase.erase_methods(device) if device is not None and own_erases else []
    tried: list[dict[str, Any]] = []
    last: dict[str, Any] = {"method": None, "supported": False, "marks": MARKS, "marks_gone": None}
    for method in [*methods, _discarding(handle)]:
        if method.refused:
            tried.append({"method": method.name, "outcome": "not offered", "why": method.refused})
            continue
        marks = _write_marks(handle.fd(to_write=True), handle.target.capacity_bytes, seed)
        try:
            handle.fd(to_write=True)  # checked once more, immediately before
            method.erase(handle.target.path, step)
        except EraseError as problem:
            tried.append({"method": method.name, "outcome": "failed", "why": str(problem)})
            handle.after_reset()
            continue
        with DirectIo(handle.after_reset()) as direct:
            found = [direct.read(place) for place in marks]
        gone = sum(now != mark for now, mark in zip(found, marks.values(), strict=True))
        tried.append({"method": method.name, "outcome": "done", "marks_gone": gone})
        last |= {"method": method.name, "supported": True, "marks_gone": gone}
        last["reads_after"] = in_a_word(b"".join(found))
        if gone == MARKS:
            break
    handle.fd(to_write=False)  # nothing more is written
    return {**last, "tried": tried}


def _write_marks(fd: int, capacity_bytes: int, seed: int) -> dict[int, bytes]:
    marks = {place: mark_of(seed, place) for place in mark_places(capacity_bytes)}
    with DirectIo(fd) as direct:
        for place, mark in marks.items():
            direct.write(place, mark)
    os.fsync(fd)
    return marks


def in_a_word(data: bytes) -> Literal["zeros", "ones", "other"]:
    """Classifies the data read: "zeros", "ones" (every byte 0xFF) or "other"."""
    if data.count(0) == len(data):
        return "zeros"
    return "ones" if data.count(0xFF) == len(data) else "other"


def _discarding(handle: ExclusiveHandle) -> EraseMethod:
    name = "fallocate(PUNCH_HOLE)" if handle.target.kind == "file" else "ioctl(BLKDISCARD)"
    return EraseMethod(
        name, lambda _path, step: discard(handle, 0, handle.target.capacity_bytes, step)
    )


def discard(
    handle: ExclusiveHandle, start: int, length: int, step: Callable[[float], None]
) -> None:
    """Discard a range of the file or device that is held. Raises EraseError if it offers no
    discard."""
    fd, done = handle.fd(to_write=True), 0
    while done < length:
        step(done / length)
        part = min(CHUNK_BYTES, length - done)
        try:
            _discard(fd, handle.target.kind, start + done, part)
        except OSError as problem:
            if problem.errno not in _UNSUPPORTED or done > 0:
                raise
            raise EraseError(f"not supported here ({problem.strerror})") from None
        done += part
    os.fsync(fd)


def mark_places(capacity_bytes: int) -> list[int]:
    """Offsets of the marks: spread evenly, with the first and the last 4 KiB.

    >>> mark_places(2**20)[0], mark_places(2**20)[-1], len(mark_places(2**20))
    (0, 1044480, 16)
    """
    last = capacity_bytes // MARK_BYTES - 1
    return [last * index // (MARKS - 1) * MARK_BYTES for index in range(MARKS)]


def mark_of(seed: int, place: int) -> bytes:
    """Returns 4 KiB that are unique to the place and the seed."""
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
        self._page = mmap.mmap(-1, MARK_BYTES)  # aligned to the page, as O_DIRECT requires

    def write(self, offset: int, data: bytes) -> None:
        """Write the mark of one block, past the page cache."""
        self._page[:] = data
        os.pwritev(self._fd, [self._page], offset)

    def read(self, offset: int) -> bytes:
        """Read a block of 4 KiB, past the page cache."""
        os.preadv(self._fd, [self._page], offset)
        return bytes(self._page)

    def __enter__(self) -> DirectIo:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)
        self._page.close()
