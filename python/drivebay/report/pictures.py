"""Every chart of a report as PNG, SVG and CSV files, drawn by matplotlib.

The charts are those of the page: their traces, axes and captions are read from the same data, so
that a picture in a paper shows what the page shows.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib

from drivebay.report import sections
from drivebay.report.blocks import Book
from drivebay.report.charts import Chart, Json, plain, points
from drivebay.report.entries import Entry, who_of
from drivebay.report.panels import Panel
from drivebay.report.picture import DPI, draw
from drivebay.results import files

FORMS = ("png", "svg")
# Text stays text in SVG, a dollar sign a dollar sign, and the same chart has the same bytes.
SETTINGS: Any = {"svg.fonttype": "none", "svg.hashsalt": "drivebay", "text.parse_math": False}


def write(entries: Sequence[Entry], out: Path) -> list[Path]:
    """Writes all charts of these reviews into a folder; returns the pictures' paths."""
    book = Book(tuple(entries))
    for page, tests in sections.pages(entries).items():
        sections.section(book, page, tests)
    sections.power(book)
    out.mkdir(parents=True, exist_ok=True)
    who = "; ".join(who_of(entry) for entry in entries)
    written = []
    with matplotlib.rc_context(SETTINGS):
        for panel in book.panels:
            files.replace(out / f"{panel.chart.id}.csv", csv_of(panel.chart).encode())
            for name, view in _views(panel):
                figure = draw(panel, view, who)
                for form in FORMS:
                    path = out / f"{name}.{form}"
                    content = io.BytesIO()
                    stamp = {"Software": None} if form == "png" else {"Date": None, "Creator": None}
                    figure.savefig(content, format=form, dpi=2 * DPI, metadata=stamp)
                    files.replace(path, content.getvalue())
                    written.append(path)
    return written


def csv_of(chart: Chart) -> str:
    """A chart's data: one row per point, with series, unit, place, value and spread."""
    out = io.StringIO()
    rows = csv.writer(out)
    if chart.data is not None:
        rows.writerows(chart.data)
        return out.getvalue()
    flat = any(trace.get("orientation") == "h" for trace in chart.traces)
    over = chart.layout.get("xaxis", {}).get("title", {}).get("text", "x")
    units = [plain(one["text"]) for one in chart.layout.get("annotations", ())] or ["value"]
    rows.writerow(["series", "unit", "load" if flat else plain(over), "value", "spread"])
    for trace in chart.traces:
        x, y = points(trace)
        spread = trace.get("error_y", {}).get("array") or [None] * len(x)
        name = plain(trace.get("name", ""))
        unit = plain(trace.get("meta", units[0]))
        for place, value, sd in zip(y if flat else x, x if flat else y, spread, strict=False):
            rows.writerow([name, unit, plain(place), value, sd])
    return out.getvalue()


def _views(panel: Panel) -> Iterator[tuple[str, Json | None]]:
    """Name and view of each picture: one for each position of a switch shared by several charts,
    with the chart's own switches at their first position."""
    chart = panel.chart
    if not chart.views:
        yield chart.id, None
        return
    first = next(iter(chart.views)).split("|")
    for key, view in chart.views.items():
        parts = key.split("|")
        if parts[panel.first_slot :] == first[panel.first_slot :]:
            shared = [re.sub(r"[^\w.-]+", "-", part) for part in parts[: panel.first_slot]]
            yield "-".join([chart.id, *shared]), view
