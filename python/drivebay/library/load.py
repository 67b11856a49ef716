"""Loads of the library: a workload with its end, or a trace, as keyword arguments."""

from __future__ import annotations

from typing import IO, Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import (
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    ValidationError,
    model_validator,
)

from drivebay import _core
from drivebay.common.errors import UserError
from drivebay.common.parquet import nameless
from drivebay.definitions import mistakes
from drivebay.definitions.suites import loads
from drivebay.definitions.suites.parts import Data

DURATION_S = 60.0
"""Length of a load that does not say when it ends."""


class _Load(Data):
    model_config = ConfigDict(strict=True)

    @model_validator(mode="wrap")
    @classmethod
    def _as_user_error(cls, given: Any, check: ModelWrapValidatorHandler[Any]) -> Any:
        try:
            return check(given)
        except ValidationError as problem:
            first = mistakes.first(problem)
            hint = f"help(drivebay.{cls.__name__}) lists what there is"
            field = f"{cls.__name__}: {mistakes.dotted(first['loc'])}"
            raise mistakes.user_error(
                first, field, document=f"a {cls.__name__}", hint=hint
            ) from None


class Workload(_Load, loads.Requests):
    """A closed loop: `queue_depth` requests are outstanding at all times.

    Attributes
    ----------
    pattern
        "random" or "sequential".
    read_percent
        Share of reads, 0 to 100; a fraction is possible.
    trim_percent
        Share of trims, below 100, of random loads. They take a queue slot and the drive's time, and
        count in `Result.trims` alone. What is neither read nor trim is a write.
    fsync
        A flush follows so many writes, as fio's `fsync`: it is done when all that the drive has
        acknowledged is safe. It takes a queue slot, and counts in `Result.flushes` alone.
    block_bytes
        Size of a request, a multiple of 512.
    block_bytes_max
        If given, sizes are uniform multiples of `block_bytes` up to this.
    bssplit
        If given, sizes with their shares in per cent, as fio: "4k/40:64k/60".
    rate_iops, rate_process
        At most so many requests a second, at equal distances ("linear") or one by one at random
        ("poisson"), as far as the queue depth allows; late ones are caught up.
    rate_mb_per_s
        At most so many megabytes a second of reads and writes, likewise: a tenant's bandwidth cap.
    thinktime_us, thinktime_blocks
        After every `thinktime_blocks` requests (1) the host waits until all are completed, and then
        so many microseconds.
    handle
        The placement handle of the writes, of a drive with several: `with_("fdp=4:persistent")`.
    reclaim_group
        The reclaim group that they go to, of a drive with several: `fdp.reclaim_groups`.
    zones, zone_op, zone_fill_percent
        On a drive with zones: how many are written at a time, each in sequence; how ("write" at the
        write pointer, "append", "zrwa" in random write areas), or what is asked of zone after zone
        ("reset", "finish", "open", "close"); and what share of each is written, which is in no
        figure of resets and finishes.
    weight
        Commands in a row, 1 to 256, that the controller takes of its submission queue, of jobs that
        run together (NVMe's weighted round robin); it shows where they wait there.
    queue_depth
        Requests outstanding, 1 to 1024, in each of `queues` submission queues (NVMe): a host has
        10 bits for their places, and no drive of the catalog carries more commands.
    span_bytes, span_start_bytes
        The range of the drive that is used; by default all of it.
    offsets
        How random addresses are drawn: "uniform", with replacement, as Iometer; a "permutation",
        each address once in a pass over the span, as fio; "zipf:0.9", the k-th most popular block
        in proportion to k to the power of -0.9, scattered over the span ("zipf:1.0/64": on a drive
        scaled to a 64th, as skewed as "zipf:1.0" is on the whole one); or "zoned:80/20:20/80",
        in 80 % of the accesses the first 20 % of the span; "zoned-scattered:80/20:20/80", 20 % of
        the blocks, scattered over the span.
    streams
        Of a mixed sequential load: a stream of reads and one of writes ("each"), or "shared".
    content
        What is written, as in a suite: "random", "zero", or how many per cent can be compressed
        away. It makes no difference to a virtual drive.
    duration_s, ios, bytes
        The end, whichever comes first: so many seconds of the drive's time, so many requests, so
        many bytes. Without any, 60 seconds.
    until_stable_s
        Ends also when the data rate has stayed within 2 % for so many seconds.
    seed
        Of the addresses; by default that of the run.

    >>> Workload(read_percent=70, queue_depth=8, ios=1_000_000).words()
    '70 % random reads, 4 KiB, QD 8, 1,000,000 I/Os'
    """

    pattern: loads.Pattern = "random"
    read_percent: loads.Percent = 0
    block_bytes: int = 4096
    queue_depth: int = 32
    weight: int = 1
    span_bytes: int | None = None
    span_start_bytes: int = 0
    duration_s: float | None = None
    ios: Annotated[int, Field(ge=1)] | None = None
    bytes: int | None = None
    until_stable_s: int | None = None
    seed: int | None = None

    @model_validator(mode="after")
    def _ends_can_be_counted(self) -> Workload:
        if self.ios is not None and self.largest_bytes > self.block_bytes:
            raise UserError(
                "Workload: 'ios' needs requests of one size", "give 'bytes' or 'duration_s'"
            )
        return self

    def words(self) -> str:
        """What is done, in a line."""
        kinds: dict[float, str] = {0: "writes", 100: "reads"}
        kind = kinds.get(self.read_percent)
        what = f"{self.pattern} {kind}" if kind else f"{self.read_percent} % {self.pattern} reads"
        sizes = _size(self.block_bytes)
        if self.block_bytes_max is not None:
            sizes += f" to {_size(self.block_bytes_max)}"
        if self.bssplit:
            split = loads.shares_of(self.bssplit)
            sizes = " and ".join(f"{percent} % {_size(size)}" for size, percent in split)
        if self.offsets.partition(":")[2]:
            what += f" ({self.offsets})"
        if self.trim_percent:
            what += f" with {self.trim_percent} % trims"
        if self.fsync:
            what += f", a flush after {loads.writes_of(self.fsync)}"
        if self.zones:
            what = loads.zone_words(self.zones, self.zone_op, self.zone_fill_percent)
        if self.handle or self.reclaim_group:
            what += f" on {self.place}"
        ends = []
        if self.ios is not None:
            ends.append(f"{self.ios:,} I/Os")
        if self.bytes is not None:
            ends.append(_size(self.bytes))
        if self._duration_s is not None:
            ends.append(f"{self._duration_s:g} s")
        if self.rate_iops is not None:
            sizes += f", {self.rate_iops:,g} a second"
        if self.rate_mb_per_s is not None:
            sizes += f", {self.rate_mb_per_s:,g} MB/s"
        if self.thinktime_us is not None:
            sizes += f", {self.thinktime_us:,} us think time"
            if self.thinktime_blocks > 1:
                sizes += f" after {self.thinktime_blocks:,}"
        return f"{what}, {sizes}, QD {self.queue_depth}, {' or '.join(ends)}"

    @property
    def _duration_s(self) -> float | None:
        endless = self.ios is None and self.bytes is None
        return DURATION_S if endless and self.duration_s is None else self.duration_s

    def core(self, capacity_bytes: int) -> _core.Workload:
        """The load as the core runs it on a drive of this capacity."""
        span = self.span_bytes
        rest = max(0, capacity_bytes - self.span_start_bytes)
        return _core.Workload(**{**self.fields(), "span_bytes": rest if span is None else span})

    def fields(self) -> dict[str, Any]:
        """The document of the core's workload, with its end."""
        ends = [self.bytes, None if self.ios is None else self.ios * self.block_bytes]
        window = self.until_stable_s
        stop = {
            "duration_s": self._duration_s,
            "bytes": min((end for end in ends if end is not None), default=None),
            "stable": None
            if window is None
            else {"window_s": window, "within_percent": 2.0, "min_s": window},
        }
        span = {"span_start_bytes": self.span_start_bytes, "span_bytes": self.span_bytes or 0}
        return {**super().fields(), **span, "weight": self.weight, "stop": stop}


