"""Loads: what is asked of a drive. A synthetic one, or a trace.

What the fields mean is what fio and Iometer mean; the suites' files have the same words. The core
checks a load against the drive it is run on.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    model_validator,
)

from drivebay.common.errors import UserError
from drivebay.definitions.suites import Content, Replay
from drivebay.targets.replay.source import check, core_plan

DURATION_S = 60.0
"""Length of a load that does not say when it ends."""

Count = Annotated[int, Field(ge=1, lt=2**63)]


class _Load(BaseModel):
    """Checked when it is made, and never changed."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)

    @model_validator(mode="wrap")
    @classmethod
    def _told(cls, given: Any, check: ModelWrapValidatorHandler[Any]) -> Any:
        try:
            return check(given)
        except ValidationError as problem:
            first = problem.errors()[0]
            where = str(first["loc"][0]) if first["loc"] else ""
            raise UserError(
                f"{cls.__name__}: {where} = {first['input']!r} is not allowed: "
                f"{first['msg'][:1].lower()}{first['msg'][1:]}",
                f"help(drivebay.{cls.__name__}) lists what there is",
            ) from None

    def record(self) -> dict[str, Any]:
        """All fields, as JSON values."""
        return self.model_dump()


class Workload(_Load):
    """A closed loop: `queue_depth` requests are outstanding at all times.

    Attributes
    ----------
    pattern
        "random" or "sequential".
    read_percent
        Share of reads, 0 to 100.
    block_bytes
        Size of a request, a multiple of 512.
    block_bytes_max
        If given, sizes are uniform multiples of `block_bytes` up to this.
    queue_depth
        Requests outstanding, 1 to 1024, in each of `queues` submission queues (NVMe).
    span_bytes, span_start_bytes
        The stretch of the drive that is used; by default all of it.
    offsets
        How random addresses are drawn: "uniform", with replacement, as Iometer; or a "permutation",
        each address once in a pass over the span, as fio.
    content
        What is written: "random", "zero", or how many per cent can be compressed away.
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

    pattern: Literal["random", "sequential"] = "random"
    read_percent: Annotated[int, Field(ge=0, le=100)] = 0
    block_bytes: Count = 4096
    block_bytes_max: Count | None = None
    queue_depth: Annotated[int, Field(ge=1, le=1024)] = 32
    queues: Annotated[int, Field(ge=1, le=128)] = 1
    span_bytes: Count | None = None
    span_start_bytes: Annotated[int, Field(ge=0, lt=2**63)] = 0
    offsets: Literal["uniform", "permutation"] = "uniform"
    content: Literal["random", "zero"] | Annotated[int, Field(ge=0, le=100)] = "random"
    duration_s: Annotated[float, Field(gt=0, le=1e7)] | None = None
    ios: Count | None = None
    bytes: Count | None = None
    until_stable_s: Annotated[int, Field(ge=2, le=86_400)] | None = None
    seed: int | None = None

    @model_validator(mode="after")
    def _ends_can_be_counted(self) -> Workload:
        if self.ios is not None and self.block_bytes_max is not None:
            raise UserError(
                "Workload: 'ios' needs requests of one size", "give 'bytes' or 'duration_s'"
            )
        return self

    def words(self) -> str:
        """What is done, in a line."""
        kind = {0: "writes", 100: "reads"}.get(self.read_percent)
        what = f"{self.pattern} {kind}" if kind else f"{self.read_percent} % {self.pattern} reads"
        sizes = _size(self.block_bytes)
        if self.block_bytes_max is not None:
            sizes += f" to {_size(self.block_bytes_max)}"
        ends = []
        if self.ios is not None:
            ends.append(f"{self.ios:,} I/Os")
        if self.bytes is not None:
            ends.append(_size(self.bytes))
        if self._duration_s is not None:
            ends.append(f"{self._duration_s:g} s")
        return f"{what}, {sizes}, QD {self.queue_depth}, {' or '.join(ends)}"

    @property
    def _duration_s(self) -> float | None:
        endless = self.ios is None and self.bytes is None
        return DURATION_S if endless and self.duration_s is None else self.duration_s

    def core(self, capacity_bytes: int) -> str:
        """As the core reads it, on a drive of so many bytes."""
        content = Content.model_validate(self.content)
        ends = [self.bytes, None if self.ios is None else self.ios * self.block_bytes]
        stop: dict[str, Any] = {
            "duration_s": self._duration_s,
            "bytes": min((end for end in ends if end is not None), default=None),
        }
        if self.until_stable_s is not None:
            window = self.until_stable_s
            stop["stable"] = {"window_s": window, "within_percent": 2.0, "min_s": window}
        span = self.span_bytes
        if span is None:
            span = capacity_bytes - self.span_start_bytes
        return json.dumps(
            {
                "pattern": self.pattern,
                "offsets": self.offsets,
                "read_percent": self.read_percent,
                "block_bytes": self.block_bytes,
                "block_bytes_max": self.block_bytes_max,
                "compressible_percent": content.compressible_percent,
                "queue_depth": self.queue_depth,
                "queues": self.queues,
                "span_start_bytes": self.span_start_bytes,
                "span_bytes": max(0, span),
                "stop": stop,
            }
        )


class Trace(_Load):
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
    rule
        Addresses beyond the drive's end are taken modulo its size ("fold"), or all are scaled.
    trim
        Whether trims and flushes are issued too.
    seed
        Of a synthesized trace.
    """

    trace: Annotated[str, Field(min_length=1)]
    scale: Annotated[float, Field(ge=1e-4, le=10)] = 1.0
    mode: Literal["recorded", "dependencies"] = "recorded"
    idle_ms_max: Annotated[float, Field(ge=0, le=3.6e6)] | None = 25.0
    rule: Literal["fold", "scale"] = "fold"
    trim: bool = False
    seed: int | None = None

    def words(self) -> str:
        """What is done, in a line."""
        return self._replay(1).words()

    def core(self, seed: int) -> tuple[str, str]:
        """Source and plan as the core reads them.

        Raises
        ------
        UserError
            If there is no such trace.
        """
        replay = self._replay(seed)
        check(replay, where="Trace")
        return core_plan(replay)

    def _replay(self, seed: int) -> Replay:
        chosen = seed if self.seed is None else self.seed
        return Replay(**{**self.record(), "seed": chosen % 2**63, "drive_s": 1.0})


def _size(count: int) -> str:
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= size and count % size == 0:
            return f"{count // size} {unit}"
    return f"{count:,} B"
