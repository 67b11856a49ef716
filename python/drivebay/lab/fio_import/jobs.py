"""What fio says of a job in its JSON, as a load and its counts; the reading half of the import.

Sources: fio's HOWTO and output of 3.25 to 3.41 (tests/data/fio, and the installed one). fio's
`runtime` of a direction is wall time; `job_runtime` adds up threads that are reported as one.
Histograms: `bins` of json+ where they are there, of the whole latency or else of its completion
part; from plain JSON the percentiles that fio lists, each group of I/Os at its upper end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from drivebay.common.errors import UserError
from drivebay.definitions.suites import Workload
from drivebay.definitions.suites.loads import BLOCK_BYTES_MAX, QUEUE_DEPTH_MAX
from drivebay.results.records import HISTOGRAM_SCHEMA
from drivebay.targets.fio.parse import bin_bounds

DIRECTIONS = ("read", "write")
SYNCHRONOUS = frozenset({"psync", "sync", "vsync", "pvsync", "pvsync2", "mmap", "posix"})
"""Engines that have one request at a time whatever iodepth says; fio's default is psync."""
_SIZE = re.compile(r"(\d+)\s*([kmgtp]?)(i?)b?", re.IGNORECASE)
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

    `sides` have fio's own times; what is asked of the job is on the clock of the drive that it ran
    on, `time_scale` times fio's.
    """

    name: str
    group: int
    options: Options
    time_scale: float = 1.0
    threads: int = 0
    sides: dict[str, Side] = field(default_factory=lambda: {one: Side() for one in DIRECTIONS})
    warnings: set[str] = field(default_factory=set)

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


def jobs_of(document: Mapping[str, Any], *, where: str, time_scale: float = 1.0) -> list[Job]:
    """The jobs of a fio document that moved data, clones of one job together, as they come.

    Raises
    ------
    UserError
        If a figure is missing, or a job failed.
    """
    shared = document.get("global options") or {}
    found: dict[tuple[str, int], Job] = {}
    entries = document.get("jobs") or [
        one for one in document.get("client_stats", []) if one.get("jobname") != "All clients"
    ]
    try:
        for entry in entries:
            options = {**shared, **(entry.get("job options") or {})}
            name = str(entry["jobname"])
            if entry.get("error"):
                raise UserError(
                    f"{where}: job {name} failed in fio with error {entry['error']}",
                    "run it again; figures of a job that failed are not imported",
                )
            key = (name, int(entry.get("groupid", 0)))
            job = found.setdefault(key, Job(*key, options, time_scale))
            grouped = str(options.get("group_reporting", "0")) not in ("0", "")
            job.threads += int(options.get("numjobs", 1)) if grouped else 1
            for direction in DIRECTIONS:
                _add(job, job.sides[direction], entry.get(direction) or {})
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise UserError(
            f"{where}: fio's figures cannot be read: {type(problem).__name__} {problem}",
            "write it again with: fio --output-format=json+ --output=FILE JOB.fio",
        ) from None
    return [job for job in found.values() if job.ios and job.duration_s > 0]


def _add(job: Job, side: Side, said: Mapping[str, Any]) -> None:
    ios = int(said.get("total_ios", 0))
    if not ios:
        return
    total = said.get("lat_ns") or {}
    done = said.get("clat_ns") or {}
    side.ios += ios
    side.bytes += int(said["io_bytes"])
    side.runtime_ms = max(side.runtime_ms, int(said["runtime"]))
    known = total if float(total.get("mean", 0)) > 0 else done
    side.latency_ns_sum += float(known.get("mean", 0)) * ios
    side.latency_ns_max = max(side.latency_ns_max, int(known.get("max", 0)))
    of_all = bool(total.get("bins") or total.get("percentile"))
    if not of_all and (done.get("bins") or done.get("percentile")):
        job.warnings.add("latency percentiles are of the completion part alone (fio's clat)")
    source = total if of_all else done
    bins = {int(value): int(count) for value, count in (source.get("bins") or {}).items()}
    if not bins and source.get("percentile"):
        bins = _from_percentiles(source["percentile"], ios, int(source.get("max", 0)))
        job.warnings.add(
            "latencies are known by fio's list of percentiles only: shares over a limit are rough"
        )
    for value, count in bins.items():
        if count > 0:
            side.bins[value] = side.bins.get(value, 0) + count


def _from_percentiles(listed: Mapping[str, Any], ios: int, highest: int) -> dict[int, int]:
    """I/Os at the percentiles that end them; those above the last one at the highest latency.

    >>> _from_percentiles({"50.0": 100, "99.0": 900}, 200, 5000)
    {100: 100, 900: 98, 5000: 2}
    """
    bins: dict[int, int] = {}
    below = 0
    for percent, value in sorted((float(key), int(one)) for key, one in listed.items()):
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


def workload_of(job: Job, *, where: str) -> Workload:
    """The load that the options describe; of mixed sizes the measured mean, to 512 bytes.

    Raises
    ------
    UserError
        If it is none that reads or writes.
    """
    options = job.options
    kind = str(options.get("rw", options.get("readwrite", "read"))).partition(":")[0]
    read, write = job.sides["read"], job.sides["write"]
    if kind.startswith("trim"):
        raise UserError(f"{where}: job {job.name}: '{kind}' is not imported", "leave it out")
    mean = (read.bytes + write.bytes) / job.ios
    block = max(SECTOR, min(BLOCK_BYTES_MAX, round(mean / SECTOR) * SECTOR))
    is_random = kind.startswith("rand")
    depth = int(options.get("iodepth", 1))
    if options.get("ioengine", "psync") in SYNCHRONOUS:
        depth = 1
    offsets = "permutation"
    skew = str(options.get("random_distribution", "random"))
    if not is_random or skew != "random" or str(options.get("norandommap", "0")) not in ("0", ""):
        offsets = "uniform"
    if is_random and skew.startswith(("zipf:", "zoned:")):
        offsets = skew
    return Workload(
        pattern="random" if is_random else "sequential",
        offsets=offsets,
        read_percent=_read_percent(kind, options, read.ios, write.ios),
        fsync=int(options.get("fsync", 0)) or None if write.ios else None,
        block_bytes=block,
        queue_depth=min(QUEUE_DEPTH_MAX, max(1, depth * max(1, job.threads))),
        duration_s=job.duration_s,
    )


def _read_percent(kind: str, options: Options, reads: int, writes: int) -> int:
    if kind in ("read", "randread"):
        return 100
    if kind in ("write", "randwrite"):
        return 0
    if "rwmixread" in options:
        return int(options["rwmixread"])
    if "rwmixwrite" in options:
        return 100 - int(options["rwmixwrite"])
    return round(100 * reads / max(1, reads + writes))


def options_in_words(options: Options, skip: Sequence[str] = ()) -> str:
    """Options as in a job file, on one line."""
    return " ".join(f"{key}={value}" for key, value in options.items() if key not in skip)
