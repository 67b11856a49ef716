"""Jobs in fio's JSON: their counts, and the threads that these belong to.

Sources: fio's HOWTO, stat.c up to 3.42 and output from 3.25 on (tests/data/fio, and the installed
one). fio's `runtime` of a direction is wall time; `job_runtime` (from 3.8) is the sum over threads
that are reported as one. Before 2.21 `io_bytes` counted KiB, before 2.99 latencies were
microseconds and bins were numbered; before 3.39 options without a value, such as `group_reporting`,
were left out. Histograms: `bins` of json+ if present, of the whole latency or else of its
completion part. Plain JSON has a list of percentiles, which is no distribution: those of several
directions or threads together are not known, and shares over 10 ms and 100 ms are those of
`latency_ms`.

So the options do not show whether threads are reported together, nor whose options are shown: jobs
of one group have those of the first. Counts do: threads of equal length run `job_runtime / runtime`
at a time, and the mean number of outstanding I/Os is their latencies' sum over the time (Little's
law).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from drivebay.common.documents import printable
from drivebay.results.records import histogram
from drivebay.targets.fio.figures import JOBS_MAX, RUNTIME_MS_MAX, Part, Unreadable, is_possible
from drivebay.targets.fio.parse import bin_bounds

DIRECTIONS = ("read", "write")
LATENCIES = ("lat", "clat")
# Largest factor between bytes and rate times time, which fio rounds; smaller than a unit's
# factor.
FACTOR_MAX = 100
NANOSECONDS_SINCE = (2, 99)
# Largest delay of threads that end after the first, as a share of the time and in ms; guess.
LATER_SHARE, LATER_MS = 0.1, 20
# Threads that ran less than this share of the time on average did not run equally long; guess.
UNEQUAL = 0.9
ALIASES = {"readwrite": "rw", "log_max_value": "log_window_value"}
ALL_CLIENTS = "All clients"
# fio's `iodepth_level` entries for more than one I/O at a time.
LEVELS = ("2", "4", "8", "16", "32", ">=64")
LATENCY_NS_MAX = 2**62
# Those of `analysis.latency`.
PERCENTILES = (50.0, 99.0, 99.9, 99.99)
# Lower edge of fio's last bin, 17.2 s (2^24 us before 2.99), with the width of a bin.
LAST_BIN_NS = 0.97 * 2**34
# fio's `latency_ms` above 10 ms; those above 100 ms begin with the fourth.
SLOWER = ("20", "50", "100", "250", "500", "750", "1000", "2000", ">=2000")
SLOW_MS = {10: SLOWER, 100: SLOWER[3:]}
Options = Mapping[str, str]
Key = tuple[str, int, tuple[tuple[str, str], ...]]


@dataclass
class Side:
    """One direction of a job, or of its clones together."""

    ios: int = 0
    bytes: int = 0
    runtime_ms: int = 0
    latency_ns_sum: float = 0.0
    submission_ns_sum: float = 0.0
    bins: dict[int, int] = field(default_factory=dict)
    percentiles: dict[float, int] = field(default_factory=dict)


@dataclass
class Job:
    """A job and its clones (numjobs): the options in force, both directions, and warnings about
    uncertainties.

    `where` is the place of the options in fio's JSON. `sides` have fio's own times; the properties
    use the clock of the drive that the job ran on, `time_scale` times fio's. `options_hold` is
    False if fio does not show the options, or they are not those of all threads. `first_thread` is
    its number in fio, from 1. `entries` are its places in fio's JSON. `one_at_a_time`: no thread
    had two I/Os outstanding; None if unknown.
    """

    name: str
    options: Options
    where: str = ""
    version: tuple[int, int] = (0, 0)
    time_scale: float = 1.0
    group: int = 0
    first_thread: int = 1
    threads: int = 0
    options_hold: bool = True
    one_at_a_time: bool | None = None
    sides: dict[str, Side] = field(default_factory=lambda: {way: Side() for way in DIRECTIONS})
    warnings: set[str] = field(default_factory=set)
    slow: dict[int, float] = field(default_factory=dict)
    entries: list[Part] = field(default_factory=list)

    def setting(self, key: str, default: int | None, *, most: int) -> int | None:
        """Value of an option as an integer up to `most`; None if fio computes it from a
        percentage or an expression.
        """
        text = self.options.get(key, "").strip()
        if not text or text.startswith("(") or text.endswith("%"):
            return None if text else default
        return Part(self.options, self.where).setting(key, 0, most=most)

    @property
    def runtime_ms(self) -> int:
        """Duration on fio's clock; with verify, the read-back comes after all writes."""
        times = [side.runtime_ms for side in self.sides.values()]
        writes = self.options.get("rw", "").partition(":")[0] in ("write", "randwrite")
        return sum(times) if writes and "verify" in self.options else max(times)

    @property
    def duration_s(self) -> float:
        """Duration in seconds of the drive's clock."""
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
    def sync_ns_mean(self) -> float:
        """Mean latency of syncs, in nanoseconds; 0 if unknown."""
        syncs = [entry.of("sync", {}) for entry in self.entries]
        means = [part.of("lat_ns", {}) for part in syncs]
        total = sum(part.number("mean", 0) * part.count("N", 0) for part in means)
        return self.time_scale * total / max(1, sum(part.count("N", 0) for part in means))

    @property
    def outstanding(self) -> float | None:
        """Mean number of outstanding I/Os, in all threads together, by Little's law."""
        total = sum(side.latency_ns_sum for side in self.sides.values())
        return total / self.runtime_ms / 1e6 if self.runtime_ms and total > 0 else None

    def metrics(self) -> dict[str, float]:
        """Figures that fio reports without counts, by their names in `results.foreign`."""
        mean, sides = self.latency_ns_mean, [side for side in self.sides.values() if side.ios]
        found = {} if mean is None else {"latency_ns_mean": mean}
        if any(side.bins for side in sides):
            return found
        if self.time_scale == 1:
            found |= {f"over_{ms}_ms_percent": 100 * n / self.ios for ms, n in self.slow.items()}
        listed = sides[0].percentiles if len(sides) == 1 else {}
        for q in PERCENTILES:
            if listed.get(q, LAST_BIN_NS) < LAST_BIN_NS:
                found[f"latency_us_p{q:g}"] = self.time_scale * listed[q] / 1e3
            elif q in listed:
                self.warnings.add(f"p{q:g} is in fio's last bin, 17 s: it is longer, and not known")
        return found

    def histogram(self) -> pa.Table:
        """Counts per direction and bin, in rising order."""
        rows = []
        for direction, side in self.sides.items():
            bounds: dict[tuple[int, int], int] = {}
            for value, count in side.bins.items():
                edges = bin_bounds(round(value * self.time_scale))
                if edges[1] > LATENCY_NS_MAX:
                    raise Unreadable(f"job {self.name}: a latency of {edges[0]:.3g} ns")
                bounds[edges] = bounds.get(edges, 0) + count
            rows += [(direction, *edges, count) for edges, count in sorted(bounds.items())]
        return histogram(rows)


