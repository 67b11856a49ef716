"""`drivebay import`: converts results of other tools to result folders."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from drivebay.cli import options
from drivebay.cli.options import argument, option
from drivebay.cli.output import say, short, show
from drivebay.lab.imports import AUTO, IMPORTERS, import_files

app = options.Verb(help="Import results of other tools.")


@app.callback(
    epilog="""\b
Examples:
  drivebay import fio old/*.json --out results/old-drive
  drivebay import auto result.txt --out results/forum"""
)
def import_() -> None:
    """Import results of other tools."""


EXAMPLES = """\b
Examples:
  drivebay import {name} {files} --out results/old --drive "ACME 512"
  drivebay import {name} {files} --out served --time-scale 1/20
  drivebay report results/* --out bench               compare with others

\b
{help}"""


def _command(name: str) -> Callable[..., None]:
    """The command of an importer, or of `AUTO`."""

    def run(
        files: list[Path] = argument("FILE...", "Output of the program."),
        out: Path = option("DIR", "Result folder to create.", show_default=True),
        drive: str | None = option(
            "NAME", "Name of the drive. [default: the file or device that the program used]"
        ),
        time_scale: str = option(
            "RATIO",
            "Time scale of the served drive that the program ran on (serve --time-scale); "
            "multiplies times.",
            default="1",
        ),
    ) -> None:
        from drivebay import results
        from drivebay.cli import report
        from drivebay.common import units

        scale = units.parse_ratio(time_scale, option="--time-scale")
        folder = import_files(name, files, out, drive=drive, time_scale=scale)
        for step in results.load(folder).steps:
            for warning in step.conditions().get("warnings", ()):
                say(f"warning: {step.test.id}: {warning}")
        show(f"result  {short(folder)}", f"report  {short(report.write(folder))}")

    return run


for _importer in IMPORTERS:
    app.command(
        _importer.name,
        help=_importer.summary,
        epilog=EXAMPLES.format(
            name=_importer.name,
            files="*.json" if _importer.form == "JSON" else "*.txt",
            help=_importer.help,
        ),
    )(_command(_importer.name))
app.command(
    AUTO,
    help="Import files of any of these formats, recognized by their content.",
    epilog=EXAMPLES.format(
        name=AUTO,
        files="*.txt",
        help="All files must have one format. A file that fits none or two is refused.",
    ),
)(_command(AUTO))
