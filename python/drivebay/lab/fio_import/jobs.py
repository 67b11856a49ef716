"""What fio says of a job in its JSON, as a load and its counts; the reading half of the import.

Sources: fio's HOWTO and output of 3.25 to 3.41 (tests/data/fio, and the installed one). fio's
`runtime` of a direction is wall time; `job_runtime` adds up threads that are reported as one.
Histograms: `bins` of json+ where they are there, of the whole latency or else of its completion
part; from plain JSON the percentiles that fio lists, each group of I/Os at its upper end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from drivebay.definitions.suites import Workload
from drivebay.definitions.suites.loads import BLOCK_BYTES_MAX, QUEUE_DEPTH_MAX
from drivebay.results.records import HISTOGRAM_SCHEMA
from drivebay.targets.fio.figures import (
    JOBS_MAX,
    RUNTIME_MS_MAX,
    Part,
    Unreadable,
    is_possible,
)
from drivebay.targets.fio.parse import bin_bounds

DIRECTIONS = ("read", "write")
SYNCHRONOUS = frozenset({"psync", "sync", "vsync", "pvsync", "pvsync2", "mmap", "posix"})
"""Engines that have one request at a time whatever iodepth says; fio's default is psync."""
_SIZE = re.compile(r"(\d{1,18})\s*([kmgtp]?)(i?)b?", re.IGNORECASE)
SECTOR = 512
Options = Mapping[str, str]


@dataclass
class Side:
    """One direction of a job, or of its clones together."""

    ios: int = 0
    bytes: int = 0
    runtime_ms: int = 0
    latency_ns_sum: float = 0.0
    latency_ns_max: int = 0
    bins: dict[int, int] = field(default_factory=dict)


@dataclass
class Job:
    """A job and its clones (numjobs): the options in force, both directions, what is uncertain.

    `where` is the place of the options in fio's JSON. `sides` have fio's own times; what is asked
    of the job is on the clock of the drive that it ran on, `time_scale` times fio's.
    """

    name: str
    group: int
    options: Options
    where: str
    time_scale: float = 1.0
    threads: int = 0
    sides: dict[str, Side] = field(default_factory=lambda: {one: Side() for one in DIRECTIONS})
    warnings: set[str] = field(default_factory=set)

    def setting(self, key: str, default: int, *, most: int) -> int:
        """The whole number up to `most` that an option is."""
        return Part(self.options, self.where).setting(key, default, most=most)

    @property
    def duration_s(self) -> float:
        """How long it ran, in seconds."""
        return self.time_scale * max(side.runtime_ms for side in self.sides.values()) / 1000

    @property
    def ios(self) -> int:
        """Completed I/Os of both directions."""
        return sum(side.ios for side in self.sides.values())

    @property
    def latency_ns_mean(self) -> float | None:
        """Mean over all I/Os, in nanoseconds."""
        total = sum(side.latency_ns_sum for side in self.sides.values())
        return self.time_scale * total / self.ios if self.ios and total > 0 else None

    def histogram(self) -> pa.Table:
        """Counts per direction and bin, in rising order."""
        rows = []
        for direction, side in self.sides.items():
            bounds: dict[tuple[int, int], int] = {}
            for value, count in side.bins.items():
                edges = bin_bounds(round(value * self.time_scale))
                bounds[edges] = bounds.get(edges, 0) + count
            rows += [(direction, *edges, count) for edges, count in sorted(bounds.items())]
        named = [dict(zip(HISTOGRAM_SCHEMA.names, row, strict=True)) for row in rows]
        return pa.Table.from_pylist(named, schema=HISTOGRAM_SCHEMA)


def jobs_of(document: Part, *, time_scale: float = 1.0) -> list[Job]:
    """The jobs of a fio document that moved data, clones of one job together, as they come.

    Raises
    ------
    Unreadable
        If a figure is missing or impossible, or a job failed.
    """
    shared = document.of("global options", {}).texts()
    found: dict[tuple[str, int], Job] = {}
    entries = document.each("jobs") or [
        one for one in document.each("client_stats") if one.text("jobname") != "All clients"
    ]
    for entry in entries:
        name = entry.text("jobname")
        said = entry.of("job options", {})
        options = {**shared, **said.texts()}
        if error := entry.count("error", 0):
            raise Unreadable(f"job {name} failed in fio with error {error}")
        key = (name, entry.count("groupid", 0))
        job = found.setdefault(key, Job(*key, options, said.where, time_scale))
        grouped = options.get("group_reporting", "0") not in ("0", "")
        own = Part(options, said.where).setting("numjobs", 1, most=JOBS_MAX)
        job.threads += own if grouped else 1
        for direction in DIRECTIONS:
            _add(job, job.sides[direction], entry.of(direction, {}))
    return [job for job in found.values() if job.ios and job.duration_s > 0]


