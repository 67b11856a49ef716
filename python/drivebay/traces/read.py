"""Traces in: statistics, and batches of columns."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from drivebay import _core
from drivebay.common.errors import EnvironmentProblem, UserError

OPS = ("read", "write", "trim", "flush")
"""What the numbers in the column `op` mean."""

T = TypeVar("T")
Columns = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Summary:
    """What was read: the format, how many requests, and what was left out, in sentences."""

    format: str
    requests: int
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Described:
    """A trace's statistics; `figures` has the fields of `drivebay trace info --json`."""

    figures: Mapping[str, Any]
    summary: Summary


def formats() -> list[str]:
    """Names of the formats that are read.

    >>> formats()[:3]
    ['msr', 'systor', 'alibaba']
    """
    return _core.trace_formats()


def info(path: Path, *, from_: str | None = None) -> Described:
    """A trace's statistics, in one pass and bounded memory.

    Parameters
    ----------
    path : the trace, compressed by gzip, bzip2 or zstd or not.
    from_ : one of `formats()`; None to detect it.

    Raises
    ------
    UserError
        If the trace is of no known format or damaged; with the line.
    EnvironmentProblem
        If the file cannot be read.
    """
    check_source(path)
    with core_errors():
        figures, summary = _core.trace_info(str(path), from_)
    return Described(json.loads(figures), summary_of(summary))


def batches(path: Path, *, from_: str | None = None, sort: bool = False) -> Iterator[Columns]:
    """A trace in order of time, as columns; nothing is held beyond a batch.

    Parameters
    ----------
    path, from_ : as for `info`.
    sort : sort all of it through a temporary file first; needed only for a trace in which a request
        comes more than 262,144 requests late.

    Yields
    ------
    dict of arrays, shape (n,), n up to 262,144
        at_ns (uint64, from 0 at the first request), op (uint8, a place in `OPS`), offset_bytes,
        bytes (uint64), device (uint32), response_ns (int64, -1 where it is not known).

    Raises
    ------
    UserError, EnvironmentProblem
        As `info`; UserError also where `sort` is needed and not given.
    """
    check_source(path)
    with core_errors():
        trace = _core.TraceBatches(str(path), from_, sort)
        while (columns := trace.next()) is not None:
            yield columns


def in_order(path: Path, from_: str | None, work: Callable[[_core.TraceBatches], T]) -> T:
    """Runs `work` on the trace streaming, and again sorting if that turns out to be needed."""
    check_source(path)
    with core_errors():
        if path.is_file():  # a pipe cannot be read twice
            with contextlib.suppress(_core.TraceOrderError):
                return work(_core.TraceBatches(str(path), from_, False))
        return work(_core.TraceBatches(str(path), from_, True))


def summary_of(raw: Mapping[str, Any]) -> Summary:
    """The core's summary with types."""
    return Summary(raw["format"], raw["requests"], tuple(raw["notes"]))


def check_source(path: Path) -> None:
    """Refuses a trace that is not there."""
    if not path.exists():
        raise UserError(f"{path} does not exist", f"look for it: ls {path.parent}")


@contextlib.contextmanager
def core_errors() -> Iterator[None]:
    """Turns the core's errors into the program's."""
    try:
        yield
    except _core.CoreError as problem:
        message, _, hint = str(problem).partition("\nhint: ")
        kind = EnvironmentProblem if isinstance(problem, _core.TraceFileError) else UserError
        raise kind(message, hint) from None
