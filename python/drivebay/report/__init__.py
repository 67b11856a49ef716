"""Report: results as HTML that opens anywhere, offline: one file, or the Bench, a folder of pages.

The report never runs tests and computes no figures: every number comes from `analysis`.
"""

from __future__ import annotations

import errno
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from drivebay import results
from drivebay.analysis import review
from drivebay.common.errors import DrivebayError, EnvironmentProblem, UserError
from drivebay.common.files import refuse_foreign, system_errors
from drivebay.report.base.runs import entries, who_of
from drivebay.report.pages import bench
from drivebay.report.pages.review import all_panels, render
from drivebay.report.peers import competitors
from drivebay.report.peers.digest import Json
from drivebay.results import files

__all__ = ["competitors", "refuse_others", "write", "write_bench", "write_fleet", "write_pictures"]

NAME = "report.html"
# Start of every generated page; only such files are overwritten.
GENERATOR = b'name="generator" content="drivebay"'
SIDE_BY_SIDE = "drivebay-report.html"
DRIVES_MAX = 24


def write(
    dirs: Sequence[Path],
    out: Path | None = None,
    *,
    intervals: bool = True,
    shipped: Sequence[Json] = (),
    quick: Sequence[Json] = (),
    remarks: Mapping[Path, Sequence[str]] | None = None,
) -> Path:
    """Writes the report of one review, or of several side by side, and returns its path. Raises
    UserError if a folder holds no result or a damaged one, or if there are no or too many
    folders; EnvironmentProblem if the file cannot be written.

    Parameters
    ----------
    dirs : result folders, in the order in which they are shown.
    out : the file to write, or a folder for it; without it DIR/report.html for one review and
        ./drivebay-report.html for several. An existing report is replaced.
    intervals : shows 90 % intervals of the figures of virtual drives.
    shipped : digests of other drives to rank these among (`competitors.load`).
    quick : digests of shortened runs, for shortened reviews and results of other tools
        (`competitors.load_quick`).
    remarks : sentences of the judge of benchmarks about each result, for the page's head.
    """
    if not 1 <= len(dirs) <= DRIVES_MAX:
        raise UserError(
            f"{len(dirs)} result folders given; one file takes 1 to {DRIVES_MAX}",
            "write the Bench, a folder of pages: drivebay report DIR... --out bench",
        )
    reviews = [review(results.load(folder), intervals=intervals) for folder in dirs]
    said = [line for folder in dirs for line in (remarks or {}).get(folder, ())]
    page = render(entries(reviews), shipped=shipped, quick=quick, remarks=said)
    command = f"drivebay report {shlex.join(map(str, dirs))}"
    return _written(_place(dirs, out), page, command, out)


def write_fleet(page: str, out: Path) -> Path:
    """Writes the page of a fleet (`pages.fleet`). Raises UserError if `out` is not a page of
    drivebay; EnvironmentProblem if it cannot be written.
    """
    return _written(out, page, "drivebay fleet FILES...", out)


def refuse_others(place: Path) -> None:
    """Raises UserError if something is at the path that is neither a page of drivebay nor an empty
    file; EnvironmentProblem if it cannot be read.
    """
    refuse_foreign(place, GENERATOR, "a drivebay report")


def _written(place: Path, page: str, command: str, out: Path | None) -> Path:
    """Writes the page and returns its path. `command` and its --out write the same page; they are
    for the hints, since `review` also writes a report and has an --out of its own, which is a
    folder.
    """
    again = command if out is None else f"{command} --out {shlex.quote(str(out))}"
    refuse_others(place)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        files.replace(place, page.encode())
    except OSError as problem:
        raise EnvironmentProblem(
            f"the report {place} cannot be written: {problem.strerror or problem}",
            f"free some space, then: {again}"
            if problem.errno in (errno.ENOSPC, errno.EDQUOT)
            else f"choose another place with: {command} --out FILE.html",
        ) from None
    return place


def write_bench(
    dirs: Sequence[Path],
    out: Path,
    *,
    progress: Callable[[int], None] = lambda _: None,
    left_out: Callable[[DrivebayError], None] | None = None,
    intervals: bool = True,
    shipped: Sequence[Json] = (),
) -> Path:
    """Writes the Bench of these reviews into a folder and returns the path of its first page.
    Raises UserError if a folder holds no result or a damaged one, none is left, or `out` holds
    other files; EnvironmentProblem if the folder cannot be written.

    Parameters
    ----------
    dirs : result folders; a folder given twice counts once. May be empty if there are `shipped`.
    left_out : receives the error of each folder that cannot be shown; without it the first error is
        raised.
    out : the folder to write: new, empty, or an existing Bench, which is replaced.
    progress : receives the number of reviews written so far.
    intervals : as for `write`.
    shipped : digests of other drives to show, except those under review (`competitors.load`).
    """
    unique = list({folder.resolve(): folder for folder in dirs}.values())
    if not unique and not shipped:
        raise UserError("no result folders given", "drivebay report DIR... --out bench")
    if out.is_file() or (out.is_dir() and any(out.iterdir()) and not (out / bench.MARK).is_file()):
        raise UserError(
            f"--out: {out} exists and is not a Bench; it would be overwritten",
            f"choose a new folder, for example: --out {out}-bench",
        )
    reviews = []
    for folder in unique:
        try:
            computed = review(results.load_finished(folder), intervals=intervals)
            reviews.append((folder.resolve().name, computed))
        except DrivebayError as problem:
            if left_out is None:
                raise
            left_out(problem)
    if not reviews and not shipped:
        raise UserError("none of the folders can be shown", "drivebay report DIR... --out bench")
    names = [name for name, _ in reviews]
    with system_errors(
        f"the Bench {out} cannot be written", "choose another place with: --out FOLDER"
    ):
        all_entries = entries([computed for _, computed in reviews]) if reviews else ()
        others = competitors.others(shipped, all_entries)
        return bench.write(all_entries, names, out, shipped=others, progress=progress)


def write_pictures(
    dirs: Sequence[Path], out: Path, *, shipped: Sequence[Json] = (), quick: Sequence[Json] = ()
) -> list[Path]:
    """Writes every chart as PNG, SVG and CSV into a folder and returns the paths of the pictures.
    `shipped` and `quick` are as for `write`. Raises UserError if there are no folders or one
    holds no result or a damaged one; EnvironmentProblem if the folder cannot be written.
    """
    from drivebay.report.render import files as picture_files

    if not dirs:
        raise UserError(
            "--png needs result folders: pictures show reviews",
            "drivebay report DIR... --png pictures",
        )
    shown = entries([review(results.load(folder)) for folder in dirs])
    who = "; ".join(who_of(entry) for entry in shown)
    with system_errors(
        f"the pictures in {out} cannot be written", "choose another place with: --png FOLDER"
    ):
        return picture_files.write(all_panels(shown, shipped, quick), who, out)


def _place(dirs: Sequence[Path], out: Path | None) -> Path:
    if out is None:
        return Path(dirs[0]) / NAME if len(dirs) == 1 else Path(SIDE_BY_SIDE)
    folder = out.is_dir() or out.suffix.lower() not in (".html", ".htm")
    return out / NAME if folder else out
