"""Hook of mkdocs: generated pages of the site, made at each build and not committed.

`make docs` runs mkdocs, mkdocs.yml names this file. Pages come from scripts/docgen/; each names the
data it is generated from.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "python"))
sys.path.insert(0, str(TOP / "scripts"))

from docgen import cli, drives, problems, profiles, python, schemas, tests, texts  # noqa: E402
from docgen import fidelity as fidelity_pages  # noqa: E402
from mkdocs.config.defaults import MkDocsConfig  # noqa: E402
from mkdocs.exceptions import PluginError  # noqa: E402
from mkdocs.structure.files import File, Files  # noqa: E402
from mkdocs.structure.pages import Page  # noqa: E402
from mkdocs.utils import get_relative_url  # noqa: E402

from drivebay import report  # noqa: E402
from drivebay.analysis import fidelity  # noqa: E402

BENCH = "bench"
HOW = "guides/first-review.html#compare-many"
"""Instructions to make a Bench; in the checkout the link to the Bench leads here."""
COMPUTED = ("fidelity.md", *fidelity_pages.COMPUTED)
GENERATORS = (cli, drives, fidelity_pages, problems, profiles, python, schemas, tests, texts)

SHIM = "https://unpkg.com/iframe-worker/shim"
_LOADED = re.compile(r'<(?:script|img|link|iframe)\b[^>]*?(?:src|href)="(https?:[^"]*)"')

_pages: dict[str, str] = {}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Makes the pages, and adds those that follow an index to the navigation."""
    _pages.clear()
    for generator in GENERATORS:
        _pages.update(generator.pages())
    suites = sorted(
        path for path in _pages if path.startswith("tests/") and path != "tests/index.md"
    )
    decisions = sorted(f"adr/{path.name}" for path in (TOP / "docs/adr").glob("[0-9]*.md"))
    more = {
        "tests/index.md": suites,
        "adr/README.md": decisions,
        drives.INDEX: drives.navigation(),
    }
    config.nav = _with_more(config.nav, more)
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Adds the pages to those of docs/."""
    for path, text in _pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Adapts links that leave docs/, valid in the checkout, to the site's pages, or to the file's
    name.

    Pages of computed results begin with a warning if they are stale.
    """
    path = page.file.src_uri
    if path in COMPUTED and (why := fidelity.stale()):
        title, _, rest = markdown.partition("\n")
        warning = f"The tables are stale: {why}. `{fidelity.AGAIN}` computes them again."
        markdown = f"{title}\n\n!!! warning\n    {warning}\n{rest}"
    return markdown if path in _pages else texts.linked(markdown, f"docs/{path}", path)


def on_post_page(output: str, *, page: Page, config: MkDocsConfig) -> str:
    """Loads the search's shim for pages opened as files from the site, not from the network; the
    first page links to the Bench, which the checkout does not have.
    """
    output = output.replace(f'href="{HOW}">The Bench<', f'href="{BENCH}/index.html">The Bench<')
    return output.replace(SHIM, get_relative_url("assets/iframe-worker.js", page.url))


def on_post_template(output: str, *, template_name: str, config: MkDocsConfig) -> str:
    """Loads the shim from the site on a web server's page for missing files, too."""
    return output.replace(SHIM, "assets/iframe-worker.js")


def on_post_build(*, config: MkDocsConfig) -> None:
    """Writes the Bench of the shipped results; fails if a page would load anything from the
    network.
    """
    report.write_bench([], Path(config.site_dir) / BENCH, shipped=report.competitors.load())
    for path in Path(config.site_dir).rglob("*.html"):
        if remote := _LOADED.search(path.read_text(encoding="utf-8")):
            raise PluginError(f"{path.name} would load {remote[1]} from the network")


def _with_more(nav: Any, more: Mapping[str, Sequence[Any]]) -> Any:
    """The navigation with the pages that follow an index."""
    if isinstance(nav, dict):
        return {title: _with_more(below, more) for title, below in nav.items()}
    if isinstance(nav, str):
        return nav
    return [
        item
        for entry in nav
        for item in (
            _with_more(entry, more),
            *more.get(entry if isinstance(entry, str) else "", []),
        )
    ]