def jobs_of(document: Part, *, time_scale: float = 1.0) -> list[Job]:
    """Reads the jobs of a fio document that moved data, clones of one job together, in their
    order. Raises Unreadable if a figure is missing or impossible, a job failed, or reads and
    writes are counted together.
    """
    match = re.search(r"(\d{1,4})\.(\d{1,4})", document.text("fio version", ""))
    version = (int(match[1]), int(match[2])) if match else (0, 0)
    shared = _options(document, "global options")
    jobs: dict[Key, Job] = {}
    alike: dict[tuple[Key, str], list[Part]] = defaultdict(list)
    of_clients = not document.each("jobs")
    entries = document.each("client_stats" if of_clients else "jobs")
    for entry in entries:
        name, host = printable(entry.text("jobname", "job")), entry.text("hostname", "")
        if name == ALL_CLIENTS and len(entries) > 1:
            continue
        if error := entry.count("error", 0):
            raise Unreadable(f"job {name} failed in fio with error {error}")
        own = _options(entry, "job options")
        options = {**shared, **own}
        key = (name, entry.count("groupid", 0), tuple(sorted(options.items())))
        place = f"{entry.where}.job options"
        job = jobs.setdefault(key, Job(name, options, place, version, time_scale, key[1]))
        # A section without options of its own shows none; a client's options may be left out.
        job.options_hold &= bool(own) or (not of_clients and "rw" in shared)
        alike[key, host].append(entry)
    threads = 1
    for (key, _), some in alike.items():
        job = jobs[key]
        job.first_thread = job.first_thread if job.threads else threads
        for entry in some:
            _add(job, entry)
            job.entries.append(entry)
        threads += _count_threads(job, some)
    clients = len({host for _, host in alike})
    ran = [job for job in jobs.values() if job.ios and job.duration_s > 0]
    for job in ran:
        if clients > 1:
            job.warnings.add(f"{clients} clients of fio are counted together")
        job.warnings |= {
            f"job {other.name} moved no data and is left out"
            for other in jobs.values()
            if not (other.ios and other.duration_s > 0)
        }
    return ran


def _options(part: Part, key: str) -> dict[str, str]:
    """fio's options by name; those without a value are empty."""
    texts = part.of(key, {}).texts()
    return {ALIASES.get(name, name): printable(value) for name, value in texts.items()}


