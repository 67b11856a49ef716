"""What a file or block device bears: partition tables, file systems, members of something larger.

Sources: signatures as libblkid knows them; xattr(7) and lseek(2) for files. Nothing here writes,
but for the mark that says that a file's data is drivebay's own.

A file is drivebay's own from its first write on: the extended attribute `user.drivebay`, or the
file `.NAME.drivebay` beside it where there are no attributes, names its inode, and its time of
change as drivebay left it. A copy, or a file that somebody has written since, is not.

Leaves out: what somebody else writes to a file while drivebay writes to it; nothing tells the two.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from drivebay.targets.safety import in_use
from drivebay.targets.safety.in_use import read
from drivebay.targets.safety.libblkid import SECTOR_BYTES, Area, ProbeError, areas

_SUITES = ("btrfs", "bcache", "bcachefs", "stratis", "drbd", "ceph_bluestore", "oracleasm", "vdo")
_MAPPED = ("crypto_LUKS", "BitLocker", "cs_fvault2", "DM_integrity", "DM_snapshot_cow")
MEMBERS = frozenset(
    (*_SUITES, *_MAPPED, "DM_verity_hash", "swap", "swsuspend", "jbd", "ubi", "VMFS")
)
"""What libblkid calls parts of something larger, besides all that end in _member."""
_WORDS = {
    "LVM2_member": "an LVM physical volume",
    "linux_raid_member": "a member of an MD RAID",
    "zfs_member": "a member of a ZFS pool",
    "crypto_LUKS": "an encrypted volume (LUKS)",
    "bcache": "a bcache device",
    "swap": "swap space",
    "jbd": "an external journal (jbd)",
    "gpt": "a partition table (gpt)",
    "PMBR": "a partition table (protective MBR)",
    "dos": "a partition table (dos)",
}
_TABLES = ("gpt", "PMBR", "dos", "atari", "mac", "bsd", "sun", "sgi", "minix")
MARK = "user.drivebay"
_MARK = re.compile(r"(\d+):(open|done):(\d+)")
"""Inode, whether it was being written, and time of change in ns."""
MARK_EVERY_S = 2.0
KILLED_S = 60.0
"""A file that changed longer than this after the last note is not ours; guess: fio ends within
milliseconds of a kill, and a busy machine may delay a note by seconds."""
_CHUNK_BYTES = 2**22


@dataclass(frozen=True)
class Contents:
    """What was found. `members` and `releasable` are sentences that go on from "it ..."; `hidden`
    are where partitions begin that a table names and the kernel does not show."""

    areas: tuple[tuple[str, Area], ...] = ()
    problem: str = ""
    hidden: tuple[int, ...] = ()
    members: tuple[str, ...] = field(init=False)
    releasable: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        members: list[str] = []
        others: list[str] = []
        for where, area in self.areas:
            for one in area.signatures:
                member = one.kind in MEMBERS or one.kind.endswith("_member")
                words = _WORDS.get(one.kind, f"the signature of {one.kind}")
                (members if member else others).append(f"{where}bears {words}")
        object.__setattr__(self, "members", tuple(members))
        object.__setattr__(self, "releasable", tuple(others))

    def named_by(self, reference: str) -> Iterator[str]:
        """Where this is what UUID=, LABEL=, PARTUUID=, PARTLABEL= or a by-... path names."""
        key, value = _tag(reference)
        for where, area in self.areas:
            names = {
                "UUID": [one.uuid for one in area.signatures],
                "LABEL": [one.label for one in area.signatures],
                "PARTUUID": [area.part_uuid],
                "PARTLABEL": [area.part_label],
            }.get(key, [])
            if value and value.lower() in (name.lower() for name in names):
                yield where

    def file_systems(self) -> Iterator[str]:
        """Where there is something that could be mounted."""
        for where, area in self.areas:
            if any(one.kind not in _TABLES for one in area.signatures):
                yield where


def _tag(reference: str) -> tuple[str, str]:
    """The kind and value of a reference, quotes and udev's escapes resolved; "" for other paths."""
    path = re.fullmatch(r"/dev/disk/by-(uuid|label|partuuid|partlabel)/(.*)", reference)
    if path:
        plain = re.sub(r"\\x([0-9a-fA-F]{2})", lambda hit: chr(int(hit[1], 16)), path[2])
        return path[1].upper(), plain
    key, equals, value = reference.partition("=")
    return (key, value.strip('"')) if equals else ("", "")


def of_device(path: str, name: str, capacity_bytes: int) -> Contents:
    """What a block device bears, its partitions by its own table and by the kernel's."""
    shown = {
        int(read(in_use.SYS_BLOCK / part / "start") or 0) * SECTOR_BYTES: part
        for part in in_use.partitions(name)
    }
    try:
        found = _search(path, capacity_bytes)
        hidden = [one.start for one in found if one.depth == 1 and one.start not in shown]
        named = {one.start for one in found}
        for start, part in shown.items():
            if start not in named:  # a partition without a table: addpart, another label
                length = int(read(in_use.SYS_BLOCK / part / "size") or 0) * SECTOR_BYTES
                found += _search(path, length, start)
    except (OSError, ProbeError) as problem:
        return Contents(problem=str(getattr(problem, "strerror", None) or problem))
    return Contents(tuple((_where(one, shown), one) for one in found), hidden=tuple(hidden))


