"""Figures of a fio job that the rules ask for, with unknown ones as None.

Sources: fio's HOWTO and stat.c, as in `lab.fio_import`. fio's JSON has all options that differ from
their defaults, so that a missing one has its default; its text has few, unless the command line is
in the same file.
"""

from __future__ import annotations

import importlib
import math
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from drivebay.common import documents
from drivebay.definitions.fio_options import PASSING, number_of
from drivebay.lab.fio_import import logs
from drivebay.lab.fio_import.jobs import DIRECTIONS, Job, jobs_of
from drivebay.lab.imports import Importer
from drivebay.targets.fio.figures import Part

# Span of a job on a device without a size.
WHOLE = 2**63
# Fewest seconds, or samples of fio, that show a course; guess.
SECONDS_LEAST = 6
# Smallest factor between two plateaus; guess, SNIA's steady state allows 20 %.
FALL = 1.25
ROUND_BYTES = 2**25
MOVED = ["read_bytes", "write_bytes"]
# Smallest share of a rate's variance that two plateaus explain; guess.
EXPLAINED = 0.5
# Smallest share of the mean that samples of an even rate have; guess.
EVEN = 0.8
# Requests that the block layer takes before a submission waits: Linux's nr_requests, which is
# twice the queue of a SATA drive.
QUEUE, DISK_QUEUE = 128, 62
# Factor between the wait and depth times submission; guess.
SERIAL = 1.15
# Submissions of direct I/O take less, as they only map the data; guess.
SERIAL_US = 5.0
# Longer ones wait for space in the queue of a slow medium: for a block of no bytes, and for each
# byte; guess.
QUEUED_US, QUEUED_US_BYTE = 300.0, 0.002
# Share of the I/Os that reach the disk below which memory took most.
KEPT_FEW = 0.5
# Engines whose I/Os reach no disk of this machine.
REMOTE = documents.beside(__file__, "lists.toml")["remote"]
# Largest difference between rates that a limit makes equal; guess.
SAME_RATE = 0.01


