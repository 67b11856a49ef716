"""Page of a fleet: a table of the drives in its place, and tables about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from drivebay.report.base.markup import el, table
from drivebay.report.pages.review import document
from drivebay.report.render.page import Page

ABOUT = "Streams are only sequential or random. Intervals, limits: docs/concepts/fleet.md."


def render(tables: Mapping[str, Sequence[Sequence[str]]], notes: Sequence[str]) -> str:
    """Whole document; the first row of each table has its heads."""
    links = [(f"table-{at}", title) for at, title in enumerate(tables)]
    parts = [
        el("section", el("h2", title), table(rows[0], rows[1:]), id=anchor, class_="page")
        for (anchor, title), rows in zip(links, tables.values(), strict=True)
    ]
    head = el("header", el("p", "Fleet", class_="eyebrow"), el("h1", "Drives for this fleet"))
    about = el("p", ABOUT, class_="meta")
    noted = el("ul", [el("li", note) for note in notes]) if notes else None
    return document(
        Page(), links, el("main", head, about, parts, noted, id="top"), title="drivebay fleet"
    )
