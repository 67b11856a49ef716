"""Figures of a fio job that the rules ask for, with unknown ones as None.

Sources: fio's HOWTO and stat.c, as in `lab.fio_import`. fio's JSON has all options that differ from
their defaults, so that a missing one has its default; its text has few, unless the command line is
in the same file.
"""

from __future__ import annotations

import importlib
import math
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from drivebay.definitions.fio_options import PASSING, number_of
from drivebay.lab.fio_import import logs
from drivebay.lab.fio_import.jobs import Job, jobs_of
from drivebay.lab.imports import Importer
from drivebay.targets.fio.figures import Part

# Span of a job on a device without a size.
WHOLE = 2**63
# Fewest seconds, or samples of fio, that show a course; guess.
SECONDS_LEAST = 6
# Smallest factor between two plateaus; guess, SNIA's steady state allows 20 %.
FALL = 1.25
ROUND_BYTES = 2**25
# Smallest share of a rate's variance that two plateaus explain; guess.
EXPLAINED = 0.5
# Smallest share of the mean that samples of an even rate have; guess.
EVEN = 0.8
# Requests that the block layer takes before a submission waits: Linux's nr_requests, which is
# twice the queue of a SATA drive.
QUEUE, DISK_QUEUE = 128, 62
# Factor between the wait and depth times submission; guess.
SERIAL = 1.15
# Submissions of direct I/O take less, as they only map the data; longer ones wait for space in a
# queue; guesses.
SERIAL_NS = (5e3, 1e6)
# Time of a copy to the page cache, without the nanosecond per byte; guess.
COPY_NS = 1e4
# Share of the I/Os that reach the disk below which memory took most.
KEPT_FEW = 0.5
FULL_CPU = 95.0
# Largest difference between rates that a limit makes equal; guess.
SAME_RATE = 0.01
# Engines whose I/Os reach no disk of this machine.
REMOTE = frozenset(
    {"gfapi", "http", "libblkio", "libhdfs", "libiscsi", "nbd", "nfs", "rados", "rbd"}
)


@dataclass(frozen=True)
class Samples:
    """fio's samples of a rate (every 500 ms)."""

    lowest: float
    highest: float
    mean: float
    deviation: float


