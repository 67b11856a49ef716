"""Drives of the catalog under the loads of a fleet: amplification, years, watts.

A trace of a minute shows the shape of a load: a stream of writes in sequence and one at random,
their places, size and skew. Health logs show how much is written per day. Each drive is scaled,
filled with the fleet's data, and written by the streams at the fleet's pace until its write
amplification is steady; with placement each stream has its own handle.

Left out: changes of the shape over a day, ages (figures are of a new drive), file systems, sizes of
random writes other than the median. guess: a sequential stream without overwrites in the minute
goes in circles over the addresses that no random stream writes.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from drivebay import traces
from drivebay._core import Control
from drivebay.analysis import fidelity
from drivebay.common import threads
from drivebay.common.errors import UserError
from drivebay.definitions.scaling import with_capacity
from drivebay.definitions.suites.loads import for_ranks
from drivebay.library import fleet_logs
from drivebay.library.drives import FILL, REST_S, Drive
from drivebay.library.life import DAY_S, rated, writable
from drivebay.library.load import Workload, jobs_of

CAPACITY_BYTES, LEAST_PAGES = 1_500_000_000, 3
"""Least capacity of a scaled drive, and least pages of its blocks. Blocks of three pages have the
amplification of blocks of twelve within 0.5 % (PM9A3).
"""
WRITES, STEADY = 5.0, 0.05
"""Writes of the whole data that are simulated, of which the last quarter is measured, and largest
change of amplification from the third quarter to the last.
"""
LEAST_BYTES_PER_S, LEAST_S, QUEUE_DEPTH, READ_BYTES = 2e6, 8.0, 8, 32 * 1024
"""Least simulated pace and time; outstanding requests of each stream, of which SATA allows 32 in
all; guess: size of reads.
"""
RUN_BYTES, OPEN_RUNS = 8 * 2**20, 256
"""Length from which consecutive writes are a sequential stream, and number of runs that may be
continued at the same time.
"""
LEAST_SHARE = 0.001
"""Least share of the bytes of a stream."""
BLOCK_BYTES, LEAST_BYTES, LEAST_SPAN = 128 * 1024, 2**26, 2**23
"""Alignment, and least bytes of the data and of a stream's span, on a scaled drive."""
Fields = dict[str, Any]
IN_SEQUENCE: Fields = {"pattern": "sequential", "block_bytes": BLOCK_BYTES, "offsets": "uniform"}
THETAS = np.arange(0.05, 4.0, 0.05)[:, None]
"""Exponents of Zipf's law that are tried."""
ZONES = 20
"""Zones of the addresses of random writes."""
LEAST_WRITES = 50 * ZONES
"""Writes below which a trace tells little: with 50 writes, a zone's share is known within 14 %."""
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Stream:
    """Writes that belong together: their share of the bytes written, their span in shares of the
    address space, and the fields of their `Workload`, which have `offsets`.
    """

    share: float
    span: tuple[float, float]
    fields: Fields


@dataclass(frozen=True)
class Load:
    """Load of a drive of the fleet: its use (`fleet_logs.uses`), its streams, bytes per second
    written and read, bytes that it holds, and number of writes in its trace.
    """

    use: Fields
    streams: list[Stream]
    written_per_s: float
    read_per_s: float
    data_bytes: float
    traced_writes: int


def loads(logs: Sequence[Path], traced: Sequence[Path]) -> list[Load]:
    """Loads of the drives that the logs are of, each with its trace: that of its name, or the only
    one. Raises UserError if a log or a trace is refused, or a drive has no trace.
    """
    if not (logs and traced):
        hint = "nvme smart-log -o json > NAME-DATE.json; drivebay trace record DEVICE --seconds 60"
        raise UserError("fleet needs a health log (.json) and a trace", hint)
    found = []
    for use in fleet_logs.uses(logs):
        named = [path for path in traced if fleet_logs.name_of(path) in use["names"]]
        own = traced if len(traced) == 1 else named
        if len(own) != 1:
            raise UserError(
                f"{len(own) or 'none'} of the {len(traced)} traces are of the drive {use['name']}",
                f"name one {use['names'][-1]}.csv, or give a single trace for all drives",
            )
        found.append(_load(use, own[0]))
    return found


