"""SQL over result folders and sweeps, by DuckDB in this process.

    runs       one row per test of a result: what was tested, and how
    figures    one row per figure of a test: value, unit, spread, samples
    series     one row per second of a phase (results.records.SERIES_SCHEMA)
    histogram  one row per latency bin (HISTOGRAM_SCHEMA)
    stages     where the time went, of virtual drives (STAGES_SCHEMA)
    telemetry  sensors, of real ones (TELEMETRY_SCHEMA)
    events, activity, superblocks
               inside of virtual drives, of `review --events` (results.inside.SCHEMAS)
    sweep      one row per run of a sweep: parameters, figures, cost

`ci95(x)` is an aggregate: half of the 95 % interval of the mean of x, by Student's t, over seeds:
    SELECT spare, avg(iops), ci95(iops), count(*) FROM sweep GROUP BY spare

Every row has `result`, the folder's name. The tables of series are read from the Parquet files
themselves, only the columns and rows that a query needs; figures are computed by `analysis`.
A query reads nothing but these folders, writes nothing, loads no extension, and has 1 GB of memory.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import and_
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pa_dataset
import pyarrow.fs as pa_fs

from drivebay import results
from drivebay.analysis import Review, review
from drivebay.analysis.replicates import t_quantile
from drivebay.common import documents, provenance
from drivebay.common.errors import UserError
from drivebay.results import Result
from drivebay.results.inside import SCHEMAS as INSIDE
from drivebay.results.records import (
    HISTOGRAM_SCHEMA,
    SERIES_SCHEMA,
    STAGES_SCHEMA,
    TELEMETRY_SCHEMA,
)

SERIES = {
    "series": SERIES_SCHEMA,
    "histogram": HISTOGRAM_SCHEMA,
    "stages": STAGES_SCHEMA,
    "telemetry": TELEMETRY_SCHEMA,
    **INSIDE,
}
RUNS_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("result", "folder", "drive", "title", "kind")),
        ("simulated", pa.bool_()),
        ("capacity_bytes", pa.int64()),
        ("suite", pa.string()),
        ("quick", pa.bool_()),
        ("seed", pa.int64()),
        *((name, pa.string()) for name in ("test", "state", "tool_version", "git_commit", "build")),
    ]
)
FIGURES_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("result", "drive", "test", "figure", "label")),
        ("value", pa.float64()),
        ("unit", pa.string()),
        ("spread", pa.float64()),
        ("n", pa.int64()),
        ("main", pa.bool_()),
        ("note", pa.string()),
    ]
)
VIEWS = ("runs", "figures", *SERIES, "sweep")
VIEWS_HINT = f'views are {", ".join(VIEWS)}; columns of one: drivebay query "DESCRIBE figures" DIR'
ELSEWHERE = "for files and extensions use DuckDB itself on the Parquet files of DIR"
FORMS = {".parquet": pa_dataset.ParquetFileFormat(), ".arrow": pa_dataset.IpcFileFormat()}
"""How tables are kept: Arrow IPC are the runs of a sweep that has not ended."""
ROWS_MAX = 1_000_000
FREEDOM_MAX = 200
"""Of more degrees of freedom Student's t is within 0.6 % of the normal distribution's."""
CLOSED = (
    "SET memory_limit = '1GB'; SET enable_external_access = false; SET lock_configuration = true"
)
"""Neither files, extensions nor more memory for what a query says. guess: 1 GB is enough for all
seconds of a thousand reviews."""


@dataclass(frozen=True)
class Answer:
    """What a query gave: columns' names, and rows of plain values."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


def query(sql: str, folders: Sequence[Path | str]) -> Answer:
    """Answers one SQL query over these folders.

    Parameters
    ----------
    folders : results of reviews, and sweeps; views of what is not among them have no rows.

    Raises
    ------
    UserError
        If a folder holds neither, is damaged, or the query is not right.
    """
    with duckdb.connect() as base:
        _fill(base, [Path(folder) for folder in folders])
        quantiles = [t_quantile(0.95, freedom) for freedom in range(1, FREEDOM_MAX + 1)]
        base.execute(
            "CREATE MACRO ci95(x) AS stddev_samp(x) / sqrt(count(x)) * "
            f"list_extract({quantiles}, least(count(x) - 1, {FREEDOM_MAX}))"
        )
        base.execute(CLOSED)
        try:
            return _answer(base, sql)
        except duckdb.Error as problem:
            text = " ".join(str(problem).split())
            if isinstance(problem, duckdb.PermissionException):
                raise UserError(
                    f"a query reads nothing but the folders given: {text}", ELSEWHERE
                ) from None
            raise UserError(f"the query is not right: {text}", VIEWS_HINT) from None


def _answer(base: duckdb.DuckDBPyConnection, sql: str) -> Answer:
    """The rows of the only statement. Times with a zone come as text: as objects they would need a
    package of time zones."""
    if len(statements := base.extract_statements(sql)) != 1:
        raise UserError(f"the query has {len(statements)} statements; it must be one", VIEWS_HINT)
    text = statements[0].query
    if (asked := base.sql(text)) is None:
        return Answer((), ())
    columns, zoned = tuple(asked.columns), ["WITH TIME ZONE" in str(kind) for kind in asked.types]
    if any(zoned):
        names = [f"c{place}" for place in range(len(columns))]
        chosen = [
            f"{name}::VARCHAR" if is_zoned else name
            for name, is_zoned in zip(names, zoned, strict=True)
        ]
        inner = text.rstrip("; \n")
        text = f"SELECT {', '.join(chosen)} FROM ({inner}\n) t({', '.join(names)})"
    rows = base.execute(text).fetchmany(ROWS_MAX + 1)
    if len(rows) > ROWS_MAX:
        raise UserError(f"the query gives over {ROWS_MAX:,} rows", "add to it: LIMIT 1000")
    return Answer(columns, tuple(rows))


