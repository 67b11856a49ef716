"""SQL over result folders and sweeps, by DuckDB in this process.

    runs       one row per test of a result: what was tested, and how
    figures    one row per figure of a test: value, unit, spread, samples
    series     one row per second of a phase (results.records.SERIES_SCHEMA)
    histogram  one row per latency bin (HISTOGRAM_SCHEMA)
    stages     latency by stage, for virtual drives (STAGES_SCHEMA)
    telemetry  sensor readings, for real ones (TELEMETRY_SCHEMA)
    events, activity, superblocks
               internal events of virtual drives, from `review --events` (results.inside.SCHEMAS)
    sweep      one row per run of a sweep: parameters, figures, cost

`ci95(x)` is an aggregate: half of the 95 % interval of the mean of x, by Student's t, over seeds:
    SELECT spare, avg(iops), ci95(iops), count(*) FROM sweep GROUP BY spare

Every row has `result`, the folder's name. Series are read directly from the Parquet files, only the
columns and rows that a query needs; figures are computed by `analysis`. A query reads only these
folders, writes nothing and loads no extension. This process is limited to 1 GB of memory, because
DuckDB's own limit does not cover Arrow's tables, and strings and rows in Python.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from operator import and_
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pa_dataset
import pyarrow.fs as pa_fs

from drivebay import results
from drivebay.analysis import Review, review
from drivebay.analysis.replicates import t_quantile
from drivebay.common import documents, memory, provenance, signals
from drivebay.common.errors import UserError
from drivebay.lab.sweep.store import Store
from drivebay.results import Result
from drivebay.results.checking import SCHEMAS
from drivebay.results.records import labelled
from drivebay.results.schemas import schema_of

Value = TypeVar("Value")
RUNS_SCHEMA = schema_of(
    "result folder drive title kind simulated:bool capacity_bytes:int64 suite quick:bool "
    "seed:int64 test state tool_version git_commit build"
)
FIGURES_SCHEMA = schema_of(
    "result drive test figure label value:float64 unit spread:float64 n:int64 main:bool note"
)
VIEWS = ("runs", "figures", *SCHEMAS, "sweep")
VIEWS_HINT = f'views are {", ".join(VIEWS)}; columns of one: drivebay query "DESCRIBE figures" DIR'
ELSEWHERE = "for files and extensions use DuckDB itself on the Parquet files of DIR"
# File formats of tables: Arrow IPC holds the runs of an unfinished sweep.
FORMS = {".parquet": pa_dataset.ParquetFileFormat(), ".arrow": pa_dataset.IpcFileFormat()}
ROWS_MAX = 1_000_000
# Largest degrees of freedom that are tabulated; beyond, Student's t is within 0.6 % of the normal
# distribution's.
FREEDOM_MAX = 200
# Memory limit of this process, without its 100 MB of code. guess: enough for all seconds of a
# thousand reviews.
MEMORY_BYTES = 900_000_000
LESS = (
    "the query or its answer needs more than 1 GB of memory",
    "select fewer rows or columns, or use DuckDB itself on the Parquet files of DIR",
)
# Settings that prevent a query from accessing files, loading extensions, or taking more memory or
# threads.
CLOSED = (
    "SET memory_limit = '500MB'; SET temp_directory = ''; SET enable_progress_bar = false; "
    f"SET threads = {min(4, os.cpu_count() or 1)}; SET enable_external_access = false; "
    "SET lock_configuration = true"
)
# Time after Ctrl-C that a query may continue; a few of DuckDB's functions never notice it.
STOPS_S = 1.0


@dataclass(frozen=True)
class Answer:
    """Result of a query: names of the columns, and rows of plain values."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


