"""The one place where the files of a result are checked, before anything uses them.

A result may come from anybody, with checksums that agree with whatever is in it. Each file is read
once, from a regular file of the folder (no link, pipe or device), is what the manifest's checksum
says, and has what a review writes: step.json by the models below, tables by the schemas of
`results.records` and `results.inside`.

Memory: at most `documents.KEPT_BYTES_MAX` for a file, and `DECODED_BYTES_MAX` for its table, which
is known from Parquet's metadata before anything is decoded.
Left out: metadata that lies about the size of a page, by which a table may take 2 GiB for a moment.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import AfterValidator, Field, ValidationError, model_validator

from drivebay.common import documents
from drivebay.definitions.suites import Test, Workload
from drivebay.definitions.suites.parts import Data
from drivebay.results import records
from drivebay.results.inside import SCHEMAS as INSIDE
from drivebay.results.manifest import STEPS, Open, StepEntry, first_of
from drivebay.results.records import SENSORS, labelled

DOCUMENT = "step.json"
RAW = "raw"
SCHEMAS = {**records.SCHEMAS, **INSIDE}
"""By the names of the files, which end in .parquet."""
ALWAYS = (DOCUMENT, "series.parquet", "histogram.parquet")
DECODED_BYTES_MAX = 2**29
"""Of a table. A phase's 4096 intervals of activity are 6 MB with 100 dies; a month's seconds are
200 MB."""
SECONDS_MAX = 2**23
"""Of all phases of a result together, 97 days: their seconds take half a gigabyte."""
NUMBER_MAX = 1e60
"""A number that is not 0 lies between this and its inverse, so that no product or quotient of some
is beyond 1.8e308. guess: above all counters of 128 bits in bytes."""
SUM_MAX = 2.0**61
"""Of a column of whole numbers: what is computed from it stays below 2^63."""
LATE_S = 2.0
"""A phase may have seconds that begin so much after its end: I/Os in flight end later."""
TEXT_MAX = 1000
"""Characters. guess: far above the longest of a sweep, the words of a build."""
NULLABLE = {
    *("latency_ns_mean", "latency_ns_max", *SENSORS),
    *("kind", "trigger", "end_s", "state"),
}
"""Columns of what may be unknown."""
DIRECTIONS = {"read", "write"}


class Damage(Exception):
    """What is wrong with a finished test's file: `path` is relative to the result, and `what` names
    the field."""

    def __init__(self, step_id: str, path: str, what: str) -> None:
        super().__init__(f"{path}: {what}")
        self.step_id = step_id
        self.path = path
        self.what = what


# --- step.json ------------------------------------------------------------------------------------


def _is_usual(value: float) -> float:
    if value and not 1 / NUMBER_MAX <= abs(value) <= NUMBER_MAX:
        raise ValueError(f"{value} is beyond what a result has")
    return value


def _is_a_time(value: float) -> float:
    if 0 < value < 1e-9:
        raise ValueError(f"{value} is less than a nanosecond")
    return value


Count = Annotated[int, Field(ge=0, lt=2**61)]
Number = Annotated[float, AfterValidator(_is_usual)]
Numbers = dict[str, Number]


class _Absent(Open):
    source: str
    why: str


class _Telemetry(Open):
    read: list[str] = Field([])
    absent: list[_Absent] = Field([])
    seconds: Count = 0
    missed_seconds: Count = 0


class _Smart(Open):
    before: Numbers = Field({})
    after: Numbers = Field({})
    grew: Numbers = Field({})

    @model_validator(mode="after")
    def _is_whole(self) -> _Smart:
        if self.model_fields_set & {*SMART} not in (set(), {*SMART}):
            raise ValueError(f"{', '.join(SMART)} need each other")
        return self


SMART = ("before", "after", "grew")


class _Link(Open):
    kind: str
    now: str
    possible: str


class _Claims(Open):
    reads_after: str | None
    deterministic: bool | None
    source: str


class _Trim(Open):
    verdict: str
    why_not: str
    blocks: Annotated[int, Field(ge=1, lt=2**61)]
    old_blocks: Count
    reads_after: str | None
    deterministic: bool | None
    neighbours_intact: bool | None
    as_claimed: bool | None
    claims: _Claims


class _Sleep(Open):
    why_not: list[str]


class Conditions(Open):
    """Under which conditions a test ran, as far as reports read it."""

    host: dict[str, Any] = Field({})
    link: _Link | None = None
    telemetry: _Telemetry = _Telemetry()
    smart: _Smart = _Smart()
    warnings: list[str] = Field([])
    interruptions: list[dict[str, Any]] = Field([])
    trim: _Trim | None = None
    sleep: _Sleep | None = None


REPLAYED = {
    *("wall_s", "latency_ns_sum", "over_10_ms", "over_100_ms"),
    *("outstanding_mean", "outstanding_max"),
}
"""Metrics of each replay of a trace, beside busy_s."""


class StoredPhase(Data):
    """A phase's load, totals and metrics."""

    label: str
    workload: Workload
    duration_s: Annotated[float, Field(ge=0, le=SECONDS_MAX), AfterValidator(_is_a_time)]
    reads: Count
    writes: Count
    read_bytes: Count
    write_bytes: Count
    metrics: Numbers

    @model_validator(mode="after")
    def _replay_is_whole(self) -> StoredPhase:
        missing = sorted(REPLAYED - {*self.metrics})
        if "busy_s" in self.metrics and missing:
            raise ValueError(f"metrics.{missing[0]} is missing")
        return self


