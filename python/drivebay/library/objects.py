"""Objects of machine-learning models on a drive: traces of keys, and the places of the keys.

A KV cache or a checkpoint names objects by keys; a drive has addresses. `read` takes the recordings
of such programs, `place` gives each object a place by one of three layouts, and the result is a
`Trace` like any other.

Sources: MLPerf Storage's kv_cache_benchmark, `--io-trace-log` (columns Timestamp, Operation,
Object_Size_Bytes, Tier, Key, Phase; Tier-2 is the drive); Mooncake's traces (FAST 2025: timestamp
in ms, and a hash for each block of 512 tokens of the prompt); model cards for sizes of a token.
Limits of 95 % of the objects: the storage assessment of the same benchmark, of 2026. Left out: hits
in the memory above the drive (unless the trace has tiers), writes of a file system, and computation
between the reads of a request; parity, and what members of an array do to one another.
"""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from drivebay.common.errors import EnvironmentProblem, UserError
from drivebay.definitions.scaling import near
from drivebay.library.drives import Drive
from drivebay.library.latency import Latencies
from drivebay.library.life import rated, writable
from drivebay.library.load import Trace

TOKEN_BYTES = {
    # 2 (keys, values) x layers x key heads x head size x 2 bytes, from the models' cards.
    "llama2-7b": 2 * 32 * 32 * 128 * 2,
    "llama3.1-8b": 2 * 32 * 8 * 128 * 2,
    "llama3.1-70b": 2 * 80 * 8 * 128 * 2,
    "mistral-7b": 2 * 32 * 8 * 128 * 2,
    "qwen3-32b": 2 * 64 * 8 * 128 * 2,
    # Multi-head latent attention: layers x (compressed + rotary part) x 2 bytes.
    "deepseek-v3": 61 * (512 + 64) * 2,
}
"""Bytes per token in a KV cache, by model."""
BLOCK_TOKENS = 512
"""Tokens per block in Mooncake's traces."""
REQUEST_BYTES = 2**20
"""Request size; all requests of an object are issued at once."""
REQUESTS_MAX = 5 * 10**7
"""Maximum requests of all passes: each takes some 200 bytes of this machine's memory."""
ALIGN = 4096
CHUNK_BYTES = 512 * 1024
"""Chunk of an array: default of mdadm."""
READ, WRITE, TRIM = range(3)
Layout = Literal["slots", "log", "files"]
Level = Literal["0", "1", "10"]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Objects:
    """Accesses to objects, in the order of their times; arrays of shape (n,).

    Attributes
    ----------
    at_s
        Time, from 0 at the first access.
    is_write
        True for a write. A read of an object that was never written is a hit of older data.
    key
        Number of the object.
    bytes
        Size of the object.
    refills
        True if the read of an evicted object is followed by its write, as a cache computes it
        again.
    demoted
        Share of the writes that evict an object from the tier above; None if the trace does not
        tell.
    """

    at_s: Floats
    is_write: npt.NDArray[np.bool_]
    key: npt.NDArray[np.int64]
    bytes: npt.NDArray[np.int64]
    refills: bool = False
    demoted: float | None = None

    def __len__(self) -> int:
        return len(self.at_s)


def read(path: Path, *, model: str = "llama3.1-8b", tier: str = "Tier-2") -> Objects:
    """Reads a trace of objects: kv_cache_benchmark's CSV (compressed or not) or Mooncake's JSONL.

    Parameters
    ----------
    model
        Model of a Mooncake trace, for the size of its tokens: a name of `TOKEN_BYTES`.
    tier
        Tier of the CSV whose rows are the drive's.

    Raises
    ------
    UserError
        If it has another format, is damaged (with the line), or there is no such model.
    EnvironmentProblem
        If it cannot be read.
    """
    if model not in TOKEN_BYTES:
        raise UserError(f"there is no model '{model}'", f"there are {', '.join(TOKEN_BYTES)}")
    try:
        if path.name.endswith((".jsonl", ".json")):
            return _mooncake(path, TOKEN_BYTES[model] * BLOCK_TOKENS)
        return _kv_csv(path, tier)
    except FileNotFoundError:
        raise UserError(f"{path} does not exist", f"look for it: ls {path.parent}") from None
    except OSError as problem:
        if problem.errno is None:  # raised by the library that decompresses it
            hint = "a CSV, compressed or not, or .jsonl"
            raise UserError(f"{path} cannot be read: {problem}", hint) from None
        raise EnvironmentProblem(
            f"{path}: {problem.strerror or problem}", f"ls -l {path}"
        ) from None


