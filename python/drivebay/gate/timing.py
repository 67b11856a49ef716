"""Recorded requests in a virtual drive's time: figures that depend on no machine.

Each request is sent as soon as all requests have completed that had completed before it in the
recording. Leaves out the processor's time between requests. Effect: a program that computes between
its requests spends less of its time on I/O than the figures suggest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from drivebay import traces
from drivebay.common.errors import UserError
from drivebay.definitions.profiles import Profile
from drivebay.definitions.scaling import with_capacity
from drivebay.gate.record import ENDING
from drivebay.library import Drive, Trace

CAPACITY_BYTES = 64 << 30
"""Least capacity of the scaled drive. guess: above the data of a benchmark, and quickly filled."""
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
"""Figures of a recording, with their units; each is better if it is smaller."""


@dataclass(frozen=True)
class Timed:
    """Figures of a recording by the names in `FIGURES`, NaN if it has none; and its requests by
    class: operation and size, rounded up to a power of two.
    """

    figures: dict[str, float]
    classes: Counter[str]


def recordings(place: Path) -> list[Path]:
    """Recordings of a folder, in the order of their runs; or the one file."""
    if not place.is_dir():
        return [place]
    files = sorted(place.glob(f"*{ENDING}"), key=lambda file: (len(file.name), file.name))
    if not files:
        raise UserError(f"{place} has no recordings", f"drivebay gate record --out {place} -- ...")
    return files


def timed(files: Iterable[Path], profile: Profile) -> Iterator[Timed]:
    """Yields the figures of each recording; each begins with a copy of the same full drive, which
    is scaled down to `CAPACITY_BYTES`.
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
                size_kib = max(1 << (size - 1).bit_length(), 1024) >> 10
                if size:
                    classes[f"{name} {size_kib} KiB"] += 1
        result = full.copy().run(Trace(trace=str(file), mode="dependencies", trim=True))
        figures = {
            "requests": requests.total(),
            "bytes read": moved["read"],
            "bytes written": moved["write"] + moved["write-fua"],
            "flushes": requests["flush"],
            "FUA writes": requests["write-fua"],
            "write amplification": result.waf,
            "I/O time": result.duration_s * 1e3,
            "p99 latency": result.latency.percentile_us(99) if result.ios else float("nan"),
            "mean flush": result.flush_latency_us,
        }
        yield Timed(figures, classes)
