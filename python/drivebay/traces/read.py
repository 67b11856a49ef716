"""Trace input: statistics, and batches of columns."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from drivebay._core import TraceBatches, TraceColumns, TraceSource, TraceSummary
from drivebay.common.errors import TraceOrderError, UserError
from drivebay.common.parquet import unpacked

# Fields of `drivebay trace info --json` after the format, in their order.
FIGURES = (
    *("reads", "writes", "read_bytes", "written_bytes", "trims", "flushes"),
    *("size_share", "queue_depth_share"),
    *("queue_depth_mean", "sequential_share", "idle_s", "duration_s", "footprint_bytes"),
    *("overwrite_share", "unwritten_read_share", "devices"),
    *("address_start_bytes", "address_end_bytes"),
)
# Names of the numbers in the column `op`.
OPS = ("read", "write", "trim", "flush", "write-fua")

T = TypeVar("T")
Trace = Path | TraceSource


@dataclass(frozen=True)
class Described:
    """A trace's statistics; `figures` has the fields of `drivebay trace info --json`."""

    figures: Mapping[str, Any]
    summary: TraceSummary


def file_source(
    path: Path,
    from_: str | None = None,
    *,
    time_unit: str | None = None,
    columns: str | None = None,
) -> TraceSource:
    """Source of a recorded trace's requests. Raises UserError if the file does not exist, or an
    argument is invalid.

    Parameters
    ----------
    path : the trace, uncompressed or compressed by gzip, bzip2, zstd or xz; "-" is standard input.
    from_ : one of `traces.formats()`; None to detect it.
    time_unit : unit of its times, "s", "ms", "us" or "ns"; None for that of the format.
    columns : assignment of columns of CSV and Parquet: "time=ts:us,offset=lba:512"; see
        docs/concepts/traces.md.
    """
    path = Path("/dev/stdin") if str(path) == "-" and not path.exists() else path
    if not path.exists():
        raise UserError(f"{path} does not exist", f"look for it: ls {path.parent}")
    table = unpacked(path, columns)
    return TraceSource.file(path, from_, time_unit=time_unit, unpacked=table, columns=columns)


def source_of(what: Trace) -> TraceSource:
    return file_source(what) if isinstance(what, Path) else what


def info(what: Trace) -> Described:
    """Computes a trace's statistics, in one pass and bounded memory. `what`: a recorded trace,
    whose format is detected; or the output of `file_source` or `source`. Raises UserError,
    with the line, if the trace has no known format or is damaged; EnvironmentProblem if the
    file cannot be read.
    """
    described, summary = source_of(what).info()
    figures = {name: getattr(described, name) for name in FIGURES}
    for shares in ("size_share", "queue_depth_share"):
        figures[shares] = figures[shares] and dict(figures[shares])
    return Described(figures, summary)


def batches(what: Trace) -> Iterator[TraceColumns]:
    """Yields a trace in order of time, as columns; only one batch is held in memory. Raises
    UserError or EnvironmentProblem as `info`; UserError also if the trace must be sorted first
    (`TraceSource.sorted`): a request is more than 262,144 requests late.

    Parameters
    ----------
    what : as for `info`.

    Yields
    ------
    TraceColumns
        Arrays of shape (n,), n up to 262,144; `op` is an index of `OPS`.
    """
    trace = source_of(what).batches()
    while (columns := trace.next()) is not None:
        yield columns


def in_order(source: TraceSource, work: Callable[[TraceBatches], T]) -> T:
    """Runs `work` on the trace as a stream, and again on the sorted trace if sorting turns out
    to be needed.
    """
    if source.path is None or source.path.is_file():  # a pipe cannot be read twice
        with contextlib.suppress(TraceOrderError):
            return work(source.batches())
    return work(source.sorted().batches())
