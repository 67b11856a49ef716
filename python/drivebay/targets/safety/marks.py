"""Marks that identify data as drivebay's own: for files on the file, for devices in a folder.

Sources: xattr(7); stat(2) for the times; the XDG Base Directory Specification for the folder. A
target is drivebay's own if it is as drivebay left it. Its mark records that state:

    file    the extended attribute `user.drivebay`, or `.NAME.drivebay` next to it on file systems
            without: its inode number, times of modification and change, a digest of some blocks
    device  a file named by its serial number in $XDG_STATE_HOME/drivebay/devices: a digest of both
            ends and of blocks all over it

A mark names the writer of the data: a review, whose data the next review may overwrite, or a
server, whose data (`drivebay serve --data`) is its hosts': only a server uses it without a
permission.

A write to a file changes its time of change (ctime), which nobody can set; so a file whose time of
modification was set back does not pass. While drivebay writes, the mark is open and valid for
nobody. If a review is killed, a witness (witness.py) waits for the end of the processes that it had
started, and marks the state in which they left the target: this mark is valid only for a review
that resumes the same result (`sessions`). If a server is killed its mark stays open, and the owner
names the file again.

Leaves out: changes that affect none of the blocks of the digest on a device; a user who sets the
system's clock back; FAT, whose time of change can be set: its files are never ours.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import stat
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from drivebay.common import documents, inotify
from drivebay.targets.safety import in_use, watch

ATTRIBUTE = "user.drivebay"
STATE_VARIABLE = "DRIVEBAY_STATE_DIR"
DIGEST_BLOCKS, BLOCK_BYTES = 32, 4096
NS = 1_000_000_000
# Writing the mark changes the file's time of change: it is written again until that time is
# within this of the time in the mark. 10 ms: the longest tick of the kernel's clock.
NOTED_NS = 10_000_000
NOTES_MAX = 50
# Times of files are those of the kernel's last tick, 10 ms at most: a write this long after an
# examination has a later time.
TICK_S = 0.02
# The same on file systems that keep whole seconds, or two (FAT).
SECONDS_TICK_S = 2.0
# Time that a witness may take after a kill, on a busy machine; guess.
WITNESS_S = 30.0
FAT = ("vfat", "msdos", "exfat")
# Parts in a device's digest, as many as fit into the seconds; the mark stores their number.
DEVICE_ENDS, DEVICE_BLOCKS, DEVICE_S = 64 * 2**20, 2048, 5.0
MIB = 2**20

State = Literal["open", "killed", "done"]
Writer = Literal["review", "server"]


@dataclass(frozen=True)
class Mark:
    """State in which drivebay (or, `killed`, a process that it had started) left a target, or
    (`open`) that it was writing to it; times in ns, 0 for devices. `session` is a random name of
    the claim; `digest` "" while open; `parts` the number of a device's parts in it; `writer` the
    owner of the data.
    """

    state: State
    session: str
    digest: str
    inode: int = 0
    mtime_ns: int = 0
    ctime_ns: int = 0
    parts: int = 0
    writer: Writer = "review"

    def encoded(self) -> bytes:
        """Returns the stored form."""
        return json.dumps(asdict(self)).encode()


def decoded(raw: bytes) -> Mark | None:
    """Parses a stored mark; None if it is not one of ours."""
    with contextlib.suppress(ValueError, TypeError, KeyError):
        found: dict[str, Any] = documents.from_json(raw)
        mark = Mark(**found)
        numbers = (mark.inode, mark.mtime_ns, mark.ctime_ns, mark.parts)
        words = (mark.session, mark.digest)
        if all(type(one) is int for one in numbers) and all(type(one) is str for one in words):
            known = mark.state in ("open", "killed", "done") and mark.writer in ("review", "server")
            return mark if known else None
    return None


def new_session() -> str:
    """Returns a unique name for a claim."""
    return os.urandom(16).hex()


def digest(fd: int, session: str) -> str:
    """Digest of some 4 KiB blocks of the open file, chosen by the session; read from the drive, not
    from memory. "" if one cannot be read.
    """
    places = drawn_blocks(os.lseek(fd, 0, os.SEEK_END), session, DIGEST_BLOCKS)
    return _digest(fd, [(at, BLOCK_BYTES) for at in places])[0]


def _digest(
    fd: int, parts: Sequence[tuple[int, int]], most_s: float = float("inf")
) -> tuple[str, int]:
    """Digest of these parts (offset, bytes), as many as are read in time; and their number."""
    sha, deadline, count = hashlib.sha256(), time.monotonic() + most_s, 0
    try:
        for at, length in parts:
            if time.monotonic() > deadline:
                break
            os.posix_fadvise(fd, at, length, os.POSIX_FADV_DONTNEED)
            sha.update(os.pread(fd, length, at))
            os.posix_fadvise(fd, at, length, os.POSIX_FADV_DONTNEED)
            count += 1
    except OSError:
        return "", 0
    return sha.hexdigest()[:32], count


def drawn_blocks(size_bytes: int, seed: str, count: int) -> list[int]:
    """Offsets of 4 KiB blocks, ascending, one drawn from each of `count` equal parts: data longer
    than two parts is always hit.

    >>> drawn_blocks(2**20, "a", 4) == drawn_blocks(2**20, "a", 4) != drawn_blocks(2**20, "b", 4)
    True
    """
    blocks = size_bytes // BLOCK_BYTES
    edges = [blocks * part // count for part in range(count + 1)]
    raw = hashlib.shake_256(seed.encode()).digest(8 * count)
    draws = [int.from_bytes(raw[8 * part : 8 * part + 8], "little") for part in range(count)]
    parts = zip(edges[:-1], edges[1:], draws, strict=True)
    return [(low + draw % (high - low)) * BLOCK_BYTES for low, high, draw in parts if high > low]


# --- files ----------------------------------------------------------------------------------------


def is_own(
    fd: int,
    path: str,
    sessions: Collection[str] = (),
    *,
    status: os.stat_result | None = None,
    writer: Writer = "review",
) -> bool:
    """True if the data of the open file is this writer's as it left it, or (for these sessions,
    whose result is resumed) as a kill left it; `status` is an earlier status of the file.
    """
    status = os.fstat(fd) if status is None else status
    mark = of_file(path)
    if mark is not None and mark.state == "open" and mark.session in sessions:
        _wait_for_witness(mark.session)
        mark, status = of_file(path), os.fstat(fd)
    if mark is None or mark.writer != writer or mark.inode != status.st_ino:
        return False
    if not _holds(mark, sessions):
        return False
    if in_use.file_system_of(status.st_dev) in FAT:
        return False
    same = status.st_mtime_ns == mark.mtime_ns
    return (
        same
        and 0 <= status.st_ctime_ns - mark.ctime_ns <= NOTED_NS
        and digest(fd, mark.session) == mark.digest
    )


def _holds(mark: Mark, sessions: Collection[str]) -> bool:
    allowed = mark.state == "done" or (mark.state == "killed" and mark.session in sessions)
    return allowed and mark.digest != ""


def _wait_for_witness(session: str) -> None:
    """Waits until the witness of a killed drivebay, which has the session as an argument, ends."""
    deadline = time.monotonic() + WITNESS_S
    while watch.has_argument(session) and time.monotonic() < deadline:
        time.sleep(0.05)


def note(
    fd: int,
    path: str,
    state: State,
    session: str,
    *,
    expected: tuple[int, int] | None = None,
    writer: Writer = "review",
) -> bool:
    """Mark the file as drivebay's: in its present state, or (`open`) as being written from here on.
    Without attributes or a place next to the file there is no mark, and the next review asks.
    False if the times are not those expected: the file has lost its mark. `fd`: the file.
    `path`: determines the place next to it. `expected`: the times of modification and change
    that it must still have.
    """
    found = "" if state == "open" else digest(fd, session)
    status = os.fstat(fd)
    if expected is not None and (status.st_mtime_ns, status.st_ctime_ns) != expected:
        remove(fd, path)
        return False

    def mark(ctime_ns: int) -> bytes:
        times = (status.st_mtime_ns, ctime_ns)
        return Mark(state, session, found, status.st_ino, *times, writer=writer).encoded()

    try:
        named_ns, ctime_ns = 0, status.st_ctime_ns
        # the first pass reads the present time from the file system's own clock
        for _ in range(NOTES_MAX):
            if 0 <= ctime_ns - named_ns <= NOTED_NS:
                break
            named_ns = ctime_ns
            os.setxattr(fd, ATTRIBUTE, mark(named_ns))
            ctime_ns = os.fstat(fd).st_ctime_ns
    except OSError as problem:
        if problem.errno == errno.ENOTSUP:
            _keep_beside(path, mark(status.st_ctime_ns))
    return True


def of_file(path: str) -> Mark | None:
    """Returns the mark of the file at the path."""
    try:
        return decoded(os.getxattr(path, ATTRIBUTE))
    except OSError as problem:
        return decoded(_read_own(_beside(path))) if problem.errno == errno.ENOTSUP else None


def remove(fd: int, path: str) -> None:
    """Removes the mark of a file that is not ours (any more)."""
    try:
        os.removexattr(fd, ATTRIBUTE)
    except OSError as problem:
        if problem.errno == errno.ENOTSUP:
            _unlink_beside(path)


def forget(path: str) -> None:
    """Removes the mark next to a deleted file, if there is one and it is drivebay's."""
    if not os.path.lexists(path):
        _unlink_beside(path)