class Trace(_Load, loads.TraceLoad):
    """A recorded or synthesized trace, issued again: an open loop.

    Attributes
    ----------
    trace
        "destroyer", "heavy" or "light", synthesized after the Storage Bench's published statistics;
        or the path of a trace (`drivebay trace info` says what can be read).
    scale
        Share of a synthesized trace's requests.
    mode
        "recorded", at the recorded times; or "dependencies", each request as soon as what it waited
        for in the recording has completed.
    idle_ms_max
        Longer pauses are cut to this; None leaves them.
    time_percent
        Length of the replay in per cent of the recording.
    rule
        Addresses beyond the drive's end are taken modulo its size ("fold"), or all are scaled.
    trim
        Whether trims and flushes are issued too.
    format, time_unit, columns
        Of a file, if not those that are detected: a name of `drivebay trace info --help`; "s",
        "ms", "us" or "ns"; "time=ts:us,offset=lba:512,length=n,op=rw".
    seed
        Of a synthesized trace.

    `Trace.from_arrays` makes one of arrays: any load that a program can draw.
    """

    seed: int | None = None
    _file: IO[bytes] | None = PrivateAttr(default=None)

    @classmethod
    def from_arrays(
        cls,
        *,
        at_s: npt.ArrayLike,
        is_write: npt.ArrayLike,
        offset_bytes: npt.ArrayLike,
        bytes: npt.ArrayLike,
        device: npt.ArrayLike = 0,
        is_trim: npt.ArrayLike = False,
        **options: Any,
    ) -> Trace:
        """A trace of arrays: of NumPy, Arrow, pandas, polars, or lists.

        Parameters
        ----------
        at_s
            When each request is due, in seconds, shape (n,); in any order.
        is_write
            Whether it writes, shape (n,) or one value for all, as the others are:
        offset_bytes, bytes, device
            Where, how much, and of which device.
        is_trim
            Whether it discards instead; asked of a drive with `trim=True`.
        **options
            As of `Trace`: `mode`, `idle_ms_max` and others.

        Raises
        ------
        UserError
            If they are no such arrays.

        >>> gaps = np.random.default_rng(1).exponential(1e-3, 5000)
        >>> Trace.from_arrays(at_s=gaps.cumsum(), is_write=True, offset_bytes=0, bytes=4096).words()
        '5,000 I/Os from arrays, as recorded, idle time cut to 25 ms'
        """
        import pyarrow as pa

        at = _array("at_s", at_s, np.float64)
        if at.ndim != 1 or not at.size or not np.all((at >= 0) & (at <= 1e9)):
            raise UserError(
                "Trace.from_arrays: at_s must be seconds from 0 to 1e9, one for each request",
                "subtract the first request's time",
            )
        given = {
            "op": _array("is_write", is_write, np.bool_),
            "offset_bytes": _array("offset_bytes", offset_bytes, np.uint64),
            "bytes": _array("bytes", bytes, np.uint64),
            "device": _array("device", device, np.uint32),
            "trim": _array("is_trim", is_trim, np.bool_),
        }
        order = np.argsort(at, kind="stable")
        columns = {"at_ns": np.rint(at[order] * 1e9).astype(np.uint64)}
        for name, values in given.items():
            if values.ndim and values.shape != at.shape:
                raise UserError(
                    f"Trace.from_arrays: there are {at.size} times and {values.size} values of "
                    f"{ {'op': 'is_write', 'trim': 'is_trim'}.get(name, name) }",
                    "give one for each request, or one for all",
                )
            columns[name] = np.broadcast_to(values, at.shape)[order]
        columns["op"] = np.where(columns["op"], "write", "read")
        columns["op"] = np.where(columns.pop("trim"), "trim", columns["op"])
        file, path = nameless({name: pa.array(column) for name, column in columns.items()})
        trace = cls(**{"trace": str(path), "format": "csv", **options})
        trace._file = file
        return trace

    def __getstate__(self) -> dict[Any, Any]:
        """Of arrays, with what they say."""
        state = super().__getstate__()
        if self._file is not None:
            self._file.seek(0)
            state["__pydantic_private__"] = {"_file": self._file.read()}
        return state

    def __setstate__(self, state: dict[Any, Any]) -> None:
        private = state["__pydantic_private__"] or {}
        if (content := private.get("_file")) is not None:
            file, path = nameless(content)
            state["__pydantic_private__"] = {"_file": file}
            state["__dict__"] = {**state["__dict__"], "trace": str(path)}
        super().__setstate__(state)

    def words(self) -> str:
        """What is done, in a line."""
        said = super().words()
        if self._file is None:
            return said
        count = self.source(0).info()[1].requests
        return said.replace(self.trace, f"{count:,} I/Os from arrays", 1)


def _array(name: str, values: npt.ArrayLike, kind: type[np.generic]) -> npt.NDArray[Any]:
    try:
        array = np.asarray(values)
        if array.dtype.kind not in ("b" if kind is np.bool_ else "iuf"):
            raise TypeError(f"they are {array.dtype}")
        converted = array.astype(kind, casting="unsafe" if array.dtype.kind == "i" else "same_kind")
        if not np.array_equal(converted, array, equal_nan=array.dtype.kind == "f"):
            raise ValueError("some are negative or too large")
        return converted
    except (TypeError, ValueError, OverflowError) as problem:
        raise UserError(
            f"Trace.from_arrays: {name} cannot be taken as {np.dtype(kind)}: {problem}",
            "help(drivebay.Trace.from_arrays) says what each must be",
        ) from None


def _size(count: int) -> str:
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= size and count % size == 0:
            return f"{count // size} {unit}"
    return f"{count:,} B"
