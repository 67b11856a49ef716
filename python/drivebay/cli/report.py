"""`drivebay report`: makes reports of results, the Bench of many results, and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from drivebay.cli import options
from drivebay.cli.options import argument, flag, option
from drivebay.cli.output import show
from drivebay.common.errors import UserError

BENCH = "drivebay-bench"


def report(
    folders: list[Path] | None = argument(),
    out: Path | None = option(),
    bench: bool = flag("--bench"),
    png: Path | None = option("--png"),
    no_competitors: bool = flag("--no-competitors"),
    no_intervals: options.NoIntervals = False,
) -> None:
    """Make the report of a review, or the Bench of many.

    Both are files that work offline. They rank each figure among the results of the catalog's
    drives, which come with drivebay.

    Examples:
      drivebay report drivebay-results/sm951-ahci-512-anandtech-2015-1
      drivebay report --bench                           the catalog's drives
      drivebay report drivebay-results/* --out bench    the Bench: choose, compare
      drivebay report DIR DIR --out both.html           side by side in one file
      drivebay report DIR --png pictures                PNG, SVG and CSV

    Parameters
    ----------
    folders : DIR...
        Result folders of reviews; optional with --bench.
    out : FILE_OR_SITE
        Page to write, if the name ends in .html; otherwise a folder for the Bench, a site that
        compares all these reviews. [default: DIR/report.html; drivebay-report.html for several;
        drivebay-bench with --bench]
    bench :
        Make the Bench, which includes all catalog drives.
    png : FOLDER
        Write every chart as PNG and SVG, and its data as CSV, to this folder.
    no_competitors :
        Omit the other drives of the catalog.
    """
    folders = folders or []
    if not folders and not bench:
        raise UserError(
            "missing argument 'DIR...'", "drivebay report DIR, or: drivebay report --bench"
        )
    if bench and out is None:
        out = Path(BENCH)
    if png is not None:
        import drivebay.report

        known = _known(folders, not no_competitors)
        for path in drivebay.report.write_pictures(folders, png, **known):
            show(str(path))
    if png is None or out is not None:
        page = write(*folders, out=out, intervals=not no_intervals, competitors=not no_competitors)
        show(str(page))


def write(
    *folders: Path, out: Path | None = None, intervals: bool = True, competitors: bool = True
) -> Path:
    """Writes the page or the Bench and returns its path.

    Raises UserError if a folder has no result, is damaged or has no finished test, and
    EnvironmentProblem if the page cannot be written."""
    import drivebay.report
    from drivebay.cli.folders import must_exist, shown

    if out is not None and out.suffix.lower() not in (".html", ".htm"):
        must_exist(folders)
        return _write_bench(list(folders), out, intervals=intervals, competitors=competitors)
    from drivebay.lab.judge import of_result

    results = shown(folders)
    folders = tuple(result.folder for result in results)
    remarks = {result.folder: [entry.sentence for entry in of_result(result)] for result in results}
    return drivebay.report.write(
        list(folders), out, intervals=intervals, remarks=remarks, **_known(folders, competitors)
    )


def _known(folders: Sequence[Path], competitors: bool) -> dict[str, list[dict[str, Any]]]:
    """Catalog drives to rank these results among: their peers, and all in shortened runs."""
    from drivebay import results
    from drivebay.report.peers import competitors as shipped

    if not competitors:
        return {}
    manifests = [results.read_manifest(folder) for folder in folders]
    short = all(manifest.quick for manifest in manifests)
    peers = [] if short else shipped.load(beside=[manifest.target for manifest in manifests])
    return {"shipped": peers, "quick": shipped.load_quick()}


def _write_bench(folders: list[Path], out: Path, *, intervals: bool, competitors: bool) -> Path:
    import drivebay.report
    from drivebay.cli.folders import warn_skipped
    from drivebay.cli.progress import status

    shipped = drivebay.report.competitors.load() if competitors else []

    with status() as show:
        return drivebay.report.write_bench(
            folders,
            out,
            progress=lambda done: show(f"report: {done} reviews"),
            left_out=warn_skipped if len(folders) > 1 else None,
            intervals=intervals,
            shipped=shipped,
        )