class StepFile(Data):
    """step.json."""

    id: str
    phases: tuple[StoredPhase, ...]
    conditions: Conditions = Conditions()


# --- files ----------------------------------------------------------------------------------------


def step(folder: Path, entry: StepEntry, test: Test) -> tuple[dict[str, Any], dict[str, pa.Table]]:
    """step.json of a finished test, every file of which is right, and the tables of its phases.
    Raises Damage otherwise."""
    if not entry.files:
        raise Damage(entry.id, f"{STEPS}/{entry.id}", "has no files in the manifest")
    for name in ALWAYS:
        if f"{STEPS}/{entry.id}/{name}" not in entry.files:
            raise Damage(entry.id, f"{STEPS}/{entry.id}/{name}", "is not in the manifest")
    document = _document(folder, entry, test)
    tables = {}
    for name in entry.files:
        kind = name.removeprefix(f"{STEPS}/{entry.id}/").removesuffix(".parquet")
        if kind in SCHEMAS:
            found = table(folder, entry, kind, document)
            if kind not in INSIDE:
                tables[kind] = found
        elif kind != DOCUMENT:
            _content(folder, entry, name, kept=False)
    return document, tables


def _document(folder: Path, entry: StepEntry, test: Test) -> dict[str, Any]:
    name = f"{STEPS}/{entry.id}/{DOCUMENT}"
    content = _content(folder, entry, name)
    try:
        document: dict[str, Any] = documents.from_json(content)
        found = StepFile.model_validate_json(content, strict=True)
    except ValidationError as problem:
        raise Damage(entry.id, name, first_of(problem)) from None
    except ValueError as problem:
        raise Damage(entry.id, name, f"it is not valid JSON: {problem}") from None
    if found.id != entry.id:
        raise Damage(entry.id, name, f"id: it is of test {found.id}")
    if [phase.label for phase in found.phases] != [phase.label for phase in test.phases]:
        raise Damage(entry.id, name, "phases: they are not the test's")
    for phase, checked in zip(document["phases"], found.phases, strict=True):
        phase["metrics"] = checked.metrics  # whole numbers of JSON are floats in them
    return document


