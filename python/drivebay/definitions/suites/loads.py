"""Loads: what is asked of a drive, wherever it is written; suites and the library add how it ends.

What the fields mean is what fio and Iometer mean. The core checks a load against the drive that it
is run on.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, PlainSerializer, model_validator

from drivebay import _core
from drivebay.common import units
from drivebay.common.errors import UserError
from drivebay.common.parquet import unpacked
from drivebay.definitions.suites.parts import Content, Data

BLOCK_BYTES_MAX = 64 * 2**20
QUEUE_DEPTH_MAX = 1024

Pattern = Literal["random", "sequential"]


def _plain(value: float) -> int | float:
    """Whole numbers as such, in JSON too: 70.0 and 70 are the same load, from the same seed."""
    return int(value) if value == int(value) else value


Percent = Annotated[
    float, Field(ge=0, le=100), AfterValidator(_plain), PlainSerializer(_plain, return_type=Any)
]
BlockBytes = Annotated[int, Field(ge=512, le=BLOCK_BYTES_MAX, multiple_of=512)]
QueueDepth = Annotated[int, Field(ge=1, le=QUEUE_DEPTH_MAX)]


OFFSETS = ("uniform", "permutation", "permutation-repeated")
ZONED = ("zoned", "zoned-scattered")
OPEN_ZONES = "open-zones"
ZIPF = "zipf"
THETA_MAX = 5.0
RANKS_MAX = 4096
ZONES_MAX = 64
ORDERED_ZONES_MAX = 65536


def _offsets(text: str) -> str:
    kind, colon, rest = text.partition(":")
    if text in OFFSETS or (kind == ZIPF and _is_zipf(rest)):
        return text
    if kind in ZONED and _are_zones(rest):
        return text
    if kind == OPEN_ZONES and _are_open_zones(rest):
        return text
    allowed = (
        f"{', '.join(OFFSETS)}, zipf:THETA (above 0, up to 5) or zipf:THETA/RANKS (up to "
        f"{RANKS_MAX}), "
        f"{', '.join(f'{one}:ACCESS/SIZE:...' for one in ZONED)} or {OPEN_ZONES}:OPEN/ZONES "
        f"(fewer open than zones, at most {ORDERED_ZONES_MAX})"
    )
    if kind in ZONED and colon:
        allowed = (
            f"{kind}:ACCESS/SIZE:..., whole per cent of the accesses and of the span that are 100 "
            "each together, at most 64 zones"
        )
    raise ValueError(f"'{text}' is not allowed; must be {allowed}")


def _is_zipf(text: str) -> bool:
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)(?:/(\d{1,9}))?", text)
    if found is None:
        return False
    theta, ranks = found.groups(default="1")
    return 0 < float(theta) <= THETA_MAX and 1 <= int(ranks) <= RANKS_MAX


def for_ranks(offsets: str, ranks: int) -> str:
    """The same offsets; by Zipf's law with so many times the ranks for each block."""
    kind, _, rest = offsets.partition(":")
    if kind != ZIPF:
        return offsets
    theta, _, before = rest.partition("/")
    return f"zipf:{theta}/{int(before or 1) * ranks}"


def _are_zones(text: str) -> bool:
    if not re.fullmatch(r"\d{1,3}/\d{1,3}(:\d{1,3}/\d{1,3})*", text):
        return False
    zones = [tuple(map(int, zone.split("/"))) for zone in text.split(":")]
    whole = all(sum(shares) == 100 for shares in zip(*zones, strict=True))
    return whole and len(zones) <= ZONES_MAX and all(size > 0 for _, size in zones)


def _are_open_zones(text: str) -> bool:
    if not re.fullmatch(r"\d{1,5}/\d{1,5}", text):
        return False
    few, zones = map(int, text.split("/"))
    return 1 <= few < zones <= ORDERED_ZONES_MAX


def shares_of(bssplit: str | None) -> list[tuple[int, int]]:
    """Sizes in bytes with their shares in per cent.

    >>> shares_of("4k/40:65536/60")
    [(4096, 40), (65536, 60)]
    """
    parts = [part.partition("/") for part in (bssplit or "").split(":") if part]
    return [
        (int(size.rstrip("km")) << {"k": 10, "m": 20}.get(size[-1], 0), int(percent))
        for size, _, percent in parts
    ]