def _unlink_beside(path: str) -> None:
    with contextlib.suppress(OSError):
        if decoded(_read_own(_beside(path))) is not None:
            os.unlink(_beside(path))


def _read_own(path: str | Path) -> bytes:
    """Reads a file of ours that nobody else can have written; b"" for any other."""
    with contextlib.suppress(OSError), in_use.opened(path, os.O_NOFOLLOW) as fd:
        status, others = os.fstat(fd), stat.S_IWGRP | stat.S_IWOTH
        regular = stat.S_ISREG(status.st_mode) and status.st_nlink == 1
        if regular and status.st_uid == os.geteuid() and not status.st_mode & others:
            return os.read(fd, 1000)
    return b""


def _keep_beside(path: str, text: bytes) -> None:
    """Stores a mark in the file next to it; another program's file is left unchanged."""
    beside = _beside(path)
    with contextlib.suppress(OSError):
        if os.path.lexists(beside) and decoded(_read_own(beside)) is None:
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(beside, flags, 0o600), "wb") as file:
            file.write(text)
            file.truncate()


def _beside(path: str) -> str:
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}{ATTRIBUTE.removeprefix('user')}")


class KeptMark:
    """The mark of a file that is written in steps. While a step writes, it is open; between steps
    it records how the last one left the file, and a change of the file then is not ours. Phases
    that only read see no write. `begun` are the file's times when the last step began.
    """

    def __init__(self, fd: int, path: str, session: str, writer: Writer = "review") -> None:
        self._fd, self._path, self.session, self._writer = fd, path, session, writer
        self.begin()

    def begin(self) -> None:
        """Begins a step of ours, to which all changes of the file from here on belong."""
        self.writing = True
        self.begun = _times(self._fd)
        note(self._fd, self._path, "open", self.session, writer=self._writer)

    def end(self) -> None:
        """Ends the step: the file is marked in its present state, unless another program has it
        open for writing, has it mapped or changes it meanwhile.
        """
        self.writing = False
        # Closing is no sign here: io_uring releases our file some time after its last request.
        with watch.writers_watched(self._fd, self._path, inotify.IN_MODIFY) as disturbed:
            others, before = disturbed(), _times(self._fd)
            wait_a_tick(self._fd)  # writes after this have a later time than our last write
            ours = note(
                self._fd, self._path, "done", self.session, expected=before, writer=self._writer
            )
            self._left = _times(self._fd)
            wait_a_tick(self._fd)  # and changes after this, a later time than the mark allows
            if others or disturbed() or not ours or self._left[0] != before[0]:
                self._left = (0, 0)
                remove(self._fd, self._path)

    @property
    def ours(self) -> bool:
        """True if nobody else has changed the file since our last step, as far as this can be
        detected.
        """
        return self.writing or _times(self._fd) == self._left

    def close(self, *, ours: bool = True) -> None:
        """Stops; the descriptor is still open. A file that is not ours any more loses its mark."""
        if not ours or not self.ours:
            remove(self._fd, self._path)
        elif self.writing:
            self.end()


