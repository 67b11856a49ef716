"""The mark that says that data is drivebay's own: of files on the file, of devices in a folder.

Sources: xattr(7); stat(2) for the times; the XDG Base Directory Specification for the folder.
A target is drivebay's own if it is as drivebay left it. Its mark says how that was:

    file    the extended attribute `user.drivebay`, or `.NAME.drivebay` beside it where there are
            none: its inode number, times of modification and change, a digest of some blocks
    served  the attribute `user.drivebay.served`, of a file of `drivebay serve --data`: its inode
            number alone, as hosts write to it
    device  a file named by its serial number in $XDG_STATE_HOME/drivebay/devices: the digest alone

Whoever writes to a file moves its time of change (ctime), which nobody can set; so a file whose
time of modification was set back does not pass. While drivebay writes, the mark is open: it holds
for who goes on with the same result (`sessions`), and for nobody else.

Leaves out: what changes none of the blocks of the digest on a device; who sets the system's clock
back. Effect: such a change is taken for ours.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import threading
import time
from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from drivebay.common import documents

ATTRIBUTE, SERVED = "user.drivebay", "user.drivebay.served"
STATE_VARIABLE = "DRIVEBAY_STATE_DIR"
DIGEST_BLOCKS, BLOCK_BYTES = 32, 4096
EVERY_S = 1.0
NS = 1_000_000_000
NOTED_NS = 10_000_000
"""The mark itself moves the file's time of change: it is made again until that is within this of
the time that it names. 10 ms: the longest tick of the kernel's clock."""
NOTES_MAX = 50
TICK_S = 0.02
"""Times of files are those of the kernel's last tick, 10 ms at most: what is written this long
after a look has a later time."""
SECONDS_TICK_S = 2.0
"""The same on file systems that keep whole seconds, or two (FAT)."""
KILLED_NS = 10 * NS
"""A file that changed longer than this after the last note was not changed by what was killed;
guess: fio ends within milliseconds of a kill, and a busy machine may delay a note by seconds."""

State = Literal["open", "done"]


@dataclass(frozen=True)
class Mark:
    """How drivebay left a target, or (`open`) that it was writing to it; times in ns, 0 for
    devices. `session` is a random name that the taking has; `digest` "" while open."""

    state: State
    session: str
    digest: str
    inode: int = 0
    mtime_ns: int = 0
    ctime_ns: int = 0

    def encoded(self) -> bytes:
        """As it is kept."""
        return json.dumps(asdict(self)).encode()


def decoded(raw: bytes) -> Mark | None:
    """The mark that was kept so; None if it is none of ours."""
    with contextlib.suppress(ValueError, TypeError, KeyError):
        found: dict[str, Any] = documents.from_json(raw)
        mark = Mark(**found)
        numbers = (mark.inode, mark.mtime_ns, mark.ctime_ns)
        words = (mark.session, mark.digest)
        if all(type(one) is int for one in numbers) and all(type(one) is str for one in words):
            return mark if mark.state in ("open", "done") else None
    return None


def new_session() -> str:
    """A name that no other taking has."""
    return os.urandom(16).hex()


def digest(fd: int, session: str) -> str:
    """Of some 4 KiB blocks of the open file or device, which ones depends on the session; read from
    the drive, not from memory. "" if one cannot be read."""
    sha = hashlib.sha256()
    try:
        for at in drawn_blocks(os.lseek(fd, 0, os.SEEK_END), session, DIGEST_BLOCKS):
            os.posix_fadvise(fd, at, BLOCK_BYTES, os.POSIX_FADV_DONTNEED)
            sha.update(os.pread(fd, BLOCK_BYTES, at))
            os.posix_fadvise(fd, at, BLOCK_BYTES, os.POSIX_FADV_DONTNEED)
    except OSError:
        return ""
    return sha.hexdigest()[:32]