def of_file(path: str, size_bytes: int) -> Contents:
    """What a regular file bears, as a disk's image."""
    try:
        found = _search(path, size_bytes)
    except (OSError, ProbeError) as problem:
        return Contents(problem=str(getattr(problem, "strerror", None) or problem))
    return Contents(tuple((_where(one, {}), one) for one in found))


def _search(path: str, length: int, start: int = 0) -> list[Area]:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return areas(fd, length, start)
    finally:
        os.close(fd)


def _where(area: Area, shown: dict[int, str]) -> str:
    if area.start == 0:
        return ""
    if part := shown.get(area.start):
        return f"has a partition, /dev/{part.replace('!', '/')}, that "
    return f"has a partition at byte {area.start} that "


# --- files: whose data it is ----------------------------------------------------------------------


def foreign(path: str, status: os.stat_result, found: Contents) -> Iterator[str]:
    """What in a file drivebay did not write, in words."""
    if found.problem:
        yield f"cannot be searched for data: {found.problem}"
    borne = (*found.members, *found.releasable)
    if is_own(path, status):
        yield from borne
    elif borne or not is_blank(path):
        yield "holds data that drivebay did not write"
        yield from borne


def is_blank(path: str) -> bool:
    """Whether every byte is zero; holes are not read."""
    zeros = bytes(_CHUNK_BYTES)
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size, at = os.fstat(fd).st_size, 0
        while at < size:
            try:
                begin = os.lseek(fd, at, os.SEEK_DATA)
            except OSError:  # ENXIO: a hole up to the end
                return True
            at = os.lseek(fd, begin, os.SEEK_HOLE)
            while begin < at:
                chunk = os.pread(fd, min(_CHUNK_BYTES, at - begin), begin)
                if not chunk or chunk != zeros[: len(chunk)]:
                    return False
                begin += len(chunk)
        return True
    finally:
        os.close(fd)


def is_own(path: str, status: os.stat_result) -> bool:
    """Whether the file's data is drivebay's, and nobody has written to it since.

    A review that was killed has noted the time of change not long before: `KeptMark`.
    """
    found = _MARK.fullmatch(_mark(path))
    if found is None or int(found[1]) != status.st_ino:
        return False
    later_ns = status.st_mtime_ns - int(found[3])
    return later_ns == 0 or (found[2] == "open" and 0 < later_ns <= KILLED_S * 1e9)


def mark_own(fd: int, path: str, *, being_written: bool) -> None:
    """Note that the file's data is drivebay's as it is now; `being_written`: and what is written in
    the next seconds. Without attributes or a place beside the file there is no note, and the next
    review asks. `fd` is the file, open for writing; `path` says where the place beside it is."""
    _note(fd, path, "open" if being_written else "done", os.fstat(fd).st_mtime_ns)


def _note(fd: int, path: str, state: str, mtime_ns: int) -> None:
    text = f"{os.fstat(fd).st_ino}:{state}:{mtime_ns}".encode()
    try:
        os.setxattr(fd, MARK, text)
    except OSError:
        beside = _beside(path)
        with contextlib.suppress(OSError):
            if os.path.lexists(beside) and not _MARK.fullmatch(_mark(path)):
                return  # somebody else's file of that name
            flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with open(os.open(beside, flags, 0o666), "wb") as file:
                file.write(text)
                file.truncate()


def forget(path: str) -> None:
    """Remove the note beside a file that is gone, if there is one and it is drivebay's."""
    with contextlib.suppress(OSError):
        if not os.path.lexists(path) and _MARK.fullmatch(_mark(path)):
            os.unlink(_beside(path))


class KeptMark:
    """The note of a file that is written in steps. While a step writes, it is kept up to date, so
    that after a kill the file's owner is not taken for us; between steps it says how the last one
    left the file, and who changes the file then is not us. Phases that only read see no write."""

    def __init__(self, fd: int, path: str) -> None:
        self._fd, self._path = fd, path
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
            self._noted = os.fstat(self._fd).st_mtime_ns
            mark_own(self._fd, self._path, being_written=True)

    def end(self) -> None:
        """The step is over: the file is as it left it."""
        with self._mutex:
            self.writing = False
            self._noted = os.fstat(self._fd).st_mtime_ns
            _note(self._fd, self._path, "done", self._noted)

    @property
    def ours(self) -> bool:
        """Whether nobody else has changed the file since our last step, as far as can be told."""
        return self.writing or os.fstat(self._fd).st_mtime_ns == self._noted

    def _keep(self) -> None:
        while not self._over.wait(MARK_EVERY_S):
            with self._mutex:
                if self.writing and (now := os.fstat(self._fd).st_mtime_ns) != self._noted:
                    self._noted = now
                    mark_own(self._fd, self._path, being_written=True)

    def close(self, *, ours: bool = True) -> None:
        """Stop; the descriptor is still open. A file that is not ours any more loses its note."""
        self._over.set()
        self._thread.join()
        if not ours:
            _note(self._fd, self._path, "done", 0)
        elif self.writing:
            self.end()


def _mark(path: str) -> str:
    try:
        return os.getxattr(path, MARK).decode(errors="replace")
    except OSError:
        try:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with open(os.open(_beside(path), flags), "rb") as file:
                return file.read(100).decode(errors="replace")
        except OSError:
            return ""


def _beside(path: str) -> str:
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.drivebay")
