"""Traces in columns for the core, which reads text: Parquet files and arrays as drivebay's own CSV.

The CSV is in a file without a name. It goes with this process, however it ends, and takes some
40 bytes per request in the folder for temporary files.
A Parquet file that is named again is not unpacked again.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING

from drivebay.common.errors import EnvironmentProblem, UserError

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

COLUMNS = ("at_ns", "op", "offset_bytes", "bytes", "device", "response_ns")
FIELDS = ("time", "offset", "length", "op", "device", "response")
"""What a user may say which column holds; one of that name need not be named."""
OPTIONAL = ("device", "response_ns")
"""Without them all requests are device 0's, and no response is known."""
_KEPT: list[IO[bytes]] = []


def unpacked(path: Path, named: str | None = None) -> Path | None:
    """Where a Parquet trace's columns are as CSV; None of any other file. Raises UserError if it is
    damaged or, where nothing is said of them, lacks a column; EnvironmentProblem if there is no
    room.

    Parameters
    ----------
    named
        What the user says of its columns ("time=ts,offset=lba:512"). Those that occur there are
        unpacked under their own names, beside those that a trace of drivebay has; which of them is
        what, the core finds out.
    """
    if not path.is_file():  # a pipe cannot be looked into
        return None
    try:
        with path.open("rb") as file:
            if file.read(4) != b"PAR1":
                return None
        status = path.stat()
    except OSError:
        return None  # the core says what is wrong
    return _unpacked(path, named, status.st_ino, status.st_mtime_ns, status.st_size)


@functools.cache
def _unpacked(path: Path, named: str | None, *_version: int) -> Path:
    import pyarrow as pa

    file = tempfile.TemporaryFile(prefix="drivebay-")  # noqa: SIM115  # closed with the process
    try:
        _write(path, named, file)
        file.flush()
    except pa.ArrowException as problem:
        raise UserError(
            f"{path} cannot be read as Parquet: {str(problem).splitlines()[0]}",
            "was the recording or the copy cut short?",
        ) from None
    except OSError as problem:
        raise EnvironmentProblem(
            f"{path} cannot be unpacked into {tempfile.gettempdir()}: {problem}",
            "it needs 40 bytes per request there; another place: TMPDIR=/path drivebay ...",
        ) from None
    _KEPT.append(file)
    return Path(f"/proc/self/fd/{file.fileno()}")


def nameless(content: Mapping[str, pa.Array] | bytes) -> tuple[IO[bytes], Path]:
    """A trace of these columns, all of one length, or with this text, as a file that goes when it
    is closed; and its path. Raises EnvironmentProblem if there is no room."""
    file = tempfile.TemporaryFile(prefix="drivebay-")  # noqa: SIM115  # the caller closes it
    try:
        if isinstance(content, bytes):
            file.write(content)
        else:
            _begin(file)
            _append(content, file)
        file.flush()
    except OSError as problem:
        raise EnvironmentProblem(
            f"{tempfile.gettempdir()} cannot take the trace: {problem}",
            "it needs 40 bytes per request there; another place: TMPDIR=/path drivebay ...",
        ) from None
    return file, Path(f"/proc/self/fd/{file.fileno()}")


def _begin(file: IO[bytes]) -> None:
    file.write((",".join(COLUMNS) + "\n").encode())


def _append(known: Mapping[str, pa.Array], file: IO[bytes]) -> None:
    """Rows behind those that are there."""
    import pyarrow as pa
    import pyarrow.csv as pa_csv

    rows = len(known["op"])
    others = {
        "device": pa.array([0] * rows, pa.uint32()),
        "response_ns": pa.nulls(rows, pa.int64()),
    }
    all_of_them = {**others, **known}
    columns = [
        all_of_them[name].cast(pa.string() if name == "op" else pa.uint64()) for name in COLUMNS
    ]
    options = pa_csv.WriteOptions(include_header=False, quoting_style="none")
    pa_csv.write_csv(pa.table(columns, names=list(COLUMNS)), file, options)


def _write(path: Path, named: str | None, file: IO[bytes]) -> None:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as source:
        if named is not None:
            _write_named(source, named, file)
            return
        _begin(file)
        there = [name for name in COLUMNS if name in source.schema_arrow.names]
        if missing := [name for name in COLUMNS if name not in {*there, *OPTIONAL}]:
            raise UserError(
                f"{path} is Parquet without the column {missing[0]}; a trace has "
                + ", ".join(COLUMNS),
                "--columns time=NAME:us,offset=NAME,length=NAME,op=NAME; its columns are "
                + ", ".join(source.schema_arrow.names[:20]),
            )
        for batch in source.iter_batches(columns=there):
            _append({name: batch.column(name) for name in there}, file)


def _write_named(source: pq.ParquetFile, named: str, file: IO[bytes]) -> None:
    """The columns that are named, timestamps in nanoseconds; of the others, the names."""
    import pyarrow as pa
    import pyarrow.csv as pa_csv

    def text(column: pa.Array) -> pa.Array:
        kind = column.type
        if pa.types.is_timestamp(kind):
            column = column.cast(pa.timestamp("ns", kind.tz)).cast(pa.int64())
        return column.cast(pa.string())

    given = [part.partition("=")[2].strip() for part in named.lower().split(",")]
    with_unit = [column.rpartition(":")[0].strip() for column in given]
    wanted = {*COLUMNS, *FIELDS, *given, *with_unit}
    fields = list(source.schema_arrow)
    there = [field.name for field in fields if field.name.lower() in wanted]
    others = [field.name for field in fields if field.name not in there]
    timed = [field.name for field in fields if pa.types.is_timestamp(field.type)]
    if wrong := [name for name in timed if name.lower() in with_unit]:
        raise UserError(
            f"--columns: {wrong[0]} holds timestamps, which say their unit themselves",
            f"--columns time={wrong[0]}",
        )
    file.write((",".join(f'"{name}"' for name in (*there, *others)) + "\n").encode())
    options = pa_csv.WriteOptions(include_header=False, quoting_style="needed")
    for batch in source.iter_batches(columns=there):
        columns = [text(batch.column(name)) for name in there]
        pa_csv.write_csv(pa.table(columns, names=there), file, options)