def writes_of(fsync: int) -> str:
    """What a flush follows, in words.

    >>> writes_of(1), writes_of(1000)
    ('every write', 'every 1,000 writes')
    """
    return "every write" if fsync == 1 else f"every {fsync:,} writes"


def _bssplit(text: str) -> str:
    if not re.fullmatch(r"\d{1,8}[km]?/\d{1,3}(:\d{1,8}[km]?/\d{1,3}){0,63}", text):
        raise ValueError(f"'{text}' is not allowed; must be SIZE/PERCENT:..., as 4k/40:64k/60")
    shares = shares_of(text)
    if any(size % 512 or not 512 <= size <= BLOCK_BYTES_MAX for size, _ in shares):
        raise ValueError(f"'{text}' is not allowed; sizes must be multiples of 512 up to 64 MiB")
    if sum(percent for _, percent in shares) != 100:
        raise ValueError(f"'{text}' is not allowed; the shares must be 100 % together")
    return text


Offsets = Annotated[str, AfterValidator(_offsets)]
BsSplit = Annotated[str, AfterValidator(_bssplit)]
RateIops = Annotated[float, Field(gt=0, le=1e9)]


class Requests(Data):
    """A closed loop: `queue_depth` requests are outstanding at all times, in each of `queues`
    submission queues (NVMe).

    Random `offsets` are "uniform", drawn with replacement as Iometer does; or a "permutation": each
    address once per pass over the span, every pass in a new order, as fio does with its random map;
    or a "permutation-repeated": all passes in the same order, as fio does with
    `random_generator=lfsr`. They are skewed by "zipf:THETA", the popular blocks scattered over the
    span ("zipf:THETA/RANKS": a block of a scaled drive stands for so many of the whole one), or by
    "zoned:80/20:20/80", per cent of the accesses and of the span, as fio's `random_distribution`,
    or by "zoned-scattered:80/20:20/80", the blocks of a zone scattered too,
    as SSD-iq's; which ones are popular is the same in every load on the same span. With
    "open-zones:4/93" the span is 93 zones, of which four are written at a time, each in order: a
    write goes to one of them at random, and a zone that is full is replaced by another at random,
    which is trimmed before its first write. Sequential
    addresses begin at the span's start and wrap at its end; of a mixed load reads and writes are a
    stream "each", as fio has them, or one "shared" stream whose requests are reads or writes by
    chance, as Iometer has it. With `block_bytes_max` sizes are
    uniform multiples of `block_bytes` up to it; with `bssplit` each size has its share of the
    requests in per cent. `rate_iops` holds requests back so that no more a second are made, in all
    queues together, at equal distances ("linear") or one by one at random ("poisson"); late ones
    are caught up. With `thinktime_us` the host waits after `thinktime_blocks` requests until all
    are completed, and then so many microseconds, as fio with `thinktime_blocks_type=issue`.
    `trim_percent` of the requests are trims, which take a queue slot and the drive's time and count
    in no figure of reads and writes; what is neither read nor trim is a write. With `fsync` a flush
    follows so many writes, as fio's; it takes a queue slot, waits for no other request, and counts
    as trims do.
    """

    pattern: Pattern
    offsets: Offsets = "uniform"
    streams: Literal["each", "shared"] = "each"
    read_percent: Percent
    trim_percent: Percent = 0
    fsync: Annotated[int, Field(ge=1, lt=2**32)] | None = None
    block_bytes: BlockBytes
    queue_depth: QueueDepth
    queues: Annotated[int, Field(ge=1, le=128)] = 1
    block_bytes_max: Annotated[int, Field(ge=1024, le=BLOCK_BYTES_MAX)] | None = None
    bssplit: BsSplit | None = None
    rate_iops: RateIops | None = None
    rate_process: Literal["linear", "poisson"] = "linear"
    thinktime_us: Annotated[int, Field(ge=1, le=10**9)] | None = None
    thinktime_blocks: Annotated[int, Field(ge=1, lt=2**32)] = 1
    content: Content = Content()

    @model_validator(mode="after")
    def _fields_have_a_meaning(self) -> Requests:
        uniform = (self.pattern, self.offsets) == ("random", "uniform")
        most = self.block_bytes_max
        differ = "bssplit" if self.bssplit else "block_bytes_max"
        differing = bool(self.bssplit) or most is not None
        if differing and (self.pattern != "random" or "permutation" in self.offsets):
            raise ValueError(f"'{differ}' needs pattern 'random' and no permutation")
        if self.bssplit and most is not None:
            raise ValueError("'bssplit' and 'block_bytes_max' exclude each other")
        if any(size % self.block_bytes for size, _ in shares_of(self.bssplit)):
            raise ValueError(
                f"the sizes of 'bssplit' must be multiples of block_bytes ({self.block_bytes})"
            )
        if self.writes_zones and (self.read_percent or self.trim_percent or differing):
            raise ValueError(f"'offsets' {OPEN_ZONES} are of writes alone, of one size")
        if self.rate_process != "linear" and self.rate_iops is None:
            raise ValueError("'rate_process' needs a 'rate_iops'")
        if self.thinktime_blocks != 1 and self.thinktime_us is None:
            raise ValueError("'thinktime_blocks' needs a 'thinktime_us'")
        if self.fsync and self.trim_percent + self.read_percent >= 100:
            raise ValueError("'fsync' needs writes, which it follows")
        if self.fsync and self.rate_iops is not None:
            raise ValueError("'fsync' and 'rate_iops' exclude each other")
        for field in ("thinktime_us", "trim_percent", "fsync"):
            if getattr(self, field) and self.queues > 1:
                raise ValueError(f"'{field}' needs one queue")
        if self.trim_percent and self.pattern != "random":
            raise ValueError("'trim_percent' needs pattern 'random'")
        if self.trim_percent == 100 or self.trim_percent + self.read_percent > 100:
            raise ValueError("'trim_percent' must be below 100, and 100 at most with read_percent")
        if most is not None and (most <= self.block_bytes or most % self.block_bytes):
            raise ValueError(
                f"block_bytes_max: {most} is not allowed; must be a multiple of block_bytes "
                f"({self.block_bytes}), and more"
            )
        if self.offsets != "uniform" and self.pattern != "random":
            raise ValueError("'offsets' has no meaning for a sequential load")
        mixed = self.pattern == "sequential" and 0 < self.read_percent < 100
        if self.streams != "each" and not mixed:
            raise ValueError("'streams' has a meaning for mixed sequential loads only")
        # Of several queues each would go its own way on a real drive, and they share one here.
        if self.queues > 1 and not uniform:
            raise ValueError("several 'queues' need pattern 'random' and offsets 'uniform'")
        return self

    @property
    def writes_zones(self) -> bool:
        """Whether zones are written in order and trimmed before."""
        return self.offsets.startswith(OPEN_ZONES)

    @property
    def stands_for_ranks(self) -> bool:
        """Whether a block stands for several ranks of Zipf's law."""
        return self.offsets.startswith(ZIPF) and "/" in self.offsets

    @property
    def largest_bytes(self) -> int:
        """Size of the largest request."""
        split = [size for size, _ in shares_of(self.bssplit)]
        return max([self.block_bytes_max or self.block_bytes, *split])

    def on_span(
        self,
        start: int,
        length: int,
        *,
        duration_s: float | None,
        bytes_max: int | None,
        until_stable: tuple[int, float, int] | None,
    ) -> _core.Workload:
        """As the core runs them: on a span in bytes, up to the first of these ends."""
        return _core.Workload(
            pattern=self.pattern,
            offsets=self.offsets,
            streams=self.streams,
            read_percent=self.read_percent,
            trim_percent=self.trim_percent,
            fsync=self.fsync,
            block_bytes=self.block_bytes,
            block_bytes_max=self.block_bytes_max,
            bssplit=shares_of(self.bssplit),
            rate_iops=self.rate_iops,
            rate_process=self.rate_process,
            thinktime_us=self.thinktime_us,
            thinktime_blocks=self.thinktime_blocks,
            queue_depth=self.queue_depth,
            queues=self.queues,
            span_start_bytes=start,
            span_bytes=length,
            duration_s=duration_s,
            bytes=bytes_max,
            until_stable=until_stable,
        )