def table(folder: Path, entry: StepEntry, kind: str, document: Mapping[str, Any]) -> pa.Table:
    """One of a finished test's tables, with `phase` and the columns of `SCHEMAS[kind]`. Raises
    Damage if it is not as a review writes it."""
    name = f"{STEPS}/{entry.id}/{kind}.parquet"
    content = _content(folder, entry, name)
    lengths = {phase["label"]: phase["duration_s"] for phase in document["phases"]}
    try:
        found = _decoded(content, labelled(SCHEMAS[kind]))
        _check_columns(found)
        _check_counts(found)
        _check_rows(kind, found, lengths)
    except (pa.ArrowException, OSError, ValueError) as problem:
        text = " ".join(str(problem).split())
        raise Damage(entry.id, name, text[:200]) from None
    return found.cast(labelled(SCHEMAS[kind]))


def _content(folder: Path, entry: StepEntry, name: str, *, kept: bool = True) -> bytes:
    """What is in a file that the manifest lists; of one that nothing reads only the checksum is
    looked at."""
    path = Path(os.path.realpath(folder)) / name
    content = b""
    try:
        if os.path.realpath(path.parent) != str(path.parent):
            raise documents.Malformed("it lies behind a link")
        if kept:
            content = documents.read_kept(path)
            found = hashlib.sha256(content).hexdigest()
        else:
            with documents.opened_kept(path) as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
    except (FileNotFoundError, NotADirectoryError):
        raise Damage(entry.id, name, "is missing") from None
    except OSError as problem:
        raise Damage(entry.id, name, f"cannot be read: {problem.strerror}") from None
    except documents.Malformed as problem:
        raise Damage(entry.id, name, str(problem)) from None
    if found != entry.files[name]:
        raise Damage(entry.id, name, "has changed since it was written")
    return content


# --- tables ---------------------------------------------------------------------------------------


def runs(content: bytes, *, arrow: bool) -> pa.Table:
    """Runs of a sweep, from a Parquet file or, with `arrow`, from Arrow IPC. Raises ValueError,
    pyarrow.ArrowException if they are not as a sweep writes them."""
    if arrow:
        found = pa.ipc.open_file(pa.BufferReader(content)).read_all()
        _check_names(found.schema)
        found.validate(full=True)
    else:
        found = _decoded(content)
    if "run" not in found.column_names or found.schema.field("run").type != pa.int64():
        raise ValueError("run: whole numbers of runs are missing")
    if odd := [one for one in found.schema if not _is_plain(one.type)]:
        raise ValueError(f"{odd[0].name}: a sweep has no column of {odd[0].type}")
    _check_columns(found, nullable={*found.column_names} - {"run"})
    return found


def _check_names(schema: pa.Schema) -> None:
    if twice := [name for name, count in Counter(schema.names).items() if count > 1]:
        raise ValueError(f"{twice[0]}: two columns have that name")


def _is_plain(kind: pa.DataType) -> bool:
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_string, pa.types.is_boolean)
    return any(test(kind) for test in (*tests, pa.types.is_null))


def _decoded(content: bytes, schema: pa.Schema | None = None) -> pa.Table:
    """A table, of this schema, whose texts are dictionaries: a long one takes its memory once."""
    source = pa.BufferReader(content)
    about = pq.read_metadata(source)
    there = about.schema.to_arrow_schema()
    _check_names(there)
    if schema is not None and not there.equals(schema):
        differ = {*map(str, there)} ^ {*map(str, schema)}
        raise ValueError(f"its columns are not a result's: {min(differ, default='their order')}")
    groups = [about.row_group(number) for number in range(about.num_row_groups)]
    columns = [group.column(place) for group in groups for place in range(group.num_columns)]
    size = sum(one.num_values * _width(one) for one in columns) + about.num_rows
    if not 0 <= size <= DECODED_BYTES_MAX:
        raise ValueError(f"{about.num_rows:,} rows are more than a review writes")
    texts = [field.name for field in there if field.type == pa.string()]
    with pq.ParquetFile(source, metadata=about, read_dictionary=texts) as file:
        found = file.read(use_threads=False)
    found.validate(full=True)
    for name in texts:
        longest = int(pc.max(pc.utf8_length(_dictionary(found, name))).as_py() or 0)
        if longest > TEXT_MAX or longest * found.num_rows > DECODED_BYTES_MAX:
            raise ValueError(f"{name}: a text has {longest:,} characters")
    return found if schema is not None else found.cast(there)