def _load(use: Fields, path: Path) -> Load:
    try:
        batches = list(traces.batches(path))
    except UserError as problem:
        raise UserError(problem.message, f"drivebay trace convert {path} trace.csv") from None
    op, at, size, device, time = (
        np.concatenate([getattr(batch, name) for batch in batches]).astype(np.int64)
        for name in ("op", "offset_bytes", "bytes", "device", "at_ns")
    )
    if device.min() < device.max():
        hint = "record each device into its own file: drivebay trace record DEVICE --out NAME.csv"
        raise UserError(f"{path} has requests of {len(np.unique(device))} devices", hint)
    writes = np.isin(op, (1, 4))
    if not writes.any():
        raise UserError(f"{path} has no writes", "record a minute in which the device is written")
    end = max(int((at + size).max()), int(use["capacity_bytes"] or 0))
    streams = _streams(at[writes], size[writes], end, int(size[op == 2].sum()))
    seconds = max(np.ptp(time) / 1e9, 1e-3)
    paces = (use["written_per_day"], size[writes]), (use["read_per_day"], size[op == 0])
    rates = [known[0] / DAY_S if known else own.sum() / seconds for known, own in paces]
    amounts = max(1.0, rates[0]), float(rates[1]), use["data_bytes"] or end
    return Load(use, streams, *amounts, int(writes.sum()))


def _streams(at: Ints, size: Ints, end: int, trimmed: int) -> list[Stream]:
    """Streams of writes on `end` bytes: the random one and the one in sequence."""
    runs: list[list[int]] = []
    ends: dict[int, list[int]] = {}
    for begin, length in zip(at.tolist(), size.tolist(), strict=True):
        if (run := ends.pop(begin, None)) is None:
            runs.append(run := [begin, 0])
        run[1] += length
        ends[begin + length] = run
        if len(ends) > OPEN_RUNS:
            del ends[next(iter(ends))]
    whole, is_long = np.array(runs), np.array(runs)[:, 1] >= RUN_BYTES
    found: list[Stream] = []
    free = [(0, end)]
    for some in (whole[~is_long], whole[is_long]):
        amount = some[:, 1].sum()
        if amount < LEAST_SHARE * size.sum():
            continue
        low, high = int(some[:, 0].min()), int(some.sum(axis=1).max())
        fields = IN_SEQUENCE
        if some[0, 1] < RUN_BYTES:
            block = 2 ** round(math.log2(np.clip(np.median(some[:, 1]), 4096, 2**20)))
            trims = min(90.0, float(100 * trimmed / (trimmed + amount)))
            skew = _skew(some[:, 0] - low, high - low, block)
            fields = {"block_bytes": block, "offsets": skew, "trim_percent": trims}
            free = [(0, low), (high, end)]
        elif amount < 1.1 * (high - low):  # not overwritten within the trace: its span is a guess
            inside = [side for side in free if side[0] <= low and high <= side[1]]
            low, high = (*inside, (0, end))[0]
        found.append(Stream(float(amount / size.sum()), (low / end, high / end), fields))
    return found


