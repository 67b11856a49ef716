"""Loads: the requests that a drive receives, without their end, which suites and the library add.

The fields mean the same as in fio and Iometer. This module has their names, types and defaults; the
core defines and checks the allowed values, for a load by itself and for one on a drive.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, PlainSerializer, model_validator

from drivebay import _core
from drivebay.common import units
from drivebay.common.errors import UserError
from drivebay.common.parquet import unpacked
from drivebay.definitions.suites.parts import Content, Data

Pattern = Literal["random", "sequential"]


def _plain(value: float) -> int | float:
    """Converts whole numbers to int, also in JSON: 70.0 and 70 are the same load with the same
    seed.
    """
    return int(value) if value == int(value) else value


Percent = Annotated[float, AfterValidator(_plain), PlainSerializer(_plain, return_type=Any)]

ZIPF = "zipf"
MANAGES = ("reset", "finish", "open", "close")
"""Operations on zones other than writes."""
ONLY_VIRTUAL = ("open-zones:", "sprandom:")
"""Kinds of offsets that fio lacks, or lacks for a job that runs among others."""


class FieldError(ValueError):
    """The core refused a field of a load; the message has the value and the allowed ones."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(text)
        self.field = field


def checked(fields: dict[str, Any]) -> _core.Workload:
    """Makes the core's form of a load.

    Raises
    ------
    FieldError
        If the core does not allow it.
    """
    try:
        return _core.Workload(**fields)
    except UserError as wrong:
        field, _, text = wrong.message.partition(": ")
        raise FieldError(field.removeprefix("stop."), text) from None


def _with_the_cores_words(schema: dict[str, Any]) -> None:
    """Adds the core's descriptions of allowed values to the JSON Schema."""
    for name, _, allowed in _core.workload_fields():
        if allowed and name in schema["properties"]:
            schema["properties"][name]["description"] = allowed


def for_ranks(offsets: str, ranks: int) -> str:
    """Returns the same offsets; by Zipf's law, each block stands for `ranks` times as many
    ranks.
    """
    kind, _, rest = offsets.partition(":")
    if kind != ZIPF:
        return offsets
    theta, _, before = rest.partition("/")
    return f"zipf:{theta}/{int(before or 1) * ranks}"


def shares_of(bssplit: str | None) -> list[tuple[int, int]]:
    """Parses sizes in bytes with their shares in per cent.

    >>> shares_of("4k/40:65536/60")
    [(4096, 40), (65536, 60)]
    """
    parts = [part.partition("/") for part in (bssplit or "").split(":") if part]
    return [
        (int(size.rstrip("km")) << {"k": 10, "m": 20}.get(size[-1], 0), int(percent))
        for size, _, percent in parts
    ]


def writes_of(fsync: int) -> str:
    """Describes how often a flush follows writes.

    >>> writes_of(1), writes_of(1000)
    ('every write', 'every 1,000 writes')
    """
    return "every write" if fsync == 1 else f"every {fsync:,} writes"


def zone_words(zones: int, op: str, fill_percent: float) -> str:
    """Describes the requests of a load on zones.

    >>> zone_words(4, "append", 25), zone_words(1, "reset", 100)
    ('appends to 4 zones at a time, 25 % of each', 'zone resets')
    """
    if op in MANAGES:
        return f"zone {op}{'es' if op == 'finish' else 's'}"
    if op == "zrwa":
        return f"writes to random write areas of {zones} zone{'s at a time' if zones > 1 else ''}"
    part = "" if fill_percent == 100 else f", {fill_percent:g} % of each"
    return f"{op}s to {zones} zone{'s at a time' if zones > 1 else ''}{part}"