def _width(column: pq.ColumnChunkMetaData) -> int:
    """Bytes that a value takes when decoded, at most; a text counts with what all of them take."""
    kind: str = column.physical_type
    if kind == "BYTE_ARRAY":
        texts: int = column.total_uncompressed_size
        count: int = column.num_values
        return 8 + texts // max(1, count)
    return 4 if kind in ("BOOLEAN", "INT32", "FLOAT") else 8


def _dictionary(found: pa.Table, name: str) -> pa.Array:
    """All texts of a column."""
    parts = [chunk.dictionary for chunk in found.column(name).chunks]
    return pa.concat_arrays(parts) if parts else pa.array([], pa.string())


def _check_columns(found: pa.Table, *, nullable: Collection[str] = NULLABLE) -> None:
    for field in found.schema:
        column = found.column(field.name)
        if column.null_count and field.name not in nullable:
            raise ValueError(f"{field.name}: a value is missing")
        if pa.types.is_list(field.type):
            column = pc.list_flatten(column)
            if column.null_count:
                raise ValueError(f"{field.name}: a value is missing")
        if pa.types.is_floating(column.type):
            values = column.drop_null().to_numpy().astype(float, copy=False)
            sizes = np.abs(values)
            usual = (sizes >= 1 / NUMBER_MAX) & (sizes <= NUMBER_MAX) | (sizes == 0)
            if field.name == "latency_ns_mean":
                usual &= values >= 0
            if not usual.all():
                raise ValueError(f"{field.name}: {values[~usual][0]} is not what a result has")


def _check_counts(found: pa.Table) -> None:
    for field in found.schema:
        if pa.types.is_integer(field.type):
            column = found.column(field.name)
            lowest = pc.min(column).as_py() or 0
            total = pc.sum(column.cast(pa.float64(), safe=False)).as_py() or 0
            if lowest < 0 or total > SUM_MAX:
                what = f"{lowest} is below 0" if lowest < 0 else "its sum is beyond 2^61"
                raise ValueError(f"{field.name}: {what}")


def _check_rows(kind: str, found: pa.Table, lengths: Mapping[str, float]) -> None:
    """What several columns say together."""
    if unknown := sorted({*_dictionary(found, "phase").to_pylist()} - {*lengths}, key=str):
        raise ValueError(f"phase: {unknown[0]!r} is none of the test's")
    labels = list(lengths)
    phase = found.column("phase").cast(pa.string())
    place = pc.index_in(phase, pa.array(labels, pa.string())).to_numpy()
    if kind in ("series", "stages"):
        second = found.column("second").to_numpy()
        last = np.array([lengths[label] for label in labels])[place] + LATE_S
        if (second >= last).any():
            raise ValueError(f"second: {second[second >= last][0]} is after its phase's end")
    if kind == "histogram":
        if unknown := sorted({*_dictionary(found, "direction").to_pylist()} - DIRECTIONS):
            raise ValueError(f"direction: {unknown[0]!r} is neither read nor write")
        low, high = (found.column(name).to_numpy() for name in ("low_ns", "high_ns"))
        order = np.lexsort((high, low, place))
        place, low, high = place[order], low[order], high[order]
        follows = (place[1:] != place[:-1]) | (low[1:] >= high[:-1])
        same = (low[1:] == low[:-1]) & (high[1:] == high[:-1])
        if (low >= high).any() or not (follows | same).all():
            raise ValueError("low_ns, high_ns: bins overlap")
