"""Report: results as one HTML file that opens anywhere, offline.

This room must not know how a test is run, and computes no figure: every number comes from analysis.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from drivebay import results
from drivebay.analysis import review
from drivebay.errors import EnvironmentProblem, UserError
from drivebay.report.entries import entries
from drivebay.report.page import render
from drivebay.results import files

__all__ = ["write"]

NAME = "report.html"
SIDE_BY_SIDE = "drivebay-report.html"
DRIVES_MAX = 24


def write(dirs: Sequence[Path], out: Path | None = None) -> Path:
    """Writes the report of one review, or of several side by side, and returns its path.

    Parameters
    ----------
    dirs : result folders, in the order in which they are shown.
    out : the file to write, or a folder for it; without it DIR/report.html for one review and
        ./drivebay-report.html for several. A report that is there already is replaced.

    Raises
    ------
    UserError
        If a folder holds no result or a damaged one, or there are none or too many.
    EnvironmentProblem
        If the file cannot be written.
    """
    if not 1 <= len(dirs) <= DRIVES_MAX:
        raise UserError(
            f"{len(dirs)} result folders given; must be 1 to {DRIVES_MAX}",
            "give the folders that reviews have written: drivebay report DIR DIR",
        )
    place = _place(dirs, out)
    reviews = [review(results.load(folder)) for folder in dirs]
    content = render(entries(reviews)).encode()
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        files.replace(place, content)
    except OSError as problem:
        raise EnvironmentProblem(
            f"the report {place} cannot be written: {problem.strerror or problem}",
            "choose another place with: --out FILE.html",
        ) from None
    return place


def _place(dirs: Sequence[Path], out: Path | None) -> Path:
    if out is None:
        return Path(dirs[0]) / NAME if len(dirs) == 1 else Path(SIDE_BY_SIDE)
    folder = out.is_dir() or out.suffix.lower() not in (".html", ".htm")
    return out / NAME if folder else out
