"""`drivebay open`: opens the newest report in a browser."""

from __future__ import annotations

from pathlib import Path

from drivebay.cli import options
from drivebay.cli.options import argument
from drivebay.cli.output import show
from drivebay.common.errors import UserError

app = options.Verb()
PAGES = ("*/report.html", "*/comparison.html", "report.html", "index.html")


@app.command(name="open", epilog="\b\nExamples:\n  drivebay open\n  drivebay open drivebay-bench")
def open_page(folder: Path = argument(default=Path("drivebay-results"))) -> None:
    """Open the newest report in a browser, and print its path.

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
