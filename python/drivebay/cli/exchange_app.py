"""The verbs `drivebay query` and `drivebay import`, and their options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

QUERY_EPILOG = """\b
Examples:
  drivebay query "FROM figures WHERE main" drivebay-results/*
  drivebay query "SELECT drive, max(temperature_c) FROM series JOIN runs USING (result, test)
                  GROUP BY drive" drivebay-results/* --json
  drivebay query "SELECT spare, avg(iops) FROM sweep GROUP BY spare" drivebay-sweeps/spare
  drivebay query "DESCRIBE series" drivebay-results/NAME

\b
SQL is DuckDB's. Views: runs, figures, series, histogram, stages, telemetry, sweep; each row has
`result`, its folder's name. More in docs/concepts/data.md."""

IMPORT_EPILOG = """\b
Examples:
  drivebay import fio old/*.json --out results/old-drive --drive "ACME 512"
  drivebay report results/* --out bench                    and it stands on the Bench

\b
FILE is what fio wrote with --output-format=json or json+ (better: its latencies are whole). Logs
beside it (write_iops_log, write_lat_log with log_avg_msec up to 1000) give the seconds."""

importing = typer.Typer(name="import", help="Make results of other programs into ours.")


def query(
    sql: Annotated[str, typer.Argument(metavar="SQL", show_default=False, help="One query.")],
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="DIR...", show_default=False, help="Results and sweeps."),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: a list of rows.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
) -> None:
    """Ask results and sweeps in SQL."""
    from drivebay.cli import exchanging

    exchanging.query(sql, folders, as_json=as_json, as_csv=as_csv)


@importing.callback()
def import_() -> None:
    """Make results of other programs into ours."""


@importing.command("fio", epilog=IMPORT_EPILOG)
def fio(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", show_default=False, help="fio's JSON output."),
    ],
    out: Annotated[
        Path, typer.Option(metavar="DIR", show_default=False, help="The result folder to make.")
    ],
    drive: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            show_default=False,
            help="What the drive is called. [default: what fio ran on]",
        ),
    ] = None,
) -> None:
    """Import fio's JSON as a result folder."""
    from drivebay.cli import exchanging

    exchanging.import_fio(files, out, drive)