def _add(job: Job, side: Side, said: Part) -> None:
    ios = said.count("total_ios", 0)
    if not ios:
        return
    total, done = said.of("lat_ns", {}), said.of("clat_ns", {})
    side.ios += ios
    side.bytes += said.count("io_bytes")
    side.runtime_ms = max(side.runtime_ms, said.count("runtime", most=RUNTIME_MS_MAX))
    known = total if total.number("mean", 0) > 0 else done
    side.latency_ns_sum += known.number("mean", 0) * ios
    side.latency_ns_max = max(side.latency_ns_max, known.count("max", 0))
    of_all = any(total.of(key, {}).value for key in ("bins", "percentile"))
    if not of_all and any(done.of(key, {}).value for key in ("bins", "percentile")):
        job.warnings.add("latency percentiles are of the completion part alone (fio's clat)")
    source = total if of_all else done
    bins = {int(value): count for value, count in source.counts("bins")}
    if not bins and (listed := sorted(source.counts("percentile", 100))):
        bins = _from_percentiles(listed, ios, source.count("max", 0))
        job.warnings.add(
            "latencies are known by fio's list of percentiles only: shares over a limit are rough"
        )
    for value, count in bins.items():
        if count > 0:
            side.bins[value] = side.bins.get(value, 0) + count
    if not all(map(is_possible, (side.ios, side.bytes, sum(side.bins.values())))):
        raise Unreadable(f"{said.where}: its figures are too large together with others of the job")


def _from_percentiles(
    listed: Iterable[tuple[float, int]], ios: int, highest: int
) -> dict[int, int]:
    """I/Os at the percentiles that end them; those above the last one at the highest latency.

    >>> _from_percentiles([(50.0, 100), (99.0, 900)], 200, 5000)
    {100: 100, 900: 98, 5000: 2}
    """
    bins: dict[int, int] = {}
    below = 0
    for percent, value in listed:
        upto = min(ios, -int(-percent * ios // 100))
        if upto > below:
            bins[value] = bins.get(value, 0) + upto - below
            below = upto
    if ios > below:
        last = max([highest, *bins])
        bins[last] = bins.get(last, 0) + ios - below
    return bins


def size_of(text: str) -> int | None:
    """A size as fio writes it, in bytes (kb_base=1024); None for a share or nothing that is one.

    >>> size_of("4k"), size_of("1GiB"), size_of("100%")
    (4096, 1073741824, None)
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        return None
    return int(match[1]) << 10 * "_kmgtp".index(match[2].lower() or "_")


def workload_of(job: Job) -> Workload:
    """The load that the options describe; of mixed sizes the measured mean, to 512 bytes.

    Raises
    ------
    Unreadable
        If an option is impossible, or the load is none that reads or writes.
    ValidationError
        If it is none that a suite can have.
    """
    options = job.options
    kind = options.get("rw", options.get("readwrite", "read")).partition(":")[0]
    read, write = job.sides["read"], job.sides["write"]
    if kind.startswith("trim"):
        raise Unreadable(f"job {job.name}: '{kind}' is not imported")
    mean = (read.bytes + write.bytes) / job.ios
    block = max(SECTOR, min(BLOCK_BYTES_MAX, round(mean / SECTOR) * SECTOR))
    is_random = kind.startswith("rand")
    depth = job.setting("iodepth", 1, most=2**32)
    if options.get("ioengine", "psync") in SYNCHRONOUS:
        depth = 1
    offsets = "permutation"
    skew = options.get("random_distribution", "random")
    if not is_random or skew != "random" or options.get("norandommap", "0") not in ("0", ""):
        offsets = "uniform"
    if is_random and skew.startswith(("zipf:", "zoned:")):
        offsets = skew
    read_percent = _read_percent(kind, job)
    fsync = job.setting("fsync", 0, most=2**32 - 1)
    return Workload(
        pattern="random" if is_random else "sequential",
        offsets=offsets,
        read_percent=read_percent,
        fsync=fsync or None if write.ios and read_percent < 100 else None,
        block_bytes=block,
        queue_depth=min(QUEUE_DEPTH_MAX, max(1, depth * max(1, job.threads))),
        duration_s=job.duration_s,
    )


def _read_percent(kind: str, job: Job) -> int:
    if kind in ("read", "randread"):
        return 100
    if kind in ("write", "randwrite"):
        return 0
    if "rwmixread" in job.options:
        return job.setting("rwmixread", 50, most=100)
    if "rwmixwrite" in job.options:
        return 100 - job.setting("rwmixwrite", 50, most=100)
    return round(100 * job.sides["read"].ios / max(1, job.ios))


def options_in_words(options: Options, skip: Sequence[str] = ()) -> str:
    """Options as in a job file, on one line."""
    return " ".join(f"{key}={value}" for key, value in options.items() if key not in skip)
