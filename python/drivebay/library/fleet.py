"""Drives of the catalog under the loads of a fleet: amplification, years, watts.

A trace of a minute shows the shape of a load: streams of writes in sequence and at random, their
sizes, places and skew. Health logs show how much is written per day. Each drive is scaled, filled
with the fleet's data, and written by the streams until its write amplification is steady, at the
fleet's pace; with placement each stream has its own handle.

Left out: changes of the shape over a day, ages (figures are of a new drive), file systems. guess: a
sequential stream without overwrites in the minute goes in circles over the data that no random
stream writes.
"""

from __future__ import annotations

import dataclasses
import math
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from drivebay import traces
from drivebay._core import Control
from drivebay.analysis import fidelity
from drivebay.common import threads
from drivebay.common.errors import UserError
from drivebay.definitions.scaling import with_capacity
from drivebay.definitions.suites.loads import for_ranks
from drivebay.library.drives import FILL, REST_S, Drive
from drivebay.library.life import rated, writable
from drivebay.library.load import Workload, jobs_of

WORKERS = 2
CAPACITY_BYTES = 1_500_000_000
"""Least capacity of a scaled drive. Blocks of three pages have the amplification of blocks of
twelve within 0.5 %.
"""
LEAST_PAGES = 3
WRITES = 5.0
"""Writes of the whole data that are simulated; the last quarter is measured."""
STEADY = 0.05
"""Largest change of amplification from the third quarter to the last."""
LEAST_BYTES_PER_S = 2e6
"""Least simulated pace; power at a lower pace lies between that and the idle power."""
RUN_BYTES = 8 * 2**20
"""Length from which consecutive writes are a sequential stream."""
OPEN_RUNS = 256
"""Writes after which a run that was not continued has ended."""
STREAM_BLOCK = 128 * 1024
BLOCKS = 4096, 2**20
"""Smallest and largest size of a random write."""
ZONES = 20
FEW = 1000
"""Number of random writes below which no skew is computed."""
DAY_S = 86_400.0


@dataclass(frozen=True)
class Stream:
    """Writes of a load that belong together.

    Attributes
    ----------
    is_sequential
        True if the writes go in circles over the span.
    begin, end
        Span, in shares of the address space.
    share
        Share of the load's written bytes.
    sizes
        Sizes of requests with their whole percentages.
    offsets
        Distribution of random offsets, as for `Workload`.
    trim_percent
        Bytes trimmed, in percent of bytes written and trimmed.
    """

    is_sequential: bool
    begin: float
    end: float
    share: float
    sizes: Mapping[int, int] = dataclasses.field(default_factory=lambda: {4096: 100})
    offsets: str = "uniform"
    trim_percent: float = 0.0

    def words(self) -> str:
        """Stream as text."""
        kind = "in sequence" if self.is_sequential else f"at random ({self.offsets})"
        trims = f", {self.trim_percent:.0f} % trims" if self.trim_percent else ""
        span = f"{self.begin:.0%} to {self.end:.0%}"
        return f"{self.share:.0%} of the bytes {kind} over {span} of the addresses{trims}"


@dataclass(frozen=True)
class Shape:
    """Shape of a load: its streams, its rates in bytes per second, and the end of its addresses."""

    streams: tuple[Stream, ...]
    written_per_s: float
    read_per_s: float
    end_bytes: int


def shape_of(path: Path, capacity_bytes: float | None = None) -> Shape:
    """Shape of a trace's writes.

    Parameters
    ----------
    capacity_bytes
        Capacity of the traced drive; by default the end of the trace's addresses.

    Raises
    ------
    UserError
        If it is no trace, or writes nothing.
    """
    described = traces.info(path).figures
    batches = list(traces.batches(path))
    op = np.concatenate([batch.op for batch in batches])
    offset, size, device = (
        np.concatenate([getattr(batch, name) for batch in batches]).astype(np.int64)
        for name in ("offset_bytes", "bytes", "device")
    )
    is_trim, is_write = op == traces.OPS.index("trim"), np.isin(op, (1, 4))
    written = int(size[is_write].sum())
    if not written:
        raise UserError(f"{path} has no writes", "record a minute in which the drive is written")
    numbers = np.unique(device)
    ends = {n: int((offset + size)[device == n].max()) for n in numbers.tolist()}
    if len(ends) == 1 and capacity_bytes:
        ends = {n: max(end, int(capacity_bytes)) for n, end in ends.items()}
    total, base = sum(ends.values()), 0
    streams: list[Stream] = []
    for number, end in ends.items():
        own = device == number
        place = (base / total, end / total)
        trimmed = int(size[own & is_trim].sum())
        columns = offset[own & is_write], size[own & is_write]
        streams += _streams(*columns, end, place, trimmed, written)
        base += end
    seconds = max(float(described["duration_s"]), 1e-3)
    return Shape(tuple(streams), written / seconds, described["read_bytes"] / seconds, total)


