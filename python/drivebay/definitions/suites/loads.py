"""Loads: the requests that a drive receives, without their end, which suites and the library add.

The fields mean the same as in fio and Iometer. The core's table (`crates/run/src/workload.rs`) is
the only list of them, from which `load_fields.py` is generated. The core also checks the values,
for a load by itself and for one on a drive.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from drivebay import _core
from drivebay.common import units
from drivebay.common.errors import UserError
from drivebay.common.parquet import unpacked
from drivebay.definitions.suites.load_fields import LoadFields
from drivebay.definitions.suites.parts import Content, Data

ZIPF = "zipf"
# Operations on zones other than writes.
MANAGES = ("reset", "finish", "open", "close")
# Kinds of offsets that fio lacks, or lacks for a job that runs among others.
ONLY_VIRTUAL = ("open-zones:", "sprandom:")


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


_CORES = {field["name"]: field for field in _core.workload_fields()}


def _described(schema: dict[str, Any]) -> None:
    """Adds the core's descriptions to the JSON Schema."""
    for name in LoadFields.model_fields:
        doc, allowed = _CORES[name]["doc"], _CORES[name]["allowed"]
        text = f"{doc} Allowed: {allowed}." if allowed else doc
        schema["properties"][name]["description"] = text


class Requests(LoadFields):
    """A closed loop: `queue_depth` requests are outstanding at all times, in each of `queues`
    submission queues (NVMe).
    """

    model_config = ConfigDict(json_schema_extra=_described)

    content: Content = Content()

    @model_validator(mode="after")
    def _the_core_allows_it(self) -> Requests:
        checked(self.fields())
        return self

    def fields(self) -> dict[str, Any]:
        """Fields of the core's workload, without the span and the end of the load."""
        return {name: getattr(self, name) for name in LoadFields.model_fields}

    @property
    def suffix(self) -> str:
        """Describes the fields that the core's table has a suffix for.

        >>> Requests(trim_percent=5).suffix
        ' with 5 % trims'
        """
        return "".join(
            _CORES[name]["suffix"].format(getattr(self, name))
            for name, field in LoadFields.model_fields.items()
            if getattr(self, name) != field.default
        )

    @property
    def place(self) -> str:
        """Describes the placement handle, and its reclaim group if that is not the first.

        >>> Requests().place
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
        return max(split, default=self.block_bytes_max or self.block_bytes)


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
