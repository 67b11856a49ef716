"""Conversion of columnar traces (Parquet files and arrays) to drivebay's own CSV, which the core
reads.

The CSV is an unnamed file in the folder for temporary files. It vanishes when this process ends,
for whatever reason, and takes about 40 bytes per request. A Parquet file that is opened again is
not unpacked again.
"""

from __future__ import annotations

import contextlib
import functools
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING

from drivebay.common.errors import EnvironmentProblem, UserError

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

COLUMNS = ("at_ns", "op", "offset_bytes", "bytes", "device", "response_ns")
# Fields that a user may assign to columns; a column that already has the field's name needs no
# assignment.
FIELDS = ("time", "offset", "length", "op", "device", "response")
# Columns that may be missing: then every request is for device 0, and no response time is known.
OPTIONAL = ("device", "response_ns")
_KEPT: list[IO[bytes]] = []


def unpacked(path: Path, named: str | None = None) -> Path | None:
    """Path of a Parquet trace's columns as CSV; None for any other file. Raises UserError if the
    file is damaged, or if it lacks a column and `named` is None; EnvironmentProblem if there is
    not enough space.

    Parameters
    ----------
    named :
        The user's column assignment ("time=ts,offset=lba:512"). The columns that it names are
        unpacked under their own names, along with the standard columns of a drivebay trace; the
        core interprets the assignment.
    """
    if not path.is_file():  # a pipe cannot be read twice
        return None
    try:
        with path.open("rb") as file:
            if file.read(4) != b"PAR1":
                return None
        status = path.stat()
    except OSError:
        return None  # the core reports the error
    return _unpacked(path, named, status.st_ino, status.st_mtime_ns, status.st_size)


@functools.cache
def _unpacked(path: Path, named: str | None, *_version: int) -> Path:
    import pyarrow as pa

    try:
        with _nameless(f"{path} cannot be unpacked into {tempfile.gettempdir()}") as (file, own):
            _write(path, named, file)
    except pa.ArrowException as problem:
        raise UserError(
            f"{path} cannot be read as Parquet: {str(problem).splitlines()[0]}",
            "was the recording or the copy cut short?",
        ) from None
    _KEPT.append(file)  # closed with the process
    return own


@contextlib.contextmanager
def _nameless(failure: str) -> Iterator[tuple[IO[bytes], Path]]:
    """Makes an unnamed file, to be written and kept; `failure` is the message for lack of space."""
    file = tempfile.TemporaryFile(prefix="drivebay-")  # noqa: SIM115  # the caller closes it
    try:
        yield file, Path(f"/proc/self/fd/{file.fileno()}")
        file.flush()
    except OSError as problem:
        raise EnvironmentProblem(
            f"{failure}: {problem}",
            "it needs 40 bytes per request there; another place: TMPDIR=/path drivebay ...",
        ) from None


def nameless(content: Mapping[str, pa.Array] | bytes) -> tuple[IO[bytes], Path]:
    """Writes a trace, given as columns of equal length or as text, to an unnamed file that vanishes
    when it is closed; returns the file and its path. Raises EnvironmentProblem if there is not
    enough space.
    """
    with _nameless(f"{tempfile.gettempdir()} cannot take the trace") as made:
        if isinstance(content, bytes):
            made[0].write(content)
        else:
            _begin(made[0])
            _append(content, made[0])
    return made


def _begin(file: IO[bytes]) -> None:
    file.write((",".join(COLUMNS) + "\n").encode())


def _append(known: Mapping[str, pa.Array], file: IO[bytes]) -> None:
    """Appends rows to the file."""
    import pyarrow as pa
    import pyarrow.csv as pa_csv

    rows = len(known["op"])
    arrays = {
        "device": pa.array([0] * rows, pa.uint32()),
        "response_ns": pa.nulls(rows, pa.int64()),
        **known,
    }
    columns = [arrays[name].cast(pa.string() if name == "op" else pa.uint64()) for name in COLUMNS]
    options = pa_csv.WriteOptions(include_header=False, quoting_style="none")
    pa_csv.write_csv(pa.table(columns, names=list(COLUMNS)), file, options)


def _write(path: Path, named: str | None, file: IO[bytes]) -> None:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as source:
        if named is not None:
            _write_named(source, named, file)
            return
        _begin(file)
        present = [name for name in COLUMNS if name in source.schema_arrow.names]
        if missing := [name for name in COLUMNS if name not in {*present, *OPTIONAL}]:
            raise UserError(
                f"{path} is Parquet without the column {missing[0]}; a trace has "
                + ", ".join(COLUMNS),
                "--columns time=NAME:us,offset=NAME,length=NAME,op=NAME; its columns are "
                + ", ".join(source.schema_arrow.names[:20]),
            )
        for batch in source.iter_batches(columns=present):
            _append({name: batch.column(name) for name in present}, file)


def _write_named(source: pq.ParquetFile, named: str, file: IO[bytes]) -> None:
    """Writes the named columns, timestamps in nanoseconds; of the other columns only the names."""
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
    present = [field.name for field in fields if field.name.lower() in wanted]
    others = [field.name for field in fields if field.name not in present]
    timed = [field.name for field in fields if pa.types.is_timestamp(field.type)]
    if wrong := [name for name in timed if name.lower() in with_unit]:
        raise UserError(
            f"--columns: {wrong[0]} holds timestamps, which have a unit of their own",
            f"--columns time={wrong[0]}",
        )
    file.write((",".join(f'"{name}"' for name in (*present, *others)) + "\n").encode())
    options = pa_csv.WriteOptions(include_header=False, quoting_style="needed")
    for batch in source.iter_batches(columns=present):
        columns = [text(batch.column(name)) for name in present]
        pa_csv.write_csv(pa.table(columns, names=present), file, options)
