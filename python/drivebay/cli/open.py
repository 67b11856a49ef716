"""`drivebay open`: opens the newest report in a browser."""

from __future__ import annotations

from pathlib import Path

from drivebay.cli import options
from drivebay.cli.options import argument
from drivebay.cli.output import show
from drivebay.common.errors import UserError

app = options.Verb()
PAGES = ("*/report.html", "*/comparison.html", "report.html", "index.html")


@app.command(
    name="open",
    epilog="""\b
Examples:
  drivebay open                            the newest report in drivebay-results
  drivebay open drivebay-bench             a Bench
  drivebay open drivebay-results/NAME""",
)
def open_page(
    folder: Path | None = argument(
        "FOLDER", "Folder with results, a result folder, or a Bench. [default: drivebay-results]"
    ),
) -> None:
    """Open the newest report in a browser, and print its path."""
    import webbrowser

    from drivebay.review.engine import DEFAULT_OUT

    where = folder or DEFAULT_OUT
    pages = [page for pattern in PAGES for page in where.glob(pattern)]
    if not pages:
        raise UserError(f"no report in {where}", "drivebay review sm951-ahci-512 --quick makes one")
    newest = max(pages, key=lambda page: page.stat().st_mtime)
    show(str(newest))
    webbrowser.open(newest.resolve().as_uri())
