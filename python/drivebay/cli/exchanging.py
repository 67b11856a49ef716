"""The commands `query` and `import fio`."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from drivebay.cli import show
from drivebay.common.errors import UserError


def query(sql: str, folders: Sequence[Path], *, as_json: bool, as_csv: bool) -> None:
    """Prints what the query gives: a table, JSON or CSV."""
    from drivebay.lab.query import query as run_query

    if as_json and as_csv:
        raise UserError("--json and --csv are both given", "leave one of them out")
    found = run_query(sql, folders)
    if as_json:
        rows = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
        print(json.dumps(rows, indent=1, default=str))
    elif as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(found.columns)
        writer.writerows(found.rows)
    else:
        numbers = [
            place
            for place in range(len(found.columns))
            if all(isinstance(row[place], int | float | None) for row in found.rows)
        ]
        show.table(found.columns, [[_cell(one) for one in row] for row in found.rows],
                   right=numbers)  # fmt: skip


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def import_fio(files: Sequence[Path], out: Path, drive: str | None) -> None:
    """Makes the folder and its report."""
    from drivebay.cli import reporting
    from drivebay.lab.fio_import.importer import import_fio as make_folder

    folder = make_folder(files, out, drive=drive)
    page = reporting.report([folder], None)
    print(f"result  {show.short(folder)}\nreport  {show.short(page)}")