@dataclass(frozen=True)
class Case:
    """A job with its file's circumstances: `complete` if all of its options are known, `earlier`
    jobs of the same file that ended before it began, `followed` if others began after it, `rates`
    per second from logs, `disks` that fio counted, and by direction the share of the file's I/Os
    that reached them."""

    job: Job
    complete: bool
    earlier: tuple[Case, ...] = ()
    followed: bool = False
    rates: tuple[float, ...] = ()
    disks: tuple[str, ...] = ()
    reached: Mapping[str, float] = field(default_factory=dict)

    def option(self, name: str, default: str) -> str | None:
        """Value of an option; None if the file does not tell it."""
        return self.job.options.get(name, default if self.complete else None)

    def number(self, name: str, default: int) -> int | None:
        """Whole number of an option; None if it is unknown or computed by fio."""
        text = self.option(name, str(default))
        return None if text is None else number_of(text)

    @property
    def load(self) -> str:
        """Kind of load in fio's words, without modifiers."""
        return self.job.options.get("rw", "read").partition(":")[0]

    @property
    def writes_only(self) -> bool:
        """True if the job moved no reads."""
        return not self.job.sides["read"].ios

    @property
    def reads_only(self) -> bool:
        """True if the job moved no writes."""
        return not self.job.sides["write"].ios

    @property
    def written(self) -> int:
        """Bytes written."""
        return self.job.sides["write"].bytes

    @property
    def moved(self) -> int:
        """Bytes of both directions."""
        return self.job.sides["read"].bytes + self.written

    @property
    def block_bytes(self) -> float:
        """Mean size of an I/O."""
        return self.moved / self.job.ios

    @property
    def rate(self) -> float:
        """Bytes per second."""
        return self.moved / self.job.duration_s

    @property
    def engine(self) -> str | None:
        """I/O engine; None if unknown."""
        return self.option("ioengine", "psync")

    @property
    def is_direct(self) -> bool | None:
        """True if the page cache was passed by. If the options do not tell it, False for I/Os that
        took no wait."""
        if self.option("buffered", "1") == "0" or self.engine in PASSING:
            return True
        direct = self.option("direct", "0")
        if direct is not None:
            return direct != "0"
        if self.on_disk is not None:
            return False if self.on_disk < KEPT_FEW else None
        copy_ns = COPY_NS + self.block_bytes
        is_copied = self.serial_ns and mean_ns(self.busiest("write"), "slat") <= copy_ns
        return False if not self.reads_only and (is_copied or self.hardly_waited) else None

    @cached_property
    def serial_ns(self) -> float:
        """Mean time of a submission if each I/O ended within its own; otherwise 0. Each of N at a
        time then waits for N - 1 others."""
        each = self.number("iodepth", 1) or 1
        sides = [self.busiest(way) for way in self.ways]
        times = [(mean_ns(side, "slat"), side.count("total_ios", 0)) for side in sides]
        slat = sum(mean * ios for mean, ios in times) / max(1, sum(ios for _, ios in times))
        queue = DISK_QUEUE if self.disk(("sd",)) else QUEUE
        is_full = bool(self.disks) and each * self.job.threads > queue
        if each < 4 or is_full or not SERIAL_NS[0] <= slat <= SERIAL_NS[1]:
            return 0.0
        others = slat * (each - 1)
        is_serial = all(
            any(others <= SERIAL * wait <= SERIAL**2 * others for wait in waits)
            for waits in ((mean_ns(side, "clat"), median_ns(side)) for side in sides)
        )
        return slat if is_serial else 0.0

    @cached_property
    def hardly_waited(self) -> bool:
        """True if the threads slept too seldom for I/Os that a drive answers: each time at most a
        full queue ends."""
        used, switches = self.cpu(), sum(entry.count("ctx", 0) for entry in self.job.entries)
        each = self.number("iodepth", 1)
        if used is None or used >= FULL_CPU or not switches or each is None:
            return False
        return 2 * each * switches < self.job.ios

    @property
    def ways(self) -> list[str]:
        """Directions with I/Os."""
        return [way for way, side in self.job.sides.items() if side.ios]

    def busiest(self, way: str) -> Part:
        """A direction of the thread that moved most in it."""
        sides = [entry.of(way, {}) for entry in self.job.entries]
        return max(sides, key=lambda side: side.number("io_bytes", 0))

    @property
    def is_device(self) -> bool:
        """True if the job ran on a block device."""
        return self.place.startswith("/dev/")

    @property
    def is_remote(self) -> bool:
        """True if a network lies before the drive."""
        return self.engine in REMOTE or bool(self.disk(("rbd", "nbd", "drbd")))

    @property
    def on_disk(self) -> float | None:
        """Smallest share of a direction's I/Os that reached the disks; None if unknown."""
        shares = [self.reached.get(way) for way in self.ways if self.engine not in REMOTE]
        return min((share for share in shares if share is not None), default=None)

    @property
    def place(self) -> str:
        """File or device; empty if the file does not tell it."""
        return self.job.options.get("filename", "")

    def disk(self, names: tuple[str, ...]) -> str:
        """The disk of the job, or the file's only disk (disk_util), if its name begins so."""
        disks = (self.place.removeprefix("/dev/"), *(self.disks if len(self.disks) == 1 else ()))
        return next((disk for disk in disks if disk.startswith(names)), "")

    @property
    def depth(self) -> int | None:
        """I/Os that the options ask for at a time, in all threads together."""
        each = self.number("iodepth", 1)
        return None if each is None else each * self.job.threads

    @cached_property
    def span(self) -> int | None:
        """Bytes that the job may touch, `WHOLE` for a device's whole; None if unknown. A round
        amount is taken for the size, as runs that end by time stop anywhere."""
        options = self.job.options
        text = options.get("filesize") or options.get("size", "")
        base = number_of(options.get("kb_base", "")) or 1024
        size = number_of(text.partition("-")[0], kb_base=base)
        if size and size >= self.block_bytes:
            return size * (1 if "filename" in options else self.job.threads)
        if self.is_device and (text == "100%" or (self.complete and not text)):
            return WHOLE
        step = self.job.threads * max(ROUND_BYTES, 64 * self.block_bytes)
        return None if text or self.moved % step else self.moved

    def mean_us(self, way: str) -> float | None:
        """Mean latency of a direction."""
        side = self.job.sides[way]
        return side.latency_ns_sum / side.ios / 1e3 if side.ios and side.latency_ns_sum else None

    @property
    def prepared(self) -> int:
        """Bytes that earlier jobs of the file wrote to the same place."""
        place = self.job.options.get("filename")
        same = (case.written for case in self.earlier if case.job.options.get("filename") == place)
        return sum(same) if place else 0

    @property
    def same_rate(self) -> str:
        """Rate of loads that no drive serves equally fast, as a sentence; empty without one."""
        iops = self.job.ios / self.job.duration_s
        deep = self.job.outstanding
        if deep is None or deep < 2 or (self.cpu() or 0) > 50:
            return ""
        alike = [case for case in (self, *self.earlier) if case.block_bytes == self.block_bytes]
        near = [c for c in alike if abs(c.job.ios / c.job.duration_s / iops - 1) <= SAME_RATE]
        told = f"{len(near)} jobs, reads and writes, have {iops:,.0f} IOPS: a limit"
        return told if len(near) > 2 and len({tuple(c.ways) for c in near}) > 1 else ""

    def cpu(self) -> float | None:
        """Share of a CPU that each thread used, in per cent."""
        told = [entry for entry in self.job.entries if "usr_cpu" in entry.value]
        used = [entry.number("usr_cpu") + entry.number("sys_cpu", 0) for entry in told]
        return statistics.fmean(used) if used else None

    def samples(self) -> Samples | None:
        """Samples of bandwidth in the direction that moved more; None if there are too few."""
        way = max(("read", "write"), key=lambda name: self.job.sides[name].bytes)
        side = self.busiest(way)
        rates = Samples(*(side.number(f"bw_{key}", 0) for key in ("min", "max", "mean", "dev")))
        return rates if side.number("bw_samples", 0) >= SECONDS_LEAST and rates.mean > 0 else None

    def percentiles(self) -> Iterator[tuple[str, str, float, float, int, float]]:
        """Listed percentiles: place, latency, percentile, value in ns, number of I/Os, mean."""
        for entry in self.job.entries:
            for way in ("read", "write"):
                side = entry.of(way, {})
                count = side.count("total_ios", 0)
                for latency in ("clat_ns", "lat_ns", "clat", "lat") if count else ():
                    part, unit = side.of(latency, {}), 1 if latency.endswith("ns") else 1000
                    mean = part.number("mean", 0) * unit
                    for q, value in part.counts("percentile", 100):
                        if q > 0 and value:
                            yield part.where, latency, q, value * unit, count, mean

    def level(self, name: str) -> float | None:
        """Share of I/Os at a depth, in per cent, by `iodepth_level`."""
        levels = [entry.of("iodepth_level", {}) for entry in self.job.entries]
        known = [part.number(name, 0) for part in levels if part.value]
        return statistics.fmean(known) if known else None

    @cached_property
    def fall(self) -> str:
        """Rates of two plateaus, by logs; empty without logs or without a fall by `FALL`."""
        rates = np.array(self.rates)
        if len(rates) < SECONDS_LEAST:
            return ""
        at = np.arange(1, len(rates) - 1)
        until, whole = np.cumsum(rates)[at - 1], float(rates.sum())
        before, after = until / at, (whole - until) / (len(rates) - at)
        between = until * before + (whole - until) * after - whole**2 / len(rates)
        best = int(between.argmax())
        is_step = between[best] >= EXPLAINED * len(rates) * rates.var()
        told = f"{size(before[best])}/s fell to {size(after[best])}/s after {at[best]} s (logs)"
        return told if is_step and after[best] * FALL <= before[best] else ""

    @property
    def even(self) -> str:
        """Figure that shows an even rate; empty if there is none."""
        samples = self.samples()
        if self.rates:
            return "" if self.fall else "the rate did not fall (logs)"
        if samples is None or samples.lowest < EVEN * samples.mean:
            return ""
        return f"bw_min is {samples.lowest / samples.mean:.0%} of bw_mean"