def query(sql: str, folders: Sequence[Path | str]) -> Answer:
    """Answers one SQL query over these folders. `folders`: results of reviews, and sweeps; views
    of a kind that is not among them have no rows. Raises UserError if a folder is neither, or
    the query is not valid; EnvironmentProblem if a folder is damaged, or the query needs too
    much memory; KeyboardInterrupt on SIGINT, SIGTERM or SIGHUP.
    """
    with limited(), _connected() as base:
        _fill(base, [Path(folder) for folder in folders])
        quantiles = [t_quantile(0.95, freedom) for freedom in range(1, FREEDOM_MAX + 1)]
        base.execute(
            "CREATE MACRO ci95(x) AS stddev_samp(x) / sqrt(count(x)) * "
            f"list_extract({quantiles}, least(count(x) - 1, {FREEDOM_MAX}))"
        )
        base.execute(CLOSED)
        try:
            return _heard(base, lambda: _answer(base, sql))
        except duckdb.OutOfMemoryException:
            raise MemoryError from None
        except duckdb.Error as problem:
            text = " ".join(str(problem).split())
            if isinstance(problem, duckdb.PermissionException):
                raise UserError(
                    f"a query reads nothing but the folders given: {text}", ELSEWHERE
                ) from None
            raise UserError(f"the query is not right: {text}", VIEWS_HINT) from None


@contextlib.contextmanager
def _connected() -> Iterator[duckdb.DuckDBPyConnection]:
    """A database in memory. A call that hears no interrupt keeps its connection until the process
    ends: closing it raises then, in place of KeyboardInterrupt."""
    base = duckdb.connect()
    try:
        yield base
    finally:
        with contextlib.suppress(duckdb.Error):
            base.close()


def limited() -> AbstractContextManager[None]:
    """The memory limit of `query`; code that prints its answer should use it too."""
    return memory.limited(MEMORY_BYTES, *LESS)


def _heard(base: duckdb.DuckDBPyConnection, work: Callable[[], Value]) -> Value:
    """Calls `work` in a thread of its own and returns its result: while DuckDB computes, Python
    handles no signals.
    """
    returned: list[Value] = []
    problems: list[BaseException] = []
    stopped = threading.Event()

    def run() -> None:
        try:
            returned.append(work())
        except BaseException as problem:
            problems.append(problem)

    thread = threading.Thread(target=run, daemon=True)
    with signals.heard(stopped.set):
        thread.start()
        while thread.is_alive() and not stopped.is_set():
            thread.join(0.1)
        deadline = time.monotonic() + STOPS_S
        while thread.is_alive() and time.monotonic() < deadline:
            # it is busy with a call that cannot be interrupted
            with contextlib.suppress(duckdb.Error):
                base.interrupt()
            thread.join(0.05)
    if stopped.is_set():
        raise KeyboardInterrupt
    if problems:
        raise problems[0]
    return returned[0]


def _answer(base: duckdb.DuckDBPyConnection, sql: str) -> Answer:
    """The rows of the only statement. Times with a zone are converted to text: as objects they
    would need a package of time zones.
    """
    if len(statements := base.extract_statements(sql)) != 1:
        raise UserError(f"the query has {len(statements)} statements; it must be one", VIEWS_HINT)
    text = statements[0].query
    if (asked := base.sql(text)) is None:
        return Answer((), ())
    columns, zoned = tuple(asked.columns), ["WITH TIME ZONE" in str(kind) for kind in asked.types]
    if any(zoned):
        names = [f"c{place}" for place in range(len(columns))]
        pairs = zip(names, zoned, strict=True)
        chosen = [f"{name}::VARCHAR" if is_zoned else name for name, is_zoned in pairs]
        inner = text.rstrip("; \n")
        text = f"SELECT {', '.join(chosen)} FROM ({inner}\n) t({', '.join(names)})"
    rows = base.execute(text).fetchmany(ROWS_MAX + 1)
    if len(rows) > ROWS_MAX:
        raise UserError(f"the query returns over {ROWS_MAX:,} rows", "add to it: LIMIT 1000")
    return Answer(columns, tuple(rows))