class Requests(Data):
    """A closed loop: `queue_depth` requests are outstanding at all times, in each of `queues`
    submission queues (NVMe).

    Random `offsets` are "uniform", drawn with replacement as in Iometer; or a "permutation": each
    address once per pass over the span, every pass in a new order, as fio does with its random map;
    or a "permutation-repeated": all passes in the same order, as fio does with
    `random_generator=lfsr`. They are skewed by "zipf:THETA", with the popular blocks scattered over
    the span ("zipf:THETA/RANKS": a block of a scaled drive stands for RANKS blocks of the whole
    drive), or by "zoned:80/20:20/80", per cent of the accesses and of the span, as fio's
    `random_distribution`, or by "zoned-scattered:80/20:20/80", with the blocks of a zone scattered
    too, as in SSD-iq; the same blocks are popular in every load on the same span. With
    "open-zones:4/93" the span is 93 zones, of which four are written at a time, each in order: a
    write goes to one of them at random, and a full zone is replaced by another one at random, which
    is trimmed before its first write. Sequential addresses begin at the span's start and wrap at
    its end. In a mixed load, reads and writes have one stream "each", as in fio, or one "shared"
    stream whose requests are reads or writes at random, as in Iometer.

    With `block_bytes_max` sizes are uniform multiples of `block_bytes` up to it; with `bssplit`
    each size has its share of the requests in per cent. `rate_iops` limits the requests per second,
    in all queues together, at equal intervals ("linear") or at random ones ("poisson"); late
    requests are caught up. `rate_mb_per_s` limits megabytes per second of reads and writes in the
    same way. With `thinktime_us` the host waits after `thinktime_blocks` requests until all are
    completed, and then for this many microseconds, as fio with `thinktime_blocks_type=issue`.

    `trim_percent` of the requests are trims, which take a queue slot and the drive's time and count
    in no figure of reads and writes; all requests that are neither reads nor trims are writes. With
    `fsync` a flush follows every so many writes, as in fio; it takes a queue slot, waits for no
    other request, and is counted like a trim. Writes go to the placement `handle` of a drive that
    has several (Flexible Data Placement, `fdp.handles`), in a `reclaim_group`
    (`fdp.reclaim_groups`).

    On a drive with zones a sequential load writes `zones` zones at a time in turns, each from its
    beginning, where it is reset first, and then the next ones of the span; by appends, or by writes
    at the write pointers ("write"), of which a zone has one at a time unless it has a random write
    area ("zrwa"). `zone_fill_percent` of each zone is written. With the other kinds of `zone_op`
    the load resets or finishes zone after zone, once that much is written, or opens or closes an
    empty zone, which is reset before each operation; only these operations count in any figure.
    """

    model_config = ConfigDict(json_schema_extra=_with_the_cores_words)

    pattern: Pattern
    offsets: str = "uniform"
    streams: Literal["each", "shared"] = "each"
    read_percent: Percent
    trim_percent: Percent = 0
    fsync: int | None = None
    block_bytes: int
    queue_depth: int
    queues: int = 1
    block_bytes_max: int | None = None
    bssplit: str | None = None
    rate_iops: float | None = None
    rate_process: Literal["linear", "poisson"] = "linear"
    rate_mb_per_s: float | None = None
    thinktime_us: int | None = None
    thinktime_blocks: int = 1
    handle: int = 0
    reclaim_group: int = 0
    zones: int = 0
    zone_op: Literal["write", "append", "zrwa", "reset", "finish", "open", "close"] = "write"
    zone_fill_percent: float = 100
    content: Content = Content()

    @model_validator(mode="after")
    def _the_core_allows_it(self) -> Requests:
        checked(self.fields())
        return self

    def fields(self) -> dict[str, Any]:
        """Fields of the core's workload, without the span and the end of the load."""
        return {name: getattr(self, name) for name in Requests.model_fields if name != "content"}

    @property
    def place(self) -> str:
        """Describes the placement handle, and its reclaim group if that is not the first.

        >>> Requests(pattern="random", read_percent=0, block_bytes=4096, queue_depth=1).place
        'handle 0'
        """
        group = f" of reclaim group {self.reclaim_group}" if self.reclaim_group else ""
        return f"handle {self.handle}{group}"

    @property
    def only_virtual(self) -> bool:
        """True if a real drive cannot be given such offsets."""
        return self.offsets.startswith(ONLY_VIRTUAL)

    @property
    def manages_zones(self) -> bool:
        """True if zones are reset, finished, opened or closed, not written."""
        return self.zone_op in MANAGES

    @property
    def stands_for_ranks(self) -> bool:
        """True if a block stands for several ranks of Zipf's law."""
        return self.offsets.startswith(ZIPF) and "/" in self.offsets

    @property
    def largest_bytes(self) -> int:
        """Size of the largest request."""
        split = [size for size, _ in shares_of(self.bssplit)]
        return max([self.block_bytes_max or self.block_bytes, *split])