def _times(fd: int) -> tuple[int, int]:
    status = os.fstat(fd)
    return status.st_mtime_ns, status.st_ctime_ns


def wait_a_tick(fd: int) -> None:
    """Waits until any later write to the file must give it another time."""
    status = os.fstat(fd)
    whole = status.st_mtime_ns % NS == status.st_ctime_ns % NS == 0
    time.sleep(SECONDS_TICK_S if whole else TICK_S)


# --- devices --------------------------------------------------------------------------------------


def state_folder() -> Path:
    """Folder for drivebay's data between commands; it may not exist yet."""
    if chosen := os.environ.get(STATE_VARIABLE):
        return Path(chosen)
    base = os.environ.get("XDG_STATE_HOME", "")
    try:
        return (Path(base) if base.startswith("/") else Path.home() / ".local/state") / "drivebay"
    except RuntimeError:  # a user without a home
        return Path("/var/lib/drivebay")


@contextlib.contextmanager
def owned(folder: Path) -> Iterator[Path]:
    """Provides the folder by a path that stays valid if its name changes; creates it if it is
    missing. Raises OSError if it is a link, another user's, or others can write to it: its
    content is not ours then.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(fd)
        if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise PermissionError(errno.EPERM, "it is not this user's alone")
        yield Path(f"/proc/self/fd/{fd}")
    finally:
        os.close(fd)


@contextlib.contextmanager
def _devices() -> Iterator[Path]:
    """Provides the folder of the devices' marks; raises as `owned`."""
    with owned(state_folder()) as base, owned(base / "devices") as at:
        yield at


