"""Contents of a file or block device: partition tables, file systems, members of something larger.

Sources: signatures as libblkid knows them; lseek(2) for the holes of files. Nothing here writes. A
file is read to its end for data without a signature; on a device its ends, blocks drawn all over
it, and in the remaining time all of a device up to `WHOLE_BYTES`.

Leaves out: on a larger or slow device, data shorter than two 2,048th parts of it that no drawn
block hits.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass

from drivebay.targets.safety import in_use, marks
from drivebay.targets.safety.in_use import read
from drivebay.targets.safety.libblkid import SECTOR_BYTES, Area, ProbeError, areas

_SUITES = ("btrfs", "bcache", "bcachefs", "stratis", "drbd", "ceph_bluestore", "oracleasm", "vdo")
_MAPPED = ("crypto_LUKS", "BitLocker", "cs_fvault2", "DM_integrity", "DM_snapshot_cow")
# libblkid's names for parts of something larger, along with all that end in _member.
MEMBERS = frozenset(
    (*_SUITES, *_MAPPED, "DM_verity_hash", "swap", "swsuspend", "jbd", "ubi", "VMFS")
)
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
# A device up to this size is read completely, within the time limit.
WHOLE_BYTES = 4 * 2**30
ENDS_BYTES = 64 * 2**20
DRAWN_BLOCKS = 2048
# guess: a hard disk of 7,200/min seeks 2,048 times in 17 s; nobody waits longer without a
# message.
LOOK_S = 30.0
_CHUNK_BYTES = 2**22
_ZEROS = bytes(_CHUNK_BYTES)


@dataclass(frozen=True)
class Contents:
    """Findings of a search. `members` and `releasable` are sentences that continue "it ...";
    `hidden` are the starts of partitions that a table names and the kernel does not show; `data`
    is where a device has data without a signature, "" where that was not searched for.
    """

    areas: tuple[tuple[str, Area], ...] = ()
    problem: str = ""
    hidden: tuple[int, ...] = ()
    data: str = ""

    @property
    def members(self) -> tuple[str, ...]:
        """Parts of something larger."""
        return self._borne(members=True)

    @property
    def releasable(self) -> tuple[str, ...]:
        """All other signatures."""
        return self._borne(members=False)

    def _borne(self, *, members: bool) -> tuple[str, ...]:
        return tuple(
            f"{where}bears {_WORDS.get(one.kind, f'the signature of {one.kind}')}"
            for where, area in self.areas
            for one in area.signatures
            if members == (one.kind in MEMBERS or one.kind.endswith("_member"))
        )

    def named_by(self, reference: str) -> Iterator[str]:
        """Yields places that UUID=, LABEL=, PARTUUID=, PARTLABEL= or a by-... path names."""
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
        """Yields places with something that could be mounted."""
        for where, area in self.areas:
            if any(one.kind not in _TABLES for one in area.signatures):
                yield where


def _tag(reference: str) -> tuple[str, str]:
    """Returns the kind and value of a reference, with quotes and udev's escapes resolved; "" for
    other paths.
    """
    path = re.fullmatch(r"/dev/disk/by-(uuid|label|partuuid|partlabel)/(.*)", reference)
    if path:
        plain = re.sub(r"\\x([0-9a-fA-F]{2})", lambda hit: chr(int(hit[1], 16)), path[2])
        return path[1].upper(), plain
    key, equals, value = reference.partition("=")
    return (key, value.strip('"')) if equals else ("", "")


NOT_LOOKED_AT = Contents()


def of(path: str, size_bytes: int, name: str = "") -> Contents:
    """Searches a regular file, as a disk's image, or the block device of this kernel name, with its
    partitions by its own table and by the kernel's.
    """
    shown = {
        int(read(in_use.SYS_BLOCK / part / "start") or 0) * SECTOR_BYTES: part
        for part in (in_use.partitions(name) if name else ())
    }
    try:
        with in_use.opened(path) as fd:
            found = areas(fd, size_bytes)
            hidden = [one.start for one in found if one.depth == 1 and one.start not in shown]
            named = {one.start for one in found}
            for start, part in shown.items():
                if start not in named:  # a partition without a table: addpart, another label
                    length = int(read(in_use.SYS_BLOCK / part / "size") or 0) * SECTOR_BYTES
                    found += areas(fd, length, start)
    except (OSError, ProbeError) as problem:
        return Contents(problem=str(getattr(problem, "strerror", None) or problem))
    return Contents(tuple((_where(one, shown), one) for one in found), hidden=tuple(hidden))


def _where(area: Area, shown: dict[int, str]) -> str:
    if area.start == 0:
        return ""
    if part := shown.get(area.start):
        return f"has a partition, /dev/{part.replace('!', '/')}, that "
    return f"has a partition at byte {area.start} that "


# --- data without a signature ---------------------------------------------------------------------


def data_on_device(path: str, capacity_bytes: int) -> str:
    """Place of a byte that is not zero on a device, in words; "" if none was found. A part that
    cannot be read, or not in time, counts as data.
    """
    deadline = time.monotonic() + LOOK_S
    drawn = marks.drawn_blocks(capacity_bytes, os.urandom(16).hex(), DRAWN_BLOCKS)
    last = max(0, capacity_bytes - ENDS_BYTES)
    parts = [(0, min(ENDS_BYTES, capacity_bytes)), (last, capacity_bytes)]
    parts += [(at, at + marks.BLOCK_BYTES) for at in drawn]
    try:
        with in_use.opened(path) as fd:
            for begin, end in parts:
                if (at := _first_data(fd, begin, end)) is not None:
                    return _data_at(at)
                if time.monotonic() > deadline:
                    return f"cannot be searched for data within {LOOK_S:.0f} s"
            if capacity_bytes <= WHOLE_BYTES:
                for begin in range(0, capacity_bytes, _CHUNK_BYTES):
                    if time.monotonic() > deadline:
                        break
                    end = min(begin + _CHUNK_BYTES, capacity_bytes)
                    if (at := _first_data(fd, begin, end)) is not None:
                        return _data_at(at)
    except OSError as problem:
        return f"cannot be searched for data: {problem.strerror}"
    return ""


def _data_at(at: int) -> str:
    return f"holds data without a signature, at byte {at}"


def is_blank(fd: int) -> bool:
    """True if every byte of a file is zero; holes are not read. A file that cannot be read, or
    whose holes the file system does not know, is not blank."""
    size, at = os.fstat(fd).st_size, 0
    while at < size:
        try:
            begin = os.lseek(fd, at, os.SEEK_DATA)
        except OSError as problem:
            return problem.errno == errno.ENXIO  # lseek(2): a hole up to the end
        try:
            at = os.lseek(fd, begin, os.SEEK_HOLE)
            if _first_data(fd, begin, at) is not None:
                return False
        except OSError:
            return False
    return True


def _first_data(fd: int, begin: int, end: int) -> int | None:
    """Returns the offset of the first byte in this range that is not zero; a read that ends early
    counts as one.
    """
    while begin < end:
        chunk = os.pread(fd, min(_CHUNK_BYTES, end - begin), begin)
        if not chunk or chunk != _ZEROS[: len(chunk)]:
            return begin + len(chunk) - len(chunk.lstrip(b"\0"))
        begin += len(chunk)
    return None