def drawn_blocks(size_bytes: int, seed: str, count: int) -> list[int]:
    """Offsets of 4 KiB blocks, ascending, one drawn from each of `count` equal parts: what is
    longer than two parts is always met.

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
    fd: int, path: str, sessions: Collection[str] = (), *, status: os.stat_result | None = None
) -> bool:
    """Whether the data of the open file is drivebay's as it left it, or (of these sessions, whose
    result is gone on with) as a kill left it; `status` is what was seen of it before."""
    status = os.fstat(fd) if status is None else status
    mark = of_file(path)
    if mark is None or mark.inode != status.st_ino:
        return False
    changed_ns = status.st_ctime_ns - mark.ctime_ns
    if mark.state == "done":
        same = status.st_mtime_ns == mark.mtime_ns and 0 <= changed_ns <= NOTED_NS
        return same and mark.digest != "" and digest(fd, mark.session) == mark.digest
    if mark.session not in sessions:
        return False
    # After the note nothing, or writes, which set both times alike.
    if status.st_mtime_ns == mark.mtime_ns:
        return 0 <= changed_ns <= NOTED_NS
    return status.st_mtime_ns == status.st_ctime_ns and 0 <= changed_ns <= KILLED_NS


def note(fd: int, path: str, state: State, session: str) -> None:
    """Mark the file as drivebay's: as it is now, or (`open`) being written from here on. Without
    attributes or a place beside the file there is no mark, and the next review asks. `fd` is the
    file, open for writing; `path` says where the place beside it is."""
    status = os.fstat(fd)
    found = digest(fd, session) if state == "done" else ""

    def mark(ctime_ns: int) -> bytes:
        one = Mark(state, session, found, status.st_ino, status.st_mtime_ns, ctime_ns)
        return one.encoded()

    try:
        named_ns, ctime_ns = 0, status.st_ctime_ns
        for _ in range(NOTES_MAX):  # the first tells what time it is by the file system's own clock
            if 0 <= ctime_ns - named_ns <= NOTED_NS:
                break
            named_ns = ctime_ns
            os.setxattr(fd, ATTRIBUTE, mark(named_ns))
            ctime_ns = os.fstat(fd).st_ctime_ns
    except OSError:
        with contextlib.suppress(OSError):
            if os.path.lexists(_beside(path)) and of_file(path) is None:
                return  # somebody else's file of that name
            flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with open(os.open(_beside(path), flags, 0o666), "wb") as file:
                file.write(mark(status.st_ctime_ns))
                file.truncate()


def of_file(path: str) -> Mark | None:
    """The mark of the file at the path."""
    try:
        return decoded(os.getxattr(path, ATTRIBUTE))
    except OSError:
        try:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with open(os.open(_beside(path), flags), "rb") as file:
                return decoded(file.read(1000))
        except OSError:
            return None


def remove(fd: int, path: str) -> None:
    """The file is not ours, or not any more."""
    with contextlib.suppress(OSError):
        os.removexattr(fd, ATTRIBUTE)
        return
    with contextlib.suppress(OSError):
        if of_file(path) is not None:
            os.unlink(_beside(path))


def forget(path: str) -> None:
    """Remove the mark beside a file that is gone, if there is one and it is drivebay's."""
    with contextlib.suppress(OSError):
        if not os.path.lexists(path) and of_file(path) is not None:
            os.unlink(_beside(path))


def _beside(path: str) -> str:
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.drivebay")


def is_served(path: str) -> bool:
    """Whether the file's data is that of a served drive, whoever has written it."""
    with contextlib.suppress(OSError):
        inode = str(os.stat(path).st_ino).encode()
        try:
            return os.getxattr(path, SERVED) == inode
        except OSError:
            return _said_beside(path) == inode
    return False


def note_served(path: str) -> None:
    """Mark a file of data that is served: by an attribute or, where there are none, by a file
    beside it. Without either the next server asks again."""
    with contextlib.suppress(OSError):
        inode = str(os.stat(path).st_ino).encode()
        try:
            os.setxattr(path, SERVED, inode)
        except OSError:
            if _said_beside(path).isdigit() or not os.path.lexists(_served_beside(path)):
                flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
                with open(os.open(_served_beside(path), flags, 0o666), "wb") as file:
                    file.write(inode)
                    file.truncate()


def _said_beside(path: str) -> bytes:
    with contextlib.suppress(OSError):
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(_served_beside(path), flags), "rb") as file:
            return file.read(100)
    return b""


def _served_beside(path: str) -> str:
    return f"{_beside(path)}.served"