def _streams(
    offset: npt.NDArray[np.int64],
    size: npt.NDArray[np.int64],
    end: int,
    place: tuple[float, float],
    trimmed: int,
    written: int,
) -> list[Stream]:
    """Streams of a device: the sequential one, and the random one."""
    starts, sizes = _runs(offset, size)
    is_long = sizes >= RUN_BYTES
    at, length = starts[~is_long], sizes[~is_long]
    begin, width = place

    def stream(low: float, high: float, amount: int, **more: object) -> Stream:
        span = begin + width * low / end, begin + width * high / end
        return Stream(begin=span[0], end=span[1], share=amount / written, **more)  # type: ignore[arg-type]

    found, low, high = [], 0, 0
    amount = int(length.sum())
    if amount:
        low, high = int(at.min()), int((at + length).max())
        sizes_of = np.exp2(np.rint(np.log2(np.clip(length, *BLOCKS)))).astype(np.int64)
        trims = 100 * trimmed / (trimmed + amount)
        found.append(
            stream(
                low,
                high,
                amount,
                is_sequential=False,
                sizes=_percentages(sizes_of),
                offsets=_skew(at, low, high, int(np.median(sizes_of))),
                trim_percent=min(90.0, trims),
            )
        )
    if is_long.any():
        first, last = int(starts[is_long].min()), int((starts + sizes)[is_long].max())
        circles = int(sizes[is_long].sum()) > 1.1 * (last - first)
        if not circles:  # its true span is longer than a minute: guess
            sides = [(0, low), (high, end)] if amount else [(0, end)]
            inside = [side for side in sides if side[0] <= first and last <= side[1]]
            first, last = inside[0] if inside else (0, end)
        found.append(stream(first, last, int(sizes[is_long].sum()), is_sequential=True))
    return found


