"""`drivebay import`: converts results of other tools to result folders."""

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
  drivebay report results/* --out bench               compare with others

\b
FILE is fio's output with --output-format=json or json+ (better, as it has all
latencies). Logs in the same folder (write_iops_log, write_lat_log with
log_avg_msec up to 1000) add values per second."""
)
def fio(
    files: list[Path] = argument("FILE...", "fio's JSON output."),
    out: Path = option("DIR", "Result folder to create.", show_default=True),
    drive: str | None = option(
        "NAME", "Name of the drive. [default: the file or device that fio used]"
    ),
    time_scale: str = option(
        "RATIO",
        "Time scale of the served drive that fio ran on (serve --time-scale); multiplies times.",
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
        for warning in step.conditions().get("warnings", ()):
            say(f"warning: {step.test.id}: {warning}")
    show(f"result  {short(folder)}", f"report  {short(report.write(folder))}")
