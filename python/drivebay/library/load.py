"""Loads of the library: a workload with its end, or a trace, as keyword arguments."""

from __future__ import annotations

from collections.abc import Mapping
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
from drivebay.common.seeds import derived_seed
from drivebay.definitions import mistakes
from drivebay.definitions.suites import LoadFields, loads
from drivebay.definitions.suites.parts import Data

DURATION_S = 60.0
"""Length of a load without an end."""
SEED_MASK = 2**64 - 1


def whole_seed(seed: Any) -> int:
    """A seed as the core takes it. Raises UserError if it is no whole number."""
    if not isinstance(seed, int):
        raise UserError(f"seed = {seed!r} is not allowed; must be a whole number", "seed=1")
    return seed & SEED_MASK


def checked(load: Any) -> Any:
    """The given load. Raises UserError if it is none."""
    if not isinstance(load, Workload | Trace):
        raise UserError(f"{load!r} is no load", "Workload(duration_s=60), Trace(trace='light')")
    return load


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

    >>> Workload(read_percent=70, queue_depth=8, ios=1_000_000).words()
    '70 % random reads, 4 KiB, QD 8, 1,000,000 I/Os'

    Attributes
    ----------
    weight
        Number of consecutive commands, 1 to 256, that the controller takes from the job's
        submission queue when jobs run together (NVMe's weighted round robin); it has an effect only
        if commands wait there.
    span_bytes, span_start_bytes
        Address range; by default the whole drive.
    content
        Data to write, as in a suite: "random", "zero", or the compressible share in percent. It
        has no effect on a virtual drive.
    duration_s, ios, bytes
        End of the load, whichever comes first: seconds of the drive's time, number of requests,
        number of bytes. Without any, 60 seconds.
    until_stable_s
        Ends also when the data rate has stayed within 2 % for this number of seconds.
    seed
        Seed of the addresses; by default that of the run.
    """

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
        """Load as a line of text."""
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
        what += self.suffix
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
        """Load for the core, on a drive of this capacity."""
        span = self.span_bytes
        rest = max(0, capacity_bytes - self.span_start_bytes)
        return _core.Workload(**{**self.fields(), "span_bytes": rest if span is None else span})

    def fields(self) -> dict[str, Any]:
        """Document of the core's workload, with its end."""
        ends = [self.bytes, None if self.ios is None else self.ios * self.block_bytes]
        window = self.until_stable_s
        stable = {"window_s": window, "within_percent": 2.0, "min_s": window}
        stop = {
            "duration_s": self._duration_s,
            "bytes": min((end for end in ends if end is not None), default=None),
            "stable": None if window is None else stable,
        }
        span = {"span_start_bytes": self.span_start_bytes, "span_bytes": self.span_bytes or 0}
        return {**super().fields(), **span, "weight": self.weight, "stop": stop}


# For help(), which shows no docstrings of base classes.
Workload.__doc__ = (Workload.__doc__ or "") + (LoadFields.__doc__ or "").partition("-\n")[2]


class Trace(_Load, loads.TraceLoad):
    """A recorded or synthesized trace, issued again: an open loop.

    Attributes
    ----------
    trace
        "destroyer", "heavy" or "light", synthesized from the Storage Bench's published statistics;
        or the path of a trace (`drivebay trace info` lists the readable formats).
    scale
        Share of a synthesized trace's requests.
    mode
        "recorded", at the recorded times; or "dependencies", each request as soon as those it
        depended on in the recording have completed.
    idle_ms_max
        Longer pauses are cut to this; None keeps them.
    time_percent
        Length of the replay in percent of the recording.
    rule
        Addresses beyond the drive's end are taken modulo its size ("fold"), or all are scaled.
    trim
        True to issue trims and flushes too.
    format, time_unit, columns
        Properties of a file, if not the detected ones: a name of `drivebay trace info --help`; "s",
        "ms", "us" or "ns"; "time=ts:us,offset=lba:512,length=n,op=rw".
    seed
        Seed of a synthesized trace.

    `Trace.from_arrays` makes a trace from arrays: any load that a program can generate.
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
        """Trace from arrays: of NumPy, Arrow, pandas, polars, or lists.

        Parameters
        ----------
        at_s
            Issue time of each request, in seconds, shape (n,); in any order.
        is_write
            True for a write, shape (n,) or one value for all, as for the others:
        offset_bytes, bytes, device
            Address, size, and device.
        is_trim
            True for a discard; issued only with `trim=True`.
        **options
            As for `Trace`: `mode`, `idle_ms_max` and others.

        Raises
        ------
        UserError
            If the arrays have other shapes or values.

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
        if given["bytes"].size and not given["bytes"].all():
            raise UserError("Trace.from_arrays: a request of 0 bytes", "leave such requests out")
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
        """State for pickling; a trace from arrays includes their data."""
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
        """Trace as a line of text."""
        text = super().words()
        if self._file is None:
            return text
        count = self.source(0).info()[1].requests
        return text.replace(self.trace, f"{count:,} I/Os from arrays", 1)


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


def jobs_of(
    jobs: Mapping[str, Workload], seed: int | None, fallback: int, capacity_bytes: int
) -> tuple[dict[str, int], list[tuple[_core.Workload, int]]]:
    """Seeds by the names of jobs (`seed`, else the job's own, else the fallback), and the jobs for
    the core.
    """
    if not all(isinstance(load, Workload) for load in jobs.values()):
        raise UserError("run_jobs takes workloads by name", 'run_jobs({"a": Workload()})')
    seeds = {
        name: derived_seed(fallback if seed is None else seed, name)
        if seed is not None or load.seed is None
        else load.seed
        for name, load in jobs.items()
    }
    cores = [(load.core(capacity_bytes), whole_seed(seeds[name])) for name, load in jobs.items()]
    return seeds, cores
