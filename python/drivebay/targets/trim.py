"""TRIM validation: write a known pattern, discard a part of it, read raw what is there.

Sources: the method of AnandTech's SM951 review (CyberShadow's trimcheck: a unique pattern is
written, deleted, and its blocks read raw); what a device claims of reads after a discard: NVM
Express NVM Command Set 1.0, Identify Namespace, DLFEAT; ATA/ATAPI Command Set 4, IDENTIFY DEVICE
words 69 and 169, as hdparm(8) shows them. A file's hole reads as zeros by fallocate(2).

The pattern lies at both ends and in the middle. Its outer quarters are not discarded and must stay.
Reads go past the page cache, several times, with a descriptor of their own each time.

Leaves out: whether the drive uses the freed blocks (that shows in write rates), and NVMe drives'
answers to reads of deallocated blocks with an error (DULBE), which show as a failed read.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from drivebay.targets.erase import EraseError, bus_of, program
from drivebay.targets.inuse import SYS_BLOCK, read
from drivebay.targets.purge import MARK_BYTES, DirectIo, discard, mark_of
from drivebay.targets.subject import Hold

STRETCH_BYTES = 8 * 2**20
READS = 3
BETWEEN_READS_S = 0.5
Reads = Literal["zeros", "ones", "old data", "other", "mixed"]


@dataclass(frozen=True)
class Claims:
    """What the device says: whether it discards, and what reads give afterwards (None: unsaid)."""

    discards: bool
    reads_after: Literal["zeros", "ones"] | None
    deterministic: bool | None
    source: str


@dataclass(frozen=True)
class Validation:
    """What was found. `blocks` are of 4 KiB; `as_claimed` is None where nothing was claimed."""

    claims: Claims
    offered: bool
    why_not: str
    blocks: int
    old_blocks: int
    reads_after: Reads | None
    deterministic: bool | None
    neighbours_intact: bool | None

    @property
    def as_claimed(self) -> bool | None:
        """Whether reads after the discard are what the device says."""
        if not self.offered:
            return False if self.claims.discards else None
        if self.claims.reads_after is not None and self.reads_after != self.claims.reads_after:
            return False
        if self.claims.deterministic and not self.deterministic:
            return False
        said = self.claims.reads_after is not None or self.claims.deterministic is not None
        return True if said else None

    @property
    def verdict(self) -> Literal["works", "works in part", "does nothing", "not offered"]:
        """In a word, by the data alone."""
        if not self.offered:
            return "not offered"
        if self.old_blocks == 0:
            return "works"
        return "does nothing" if self.old_blocks == self.blocks else "works in part"


def validate(
    hold: Hold,
    *,
    seed: int,
    step: Callable[[float], None] = lambda _: None,
    pause_s: float = BETWEEN_READS_S,
) -> Validation:
    """Validate TRIM on the file or device that is held; overwrites three stretches of 8 MiB.

    Raises
    ------
    OSError
        If reading or writing fails, or what was written cannot be read back.
    DrivebayError
        If it may not be written any more.
    """
    capacity = hold.subject.capacity_bytes
    middle = capacity // 2 // STRETCH_BYTES * STRETCH_BYTES
    starts = sorted({0, middle, capacity - STRETCH_BYTES})
    claimed = claims(hold)
    with DirectIo(hold.fd(to_write=True)) as direct:
        for number, start in enumerate(starts):
            step(0.4 * number / len(starts))
            for place in range(start, start + STRETCH_BYTES, MARK_BYTES):
                direct.write(place, mark_of(seed, place))
    os.fsync(hold.fd(to_write=True))
    if old_blocks(hold, starts, seed, whole=True) < len(starts) * STRETCH_BYTES // MARK_BYTES:
        raise OSError(5, "what was written cannot be read back")
    try:
        for start in starts:
            discard(hold, start + STRETCH_BYTES // 4, STRETCH_BYTES // 2, lambda _: None)
    except EraseError as problem:
        return Validation(claimed, False, str(problem), 0, 0, None, None, None)
    found: list[list[bytes]] = []
    for number in range(READS):
        step(0.5 + 0.5 * number / READS)
        time.sleep(pause_s if number else 0.0)
        found.append(_read(hold, _inner(starts)))
    places = _inner(starts)
    old = [now == mark_of(seed, place) for now, place in zip(found[0], places, strict=True)]
    outer = [place for place in _all(starts) if place not in set(places)]
    intact = all(
        now == mark_of(seed, place) for now, place in zip(_read(hold, outer), outer, strict=True)
    )
    return Validation(
        claims=claimed,
        offered=True,
        why_not="",
        blocks=len(places),
        old_blocks=sum(old),
        reads_after=_in_words(found[0], old),
        deterministic=all(again == found[0] for again in found[1:]),
        neighbours_intact=intact,
    )


def old_blocks(hold: Hold, starts: list[int], seed: int, *, whole: bool) -> int:
    """How many blocks still bear the pattern; of the whole stretches, or of the discarded part."""
    places = _all(starts) if whole else _inner(starts)
    return sum(
        now == mark_of(seed, place) for now, place in zip(_read(hold, places), places, strict=True)
    )


def _all(starts: list[int]) -> list[int]:
    return [place for start in starts for place in range(start, start + STRETCH_BYTES, MARK_BYTES)]


def _inner(starts: list[int]) -> list[int]:
    quarter = STRETCH_BYTES // 4
    return [
        place
        for start in starts
        for place in range(start + quarter, start + 3 * quarter, MARK_BYTES)
    ]


def _read(hold: Hold, places: list[int]) -> list[bytes]:
    with DirectIo(hold.fd(to_write=False)) as direct:
        return [direct.read(place) for place in places]


def _in_words(found: list[bytes], old: list[bool]) -> Reads:
    kinds: set[Reads] = {
        "old data"
        if is_old
        else "zeros"
        if block.count(0) == len(block)
        else "ones"
        if block.count(0xFF) == len(block)
        else "other"
        for block, is_old in zip(found, old, strict=True)
    }
    return kinds.pop() if len(kinds) == 1 else "mixed"


def claims(hold: Hold) -> Claims:
    """What the file system or device says of discards, without trying one."""
    device = hold.subject.device
    if device is None:
        return Claims(True, "zeros", True, "fallocate(2)")
    queue = SYS_BLOCK / device.name / "queue"
    discards = int(read(queue / "discard_max_bytes") or 0) > 0
    bus = bus_of(device)
    if bus == "nvme":
        return _nvme_claims(device.path, discards)
    if bus == "sata":
        return _ata_claims(device.path, discards)
    if device.interface == "loop":
        return Claims(discards, "zeros" if discards else None, discards or None, "loop driver")
    return Claims(discards, None, None, "the kernel's queue limits")


def _nvme_claims(path: str, discards: bool) -> Claims:
    said = _said("nvme", "id-ns", path, "--output-format=json")
    try:
        behaviour = int(json.loads(said)["dlfeat"]) & 0b111
    except (ValueError, KeyError, TypeError):
        return Claims(discards, None, None, "the kernel's queue limits")
    if behaviour in (1, 2):
        kind: Literal["zeros", "ones"] = "zeros" if behaviour == 1 else "ones"
        return Claims(discards, kind, True, "DLFEAT")
    return Claims(discards, None, None, "DLFEAT: not reported")


def _ata_claims(path: str, discards: bool) -> Claims:
    said = _said("hdparm", "-I", path)
    if "Deterministic read ZEROs after TRIM" in said:
        return Claims(discards, "zeros", True, "RZAT")
    if "Deterministic read data after TRIM" in said:
        return Claims(discards, None, True, "DRAT")
    source = "neither DRAT nor RZAT" if said else "the kernel's queue limits"
    return Claims(discards, None, None, source)


def _said(name: str, *arguments: str) -> str:
    path = program(name)
    if path is None:
        return ""
    try:
        done = subprocess.run(
            [path, *arguments], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout if done.returncode == 0 else ""
