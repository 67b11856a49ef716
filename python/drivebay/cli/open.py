"""`drivebay open`: opens the newest report in a browser."""

from __future__ import annotations

from pathlib import Path

from drivebay.cli.options import argument
from drivebay.cli.output import show
from drivebay.common.errors import UserError

PAGES = ("*/report.html", "*/comparison.html", "report.html", "index.html")


def open(folder: Path = argument(default=Path("drivebay-results"))) -> None:
    """Open the newest report in a browser, and print its path.

    Examples:
      drivebay open
      drivebay open drivebay-bench

    Parameters
    ----------
    folder : FOLDER
        Folder with results, a result, or a Bench.
    """
    import webbrowser

    pages = [page for pattern in PAGES for page in folder.glob(pattern)]
    if not pages:
        raise UserError(f"no report in {folder}", "drivebay report DIR")
    newest = max(pages, key=lambda page: page.stat().st_mtime)
    show(str(newest))
    webbrowser.open(newest.resolve().as_uri())
