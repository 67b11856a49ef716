"""Validation of all files of a result, before anything uses them.

A result may come from anybody, with checksums that match any content. Each file is read once, from
a regular file of the folder (no link, pipe or device), must match the manifest's checksum, and must
have the structure that a review writes: step.json follows the models below, tables follow the
schemas of `results.records` and `results.inside`.

Memory: at most `documents.KEPT_BYTES_MAX` for a file, and `DECODED_BYTES_MAX` for its table; that
size is known from Parquet's metadata before anything is decoded. Leaves out: metadata with a false
page size, which may make a table take 2 GiB for a moment.
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
# Schemas by file name without ".parquet".
SCHEMAS = {**records.SCHEMAS, **INSIDE}
ALWAYS = (DOCUMENT, "series.parquet", "histogram.parquet")
# Largest decoded table. A phase's 4096 intervals of activity are 6 MB with 100 dies; a month's
# seconds are 200 MB.
DECODED_BYTES_MAX = 2**29
# Longest duration of all phases of a result together, 97 days: their seconds take half a
# gigabyte.
SECONDS_MAX = 2**23
# Limit of nonzero numbers and, inverted, of their smallness, so that no product or quotient of a
# few exceeds 1.8e308. guess: above all counters of 128 bits in bytes.
NUMBER_MAX = 1e60
# Largest sum of a column of integers, so that values computed from it stay below 2^63.
SUM_MAX = 2.0**61
# Time after a phase's end at which its last seconds may begin: I/Os in flight end later.
LATE_S = 2.0
# Longest string in characters. guess: far above the longest of a sweep, the description of a
# build.
TEXT_MAX = 1000
# Columns whose values may be unknown.
NULLABLE = {
    *("latency_ns_mean", "latency_ns_max", *SENSORS),
    *("kind", "trigger", "end_s", "state"),
}
DIRECTIONS = {"read", "write"}


class Damage(Exception):
    """A file of a finished test is wrong: `path` is relative to the result, and `what` names the
    field.
    """

    def __init__(self, step_id: str, path: str, what: str) -> None:
        super().__init__(f"{path}: {what}")
        self.step_id = step_id
        self.path = path
        self.what = what


# --- step.json ------------------------------------------------------------------------------------


def _is_usual(value: float) -> float:
    if value and not 1 / NUMBER_MAX <= abs(value) <= NUMBER_MAX:
        raise ValueError(f"{value} is out of range")
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
    """Conditions under which a test ran, as far as reports read them."""

    host: dict[str, Any] = Field({})
    link: _Link | None = None
    telemetry: _Telemetry = _Telemetry()
    smart: _Smart = _Smart()
    warnings: list[str] = Field([])
    interruptions: list[dict[str, Any]] = Field([])
    trim: _Trim | None = None
    sleep: _Sleep | None = None


# Metrics that every replay of a trace has along with busy_s.
REPLAYED = {
    *("wall_s", "latency_ns_sum", "over_10_ms", "over_100_ms"),
    *("outstanding_mean", "outstanding_max"),
}


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
    """Content of step.json."""

    id: str
    phases: tuple[StoredPhase, ...]
    conditions: Conditions = Conditions()


# --- files ----------------------------------------------------------------------------------------


def step(folder: Path, entry: StepEntry, test: Test) -> tuple[dict[str, Any], dict[str, pa.Table]]:
    """Checks every file of a finished test; returns step.json and the tables of its phases.
    Raises Damage if a file is wrong.
    """
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
            rows = table(folder, entry, kind, document)
            if kind not in INSIDE:
                tables[kind] = rows
        elif kind != DOCUMENT:
            _content(folder, entry, name, kept=False)
    return document, tables


def _document(folder: Path, entry: StepEntry, test: Test) -> dict[str, Any]:
    name = f"{STEPS}/{entry.id}/{DOCUMENT}"
    content = _content(folder, entry, name)
    try:
        document: dict[str, Any] = documents.from_json(content)
        parsed = StepFile.model_validate_json(content, strict=True)
    except ValidationError as problem:
        raise Damage(entry.id, name, first_of(problem)) from None
    except ValueError as problem:
        raise Damage(entry.id, name, f"it is not valid JSON: {problem}") from None
    if parsed.id != entry.id:
        raise Damage(entry.id, name, f"id: it belongs to test {parsed.id}")
    if [phase.label for phase in parsed.phases] != [phase.label for phase in test.phases]:
        raise Damage(entry.id, name, "phases: they differ from the test's")
    for phase, checked in zip(document["phases"], parsed.phases, strict=True):
        phase["metrics"] = checked.metrics  # JSON integers become floats here
    return document


def table(folder: Path, entry: StepEntry, kind: str, document: Mapping[str, Any]) -> pa.Table:
    """Reads a table of a finished test, with `phase` and the columns of `SCHEMAS[kind]`. Raises
    Damage if it differs from what a review writes.
    """
    name = f"{STEPS}/{entry.id}/{kind}.parquet"
    content = _content(folder, entry, name)
    lengths = {phase["label"]: phase["duration_s"] for phase in document["phases"]}
    try:
        decoded = _decoded(content, labelled(SCHEMAS[kind]))
        _check_columns(decoded)
        _check_counts(decoded)
        _check_rows(kind, decoded, lengths)
    except (pa.ArrowException, OSError, ValueError) as problem:
        text = " ".join(str(problem).split())
        raise Damage(entry.id, name, text[:200]) from None
    return decoded.cast(labelled(SCHEMAS[kind]))


def _content(folder: Path, entry: StepEntry, name: str, *, kept: bool = True) -> bytes:
    """Content of a file that the manifest lists, after its checksum is checked; empty unless
    `kept`.
    """
    path = Path(os.path.realpath(folder)) / name
    content = b""
    try:
        if os.path.realpath(path.parent) != str(path.parent):
            raise documents.Malformed("its folder is a link")
        if kept:
            content = documents.read_kept(path)
            digest = hashlib.sha256(content).hexdigest()
        else:
            with documents.opened_kept(path) as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
    except (FileNotFoundError, NotADirectoryError):
        raise Damage(entry.id, name, "is missing") from None
    except OSError as problem:
        raise Damage(entry.id, name, f"cannot be read: {problem.strerror}") from None
    except documents.Malformed as problem:
        raise Damage(entry.id, name, str(problem)) from None
    if digest != entry.files[name]:
        raise Damage(entry.id, name, "has changed since it was written")
    return content


# --- tables ---------------------------------------------------------------------------------------


def runs(content: bytes, *, arrow: bool) -> pa.Table:
    """Reads the runs of a sweep from a Parquet file or, with `arrow`, from Arrow IPC. Raises
    ValueError, pyarrow.ArrowException if they differ from what a sweep writes.
    """
    if arrow:
        decoded = pa.ipc.open_file(pa.BufferReader(content)).read_all()
        _check_names(decoded.schema)
        decoded.validate(full=True)
    else:
        decoded = _decoded(content)
    if "run" not in decoded.column_names or decoded.schema.field("run").type != pa.int64():
        raise ValueError("run: the numbers of the runs are missing")
    if odd := [field for field in decoded.schema if not _is_plain(field.type)]:
        raise ValueError(f"{odd[0].name}: a sweep has no column of {odd[0].type}")
    _check_columns(decoded, nullable={*decoded.column_names} - {"run"})
    return decoded


def _check_names(schema: pa.Schema) -> None:
    if twice := [name for name, count in Counter(schema.names).items() if count > 1]:
        raise ValueError(f"{twice[0]}: two columns have that name")


def _is_plain(kind: pa.DataType) -> bool:
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_string, pa.types.is_boolean)
    return any(test(kind) for test in (*tests, pa.types.is_null))


def _decoded(content: bytes, schema: pa.Schema | None = None) -> pa.Table:
    """Decodes a table, which must have this schema if one is given. Strings are read as
    dictionaries, so that a long one takes its memory once.
    """
    source = pa.BufferReader(content)
    about = pq.read_metadata(source)
    found_schema = about.schema.to_arrow_schema()
    _check_names(found_schema)
    if schema is not None and not found_schema.equals(schema):
        differ = {*map(str, found_schema)} ^ {*map(str, schema)}
        raise ValueError(f"its columns are not a result's: {min(differ, default='their order')}")
    groups = [about.row_group(number) for number in range(about.num_row_groups)]
    columns = [group.column(place) for group in groups for place in range(group.num_columns)]
    size = sum(column.num_values * _width(column) for column in columns) + about.num_rows
    if not 0 <= size <= DECODED_BYTES_MAX:
        raise ValueError(f"{about.num_rows:,} rows are more than a review writes")
    texts = [field.name for field in found_schema if field.type == pa.string()]
    with pq.ParquetFile(source, metadata=about, read_dictionary=texts) as file:
        decoded = file.read(use_threads=False)
    decoded.validate(full=True)
    for name in texts:
        longest = int(pc.max(pc.utf8_length(_dictionary(decoded, name))).as_py() or 0)
        if longest > TEXT_MAX or longest * decoded.num_rows > DECODED_BYTES_MAX:
            raise ValueError(f"{name}: a string has {longest:,} characters")
    return decoded if schema is not None else decoded.cast(found_schema)


def _width(column: pq.ColumnChunkMetaData) -> int:
    """Most bytes that a decoded value takes; each string counts with an even share of the bytes
    of all.
    """
    kind: str = column.physical_type
    if kind == "BYTE_ARRAY":
        texts: int = column.total_uncompressed_size
        count: int = column.num_values
        return 8 + texts // max(1, count)
    return 4 if kind in ("BOOLEAN", "INT32", "FLOAT") else 8


def _dictionary(data: pa.Table, name: str) -> pa.Array:
    """Distinct strings of a column."""
    parts = [chunk.dictionary for chunk in data.column(name).chunks]
    return pa.concat_arrays(parts) if parts else pa.array([], pa.string())


def _check_columns(data: pa.Table, *, nullable: Collection[str] = NULLABLE) -> None:
    for field in data.schema:
        column = data.column(field.name)
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
                raise ValueError(f"{field.name}: {values[~usual][0]} is out of range")


def _check_counts(data: pa.Table) -> None:
    for field in data.schema:
        if pa.types.is_integer(field.type):
            column = data.column(field.name)
            lowest = pc.min(column).as_py() or 0
            total = pc.sum(column.cast(pa.float64(), safe=False)).as_py() or 0
            if lowest < 0 or total > SUM_MAX:
                problem = f"{lowest} is below 0" if lowest < 0 else "its sum is beyond 2^61"
                raise ValueError(f"{field.name}: {problem}")


def _check_rows(kind: str, data: pa.Table, lengths: Mapping[str, float]) -> None:
    """Checks conditions between several columns."""
    if unknown := sorted({*_dictionary(data, "phase").to_pylist()} - {*lengths}, key=str):
        raise ValueError(f"phase: {unknown[0]!r} is not a phase of the test")
    labels = list(lengths)
    phase = data.column("phase").cast(pa.string())
    place = pc.index_in(phase, pa.array(labels, pa.string())).to_numpy()
    if kind in ("series", "stages"):
        second = data.column("second").to_numpy()
        last = np.array([lengths[label] for label in labels])[place] + LATE_S
        if (second >= last).any():
            raise ValueError(f"second: {second[second >= last][0]} is after its phase's end")
    if kind == "histogram":
        if unknown := sorted({*_dictionary(data, "direction").to_pylist()} - DIRECTIONS):
            raise ValueError(f"direction: {unknown[0]!r} is neither read nor write")
        low, high = (data.column(name).to_numpy() for name in ("low_ns", "high_ns"))
        order = np.lexsort((high, low, place))
        place, low, high = place[order], low[order], high[order]
        follows = (place[1:] != place[:-1]) | (low[1:] >= high[:-1])
        same = (low[1:] == low[:-1]) & (high[1:] == high[:-1])
        if (low >= high).any() or not (follows | same).all():
            raise ValueError("low_ns, high_ns: bins overlap")