def device_is_own(path: str, identity: str, sessions: Collection[str]) -> bool:
    """True if the device's data is drivebay's as it left it, as far as a digest of parts shows, or
    as a kill left it if its result is resumed. `identity` is the drive's lasting name.
    """
    mark = _of_device(identity)
    if mark is not None and mark.state == "open" and mark.session in sessions:
        _wait_for_witness(mark.session)
        mark = _of_device(identity)
    if mark is None or not _holds(mark, sessions):
        return False
    with contextlib.suppress(OSError), in_use.opened(path) as fd:
        return _digest(fd, _device_parts(fd, mark.session)[: mark.parts])[0] == mark.digest
    return False


def note_device(fd: int, identity: str, state: State, session: str) -> None:
    """Mark the device as drivebay's, in its present state or as being written. Without a folder
    that only we own there is no mark, and the next review asks.
    """
    found, parts = "", 0
    if state != "open":
        found, parts = _digest(fd, _device_parts(fd, session), DEVICE_S)
    mark = Mark(state, session, found, parts=parts)
    with contextlib.suppress(OSError), _devices() as at:
        beside = at / f".{new_session()}"
        with beside.open("xb") as file:
            file.write(mark.encoded())
        beside.replace(at / _device_name(identity))


def forget_device(identity: str) -> None:
    """Removes the mark of a device that has changed since we left it."""
    with contextlib.suppress(OSError), _devices() as at:
        (at / _device_name(identity)).unlink(missing_ok=True)


def _of_device(identity: str) -> Mark | None:
    with contextlib.suppress(OSError), _devices() as at:
        return decoded(_read_own(at / _device_name(identity)))
    return None


def _device_parts(fd: int, session: str) -> list[tuple[int, int]]:
    """Parts of a device, the most significant ones first: some blocks, its ends, more blocks."""
    size = os.lseek(fd, 0, os.SEEK_END)
    drawn = [(at, BLOCK_BYTES) for at in drawn_blocks(size, session, DEVICE_BLOCKS)]
    stride = max(1, len(drawn) // DIGEST_BLOCKS)
    ends = [
        (at, MIB)
        for near in range(0, min(DEVICE_ENDS, size), MIB)
        for at in (near, size - near - MIB)
        if at >= 0
    ]
    return [*drawn[::stride], *ends, *drawn]


def _device_name(identity: str) -> str:
    name = re.sub(r"[^A-Za-z0-9]+", "-", identity).strip("-")[-60:]
    unique = hashlib.sha256(identity.encode(errors="surrogateescape")).hexdigest()[:16]
    return f"{name}-{unique}.json"