def _count_threads(job: Job, entries: list[Part]) -> int:
    """Adds the threads of these entries to the job's count, from fio's options and the total
    time of all threads; returns their number.
    """
    stated = job.setting("numjobs", 1, most=JOBS_MAX) or 1
    stated = len(entries) if len(entries) > 1 else stated
    ran = sum(entry.count("job_runtime", 0) for entry in entries)
    longest = max(entry.of(way, {}).count("runtime", 0) for entry in entries for way in DIRECTIONS)
    count = stated
    # The read-back (verify) comes after the writes, and adds to the time of a thread.
    if ran and longest and "verify" not in job.options:
        if ran > stated * (longest * (1 + LATER_SHARE / stated) + LATER_MS):
            count = min(JOBS_MAX, max(stated + 1, round(ran / longest)))
            if job.options_hold:
                job.warnings.add(
                    f"fio reports {count} threads as one, of which {stated} have the options it "
                    "shows"
                )
            job.options_hold = False
        elif stated > 1 and ran < UNEQUAL * stated * longest:
            job.warnings.add("its threads did not run equally long: rates are over the longest")
    job.threads += count
    return count


def _add(job: Job, entry: Part) -> None:
    """Adds an entry's counts to the job's."""
    if entry.of("mixed", {}).value and not entry.of("read", {}).value:
        raise Unreadable(
            f"{entry.where}.mixed: reads and writes are counted as one; run it again without "
            "unified_rw_reporting"
        )
    if entry.of("trim", {}).count("total_ios", 0):
        raise Unreadable(f"{entry.where}.trim: trims are not imported")
    levels = entry.of("iodepth_level", {})
    if levels.value:
        single = not any(levels.number(level, 0) for level in LEVELS)
        job.one_at_a_time = single and job.one_at_a_time is not False
    before, shares = job.ios, entry.of("latency_ms", {})
    for direction in DIRECTIONS:
        _add_side(job, job.sides[direction], entry.of(direction, {}))
    for limit, keys in SLOW_MS.items() if shares.value else ():
        share = min(100.0, sum(shares.number(key, 0) for key in keys))
        job.slow[limit] = job.slow.get(limit, 0.0) + share / 100 * (job.ios - before)


def _add_side(job: Job, side: Side, part: Part) -> None:
    ios, runtime_ms = part.count("total_ios", 0), part.count("runtime", 0, most=RUNTIME_MS_MAX)
    if not part.of("total_ios", 0).value and (rate := part.number("iops", 0)):
        # As before 2.1.14.
        job.warnings.add("fio does not report the number of I/Os: it is the rate times the time")
        ios = round(rate * runtime_ms / 1000)
    if not ios:
        return
    moved = part.count("io_bytes")
    part.count("runtime")
    in_us = job.version < NANOSECONDS_SINCE
    in_us &= not any(part.of(f"{latency}_ns", {}).value for latency in LATENCIES)
    moved *= 1024 if in_us and not part.number("io_kbytes", 0) else 1
    _agrees_with_rate(part, moved, runtime_ms)
    side.ios += ios
    side.bytes += moved
    side.runtime_ms = max(side.runtime_ms, runtime_ms)
    scale, suffix = (1000, "") if in_us else (1, "_ns")
    total, done = (part.of(f"{latency}{suffix}", {}) for latency in LATENCIES)
    known = total if total.number("mean", 0) > 0 else done
    side.submission_ns_sum += scale * part.of(f"slat{suffix}", {}).number("mean", 0) * ios
    side.latency_ns_sum += scale * known.number("mean", 0) * ios
    of_all = any(total.of(key, {}).value for key in ("bins", "percentile"))
    if not of_all and any(done.of(key, {}).value for key in ("bins", "percentile")):
        job.warnings.add("latency percentiles are of the completion part alone (fio's clat)")
    source = total if of_all else done
    bins = {} if in_us else {int(value): count for value, count in source.counts("bins")}
    listed = {} if bins else dict(source.counts("percentile", 100))
    if listed:
        job.warnings.add("fio lists percentiles of latencies, which are no distribution")
    # Those of several threads are not known.
    alone = side.ios == ios
    side.percentiles = {q: scale * value for q, value in listed.items()} if alone else {}
    for value, count in bins.items():
        if count > 0:
            side.bins[value * scale] = side.bins.get(value * scale, 0) + count
    if not all(map(is_possible, (side.ios, side.bytes, sum(side.bins.values())))):
        raise Unreadable(f"{part.where}: its figures are too large together with others of the job")


def _agrees_with_rate(part: Part, moved: int, runtime_ms: int) -> None:
    """Refuses bytes that differ from the reported rate by a factor of about 1,024."""
    by_rate = part.number("bw", 0) * 1.024 * runtime_ms
    if by_rate > runtime_ms and not by_rate / FACTOR_MAX < moved < by_rate * FACTOR_MAX:
        raise Unreadable(
            f"{part.where}: io_bytes and bw differ by a factor of {moved / by_rate:.3g}, and in "
            "which unit they are is not known"
        )