class KeptMark:
    """The mark of a file that is written in steps. While a step writes, it is kept up to date, so
    that after a kill the file's owner is not taken for us; between steps it says how the last one
    left the file, and who changes the file then is not us. Phases that only read see no write.
    `begun_ns` is the file's time of modification when the last step began."""

    def __init__(self, fd: int, path: str, session: str) -> None:
        self._fd, self._path, self.session = fd, path, session
        self._over = threading.Event()
        self._mutex = threading.Lock()
        self.begin()
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._thread.start()

    def begin(self) -> None:
        """What changes the file from here on is a step of ours."""
        with self._mutex:
            self.writing = True
            # Before the note: what changes after it is noted, however late the thread looks.
            self.begun_ns = self._noted = os.fstat(self._fd).st_mtime_ns
            note(self._fd, self._path, "open", self.session)

    def end(self) -> None:
        """The step is over: the file is as it left it."""
        with self._mutex:
            self.writing = False
            before = os.fstat(self._fd).st_mtime_ns
            wait_a_tick(self._fd)  # what is written after this has a later time than our last write
            note(self._fd, self._path, "done", self.session)
            self._left = _times(self._fd)
            wait_a_tick(self._fd)  # and what is done to it, a later one than the mark allows
            if self._left[0] != before:  # by somebody else, just now
                self._left = (0, 0)

    @property
    def ours(self) -> bool:
        """Whether nobody else has changed the file since our last step, as far as can be told."""
        return self.writing or _times(self._fd) == self._left

    def _keep(self) -> None:
        while not self._over.wait(EVERY_S):
            with self._mutex:
                if self.writing and (now := os.fstat(self._fd).st_mtime_ns) != self._noted:
                    self._noted = now
                    note(self._fd, self._path, "open", self.session)

    def close(self, *, ours: bool = True) -> None:
        """Stop; the descriptor is still open. A file that is not ours any more loses its mark."""
        self._over.set()
        self._thread.join()
        if not ours or not self.ours:
            remove(self._fd, self._path)
        elif self.writing:
            self.end()


def _times(fd: int) -> tuple[int, int]:
    status = os.fstat(fd)
    return status.st_mtime_ns, status.st_ctime_ns


def wait_a_tick(fd: int) -> None:
    """Until whatever is written to the file from here on must give it another time."""
    status = os.fstat(fd)
    whole = status.st_mtime_ns % NS == status.st_ctime_ns % NS == 0
    time.sleep(SECONDS_TICK_S if whole else TICK_S)


# --- devices --------------------------------------------------------------------------------------


def state_folder() -> Path:
    """Where drivebay keeps what it must remember between commands; it may not be there yet."""
    if chosen := os.environ.get(STATE_VARIABLE):
        return Path(chosen)
    base = os.environ.get("XDG_STATE_HOME", "")
    try:
        return (Path(base) if base.startswith("/") else Path.home() / ".local/state") / "drivebay"
    except RuntimeError:  # a user without a home
        return Path("/var/lib/drivebay")


def device_is_own(path: str, identity: str, sessions: Collection[str]) -> bool:
    """Whether the device's data is drivebay's as it left it, as far as a digest of some blocks
    tells, or a killed command's whose result is gone on with. `identity` names the drive for ever.
    """
    try:
        with _place(identity).open("rb") as file:
            mark = (
                decoded(file.read(1000)) if os.fstat(file.fileno()).st_uid == os.geteuid() else None
            )
        if mark is None:
            return False
        if mark.state == "open":
            return mark.session in sessions
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return mark.digest != "" and digest(fd, mark.session) == mark.digest
        finally:
            os.close(fd)
    except OSError:
        return False


def note_device(fd: int, identity: str, state: State, session: str) -> None:
    """Mark the device as drivebay's, as it is now or being written. Without a folder to write to
    there is no mark, and the next review asks."""
    with contextlib.suppress(OSError):
        mark = Mark(state, session, digest(fd, session) if state == "done" else "")
        place = _place(identity)
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        beside = place.with_suffix(f".{os.getpid()}")
        beside.write_bytes(mark.encoded())
        beside.replace(place)


def _place(identity: str) -> Path:
    name = re.sub(r"[^A-Za-z0-9]+", "-", identity).strip("-")[-60:]
    unique = hashlib.sha256(identity.encode(errors="surrogateescape")).hexdigest()[:16]
    return state_folder() / "devices" / f"{name}-{unique}.json"