class TraceLoad(Data):
    """A trace replay (an open loop), as docs/concepts/replay.md defines it, as data.

    `trace` is the name of a synthesized trace ("destroyer", "heavy" or "light"), or a file's path.
    Requests are due at their recorded times, with idle time cut to `idle_ms_max`, or
    ("dependencies") as soon as the requests that they waited for in the recording have completed.
    `scale` is the share of a synthesized trace's requests. `format` and `time_unit` ("s", "ms",
    "us", "ns") of a file are needed if they cannot be detected or differ from the format's;
    `columns` assigns columns of CSV or Parquet ("time=ts:us,offset=lba:512"). `rule` maps addresses
    beyond the drive's end: modulo its size ("fold"), or in proportion. `trim`: trims and flushes
    are issued too. `handle_by` "device": the number of a request's device is its placement handle,
    on virtual drives.
    """

    trace: Annotated[str, Field(min_length=1, max_length=4096)]
    scale: Annotated[float, Field(ge=1e-4, le=10)] = 1.0
    mode: Literal["recorded", "dependencies"] = "recorded"
    idle_ms_max: Annotated[float, Field(ge=0, le=3.6e6)] | None = 25.0
    time_percent: Annotated[int, Field(ge=1, le=10_000)] = 100
    rule: Literal["fold", "scale"] = "fold"
    trim: bool = False
    handle_by: Literal["device"] | None = None
    format: str | None = None
    time_unit: Literal["s", "ms", "us", "ns"] | None = None
    columns: str | None = None

    def words(self) -> str:
        """Describes the replay in one line.

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
        """Source of its requests; `seed` is for a synthesized trace."""
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
        """Notes for the user before a recorded trace is replayed, in sentences.

        Parameters
        ----------
        empty : True if nothing was written to the drive before.
        """
        source = self.source(0)
        if source.path is None or not source.path.is_file():
            return []
        info, summary = source.info()
        notes = list(summary.notes)
        end, unwritten = info.address_end_bytes, info.unwritten_read_share
        if end is not None and end > capacity_bytes:
            how = {
                "fold": "they are taken modulo its size",
                "scale": "all are brought onto it in proportion",
            }[self.rule]
            notes.append(
                f"the trace's addresses reach to {units.si_bytes(end)}, beyond the drive's "
                f"{units.si_bytes(capacity_bytes)}: {how}"
            )
        if info.devices > 1:
            notes.append(f"{info.devices:,} devices of the trace share the drive")
        if empty and unwritten:
            notes.append(
                f"{unwritten:.0%} of the pages that the trace reads were never written: reading "
                "them takes no flash"
            )
        return notes

    def options(self, **real: Any) -> _core.ReplayOptions:
        """Options of the core's replay; `real` are additional options for a real drive. Raises
        UserError if the load needs placement handles there.
        """
        if real and self.handle_by is not None:
            raise UserError(
                "--handle-by is for virtual drives", "leave it out, or name one: drivebay drives"
            )
        idle = self.idle_ms_max
        return _core.ReplayOptions(
            mode=self.mode,
            idle_max_s=None if idle is None else idle / 1000,
            time_percent=self.time_percent,
            rule=self.rule,
            trim=self.trim,
            handle_by_device=self.handle_by == "device",
            **real,
        )
