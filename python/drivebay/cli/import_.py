"""`drivebay import`: results of other tools as result folders."""

from __future__ import annotations

from pathlib import Path

from drivebay.cli import options
from drivebay.cli.options import argument, option
from drivebay.cli.output import say, short, show

app = options.Verb(help="Import results of other tools.")


@app.callback(
    epilog="""\b
Examples:
  drivebay import fio old/*.json --out results/old-drive"""
)
def import_() -> None:
    """Import results of other tools."""


@app.command(
    epilog="""\b
Examples:
  drivebay import fio old/*.json --out results/old --drive "ACME 512"
  drivebay import fio slow.json --out results/served --time-scale 1/20
  drivebay report results/* --out bench               compare it with others

\b
FILE is what fio wrote with --output-format=json or json+ (better: complete
latencies). Logs beside it (write_iops_log, write_lat_log with log_avg_msec up
to 1000) give the seconds."""
)
def fio(
    files: list[Path] = argument("FILE...", "fio's JSON output."),
    out: Path = option("DIR", "Result folder to make.", show_default=True),
    drive: str | None = option("NAME", "Drive's name. [default: what fio ran on]"),
    time_scale: str = option(
        "RATIO",
        "Of the served drive that fio ran on, as given to serve: times are multiplied by it.",
        default="1",
    ),
) -> None:
    """Import fio's JSON output as a result folder."""
    from drivebay import results
    from drivebay.cli import report
    from drivebay.common import units
    from drivebay.lab.fio_import.importer import import_fio

    folder = import_fio(
        files, out, drive=drive, time_scale=units.parse_ratio(time_scale, option="--time-scale")
    )
    for step in results.load(folder).steps:
        for words in step.conditions().get("warnings", ()):
            say(f"warning: {step.test.id}: {words}")
    show(f"result  {short(folder)}", f"report  {short(report.write(folder))}")
