"""SQL over result folders and sweeps, by DuckDB in this process.

    runs       one row per test of a result: what was tested, and how
    figures    one row per figure of a test: value, unit, spread, samples
    series     one row per second of a phase (results.records.SERIES_SCHEMA)
    histogram  one row per latency bin (HISTOGRAM_SCHEMA)
    stages     where the time went, of virtual drives (STAGES_SCHEMA)
    telemetry  sensors, of real ones (TELEMETRY_SCHEMA)
    sweep      one row per run of a sweep: parameters, figures, cost

Every row has `result`, the folder's name. The tables of series are read by DuckDB from the Parquet
files themselves, only the columns and rows that a query needs; figures are computed by `analysis`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from drivebay import results
from drivebay.analysis import Review, review
from drivebay.common.errors import UserError
from drivebay.results import Result
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
}
RUNS_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("result", "folder", "drive", "title", "kind")),
        ("simulated", pa.bool_()),
        ("capacity_bytes", pa.int64()),
        ("suite", pa.string()),
        ("quick", pa.bool_()),
        ("seed", pa.int64()),
        *((name, pa.string()) for name in ("test", "state", "tool_version", "git_commit")),
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
        try:
            asked = base.execute(sql)
            columns = tuple(one[0] for one in asked.description or ())
            return Answer(columns, tuple(asked.fetchall()))
        except duckdb.Error as problem:
            text = " ".join(str(problem).split())
            raise UserError(
                f"the query is not right: {text}",
                f"views are {', '.join(VIEWS)}; columns of one: "
                'drivebay query "DESCRIBE figures" DIR',
            ) from None


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
        found = json.loads((folder / "manifest.json").read_bytes())
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
    rows = [
        {"filename": str(path), "result": key, "test": step.id}
        for key, made in found.items()
        for step in made.done
        if (path := step.folder / f"{name}.parquet").exists()
    ]
    if not rows:
        keys = [pa.field(one, pa.string()) for one in ("result", "test", "phase")]
        base.register(name, pa.schema([*keys, *schema]).empty_table())
        return
    base.register(f"_{name}_files", pa.Table.from_pylist(rows))
    paths = ", ".join(_quoted(row["filename"]) for row in rows)
    base.execute(
        f"CREATE VIEW {name} AS SELECT f.result, f.test, s.* EXCLUDE (filename) FROM "
        f"read_parquet([{paths}], filename = true, union_by_name = true) s "
        f"JOIN _{name}_files f USING (filename)"
    )


def _sweep(base: duckdb.DuckDBPyConnection, found: dict[str, Path]) -> None:
    """All parts of the sweeps; a column that one of them has not is null there."""
    parts = [
        f"SELECT {_quoted(key)} AS result, * FROM "
        f"read_parquet({_quoted(str(folder / 'parts' / '*.parquet'))}, union_by_name = true)"
        for key, folder in found.items()
        if any((folder / "parts").glob("*.parquet"))
    ]
    if parts:
        base.execute(f"CREATE VIEW sweep AS {' UNION ALL BY NAME '.join(parts)}")
    else:
        base.execute("CREATE TABLE sweep (result VARCHAR, run BIGINT)")


def _quoted(text: str) -> str:
    """A string as SQL writes it.

    >>> _quoted("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"