def cases(path: Path, importer: Importer) -> list[Case]:
    """Jobs of an output of fio that moved data. Raises UserError or Unreadable, as its importer
    does."""
    made: list[Case] = []
    for document, complete in importlib.import_module(importer.module).documents_of(path):
        before, group = list(made), -1
        jobs = jobs_of(Part(document))
        told = Part(document).each("disk_util")
        disks, reached = tuple(disk.text("name", "") for disk in told), {}
        for way in ("read", "write") if told else ():
            kept = sum(disk.count(f"{way}_{key}", 0) for disk in told for key in ("ios", "merges"))
            if asked := sum(job.sides[way].ios for job in jobs):
                reached[way] = kept / asked
        for job in jobs:
            if job.group != group:
                before, group = list(made), job.group
            seconds = logs.series(job, path.parent) if importer.form == "JSON" else importer.form
            rates: list[float] = []
            if not isinstance(seconds, str):
                table = seconds.select(["read_bytes", "write_bytes"]).to_pylist()
                rates = [float(row["read_bytes"] + row["write_bytes"]) for row in table][:-1]
            known = complete and job.options_hold
            followed = job.group != jobs[-1].group
            made.append(Case(job, known, tuple(before), followed, tuple(rates), disks, reached))
    return made


def mean_ns(side: Part, kind: str) -> float:
    """Mean latency of a kind; 0 if it is unknown."""
    means = (1e3 * side.of(kind, {}).number("mean", 0), side.of(f"{kind}_ns", {}).number("mean", 0))
    return max(means)


def median_ns(side: Part) -> float:
    """Median of the latency of completion; infinite if it is unknown."""
    for kind, unit in (("clat_ns", 1), ("clat", 1000)):
        for q, value in side.of(kind, {}).counts("percentile", 100):
            if q == 50:
                return float(value * unit)
    return math.inf


def size(count: float) -> str:
    """Bytes with a decimal unit.

    >>> size(2.5e9), size(900)
    ('2.5 GB', '900 B')
    """
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count:.0f} B"
