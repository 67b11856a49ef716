"""Trace output: fio's iolog and CSV by the core, Parquet by pyarrow, each file whole or not at
all.
"""

from __future__ import annotations

import contextlib
import math
import os
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from drivebay import _core
from drivebay._core import TraceBatches, TraceSource, TraceSummary
from drivebay.common.errors import UserError
from drivebay.common.files import system_errors
from drivebay.traces.read import OPS, Trace, in_order, source_of

# Output formats, each with its file name extension.
KINDS = {"iolog": ".iolog", "csv": ".csv", "parquet": ".parquet"}


def convert(
    what: Trace, out: Path, *, to: str | None = None, force: bool = False, option: str = "OUT"
) -> TraceSummary:
    """Writes a trace in another format. Raises UserError if `out` exists, `to` is unknown, or the
    trace is refused, with the line; EnvironmentProblem if a file cannot be read or written.

    Parameters
    ----------
    what : as for `info`.
    out : the file to create; it appears when it is complete, and not at all on an error.
    to : one of `KINDS`; None to choose by the extension of `out`.
    force : replace `out` if it exists.
    option : name of `out` in errors.
    """
    check_out(out, to=to, force=force, option=option)
    source = source_of(what)
    with whole_file(out, force=force, option=option) as part:
        return written(source, part, to or kind_by_name(out))


def check_out(out: Path, *, to: str | None, force: bool, option: str) -> None:
    """Refuses, before any work, any output that `convert` would refuse."""
    kind = to or kind_by_name(out)
    if kind not in KINDS:
        raise UserError(f"--to: '{kind}' is unknown; must be {', '.join(KINDS)}", "--to csv")
    _check_place(out, force=force, option=option)


def kind_by_name(out: Path) -> str:
    for kind, ending in KINDS.items():
        if out.name.endswith(ending):
            return kind
    raise UserError(
        f"the name of {out} does not say in which format to write it",
        f"--to {'|'.join(KINDS)}, or end the name with {', '.join(KINDS.values())}",
    )


@contextlib.contextmanager
def whole_file(out: Path, *, force: bool, option: str) -> Iterator[Path]:
    """Temporary file in the folder of `out`, which is renamed to `out` on success and removed
    otherwise.
    """
    _check_place(out, force=force, option=option)
    elsewhere = "write it elsewhere, where there is space and permission"
    with system_errors(f"{out} cannot be written", elsewhere):
        handle, name = tempfile.mkstemp(".part", f".{out.name[:100]}.", out.parent)
        part = Path(name)
        try:
            os.fchmod(handle, 0o666 & ~_umask())
            os.close(handle)
            yield part
            try:
                _into_place(part, out, force=force)
            except FileExistsError:
                _check_place(out, force=force, option=option)
        finally:
            part.unlink(missing_ok=True)


def _check_place(out: Path, *, force: bool, option: str) -> None:
    if out.is_dir():
        raise UserError(f"{option}: {out} is a directory; must be a file", f"{out}/trace.csv")
    if out.exists() and not out.is_file():
        raise UserError(f"{option}: {out} is not a regular file", "name a file to make")
    if os.path.lexists(out) and not force:
        raise UserError(
            f"{option}: {out} exists already", "choose another name, or replace it with --force"
        )
    if not out.parent.is_dir():
        raise UserError(
            f"{option}: the folder {out.parent} does not exist",
            f"mkdir -p {shlex.quote(str(out.parent))}",
        )


def _into_place(part: Path, out: Path, *, force: bool) -> None:
    with part.open("rb") as file:
        os.fsync(file.fileno())
    if force:
        part.replace(out)
    else:
        # unlike a rename, fails if another file has taken the name in the meantime
        os.link(part, out)


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def written(source: TraceSource, part: Path, kind: str) -> TraceSummary:
    """Writes a trace to `part`, as one of `KINDS`."""
    if kind == "parquet":
        return in_order(source, lambda trace: _parquet(trace, part))
    return source.convert(part, kind)


def _parquet(trace: TraceBatches, part: Path) -> TraceSummary:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema(
        [
            ("at_ns", pa.uint64()),
            ("op", pa.dictionary(pa.int8(), pa.string())),
            ("offset_bytes", pa.uint64()),
            ("bytes", pa.uint64()),
            ("device", pa.uint32()),
            ("response_ns", pa.int64()),
        ]
    )
    with pq.ParquetWriter(part, schema, compression="zstd") as writer:
        while (columns := trace.next()) is not None:
            response = columns.response_ns
            arrays: dict[str, Any] = {
                **{name: getattr(columns, name) for name in schema.names},
                "op": pa.DictionaryArray.from_arrays(columns.op.astype("int8"), list(OPS)),
                "response_ns": pa.array(response, mask=response < 0),
            }
            writer.write_table(pa.table(arrays, schema=schema))
    return trace.summary()


SCALES = (1e-4, 10.0)


def source(name: str, *, scale: float = 1.0, seed: int = 1) -> TraceSource:
    """Source of a synthesized trace. `name`: one of `traces.names()`. `scale`: factor for the
    published number of I/Os, 0.0001 to 10; addresses shrink in the same proportion. `seed`:
    the same seed gives the same trace, on every platform. Raises UserError if an argument is
    not allowed.
    """
    if name not in _core.synth_names():
        raise UserError(
            f"trace '{name}' is unknown; must be {', '.join(_core.synth_names())}",
            "drivebay trace synth light --out light.csv",
        )
    if not (math.isfinite(scale) and SCALES[0] <= scale <= SCALES[1]):
        raise UserError(f"--scale: {scale} is not allowed; must be 0.0001 to 10", "--scale 0.01")
    if not 0 <= seed < 2**63:
        raise UserError(f"--seed: {seed} is not allowed; must be 0 to 2^63 - 1", "--seed 1")
    return TraceSource.synth(name, scale, seed)
