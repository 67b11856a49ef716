"""Recorded requests in a virtual drive's time: figures that depend on no machine.

Each request is sent as soon as all requests have completed that had completed before it in the
recording. Leaves out the processor's time between requests. Effect: a program that computes between
its requests spends less of its time on I/O than the figures suggest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from math import nan
from pathlib import Path
from statistics import fmean

from drivebay import traces
from drivebay.common.errors import UserError
from drivebay.definitions.profiles import Profile
from drivebay.definitions.scaling import with_capacity
from drivebay.gate.record import ENDING
from drivebay.library import Device, Drive, Result, Trace, Workload

# Least capacity of the scaled drive. guess: above the data of a benchmark, and quickly filled.
CAPACITY_BYTES = 16 << 30
# Copies of the drive that a recording runs on, and 4 KiB pages that each has written more than the
# one before. Which reads wait for a program depends on the fill of the write buffer: one page more
# before the first read changes PostgreSQL's I/O time by up to 3 %. guess: both, enough for a mean.
PHASES, STEP = 16, 3
# Figures of a recording, with their units; each is better if it is smaller.
FIGURES = {
    "requests": "",
    "bytes read": "B",
    "bytes written": "B",
    "flushes": "",
    "FUA writes": "",
    "write amplification": "",
    "I/O time": "ms",
    "p99 latency": "us",
    "mean flush": "us",
}


def recordings(place: Path) -> list[Path]:
    """Recordings of a folder, in the order of their runs; or the one file."""
    if not place.is_dir():
        return [place]
    files = sorted(place.glob(f"*{ENDING}"), key=lambda file: (len(file.name), file.name))
    if not files:
        raise UserError(f"{place} has no recordings", f"drivebay gate record --out {place} -- ...")
    return files


def timed(files: Iterable[Path], profile: Profile) -> Iterator[dict[str, float]]:
    """Yields the figures of each recording, NaN if it has none; and its requests by class, an
    operation with its size rounded up to a power of two. Each recording begins with a copy of the
    same full drive, which is scaled down to `CAPACITY_BYTES`; times are means over `PHASES`.
    """
    small = with_capacity(profile, min(CAPACITY_BYTES, profile.capacity_bytes))
    full = Drive(small.raw).device()
    full.prepare()
    for file in files:
        classes, requests, moved = Counter[str](), Counter[str](), Counter[str]()
        for columns in traces.batches(file):
            for op, size in zip(columns.op.tolist(), columns.bytes.tolist(), strict=True):
                name = traces.OPS[op]
                requests[name] += 1
                moved[name] += size
                if size:
                    classes[f"{name} {max(1 << (size - 1).bit_length(), 1024) >> 10} KiB"] += 1
        runs = list(_results(full, Trace(trace=str(file), mode="dependencies", trim=True)))
        yield {
            "requests": requests.total(),
            "bytes read": moved["read"],
            "bytes written": moved["write"] + moved["write-fua"],
            "flushes": requests["flush"],
            "FUA writes": requests["write-fua"],
            "write amplification": fmean(run.waf for run in runs),
            "I/O time": fmean(run.duration_s * 1e3 for run in runs),
            "p99 latency": fmean(run.latency.percentile_us(99) if run.ios else nan for run in runs),
            "mean flush": fmean(run.flush_latency_us for run in runs),
            **dict(sorted(classes.items())),
        }


def _results(full: Device, trace: Trace) -> Iterator[Result]:
    for pages in range(0, PHASES * STEP, STEP):
        drive = full.copy()
        if pages:
            drive.run(Workload(pattern="sequential", read_percent=0, ios=pages))
        yield drive.run(trace)