def checkpoints(*, size_bytes: int, every_s: float, count: int = 3, kept: int = 2) -> Objects:
    """Checkpoints of a training run, and a restore of the last one at the end: bursts of writes,
    each in parts of 64 MiB.

    Parameters
    ----------
    size_bytes, every_s
        Size of a checkpoint, and time between two checkpoints.
    count, kept
        Number of checkpoints, and number that is kept: each replaces the oldest.
    """
    parts = max(1, -(-size_bytes // 2**26))
    sizes = np.full(parts, 2**26)
    sizes[-1] = size_bytes - 2**26 * (parts - 1)
    number = np.repeat(np.arange(count + 1), parts)
    slot_of = np.where(number < count, number, count - 1) % kept
    return Objects(
        at_s=np.asarray(number * every_s, dtype=np.float64),
        is_write=number < count,
        key=slot_of * parts + np.tile(np.arange(parts), count + 1),
        bytes=np.tile(sizes, count + 1),
    )


@dataclass(frozen=True)
class Placed:
    """Objects placed on a drive.

    Attributes
    ----------
    trace
        Requests from `since_s` on.
    before
        Requests before `since_s`; None without any.
    misses
        Reads of objects that had been evicted.
    evictions
        Objects that were evicted for others.
    """

    trace: Trace
    before: Trace | None
    misses: int
    evictions: int


def place(
    objects: Objects,
    capacity_bytes: int,
    layout: Layout = "slots",
    *,
    since_s: float = 0.0,
    width: int = 1,
    copies: int = 1,
) -> Placed:
    """Gives objects places on a drive, and converts their accesses to requests.

    Parameters
    ----------
    layout
        "slots": places of one size, that of the largest object; the least recently used one is
        evicted if none is free. "log": one after the other, circular; overwritten objects are lost.
        "files": as slots, and evicted or replaced objects are discarded first.
    since_s
        Earlier requests are a trace of their own, and their misses and evictions are not counted.
    width, copies
        Stripes of an array over this number of drives, each with this number of copies: the
        requests are those of its first drive, and reads take turns among the copies.

    Raises
    ------
    UserError
        If an object is larger than the drive, there are too many, or no requests remain.
    """
    sizes = -(-objects.bytes // ALIGN) * ALIGN
    requests = int((-(-sizes // REQUEST_BYTES)).sum())
    if requests > REQUESTS_MAX:
        raise UserError(
            f"the trace has {requests:,} requests of 1 MiB in all passes, more than"
            f" {REQUESTS_MAX:,}",
            "take a part of it, or fewer passes",
        )
    slot = int(sizes.max(initial=ALIGN))
    if slot > capacity_bytes:
        raise UserError(
            f"an object of {slot:,} bytes does not fit the drive", "take a larger drive"
        )
    choose = _Log(capacity_bytes) if layout == "log" else _Slots(capacity_bytes // slot, slot)
    rows: list[tuple[float, int, int, int]] = []
    misses = evictions = 0
    columns = (objects.at_s, objects.is_write, objects.key, sizes)
    for at, write, key, size in zip(*(column.tolist() for column in columns), strict=True):
        offset = choose.find(key)
        if layout == "files" and write and offset is not None:
            rows.append((at, TRIM, offset, size))  # the old file, which the new one replaces
        if offset is None:
            if not write and key in choose.evicted:
                misses += at >= since_s
                if not objects.refills:
                    continue
                write = True
            offset, gone = choose.put(key, size)
            evictions += len(gone) if at >= since_s else 0
            if layout == "files":
                rows += [(at, TRIM, *extent) for extent in gone]
        rows.append((at, WRITE if write else READ, offset, size))
    if not rows:
        raise UserError(
            "nothing of the trace reaches the drive", "look at its tiers: --tier Tier-1"
        )
    at_s, kind, offsets, lengths = _of_member(*_requests(rows), width=width, copies=copies)

    def trace(chosen: npt.NDArray[np.bool_], begin_s: float) -> Trace | None:
        if not chosen.any():
            return None
        return Trace.from_arrays(
            at_s=at_s[chosen] - begin_s,
            is_write=kind[chosen] == WRITE,
            is_trim=kind[chosen] == TRIM,
            offset_bytes=offsets[chosen],
            bytes=lengths[chosen],
            trim=layout == "files",
            idle_ms_max=None,
        )

    counted = trace(at_s >= since_s, since_s)
    if counted is None:
        raise UserError("nothing of the last pass reaches the drive", "take fewer passes")
    return Placed(counted, trace(at_s < since_s, 0.0), misses, evictions)


def stripes(members: int, level: Level) -> tuple[int, int]:
    """Number of drives that share a stripe of an array, and number of copies of each.

    Raises
    ------
    UserError
        If the level needs another number of drives.
    """
    copies = {"0": 1, "1": members, "10": 2}[level]
    if members % copies or not copies <= members <= 32:
        raise UserError(f"RAID {level} of {members} drives is not possible", "members=8, level=0")
    return members // copies, copies


def _of_member(
    at_s: Floats, kind: Ints, offsets: Ints, lengths: Ints, *, width: int, copies: int
) -> tuple[npt.NDArray[Any], ...]:
    """Requests of the first drive of an array; all of them if it is the only one."""
    stripe = width * CHUNK_BYTES

    def own(offset: Ints) -> Ints:
        return offset // stripe * CHUNK_BYTES + np.minimum(offset % stripe, CHUNK_BYTES)

    begins, lengths = own(offsets), own(offsets + lengths) - own(offsets)
    chosen = (lengths > 0) & ((kind != READ) | (np.arange(len(kind)) % copies == 0))
    return at_s[chosen], kind[chosen], begins[chosen], lengths[chosen]


def _requests(rows: list[tuple[float, int, int, int]]) -> tuple[npt.NDArray[Any], ...]:
    """Splits accesses (time, kind, offset, bytes), except trims, into requests: four columns."""
    at_s, kind, offsets, lengths = (np.array(column) for column in zip(*rows, strict=True))
    most = np.where(kind == TRIM, lengths, REQUEST_BYTES)
    parts = -(-lengths // most)
    row_of = np.repeat(np.arange(len(rows)), parts)
    begins = (np.arange(len(row_of)) - np.repeat(np.cumsum(parts) - parts, parts)) * most[row_of]
    return (
        at_s[row_of],
        kind[row_of],
        offsets[row_of] + begins,
        np.minimum(lengths[row_of] - begins, most[row_of]),
    )


@dataclass(frozen=True)
class Sized:
    """Figures of a drive under objects, for the last pass.

    Attributes
    ----------
    read_mb_per_s, write_mb_per_s
        10^6 bytes per second of the pass.
    read_us, write_us
        Latencies of requests at 50, 99 and 99.9 %, in microseconds; all requests of an object are
        issued at once, so the highest are those of whole objects.
    read_p95_ms, write_p95_ms
        Upper bounds of the time in which 95 % of the objects are read and written, as no object is
        slower than its slowest request; NaN without such accesses.
    longest_read_s, longest_write_s
        Time until the last request of an object, or of a burst of objects, completes: a restore, a
        checkpoint.
    behind_s
        Delay of the pass relative to the trace: above 0 the drive did not keep up.
    waf, waf_bytes, power_w
        Write amplification by mapping units, and by bytes; mean power.
    unsteady
        Reason why the figures are not those of a steady state; empty if they are.
    written_tb_per_day
        Data written per day at this pace.
    years_rated, years_flash
        Years of the whole drive, scaled or not, until the maker's rating, and until its spare flash
        is gone, as `drivebay.age` ends; None if unknown.
    misses, evictions
        As for `Placed`.
    """

    read_mb_per_s: float
    write_mb_per_s: float
    read_us: tuple[float, float, float]
    write_us: tuple[float, float, float]
    read_p95_ms: float
    write_p95_ms: float
    longest_read_s: float
    longest_write_s: float
    behind_s: float
    waf: float
    waf_bytes: float
    unsteady: str
    power_w: float
    written_tb_per_day: float
    years_rated: float | None
    years_flash: float | None
    misses: int
    evictions: int


def size(
    drive: Drive,
    objects: Objects,
    *,
    layout: Layout = "slots",
    share: float = 0.9,
    speed: float = 1.0,
    passes: int = 2,
    scale: float = 1.0,
    members: int = 1,
    level: Level = "0",
    seed: int = 1,
) -> Sized:
    """Figures of a drive, or an array of such drives, under a model's objects, and its life time.

    Parameters
    ----------
    drive
        From `drivebay.drive(name)`; it is filled and idle first.
    layout
        As for `place`.
    share
        Share of the capacity for objects.
    speed
        Factor on the recorded pace: this number of times the users.
    passes
        Number of passes over the trace, each with other objects; only the last is measured.
    scale
        Scale of the drive, not of the objects: for small traces, and less time. The next possible
        share is taken.
    members, level
        Number of drives in an array, and its RAID level. One drive is simulated: the others are
        alike. Latencies are those of the drives' requests.

    Raises
    ------
    UserError
        If objects and drive do not fit, or the level needs another number of drives.
    """
    if not (0 < share <= 1 and 1e-3 <= speed <= 1e6 and 1 <= passes <= 1000):
        raise UserError(
            "size: share must be 0 to 1, speed 0.001 to 10^6, passes 1 to 1000", "share=0.9"
        )
    width, copies = stripes(members, level)
    at, names = objects.at_s / speed, int(objects.key.max(initial=0)) + 1
    length_s = float(at[-1]) + 1.0
    whole = Objects(
        np.concatenate([at + length_s * number for number in range(passes)]),
        np.tile(objects.is_write, passes),
        np.concatenate([objects.key + names * number for number in range(passes)]),
        np.tile(objects.bytes, passes),
        objects.refills,
    )
    small = drive if scale == 1.0 else drive.scaled(near(drive, scale))
    since_s = length_s * (passes - 1)
    own = int(small.capacity_bytes * share)
    space = own if width == 1 else own // CHUNK_BYTES * CHUNK_BYTES * width
    placed = place(whole, space, layout, since_s=since_s, width=width, copies=copies)
    device = small.device(seed=seed)
    device.prepare()
    if placed.before is not None:
        device.run(placed.before, seed=seed)
    result = device.run(placed.trace, seed=seed)
    written = float(result.core.write_bytes.sum())
    took_s = max(result.duration_s, length_s)
    a_day = written / took_s * 86_400
    reads = int((~objects.is_write).sum()) - placed.misses
    writes = int(objects.is_write.sum()) + placed.misses * objects.refills
    tb, _ = rated(drive)
    life = writable(drive, result.waf, result.waf_bytes) if written else None
    return Sized(
        read_mb_per_s=float(result.core.read_bytes.sum()) * members / took_s / 1e6,
        write_mb_per_s=written * width / took_s / 1e6,
        read_us=_percentiles(result.read_latency),
        write_us=_percentiles(result.write_latency),
        read_p95_ms=_within_ms(result.read_latency, reads / members),
        write_p95_ms=_within_ms(result.write_latency, writes / members),
        longest_read_s=_us(result.read_latency, 100) / 1e6,
        longest_write_s=_us(result.write_latency, 100) / 1e6,
        behind_s=max(0.0, result.duration_s - length_s),
        waf=result.waf,
        waf_bytes=result.waf_bytes,
        unsteady=result.unsteady,
        power_w=result.power_w * members,
        written_tb_per_day=a_day * width / 1e12,
        years_rated=tb * 1e12 / a_day / 365.25 if tb and written else None,
        years_flash=life / a_day / 365.25 if life else None,
        misses=placed.misses,
        evictions=placed.evictions,
    )


def _us(latency: Latencies, percent: float) -> float:
    return latency.percentile_us(percent) if latency.bins.total else math.nan


def _percentiles(latency: Latencies) -> tuple[float, float, float]:
    return _us(latency, 50), _us(latency, 99), _us(latency, 99.9)


def _within_ms(latency: Latencies, objects: float) -> float:
    """Time in which 95 % of the objects are complete even if no two slow requests are of the same
    object."""
    return _us(latency, 100 - 5 * objects / max(1, latency.bins.total)) / 1e3


class _Places:
    """Places of objects, as (offset, bytes) by key."""

    def __init__(self) -> None:
        self._used: OrderedDict[int, tuple[int, int]] = OrderedDict()
        self.evicted: set[int] = set()

    def find(self, key: int) -> int | None:
        return self._used[key][0] if key in self._used else None

    def _keep(self, key: int, offset: int, size: int) -> None:
        self._used[key] = (offset, size)
        self.evicted.discard(key)

    def _evict_first(self) -> tuple[int, int]:
        key, extent = self._used.popitem(last=False)
        self.evicted.add(key)
        return extent


class _Slots(_Places):
    """Places of one size; the least recently used is evicted."""

    def __init__(self, count: int, size: int) -> None:
        super().__init__()
        self._free = [number * size for number in reversed(range(count))]

    def find(self, key: int) -> int | None:
        if key in self._used:
            self._used.move_to_end(key)
        return super().find(key)

    def put(self, key: int, size: int) -> tuple[int, list[tuple[int, int]]]:
        """Returns the place of an object, and the evicted extents: (offset, bytes)."""
        gone = [] if self._free else [self._evict_first()]
        offset = gone[0][0] if gone else self._free.pop()
        self._keep(key, offset, size)
        return offset, gone


class _Log(_Places):
    """Places one after the other, circular."""

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self._capacity, self._end = capacity, 0

    def put(self, key: int, size: int) -> tuple[int, list[tuple[int, int]]]:
        begin = self._end if self._end + size <= self._capacity else 0
        self._end = begin + size
        gone = []
        while self._used:
            offset, length = next(iter(self._used.values()))
            if offset >= self._end or offset + length <= begin:
                break
            gone.append(self._evict_first())
        self._keep(key, begin, size)
        return begin, gone


def _kv_csv(path: Path, tier: str) -> Objects:
    import pyarrow as pa
    import pyarrow.csv as csv

    wanted = ("Timestamp", "Operation", "Object_Size_Bytes", "Tier", "Key")
    try:
        table = csv.read_csv(path)
    except pa.ArrowInvalid as problem:
        raise UserError(f"{path} is no CSV: {problem}", "write it with --io-trace-log") from None
    missing = [name for name in wanted if name not in table.column_names]
    if missing:
        raise UserError(
            f"{path} has no column {missing[0]}", f"kv_cache_benchmark's has {', '.join(wanted)}"
        )
    rows = table.filter(pa.compute.equal(table["Tier"], tier)) if table.num_rows else table
    try:
        at = rows["Timestamp"].to_numpy().astype(np.float64)
        with np.errstate(invalid="ignore"):  # values that do not fit become negative
            size = rows["Object_Size_Bytes"].to_numpy().astype(np.int64)
    except (TypeError, ValueError, pa.ArrowInvalid) as problem:
        raise UserError(
            f"{path}: times and sizes must be numbers: {problem}", "look at it"
        ) from None
    operation = np.char.lower(rows["Operation"].to_numpy().astype(str))
    unknown = sorted(set(operation.tolist()) - {"read", "write"})
    if unknown or len(at) == 0 or not np.all((size > 0) & np.isfinite(at)):
        what = f"the operation '{unknown[0]}'" if unknown else f"no rows of {tier} with a size"
        raise UserError(f"{path} has {what}", "its operations are Read and Write; see --tier")
    keys = np.unique(rows["Key"].to_numpy().astype(str), return_inverse=True)[1]
    order = np.argsort(at, kind="stable")
    is_write, demoted = operation == "write", None
    if "Phase" in table.column_names and is_write.any():
        demoted = float((rows["Phase"].to_numpy()[is_write] == "Evict").mean())
    return Objects(at[order] - at.min(), is_write[order], keys[order], size[order], demoted=demoted)


def _mooncake(path: Path, block_bytes: int) -> Objects:
    at: list[float] = []
    keys: list[int] = []
    with path.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            try:
                row = json.loads(line)
                blocks = np.array(row["hash_ids"], dtype=np.int64).tolist()
                if not math.isfinite(float(row["timestamp"])):
                    raise ValueError
                at += [float(row["timestamp"]) / 1e3] * len(blocks)
                keys += blocks
            except (ValueError, KeyError, TypeError, OverflowError):
                hint = 'a line is {"timestamp": 0, "hash_ids": [0, 1]}'
                raise UserError(f"{path}, line {number} is not Mooncake's", hint) from None
    if not keys:
        raise UserError(f"{path} has no blocks", "hash_ids names them")
    key = np.array(keys)
    order = np.argsort(np.array(at), kind="stable")
    key = key[order]
    first = np.zeros(len(key), dtype=bool)
    first[np.unique(key, return_index=True)[1]] = True
    return Objects(np.array(at)[order] - min(at), first, key, np.full(len(key), block_bytes), True)
