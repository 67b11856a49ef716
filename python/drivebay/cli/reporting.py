"""The report of one result folder or of several."""

from __future__ import annotations

import shlex
from pathlib import Path

from drivebay.errors import EnvironmentProblem, UserError
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

    for folder in folders:
        if not load(folder).done:
            raise UserError(
                f"{folder} has no finished test, so there is nothing to report",
                f"go on with: drivebay review --resume {shlex.quote(str(folder))}",
            )
    page = out or (folders[0] / "report.html" if len(folders) == 1 else SEVERAL)
    if page.is_dir():
        raise UserError(f"--out: {page} is a directory; must be a file", f"--out {page}/bench.html")
    try:
        return drivebay.report.write(folders, page)
    except OSError as problem:
        raise EnvironmentProblem(
            f"the report {page} cannot be written: {problem.strerror or problem}",
            "write it elsewhere: drivebay report "
            f"{' '.join(shlex.quote(str(folder)) for folder in folders)} --out FILE",
        ) from None
