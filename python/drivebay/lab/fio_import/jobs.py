"""What fio says of a job in its JSON: the counts, and of which threads they are.

Sources: fio's HOWTO, stat.c up to 3.42 and output from 3.25 on (tests/data/fio, and the installed
one). fio's `runtime` of a direction is wall time; `job_runtime` (from 3.8) adds up threads that are
reported as one. Before 2.21 `io_bytes` counted KiB, before 2.99 latencies were microseconds and
bins were numbered; before 3.39 options without a value, such as `group_reporting`, were left out.
Histograms: `bins` of json+ where they are there, of the whole latency or else of its completion
part; from plain JSON the percentiles that fio lists, each group of I/Os at its upper end.

So options do not tell whether threads are reported together, nor whose options are shown: jobs of
one group have those of the first. Counts do: threads of equal length run `job_runtime / runtime` at
a time, and I/Os outstanding on average are their latencies' sum over the time (Little's law).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from drivebay.common.errors import UserError
from drivebay.lab.fio_import.reading import AGAIN, FIGURE_MAX, figure, table, words
from drivebay.results.records import HISTOGRAM_SCHEMA
from drivebay.targets.fio.parse import bin_bounds

DIRECTIONS = ("read", "write")
LATER_SHARE, LATER_MS = 0.1, 20
"""By how much threads may end later than the first: of the time, and each; guess."""
UNEQUAL = 0.9
"""Threads that ran less than this share of the time on average did not run equally long; guess."""
ALL_CLIENTS = "All clients"
_LATENCY_NS_MAX = 2**62
Options = Mapping[str, str]
Key = tuple[str, int, tuple[tuple[str, str], ...]]


@dataclass
class Side:
    """One direction of a job, or of its clones together."""

    ios: int = 0
    bytes: int = 0
    runtime_ms: int = 0
    latency_ns_sum: float = 0.0
    bins: dict[int, int] = field(default_factory=dict)


@dataclass
class Job:
    """A job and its clones (numjobs): the options in force, both directions, what is uncertain.

    `sides` have fio's own times; what is asked of the job is on the clock of the drive that it ran
    on, `time_scale` times fio's. `options_hold` unless fio does not say them, or they are not those
    of all threads. `first_thread` is its number in fio, from 1. `one_at_a_time`: no thread had two
    I/Os outstanding, None where fio does not say.
    """

    name: str
    options: Options
    version: tuple[int, int] = (0, 0)
    time_scale: float = 1.0
    group: int = 0
    first_thread: int = 1
    threads: int = 0
    job_runtime_ms: float = 0.0
    options_hold: bool = True
    one_at_a_time: bool | None = None
    sides: dict[str, Side] = field(default_factory=lambda: {one: Side() for one in DIRECTIONS})
    warnings: set[str] = field(default_factory=set)

    @property
    def runtime_ms(self) -> int:
        """How long it ran on fio's clock."""
        return max(side.runtime_ms for side in self.sides.values())

    @property
    def duration_s(self) -> float:
        """How long it ran, in seconds."""
        return self.time_scale * self.runtime_ms / 1000

    @property
    def ios(self) -> int:
        """Completed I/Os of both directions."""
        return sum(side.ios for side in self.sides.values())

    @property
    def latency_ns_mean(self) -> float | None:
        """Mean over all I/Os, in nanoseconds."""
        total = sum(side.latency_ns_sum for side in self.sides.values())
        return self.time_scale * total / self.ios if self.ios and total > 0 else None

    @property
    def outstanding(self) -> float | None:
        """I/Os outstanding on average, in all threads together, by Little's law."""
        total = sum(side.latency_ns_sum for side in self.sides.values())
        return total / self.runtime_ms / 1e6 if self.runtime_ms and total > 0 else None

    def histogram(self, *, where: str) -> pa.Table:
        """Counts per direction and bin, in rising order."""
        rows = []
        for direction, side in self.sides.items():
            bounds: dict[tuple[int, int], int] = {}
            for value, count in side.bins.items():
                scaled = round(value * self.time_scale)
                if scaled > _LATENCY_NS_MAX:
                    raise UserError(f"{where}: job {self.name}: a latency of {scaled} ns", AGAIN)
                edges = bin_bounds(scaled)
                bounds[edges] = bounds.get(edges, 0) + count
            rows += [(direction, *edges, count) for edges, count in sorted(bounds.items())]
        named = [dict(zip(HISTOGRAM_SCHEMA.names, row, strict=True)) for row in rows]
        return pa.Table.from_pylist(named, schema=HISTOGRAM_SCHEMA)