def _skew(at: Ints, length: int, block: int) -> str:
    """Distribution of the offsets: by the Zipf's law with which so many would repeat, if more than
    their zones explain; by zones if these differ; else uniform.
    """
    count, blocks, distinct = len(at), max(ZONES, length // block), len(np.unique(at // block))
    zones = np.bincount(at * ZONES // length, minlength=ZONES)
    if distinct < 0.95 * blocks * -np.expm1(-zones * ZONES / blocks).mean():
        ranks = np.unique(np.geomspace(1, blocks + 1, 4000).astype(np.int64))
        middle, each = np.sqrt(ranks[:-1] * (ranks[1:] - 1.0)), np.diff(ranks)
        chance = middle**-THETAS / (middle**-THETAS * each).sum(axis=1, keepdims=True)
        seen = -(np.expm1(-count * chance) * each).sum(axis=1)
        return f"zipf:{THETAS[np.abs(seen - distinct).argmin(), 0]:.2f}"
    if zones.std() < max(0.1 * zones.mean(), 2 * zones.mean() ** 0.5):
        return "uniform"
    shares = 100 * zones // count
    shares[np.argsort(-shares)[: 100 - shares.sum()]] += 1
    return "zoned:" + ":".join(f"{share}/{100 // ZONES}" for share in shares)


def smallest_bytes(drive: Drive) -> int:
    """Capacity to which a drive is scaled."""
    least = drive.capacity_bytes * LEAST_PAGES // int(drive.value("nand.pages_per_block"))
    return min(drive.capacity_bytes, max(CAPACITY_BYTES, least))


def amplified(
    drive: Drive, load: Load, count: int, handles: bool, seed: int, control: Control | None = None
) -> tuple[float, float, float, float, str]:
    """Simulates one of `count` drives that share a load until it is steady, with a placement handle
    for each stream or without: write amplification by mapping units and by bytes, power without
    commands and with the load, and a reason for doubt. Raises UserError if the drive cannot run the
    load.
    """
    small = Drive(with_capacity(drive, smallest_bytes(drive)).raw)
    ranks = round(drive.capacity_bytes / small.capacity_bytes)
    small = small.with_(fdp=f"{max(2, len(load.streams))}:initial") if handles else small
    device = small.device(seed=seed)
    data = max(LEAST_BYTES, int(load.data_bytes / count / ranks))
    data = min(small.capacity_bytes, data) // BLOCK_BYTES * BLOCK_BYTES
    device._run(FILL.model_copy(update={"bytes": data, "span_bytes": data}), control=control)
    device.rest(REST_S)
    energy_j = device.counters().energy_j
    device.rest(REST_S)
    idle_w = (device.counters().energy_j - energy_j) / REST_S
    least, most = LEAST_BYTES_PER_S, WRITES * data / LEAST_S
    pace = min(most, max(least, load.written_per_s / count))
    jobs = {}
    for number, stream in enumerate(load.streams):
        begin, end = (int(data * edge) // BLOCK_BYTES * BLOCK_BYTES for edge in stream.span)
        span = max(end - begin, LEAST_SPAN)
        offsets = for_ranks(stream.fields["offsets"], ranks)
        jobs[f"{number}"] = Workload(
            **stream.fields | {"offsets": offsets},
            span_start_bytes=min(begin, data - span),
            span_bytes=span,
            rate_mb_per_s=pace * stream.share / 1e6,
            bytes=int(WRITES * data * stream.share),
            handle=number * handles,
            queue_depth=QUEUE_DEPTH,
        )
    if load.read_per_s > 1:
        reads: Fields = {"read_percent": 100, "block_bytes": READ_BYTES, "span_bytes": data}
        reads |= {"rate_mb_per_s": load.read_per_s / count / 1e6, "queue_depth": QUEUE_DEPTH}
        jobs["read"] = Workload(**reads, duration_s=WRITES * data / pace)
    cores = device._core.run_jobs(jobs_of(jobs, seed, seed, small.capacity_bytes)[1], control)
    core = max(cores, key=lambda one: one.end_ns)
    seconds = [len(core.host_pages) * part // 4 - 1 for part in (2, 3, 4)]
    columns = core.host_pages, core.placed_pages
    pages, programmed = (np.diff(column[seconds].astype(float)) for column in columns)
    last = slice(seconds[1] + 1, None)
    before, waf = (programmed / pages).tolist()
    waf_bytes = programmed[1] * 4096 / sum(int(one.write_bytes[last].sum()) for one in cores)
    note = f"not steady: {before:.2f}, then {waf:.2f}" if abs(waf / before - 1) > STEADY else ""
    return waf, float(waf_bytes), idle_w, float(core.power_w[last].mean()), note


def estimates(
    drives: Sequence[Drive], fleet: Sequence[Load], seed: int, ended: Callable[[str], object]
) -> tuple[list[Fields], dict[str, str]]:
    """Figures of each drive in the place of the fleet's, without and with placement, each with the
    ends of its interval; and the reasons for drives that cannot run the loads. Years are those of
    the first drive that reaches its rating, or whose spare flash is gone. Watts are those of writes
    spread evenly, between idle power and this. `ended`: called after each drive.
    """
    found: dict[str, list[Fields]] = {drive.name: [] for drive in drives}
    refused: dict[str, str] = {}
    control, queue = Control(), list(reversed(drives))

    def work() -> None:
        while queue:
            drive = queue.pop()
            try:
                for handles in (False, True)[: max(len(load.streams) for load in fleet)]:
                    found[drive.name].append(_estimate(drive, fleet, handles, seed, control))
            except UserError as problem:
                refused[drive.name] = problem.message
            ended(drive.name)

    def stop() -> None:
        queue.clear()
        control.cancel()

    threads.together([work] * min(len(drives), os.cpu_count() or 1), stop=stop)
    return [row for rows in found.values() for row in rows], refused


def _estimate(
    drive: Drive, fleet: Sequence[Load], handles: bool, seed: int, control: Control
) -> Fields:
    known: dict[str, tuple[float, float, float, float, str]] = {}
    cycles = drive.raw.get("reliability", {}).get("block_life_cycles", {"value": 1.0})
    ends = np.array(cycles.get("range", (cycles["value"],) * 2)) / cycles["value"]
    error = amplification_error()
    tb, totals, notes = rated(drive)[0], np.zeros(6), {"stand-in" * bool(drive.stand_in)}
    years: dict[str, list[list[float]]] = {"rated": [], "flash": []}
    for load in fleet:
        count, pace = math.ceil(load.data_bytes / drive.capacity_bytes), load.written_per_s
        # Similar drives share a run.
        data = round(20 * load.data_bytes / count / drive.capacity_bytes)
        key = f"{load.streams}, {data}, {math.log2(pace / count):.0f}"
        if key not in known:
            known[key] = amplified(drive, load, count, handles, seed, control)
        waf, waf_bytes, idle_w, power_w, note = known[key]
        notes.add(note)
        per_day = np.array(load.use["written_per_day"] or [pace * DAY_S] * 3)
        watts = np.array([power_w, *sorted((idle_w, power_w))])
        totals += [count, pace, pace * waf, *(count * watts)]
        amounts = {"rated": tb and tb * 1e12, "flash": writable(drive, waf, waf_bytes)}
        for name, amount in amounts.items():
            if amount and load.use["written_per_day"] and per_day[0]:
                factors = ends / error[::-1] if name == "flash" else np.ones(2)
                with np.errstate(divide="ignore"):  # nothing was written between two logs
                    own = amount * count / 365.25 / per_day[[0, 2, 1]] * [1.0, *factors]
                years[name].append(own.tolist())
    waf = totals[2] / totals[1]
    return {
        "drive": drive.name,
        "placement": handles,
        "drives": int(totals[0]),
        "waf": [waf, max(min(1.0, waf), waf * error[0]), waf * error[1]],
        **{f"years_{name}": min(rows, default=[None] * 3) for name, rows in years.items()},
        "watts": totals[3:].tolist(),
        "note": "; ".join(sorted(filter(None, notes))),
    }


@functools.cache
def amplification_error() -> tuple[float, float]:
    """Ends of the 90 % interval of an amplification, as factors: from the errors of the predicted
    published ones, as for other kinds of figures.
    """
    rows = [
        {**row, "off": math.log(row["published"] / row["reproduced"])}
        for row in fidelity.recorded()["rows"]
        if (row["class"], row["metric"]) == (fidelity.PREDICTED, "write amplification")
        and isinstance(row["published"], float)
    ]
    low, high = fidelity.width_of(rows) or (-math.inf, math.inf)
    return math.exp(low), math.exp(high)
