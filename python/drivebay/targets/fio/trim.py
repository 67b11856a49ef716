"""TRIM validation: writes a known pattern, discards a part of it, and reads the blocks raw.

Sources: the method of AnandTech's SM951 review (CyberShadow's trimcheck: a unique pattern is
written, deleted, and its blocks read raw); a device's claims about reads after a discard: NVM
Express NVM Command Set 1.0, Identify Namespace, DLFEAT; ATA/ATAPI Command Set 4, IDENTIFY DEVICE
words 69 and 169, as hdparm(8) shows them. A file's hole reads as zeros by fallocate(2).

The pattern lies at both ends and in the middle. Its outer quarters are not discarded and must stay.
Reads bypass the page cache, several times, each time with a new descriptor. A phase's figures are
of the reads alone, 4 KiB at queue depth 1; a pause between two rounds of them is not part of their
latencies.

Leaves out: whether the drive uses the freed blocks (that shows in write rates), and NVMe drives'
answers to reads of deallocated blocks with an error (DULBE), which show as a failed read.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Literal

import numpy as np
import pyarrow as pa

from drivebay.common import documents, programs
from drivebay.common.files import system_errors
from drivebay.definitions.suites import Phase
from drivebay.results.records import PhaseResult, histogram, one_second_series
from drivebay.targets import trim_verdict
from drivebay.targets.fio.parse import bin_bounds
from drivebay.targets.safety.erase import EraseError, bus_of
from drivebay.targets.safety.handle import ExclusiveHandle
from drivebay.targets.safety.in_use import SYS_BLOCK, read
from drivebay.targets.safety.purge import MARK_BYTES, DirectIo, discard, in_a_word, mark_of
from drivebay.targets.trim_verdict import Claims, Reads, Validation

# Pause before every later round of reads; guess: gives a drive that trims lazily the time to do
# so.
BETWEEN_READS_S = 0.5

Step = Callable[[float], None]


@dataclass
class Timed:
    """Sequence of reads: end of each (monotonic clock, seconds), and duration of each (ns; includes
    this process's share of a few µs).
    """

    ended_s: list[float] = field(default_factory=list)
    took_ns: list[int] = field(default_factory=list)


@dataclass
class Check:
    """A validation on the file or device that is held: `write`, `read`, `discard`, `read` and
    `judged`, in this order. It overwrites three extents.

    Both read passes read the same blocks equally often, so that their times may be compared.
    """

    handle: ExclusiveHandle
    _: KW_ONLY
    seed: int
    extent_bytes: int = trim_verdict.EXTENT_BYTES
    reads: int = trim_verdict.READS
    pause_s: float = BETWEEN_READS_S
    _claimed: Claims | None = field(default=None, init=False)
    _why_not: str = field(default="", init=False)
    _found: list[list[bytes]] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self._starts = trim_verdict.starts(self.handle.target.capacity_bytes, self.extent_bytes)
        quarter = self.extent_bytes // 4
        self._inner = self._offsets(quarter, 3 * quarter)
        self._outer = self._offsets(0, quarter) + self._offsets(3 * quarter, self.extent_bytes)

    def _offsets(self, begin: int, end: int) -> list[int]:
        return [
            offset
            for start in self._starts
            for offset in range(start + begin, start + end, MARK_BYTES)
        ]

    def write(self) -> None:
        """Write the pattern, and check that it was stored. Raises OSError if reading or writing
        fails, or the data cannot be read back; DrivebayError if the target may not be written
        any more.
        """
        with DirectIo(self.handle.fd(to_write=True)) as direct:
            for offset in self._offsets(0, self.extent_bytes):
                direct.write(offset, mark_of(self.seed, offset))
        os.fsync(self.handle.fd(to_write=True))
        self.handle.fd(to_write=False)  # nothing more is written
        if self._lost(self._outer) or self._lost(self._inner):
            raise OSError(5, "what was written cannot be read back")

    def discard(self) -> None:
        """Discard the middle halves; `judged` reports a missing discard. Raises as `write`."""
        quarter = self.extent_bytes // 4
        self._claimed = claims(self.handle)
        try:
            for start in self._starts:
                discard(self.handle, start + quarter, 2 * quarter, lambda _: None)
        except EraseError as problem:
            self._why_not = str(problem)

    def read(self, step: Step = lambda _: None) -> Timed:
        """Read the middle halves, and time it. Raises as `write`."""
        timed = Timed()
        self._found = []
        for number in range(self.reads):
            step(number / self.reads)
            time.sleep(self.pause_s if number else 0.0)
            self._found.append(_read(self.handle, self._inner, timed))
        return timed

    def judged(self) -> Validation:
        """Judges the reads after the discard. Raises as `write`."""
        assert self._claimed is not None, "discarded before"
        first, *later = self._found
        pairs = zip(first, self._inner, strict=True)
        old = [now == mark_of(self.seed, offset) for now, offset in pairs]
        return Validation(
            claims=self._claimed,
            offered=not self._why_not,
            why_not=self._why_not,
            blocks=len(self._inner),
            old_blocks=sum(old),
            reads_after=_in_words(first, old),
            deterministic=all(again == first for again in later),
            neighbours_intact=not self._lost(self._outer),
        )

    def _lost(self, offsets: list[int]) -> int:
        """Number of blocks without the pattern."""
        found = _read(self.handle, offsets, Timed())
        return sum(
            now != mark_of(self.seed, offset) for now, offset in zip(found, offsets, strict=True)
        )


def validate(handle: ExclusiveHandle, *, seed: int, pause_s: float = BETWEEN_READS_S) -> Validation:
    """Runs a whole `Check`, without timing reads before; raises as its parts do."""
    check = Check(handle, seed=seed, pause_s=pause_s)
    check.write()
    check.discard()
    check.read()
    return check.judged()


def _read(handle: ExclusiveHandle, offsets: list[int], timed: Timed) -> list[bytes]:
    found = []
    with DirectIo(handle.fd(to_write=False)) as direct:
        for offset in offsets:
            begun = time.perf_counter_ns()
            found.append(direct.read(offset))
            timed.took_ns.append(time.perf_counter_ns() - begun)
            timed.ended_s.append(time.monotonic())
    return found


def _in_words(found: list[bytes], old: list[bool]) -> Reads:
    kinds: set[Reads] = {
        "old data" if is_old else in_a_word(block) for block, is_old in zip(found, old, strict=True)
    }
    return kinds.pop() if len(kinds) == 1 else "mixed"


def claims(handle: ExclusiveHandle) -> Claims:
    """Returns the claims of the file system or device about discards, without trying one."""
    device = handle.target.device
    if device is None:
        return Claims(True, "zeros", True, "fallocate(2)")
    discards = int(read(SYS_BLOCK / device.name / "queue/discard_max_bytes") or 0) > 0
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
        behaviour = int(documents.from_json(said, int_bits=128)["dlfeat"]) & 0b111
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
    if (path := programs.find(name)) is None:
        return ""
    try:
        done = programs.ask([path, *arguments], timeout_s=30)
    except programs.NoAnswer:
        return ""
    return documents.text(done.stdout) if done.returncode == 0 else ""


# --- a half of a validation as a phase of a test --------------------------------------------------


def drive_errors(
    shown: str, what: str = "TRIM cannot be validated"
) -> contextlib.AbstractContextManager[None]:
    """Turns an I/O error of the drive `shown` into a drivebay error; `what` names the failed
    operation.
    """
    return system_errors(f"{shown}: {what}", "look for the cause with: dmesg | tail")


def read_phase(phase: Phase, check: Check, step: Step) -> tuple[PhaseResult, float]:
    """Returns the phase's result, and the start of its first read (monotonic clock); raises as
    `Check`.
    """
    timed = check.read(step)
    zero = timed.ended_s[0] - timed.took_ns[0] / 1e9
    result = PhaseResult.counted(
        phase.label,
        phase.workload,
        timed.ended_s[-1] - zero,
        series=_series(timed, zero),
        histogram=histogram(
            ("read", *one, count)
            for one, count in sorted(Counter(map(bin_bounds, timed.took_ns)).items())
        ),
    )
    return result, zero


def _series(timed: Timed, zero: float) -> pa.Table:
    seconds = (np.array(timed.ended_s) - zero).astype(int)
    took = np.array(timed.took_ns)
    rows = int(seconds[-1]) + 1
    count = np.bincount(seconds, minlength=rows)
    total = np.bincount(seconds, weights=took, minlength=rows)
    highest = np.zeros(rows, dtype=np.int64)
    np.maximum.at(highest, seconds, took)
    none = np.zeros(rows, dtype=np.int64)
    return one_second_series(
        reads=count,
        writes=none,
        read_bytes=count * trim_verdict.BLOCK_BYTES,
        write_bytes=none,
        latency_ns_mean=total / np.maximum(count, 1),
        latency_ns_max=highest,
    )
