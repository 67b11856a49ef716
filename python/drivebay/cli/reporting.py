"""The report of one result folder or of several."""

from __future__ import annotations

import shlex
from pathlib import Path

from drivebay.cli import display
from drivebay.common.errors import DrivebayError, EnvironmentProblem, UserError
from drivebay.results import load

SEVERAL = Path("drivebay-report.html")


def report(folders: list[Path], out: Path | None) -> Path:
    """Writes the page and returns its path.

    Raises
    ------
    UserError
        If a folder holds no result, is damaged, or no test of it has finished.
    EnvironmentProblem
        If the page cannot be written.
    """
    import drivebay.report

    if out is not None and out.suffix.lower() not in (".html", ".htm"):
        with display.counted("report: {} of {} reviews", len(folders)) as progress:
            return drivebay.report.write_bench(
                folders, out, progress=progress, left_out=_left_out if len(folders) > 1 else None
            )
    for folder in folders:
        if not load(folder).done:
            raise UserError(
                f"{folder} has no finished test, so there is nothing to report",
                f"go on with: drivebay review --resume {shlex.quote(str(folder))}",
            )
    page = out or (folders[0] / "report.html" if len(folders) == 1 else SEVERAL)
    try:
        return drivebay.report.write(folders, page)
    except OSError as problem:
        raise EnvironmentProblem(
            f"the report {page} cannot be written: {problem.strerror or problem}",
            "write it elsewhere: drivebay report "
            f"{' '.join(shlex.quote(str(folder)) for folder in folders)} --out FILE",
        ) from None


def _left_out(problem: DrivebayError) -> None:
    """One bad folder among many does not keep the others from being shown."""
    display.say(f"warning: left out: {problem.message}")


def pictures(folders: list[Path], out: Path) -> list[Path]:
    """Writes every chart as PNG, SVG and CSV into a folder and returns the pictures' paths."""
    import drivebay.report

    return drivebay.report.write_pictures(folders, out)