def jobs_of(document: Mapping[str, Any], *, where: str, time_scale: float = 1.0) -> list[Job]:
    """The jobs of a fio document, clones of one job together, as they come; also those that moved
    nothing, as their threads count.

    Raises
    ------
    UserError
        If a figure is missing or none, a job failed, or its directions are not told apart.
    """
    found = re.search(r"(\d{1,4})\.(\d{1,4})", words(document, "fio version", f"{where}: "))
    version = (int(found[1]), int(found[2])) if found else (0, 0)
    shared = _options(document, "global options", f"{where}: ")
    of = "jobs" if document.get("jobs") else "client_stats"
    entries = document.get(of) or []
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise UserError(f"{where}: {of} is no list of tables", AGAIN)
    alike: dict[tuple[Key, str], list[tuple[Mapping[str, Any], str]]] = defaultdict(list)
    jobs: dict[Key, Job] = {}
    for number, entry in enumerate(entries):
        at = f"{where}: {of}[{number}]."
        name, host = words(entry, "jobname", at) or "job", words(entry, "hostname", at)
        if of == "client_stats" and name == ALL_CLIENTS and len(entries) > 1:
            continue
        if error := figure(entry, "error", at, 0):
            raise UserError(
                f"{where}: job {name} failed in fio with error {error:g}",
                "run it again; figures of a job that failed are not imported",
            )
        own = _options(entry, "job options", at)
        group = int(figure(entry, "groupid", at, 0))
        options = {**shared, **own}
        key = (name, group, tuple(sorted(options.items())))
        job = jobs.setdefault(key, Job(name, options, version, time_scale, group))
        # A section without options of its own shows none; a client's may be left out.
        job.options_hold &= bool(own) or (of == "jobs" and "rw" in shared)
        alike[key, host].append((entry, at))
    threads = 1
    for (key, _), some in alike.items():
        job = jobs[key]
        job.first_thread = job.first_thread if job.threads else threads
        for entry, at in some:
            _add(job, entry, at)
        threads += _count_threads(job, some)
    hosts = {host for _, host in alike}
    if len(hosts) > 1:
        for job in jobs.values():
            job.warnings.add(f"{len(hosts)} clients of fio are counted together")
    return list(jobs.values())


def _options(within: Mapping[str, Any], key: str, where: str) -> dict[str, str]:
    """fio's options by their names; those without a value are empty."""
    found = table(within, key, where)
    return {name: words(found, name, f"{where}{key}.") for name in found}


def _count_threads(job: Job, entries: list[tuple[Mapping[str, Any], str]]) -> int:
    """Counts the threads of these entries into the job, by what fio says and by how long all of
    them ran together; returns their number."""
    said = number_of(job.options.get("numjobs", "")) or 1
    said = len(entries) if len(entries) > 1 else min(said, 2**16)
    ran = sum(figure(entry, "job_runtime", at, 0) for entry, at in entries)
    longest = max(
        figure(table(entry, one, at), "runtime", at, 0)
        for entry, at in entries
        for one in DIRECTIONS
    )
    count = said
    # Reading back (verify) comes after the writes, and adds to the time of a thread.
    if ran and longest and "verify" not in job.options:
        if ran > said * (longest * (1 + LATER_SHARE / said) + LATER_MS):
            count = max(said + 1, round(ran / longest))
            if job.options_hold:
                job.warnings.add(
                    f"fio reports {count} threads as one, of which {said} have the options it shows"
                )
            job.options_hold = False
        elif said > 1 and ran < UNEQUAL * said * longest:
            job.warnings.add("its threads did not run equally long: rates are over the longest")
    job.threads += count
    return count


def _add(job: Job, entry: Mapping[str, Any], at: str) -> None:
    """Adds an entry's counts to the job's."""
    if "mixed" in entry and DIRECTIONS[0] not in entry:
        raise UserError(
            f"{at}mixed: reads and writes are counted as one (unified_rw_reporting) and cannot be "
            "told apart",
            "run it again with unified_rw_reporting=both, or without it",
        )
    if figure(table(entry, "trim", at), "total_ios", f"{at}trim.", 0):
        raise UserError(f"{at}trim: trims are not imported", "leave the job out")
    if levels := table(entry, "iodepth_level", at):
        shares = {level: figure(levels, level, f"{at}iodepth_level.") for level in levels}
        single = not any(share for level, share in shares.items() if level != "1")
        job.one_at_a_time = single and job.one_at_a_time is not False
    for direction in DIRECTIONS:
        _add_side(job, job.sides[direction], table(entry, direction, at), f"{at}{direction}.")


