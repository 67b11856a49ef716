"""`drivebay query`: SQL over results and sweeps."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drivebay.cli import options
from drivebay.cli.options import argument, flag
from drivebay.cli.output import print_json_rows, table
from drivebay.common.documents import printable
from drivebay.common.errors import UserError

if TYPE_CHECKING:
    from drivebay.lab.query import Answer


def query(
    sql: str = argument(),
    folders: list[Path] = argument(),
    as_json: options.Json = False,
    as_csv: bool = flag("--csv"),
) -> None:
    """Query results and sweeps in SQL.

    Examples:
      drivebay query "FROM figures WHERE main" drivebay-results/*
      drivebay query "SELECT drive, max(temperature_c) FROM series
          JOIN runs USING (result, test) GROUP BY drive" drivebay-results/* --json
      drivebay query "DESCRIBE sweep" drivebay-sweeps/NAME    columns of the sweep
      drivebay query "SELECT spare, avg(iops_qd1) FROM sweep GROUP BY spare" \\
          drivebay-sweeps/NAME

    SQL is DuckDB's. Views: runs, figures, series, histogram, stages, telemetry,
    sweep; with `review --events` also events, activity, superblocks. The column
    `result` of each row is the folder's name. See docs/concepts/data.md.

    Parameters
    ----------
    sql : SQL
        SQL query.
    folders : DIR...
        Folders of results and sweeps.
    as_csv :
        Print CSV.
    """
    from drivebay.lab import query as asking

    if as_json and as_csv:
        raise UserError("--json and --csv exclude each other", "leave one of them out")
    with asking.limited():
        _print(asking.query(sql, folders), as_json=as_json, as_csv=as_csv)


def _print(answer: Answer, *, as_json: bool, as_csv: bool) -> None:
    if as_json:
        print_json_rows(dict(zip(answer.columns, row, strict=True)) for row in answer.rows)
    elif as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        rows: Iterable[Sequence[Any]] = (answer.columns, *answer.rows)
        if sys.stdout.isatty():  # only programs get control characters
            rows = (
                [cell if cell is None else printable(str(cell)) for cell in row] for row in rows
            )
        writer.writerows(rows)
    else:
        numbers = [
            index
            for index in range(len(answer.columns))
            if all(isinstance(row[index], int | float | None) for row in answer.rows)
        ]
        cells = [[_cell(value) for value in row] for row in answer.rows]
        table(answer.columns, cells, right=numbers)


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