def _fill(base: duckdb.DuckDBPyConnection, folders: Sequence[Path]) -> None:
    """The views over these folders."""
    names = _names(folders)
    sweeps = [folder for folder in folders if _is_sweep(folder)]
    found = {
        names[folder]: review(results.load(folder)) for folder in folders if folder not in sweeps
    }
    base.register("runs", _runs(found))
    base.register("figures", _figures(found))
    for name, schema in SERIES.items():
        _series(base, name, schema, {key: one.result for key, one in found.items()})
    _sweep(base, {names[folder]: folder for folder in sweeps})


def _names(folders: Sequence[Path]) -> dict[Path, str]:
    """Each folder's own name, or its whole path where two have the same."""
    own = [folder.resolve().name for folder in folders]
    return {
        folder: str(folder) if own.count(name) > 1 else name
        for folder, name in zip(folders, own, strict=True)
    }


def _is_sweep(folder: Path) -> bool:
    try:
        found = documents.from_json((folder / "manifest.json").read_bytes())
    except (OSError, ValueError):
        return False  # what is wrong with it is told by results
    return isinstance(found, dict) and found.get("kind") == "sweep"


def _runs(found: dict[str, Review]) -> pa.Table:
    rows = []
    for name, one in found.items():
        made = one.result
        rows += [
            {
                "result": name,
                "folder": str(made.folder),
                "drive": made.target["name"],
                "title": made.target.get("title") or made.target.get("model"),
                "kind": made.target["kind"],
                "simulated": made.simulated,
                "capacity_bytes": made.target["capacity_bytes"],
                "suite": made.suite.name,
                "quick": made.quick,
                "seed": made.seed,
                "test": step.id,
                "state": step.state,
                "tool_version": made.tool.version,
                "git_commit": made.tool.git_commit,
                "build": provenance.build_line(made.tool.model_dump()) if made.tool.core else None,
            }
            for step in made.steps
        ]
    return pa.Table.from_pylist(rows, schema=RUNS_SCHEMA)


def _figures(found: dict[str, Review]) -> pa.Table:
    rows = [
        {
            "result": name,
            "drive": one.result.target["name"],
            "test": test,
            "figure": key,
            "label": figure.label,
            "value": figure.value,
            "unit": figure.unit,
            "spread": figure.spread,
            "n": figure.n,
            "main": key in measured.main,
            "note": figure.note,
        }
        for name, one in found.items()
        for test, measured in one.tests.items()
        for key, figure in measured.figures.items()
    ]
    return pa.Table.from_pylist(rows, schema=FIGURES_SCHEMA)


def _series(
    base: duckdb.DuckDBPyConnection, name: str, schema: pa.Schema, found: dict[str, Result]
) -> None:
    """A view over the Parquet files of one kind, each row with its result and test."""
    files = {
        step.folder / f"{name}.parquet": {"result": key, "test": step.id}
        for key, made in found.items()
        for step in made.done
        if (step.folder / f"{name}.parquet").exists()
    }
    phase = pa.schema([pa.field("phase", pa.string()), *schema])
    base.register(name, _dataset(files, ("result", "test"), phase))


def _sweep(base: duckdb.DuckDBPyConnection, found: dict[str, Path]) -> None:
    """All parts of the sweeps; a column that one of them has not is null there."""
    files = {
        path: {"result": key}
        for key, folder in found.items()
        for path in sorted((folder / "parts").glob("*.*"))
        if path.suffix in FORMS
    }
    base.register("sweep", _dataset(files, ("result",), pa.schema([("run", pa.int64())])))


def _dataset(
    files: Mapping[Path, Mapping[str, str]], keys: Sequence[str], schema: pa.Schema
) -> pa_dataset.Dataset:
    """Files of `FORMS` as one table, each row with its file's keys; `schema` if there are none.
    Only what a query needs is read."""
    system = pa_fs.LocalFileSystem()
    fragments = []
    for path, values in files.items():
        known = functools.reduce(and_, (pc.field(key) == values[key] for key in keys))
        fragments.append(FORMS[path.suffix].make_fragment(str(path), system, known))
    try:
        found = [one.physical_schema for one in fragments] or [schema]
        found.insert(0, pa.schema([(key, pa.string()) for key in keys]))
        whole = pa.unify_schemas(found, promote_options="permissive").remove_metadata()
    except (OSError, pa.ArrowException) as problem:
        raise UserError(
            f"a table cannot be read: {' '.join(str(problem).split())}",
            "have the damaged test run again: drivebay review --resume DIR",
        ) from None
    of_form = [
        pa_dataset.FileSystemDataset(
            [one for one in fragments if one.format == form], whole, form, system
        )
        for form in FORMS.values()
    ]
    return pa_dataset.UnionDataset(whole, of_form)