def _fill(base: duckdb.DuckDBPyConnection, folders: Sequence[Path]) -> None:
    """Creates the views over these folders."""
    names = _names(folders)
    sweeps = [folder for folder in folders if _is_sweep(folder)]
    loaded: dict[str, Result] = {}
    figures = [FIGURES_SCHEMA.empty_table()]
    for folder in folders:
        if folder not in sweeps:
            reviewed = review(results.load(folder))  # not kept: it holds every second
            loaded[names[folder]] = reviewed.result
            figures.append(_figures(names[folder], reviewed))
    base.register("runs", _runs(loaded))
    base.register("figures", pa.concat_tables(figures))
    for name, schema in SCHEMAS.items():
        _series(base, name, labelled(schema), loaded)
    _sweep(base, {names[folder]: folder for folder in sweeps})


def _names(folders: Sequence[Path]) -> dict[Path, str]:
    """Each folder's own name, or its whole path if two have the same."""
    own = [folder.resolve().name for folder in folders]
    pairs = zip(folders, own, strict=True)
    return {folder: str(folder) if own.count(name) > 1 else name for folder, name in pairs}


def _is_sweep(folder: Path) -> bool:
    try:
        manifest = documents.from_json(documents.read_kept(folder / "manifest.json"))
    except (OSError, ValueError):
        return False  # results reports the error
    return isinstance(manifest, dict) and manifest.get("kind") == "sweep"


def _runs(loaded: dict[str, Result]) -> pa.Table:
    rows = [
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
        for name, made in loaded.items()
        for step in made.steps
    ]
    return pa.Table.from_pylist(rows, schema=RUNS_SCHEMA)


def _figures(name: str, reviewed: Review) -> pa.Table:
    rows = [
        {
            "result": name,
            "drive": reviewed.result.target["name"],
            "test": test,
            "figure": key,
            "main": key in measured.main,
            **vars(figure),
        }
        for test, measured in reviewed.tests.items()
        for key, figure in measured.figures.items()
    ]
    return pa.Table.from_pylist(rows, schema=FIGURES_SCHEMA)


def _series(
    base: duckdb.DuckDBPyConnection, name: str, schema: pa.Schema, loaded: dict[str, Result]
) -> None:
    """Creates a view over the Parquet files of one kind, each row with its result and test."""
    files = {
        step.folder / f"{name}.parquet": {"result": key, "test": step.id}
        for key, made in loaded.items()
        for step in made.done
        if step.has(name)
    }
    base.register(name, _dataset(files, ("result", "test"), schema))


def _sweep(base: duckdb.DuckDBPyConnection, folders: dict[str, Path]) -> None:
    """Creates a view over all parts of the sweeps; a column that one of them lacks is null
    there.
    """
    files = {}
    for key, folder in folders.items():
        store = Store(str(folder))
        for path in sorted((folder / "parts").glob("*.*")):
            if path.suffix in FORMS:
                store.table(f"parts/{path.name}")  # refused if it is damaged
                files[path] = {"result": key}
    base.register("sweep", _dataset(files, ("result",), pa.schema([("run", pa.int64())])))


def _dataset(
    files: Mapping[Path, Mapping[str, str]], keys: Sequence[str], schema: pa.Schema
) -> pa_dataset.Dataset:
    """Combines files of `FORMS` to one table, each row with its file's keys; with `schema` if
    there are none. Only the data that a query needs is read.
    """
    system = pa_fs.LocalFileSystem()
    fragments = []
    for path, values in files.items():
        known = functools.reduce(and_, (pc.field(key) == values[key] for key in keys))
        fragments.append(FORMS[path.suffix].make_fragment(str(path), system, known))
    try:
        schemas = [fragment.physical_schema for fragment in fragments] or [schema]
        schemas.insert(0, pa.schema([(key, pa.string()) for key in keys]))
        whole = pa.unify_schemas(schemas, promote_options="permissive").remove_metadata()
    except (OSError, pa.ArrowException) as problem:
        raise UserError(
            f"a table cannot be read: {' '.join(str(problem).split())}",
            "have the damaged test run again: drivebay review --resume DIR",
        ) from None
    of_form = [
        pa_dataset.FileSystemDataset(
            [fragment for fragment in fragments if fragment.format == form], whole, form, system
        )
        for form in FORMS.values()
    ]
    return pa_dataset.UnionDataset(whole, of_form)