@dataclass(frozen=True)
class Case:
    """A job with its file's circumstances: `complete` if all of its options are known, `earlier`
    jobs of the same file that ended before it began, `followed` if others began after it, `rates`
    per second from logs, `disks` that fio counted, and `on_disk`, the smallest share of I/Os of
    its directions in the file that reached them; None if unknown."""

    job: Job
    complete: bool
    earlier: tuple[Case, ...] = ()
    followed: bool = False
    rates: tuple[float, ...] = ()
    disks: tuple[str, ...] = ()
    on_disk: float | None = None

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
        """True if the page cache was passed by, False also if the options do not tell it and most
        I/Os did not reach the disk."""
        if self.option("buffered", "1") == "0" or self.engine in PASSING:
            return True
        direct = self.option("direct", "0")
        if direct is None:
            return False if self.in_memory else None
        return direct != "0"

    @property
    def in_memory(self) -> bool:
        """True if the disk counted so few of the I/Os that memory took most."""
        return self.on_disk is not None and self.on_disk < KEPT_FEW

    @cached_property
    def serial_us(self) -> float:
        """Mean time of a submission if each I/O ended within its own; otherwise 0. Each of N at a
        time then takes N submissions."""
        spent = sum(side.submission_ns_sum for side in self.job.sides.values())
        slat, each = spent / 1e3 / self.job.ios, self.number("iodepth", 1) or 1
        full = math.inf if not self.disks else DISK_QUEUE if self.disk(("sd",)) else QUEUE
        if each < 4 or each * self.job.threads > full or slat < SERIAL_US:
            return 0.0
        waits = (self.job.latency_ns_mean or 0) / 1e3 / slat / each
        slowest = QUEUED_US + QUEUED_US_BYTE * self.block_bytes
        return slat if slat <= slowest and 1 / SERIAL <= waits <= SERIAL else 0.0

    @property
    def ways(self) -> list[str]:
        """Directions with I/Os."""
        return [way for way, side in self.job.sides.items() if side.ios]

    @property
    def place(self) -> str:
        """File or device; empty if the file does not tell it."""
        return self.job.options.get("filename", "")

    def disk(self, names: tuple[str, ...]) -> str:
        """The disk of the job, or the file's only disk (disk_util), if its name begins so."""
        disks = (self.place.removeprefix("/dev/"), *(self.disks if len(self.disks) == 1 else ()))
        return next((disk for disk in disks if disk.startswith(names)), "")

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
        if self.place.startswith("/dev/") and (text == "100%" or (self.complete and not text)):
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
        """Rate of reads and of writes that no drive serves equally fast; empty without one."""
        iops, deep = self.job.ios / self.job.duration_s, self.job.outstanding or 0
        near = [
            case.ways
            for case in (self, *self.earlier)
            if case.block_bytes == self.block_bytes
            and abs(case.job.ios / case.job.duration_s / iops - 1) <= SAME_RATE
        ]
        alike = near.count(near[0]) == len(near)
        if deep < 2 or self.block_bytes > 2**20 or len(near) < 3 or alike:
            return ""
        return f"{len(near)} jobs, reads and writes, have {iops:,.0f} IOPS"

    def cpu(self) -> float | None:
        """Share of a CPU that each thread used, in per cent."""
        told = [entry for entry in self.job.entries if "usr_cpu" in entry.value]
        used = [entry.number("usr_cpu") + entry.number("sys_cpu", 0) for entry in told]
        return statistics.fmean(used) if used else None

    def samples(self) -> tuple[float, float] | None:
        """Lowest and highest of fio's samples of the bandwidth (every 500 ms) as shares of their
        mean, in the direction that moved more; None if there are too few."""
        way = max(("read", "write"), key=lambda name: self.job.sides[name].bytes)
        sides = [entry.of(way, {}) for entry in self.job.entries]
        side = max(sides, key=lambda side: side.number("io_bytes", 0))
        lowest, highest, mean = (side.number(f"bw_{key}", 0) for key in ("min", "max", "mean"))
        enough = side.number("bw_samples", 0) >= SECONDS_LEAST and mean > 0
        return (lowest / mean, highest / mean) if enough else None

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
        if samples is None or samples[0] < EVEN:
            return ""
        return f"bw_min is {samples[0]:.0%} of bw_mean"


def cases(path: Path, importer: Importer) -> list[Case]:
    """Jobs of an output of fio that moved data. Raises UserError or Unreadable, as its importer
    does."""
    made: list[Case] = []
    for document, complete in importlib.import_module(importer.module).documents_of(path):
        before, group = list(made), -1
        jobs = jobs_of(Part(document))
        told, shares = Part(document).each("disk_util"), {}
        disks = tuple(disk.text("name", "") for disk in told)
        for way in DIRECTIONS if told else ():
            kept = sum(disk.count(f"{way}_{key}", 0) for disk in told for key in ("ios", "merges"))
            shares[way] = kept / max(1, sum(job.sides[way].ios for job in jobs))
        for job in jobs:
            if job.group != group:
                before, group = list(made), job.group
            seconds = logs.series(job, path.parent) if importer.form == "JSON" else importer.form
            moved = None if isinstance(seconds, str) else seconds.select(MOVED).columns
            rates = tuple(np.add(*moved)[:-1].tolist()) if moved else ()
            known = complete and job.options_hold
            case = Case(job, known, tuple(before), job.group != jobs[-1].group, rates, disks)
            here = [] if case.engine in REMOTE else [shares.get(way, 0.0) for way in case.ways]
            made.append(replace(case, on_disk=min(here)) if told and here else case)
    return made


def size(count: float) -> str:
    """Bytes with a decimal unit.

    >>> size(2.5e9), size(900)
    ('2.5 GB', '900 B')
    """
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count:.0f} B"
