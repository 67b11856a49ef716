"""`drivebay import`: converts results of other tools to result folders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from drivebay.cli import options
from drivebay.cli.options import argument, option
from drivebay.cli.output import print_json, say, short, show
from drivebay.lab.imports import AUTO, IMPORTERS, import_files, opened

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
        files: list[Path] = argument(),
        out: Path = option(show_default=True),
        drive: str | None = option(),
        time_scale: str = option(default="1"),
        as_json: options.Json = False,
    ) -> None:
        """Import results of another tool.

        Parameters
        ----------
        files : FILE...
            Output of the program; - for standard input.
        out : DIR
            Result folder to create.
        drive : NAME
            Name of the drive. [default: the file or device that the program used]
        time_scale : RATIO
            Time scale of the served drive that the program ran on (serve --time-scale); multiplies
            times.
        """
        from drivebay import results
        from drivebay.cli import report
        from drivebay.common import units
        from drivebay.lab.judge import flaws

        scale = units.parse_ratio(time_scale, option="--time-scale")
        with opened(files) as paths:
            folder = import_files(name, paths, out, drive=drive, time_scale=scale)
            judged = flaws(paths)
        steps = results.load(folder).steps
        warnings = {step.id: list(step.conditions().get("warnings", ())) for step in steps}
        page = report.write(folder)
        if as_json:
            places = {"result": str(folder), "report": str(page)}
            print_json({**places, "warnings": warnings, "judge": [asdict(one) for one in judged]})
            return
        for step, sentences in warnings.items():
            for warning in sentences:
                say(f"warning: {step}: {warning}")
        for entry in judged:
            say(f"judge: {entry.sentence}")
        show(f"result  {short(folder)}", f"report  {short(page)}")

    return run


def _declare(name: str, summary: str, files: str, help: str) -> None:
    epilog = EXAMPLES.format(name=name, files=files, help=help)
    app.command(name, help=summary, epilog=epilog)(_command(name))


for _one in IMPORTERS:
    _declare(_one.name, _one.summary, "*.json" if _one.form == "JSON" else "*.txt", _one.help)
_declare(
    AUTO,
    "Import files of any of these formats, recognized by their content.",
    "*.txt",
    "All files must have one format. A file that fits none or two is refused.",
)