def _runs(
    offset: npt.NDArray[np.int64], size: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Beginning and length of each run of writes that continue one another."""
    starts: list[int] = []
    lengths: list[int] = []
    ends: dict[int, int] = {}
    for begin, length in zip(offset.tolist(), size.tolist(), strict=True):
        run = ends.pop(begin, None)
        if run is None:
            run = len(starts)
            starts.append(begin)
            lengths.append(0)
        lengths[run] += length
        ends[begin + length] = run
        if len(ends) > OPEN_RUNS:
            del ends[next(iter(ends))]
    return np.array(starts, dtype=np.int64), np.array(lengths, dtype=np.int64)


def _percentages(sizes: npt.NDArray[np.int64]) -> dict[int, int]:
    """Whole percentages of the sizes, without those below one percent."""
    counts = Counter(sizes.tolist())
    shares = {size: round(100 * count / len(sizes)) for size, count in sorted(counts.items())}
    kept = {size: share for size, share in shares.items() if share}
    most = max(kept, key=lambda size: kept[size])
    kept[most] += 100 - sum(kept.values())
    return kept


def _skew(at: npt.NDArray[np.int64], low: int, high: int, block: int) -> str:
    """Distribution of the offsets: by Zipf's law if they repeat more often than their places
    explain, by zones if these differ, else uniform.
    """
    count, blocks = len(at), max(ZONES, (high - low) // block)
    if count < FEW:
        return "uniform"
    zones = np.bincount((at - low) * ZONES // max(1, high - low), minlength=ZONES)[:ZONES]
    own = blocks / ZONES
    expected = float((own * -np.expm1(-zones / own)).sum())
    distinct = len(np.unique((at - low) // block))
    if distinct < 0.95 * expected:
        least, most = 0.0, 4.0
        for _ in range(40):
            theta = (least + most) / 2
            ranks = np.unique(np.geomspace(1, blocks + 1, 4000).astype(np.int64))
            middle, each = np.sqrt(ranks[:-1] * (ranks[1:] - 1.0)), np.diff(ranks)
            chance = middle**-theta / (middle**-theta * each).sum()
            unseen = float((-np.expm1(-count * chance) * each).sum())
            least, most = (theta, most) if unseen > distinct else (least, theta)
        return f"zipf:{least:.2f}"
    if zones.var() <= 2 * zones.mean() or zones.std() < 0.1 * zones.mean():
        return "uniform"
    shares = np.floor(100 * zones / count).astype(int)
    shares[np.argsort(shares)[::-1][: 100 - shares.sum()]] += 1
    return "zoned:" + ":".join(f"{share}/{100 // ZONES}" for share in shares)


@dataclass(frozen=True)
class Amplified:
    """Steady figures of a drive under a load: write amplification by mapping units and by bytes,
    mean power, and reasons for doubt.
    """

    waf: float
    waf_bytes: float
    power_w: float
    note: str = ""


def amplified(
    drive: Drive,
    shape: Shape,
    *,
    fill: float = 1.0,
    written_per_s: float,
    read_per_s: float = 0.0,
    handles: bool = False,
    writes: float = WRITES,
    seed: int = 1,
    control: Control | None = None,
) -> Amplified:
    """Simulates a drive under a load until it is steady.

    Parameters
    ----------
    fill
        Share of the drive that holds the load's address space.
    written_per_s, read_per_s
        Pace of this drive, in bytes per second.
    handles
        True to write each stream through a placement handle of its own.
    writes
        Number of times that the data is written; the last quarter is measured.

    Raises
    ------
    UserError
        If the drive cannot run the load.
    """
    small = Drive(with_capacity(drive, smallest_bytes(drive)).raw)
    if handles:
        small = small.with_(fdp=f"{max(2, len(shape.streams))}:initial")
    device = small.device(seed=seed)
    data = int(device.capacity_bytes * fill) // STREAM_BLOCK * STREAM_BLOCK
    device._run(FILL.model_copy(update={"bytes": data, "span_bytes": data}), control=control)
    device.rest(REST_S)
    before = device.counters().energy_j
    device.rest(REST_S)
    idle_w = (device.counters().energy_j - before) / REST_S
    pace = max(LEAST_BYTES_PER_S, written_per_s)
    duration_s = writes * data / pace
    jobs: dict[str, Workload] = {}
    for number, stream in enumerate(shape.streams):
        rate = pace * stream.share
        jobs[f"write-{number}"] = _workload(
            stream, data, rate, duration_s, number if handles else 0, round(drive.capacity_bytes / small.capacity_bytes)
        )
    if read_per_s:
        rate = read_per_s / written_per_s * pace / 1e6
        jobs["read"] = Workload(
            read_percent=100,
            block_bytes=32 * 1024,
            span_bytes=data,
            rate_mb_per_s=max(rate, 1e-3),
            duration_s=duration_s,
        )
    cores = device._core.run_jobs(jobs_of(jobs, seed, seed, device.capacity_bytes)[1], control)
    core = max(cores, key=lambda one: one.end_ns)
    host, placed = core.host_pages.astype(float), core.placed_pages.astype(float)
    ends = [int(len(host) * part / 4) - 1 for part in (2, 3, 4)]
    pages, programmed = np.diff(host[ends]), np.diff(placed[ends])
    if not (len(host) >= 8 and pages.all()):
        raise UserError("its run is too short", "lower the pace, or more writes")
    third, waf = (float(value) for value in programmed / pages)
    written = sum(int(one.write_bytes[ends[1] + 1 : ends[2] + 1].sum()) for one in cores)
    power_w = float(core.power_w[ends[1] + 1 : ends[2] + 1].mean())
    notes = []
    if abs(waf / third - 1) > STEADY:
        notes.append(f"not steady: {third:.2f}, then {waf:.2f}")
    if core.end_ns - core.start_ns > 1.05e9 * duration_s:
        notes.append("slower than the load")
    return Amplified(
        waf=waf,
        waf_bytes=float(programmed[1]) * 4096 / max(written, 1),
        power_w=idle_w + (power_w - idle_w) * min(1.0, written_per_s / pace),
        note="; ".join(notes),
    )


def smallest_bytes(drive: Drive) -> int:
    """Capacity to which a drive is scaled: its blocks keep some pages."""
    pages = int(drive.value("nand.pages_per_block"))
    return min(drive.capacity_bytes, max(CAPACITY_BYTES, drive.capacity_bytes * LEAST_PAGES // pages))


def _workload(
    stream: Stream, data: int, rate: float, duration_s: float, handle: int, ranks: int
) -> Workload:
    """Load of a stream on the scaled drive, over its part of `data` bytes."""
    begin = int(data * stream.begin) // STREAM_BLOCK * STREAM_BLOCK
    span = max(2**23, int(data * (stream.end - stream.begin)))
    common = {
        "span_start_bytes": min(begin, data - span // STREAM_BLOCK * STREAM_BLOCK),
        "span_bytes": span // STREAM_BLOCK * STREAM_BLOCK,
        "rate_mb_per_s": max(rate / 1e6, 1e-3),
        "bytes": int(rate * duration_s),
        "handle": handle,
    }
    if stream.is_sequential:
        return Workload(pattern="sequential", block_bytes=STREAM_BLOCK, queue_depth=8, **common)
    smallest = min(stream.sizes)
    split = ":".join(f"{size}/{percent}" for size, percent in stream.sizes.items())
    return Workload(
        block_bytes=smallest,
        bssplit=split if len(stream.sizes) > 1 else None,
        offsets=for_ranks(stream.offsets, ranks),
        trim_percent=stream.trim_percent,
        queue_depth=32,
        **common,
    )