def _add_side(job: Job, side: Side, said: Mapping[str, Any], at: str) -> None:
    in_us = "lat_ns" not in said and "clat_ns" not in said and bool({"lat", "clat"} & set(said))
    in_kib = in_us and "io_kbytes" not in said
    runtime = int(figure(said, "runtime", at, 0))
    if "total_ios" not in said and figure(said, "iops", at, 0):
        job.warnings.add("fio does not say the count of I/Os: it is the rate times the time")
        ios = round(figure(said, "iops", at) * runtime / 1000)
    else:
        ios = int(figure(said, "total_ios", at, 0))
    if not ios:
        return
    side.ios += ios
    side.bytes += int(figure(said, "io_bytes", at)) * (1024 if in_kib else 1)
    side.runtime_ms = max(side.runtime_ms, int(figure(said, "runtime", at)))
    _agree_with_rate(said, 1024 if in_kib else 1, at)
    scale, names = (1000, ("lat", "clat")) if in_us else (1, ("lat_ns", "clat_ns"))
    total, done = (table(said, name, at) for name in names)
    of_all = figure(total, "mean", f"{at}{names[0]}.", 0) > 0
    known, name = (total, names[0]) if of_all else (done, names[1])
    side.latency_ns_sum += scale * figure(known, "mean", f"{at}{name}.", 0) * ios
    of_all = bool(total.get("bins") or total.get("percentile"))
    if not of_all and (done.get("bins") or done.get("percentile")):
        job.warnings.add("latency percentiles are of the completion part alone (fio's clat)")
    source, name = (total, names[0]) if of_all else (done, names[1])
    bins = {} if in_us else _numbers(source, "bins", f"{at}{name}.")
    counted = {int(value): count for value, count in bins.items() if count > 0}
    if not counted and (listed := _numbers(source, "percentile", f"{at}{name}.")):
        highest = int(figure(source, "max", f"{at}{name}.", 0))
        counted = _from_percentiles(listed, ios, highest)
        job.warnings.add(
            "latencies are known by fio's list of percentiles only: shares over a limit are rough"
        )
    for value, count in counted.items():
        side.bins[value * scale] = side.bins.get(value * scale, 0) + count


def _agree_with_rate(said: Mapping[str, Any], unit: int, at: str) -> None:
    """Refuses bytes that are 1,024 times too many or too few for the rate that fio says."""
    rate, runtime = figure(said, "bw", at, 0), figure(said, "runtime", at)
    moved = figure(said, "io_bytes", at) * unit
    if rate > 1 and moved and runtime:
        ratio = moved / (rate * 1.024 * runtime)
        if not 0.01 < ratio < 100:
            raise UserError(
                f"{at}io_bytes and bw differ by a factor of {ratio:.3g}: in which unit they are is "
                "not known",
                AGAIN,
            )


def _numbers(within: Mapping[str, Any], key: str, at: str) -> dict[float, int]:
    """A table of counts by number."""
    found = table(within, key, at)
    kept = {}
    for name in found:
        if not re.fullmatch(r"\d{1,17}(\.\d{1,17})?", name) or float(name) > FIGURE_MAX:
            raise UserError(f"{at}{key}: '{name[:40]}' is no number", AGAIN)
        kept[float(name)] = int(figure(found, name, f"{at}{key}."))
    return kept


def _from_percentiles(listed: Mapping[float, int], ios: int, highest: int) -> dict[int, int]:
    """I/Os at the percentiles that end them; those above the last one at the highest latency.

    >>> _from_percentiles({50.0: 100, 99.0: 900}, 200, 5000)
    {100: 100, 900: 98, 5000: 2}
    """
    bins: dict[int, int] = {}
    below = 0
    for percent, value in sorted(listed.items()):
        upto = min(ios, -int(-percent * ios // 100))
        if upto > below:
            bins[value] = bins.get(value, 0) + upto - below
            below = upto
    if ios > below:
        last = max([highest, *bins])
        bins[last] = bins.get(last, 0) + ios - below
    return bins


def number_of(text: str, *, kb_base: int = 1024) -> int | None:
    """A whole number as fio reads it (parse.c): the first of several, with its suffix; None for a
    share in per cent, an expression, or no number. By fio's default "k" and "kb" are 1,024 and
    "kib" is 1,000; kb_base=1000 turns them round.

    >>> number_of("4k,8k"), number_of("0x10"), number_of("1GiB"), number_of("0.0"), number_of("1s")
    (4096, 16, 1000000000, 0, 1)
    >>> number_of("100%"), number_of("(4*2)"), number_of("")
    (None, None, None)
    """
    found = re.match(r"\s*(0x[0-9a-f]{1,15}|\d{1,18})(%|[kmgtp]?)(ib)?", text.lower())
    if found is None or found[2] == "%":
        return None
    base = 1000 if (found[3] is None) == (kb_base == 1000) else 1024
    size = int(found[1], 0 if "x" in found[1] else 10) * base ** "_kmgtp".index(found[2] or "_")
    return size if size < 2**63 else None