class TraceLoad(Data):
    """A trace, issued again (an open loop): what docs/concepts/replay.md defines, as data.

    `trace` is the name of a synthesized trace ("destroyer", "heavy" or "light"), or a file's path.
    Requests are due at their recorded times, idle time cut to `idle_ms_max`, or ("dependencies") as
    soon as what they waited for in the recording has completed. `scale` is the share of a
    synthesized trace's requests. `format` and `time_unit` of a file say what is not detected, or
    other than its format says ("s", "ms", "us", "ns"), `columns` which column of CSV or Parquet
    holds what ("time=ts:us,offset=lba:512"). `rule` brings addresses beyond the drive's
    end onto it: modulo its size ("fold"), or in proportion. `trim`: trims and flushes as well.
    """

    trace: Annotated[str, Field(min_length=1, max_length=4096)]
    scale: Annotated[float, Field(ge=1e-4, le=10)] = 1.0
    mode: Literal["recorded", "dependencies"] = "recorded"
    idle_ms_max: Annotated[float, Field(ge=0, le=3.6e6)] | None = 25.0
    time_percent: Annotated[int, Field(ge=1, le=10_000)] = 100
    rule: Literal["fold", "scale"] = "fold"
    trim: bool = False
    format: str | None = None
    time_unit: Literal["s", "ms", "us", "ns"] | None = None
    columns: str | None = None

    def words(self) -> str:
        """What is done, in a line.

        >>> TraceLoad(trace="light", scale=0.5).words()
        'light, 0.5 of its I/Os, as recorded, idle time cut to 25 ms'
        """
        part = "" if self.scale == 1 else f", {self.scale:g} of its I/Os"
        if self.mode == "dependencies":
            return f"{self.trace}{part}, as fast as the recorded dependencies allow"
        speed = "" if self.time_percent == 100 else f" in {self.time_percent} % of the time"
        cut = "" if self.idle_ms_max is None else f", idle time cut to {self.idle_ms_max:g} ms"
        return f"{self.trace}{part}, as recorded{speed}{cut}"

    def check(self, *, where: str) -> None:
        """Raises UserError if there is no such trace."""
        path, names = Path(self.trace), _core.synth_names()
        if self.trace not in names and (path.is_dir() or not path.exists()):
            raise UserError(
                f"{where}: there is no trace '{self.trace}': neither a file nor one of "
                f"{', '.join(names)}",
                "name a file that drivebay trace info can read",
            )

    def source(self, seed: int) -> _core.TraceSource:
        """Where its requests come from; `seed` is of a synthesized one."""
        if self.trace in _core.synth_names():
            return _core.TraceSource.synth(self.trace, self.scale, seed)
        path = Path(self.trace)
        return _core.TraceSource.file(
            path,
            self.format,
            time_unit=self.time_unit,
            unpacked=unpacked(path, self.columns),
            columns=self.columns,
        )

    def notes(self, capacity_bytes: int, *, empty: bool = False) -> list[str]:
        """What a user should know before a recorded trace is replayed, in sentences.

        Parameters
        ----------
        empty : whether nothing was written to the drive before.
        """
        source = self.source(0)
        if source.path is None or not source.path.is_file():
            return []
        found, summary = source.info()
        notes = list(summary.notes)
        end, unwritten = found.address_end_bytes, found.unwritten_read_share
        if end is not None and end > capacity_bytes:
            how = {
                "fold": "they are taken modulo its size",
                "scale": "all are brought onto it in proportion",
            }[self.rule]
            notes.append(
                f"the trace's addresses reach to {units.si_bytes(end)}, beyond the drive's "
                f"{units.si_bytes(capacity_bytes)}: {how}"
            )
        if found.devices > 1:
            notes.append(f"{found.devices:,} devices of the trace share the drive")
        if empty and unwritten:
            notes.append(
                f"{unwritten:.0%} of the pages that the trace reads were never written: reading "
                "them takes no flash"
            )
        return notes

    def options(self, *, seed: int = 1) -> _core.ReplayOptions:
        """How it is replayed; `seed` is of what is written to a real drive."""
        idle = self.idle_ms_max
        return _core.ReplayOptions(
            mode=self.mode,
            idle_max_s=None if idle is None else idle / 1000,
            time_percent=self.time_percent,
            rule=self.rule,
            trim=self.trim,
            seed=seed,
        )
