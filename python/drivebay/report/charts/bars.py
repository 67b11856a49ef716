"""Bars of a figure among several drives as a chart: what a page shows as a table, for files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from drivebay.report.charts.model import Axis, Chart, Panel, Series
from drivebay.report.markup import CUT_WORDS, Bar, top_of
from drivebay.report.text import number

ROW_PX = 26
ENDS_PX = 64
"""Above and below the rows."""


def bar_panel(
    chart_id: str, title: str, unit: str, rows: Sequence[Bar], *, better: str, doubt: str = ""
) -> Panel:
    """The bars of `markup.bars`, in their order; values stand at their ends, cut bars say so."""
    known = [row for row in rows if row.value is not None]
    names = [f"{row.place}. {row.label}" if row.place else row.label for row in known]
    top = top_of([replace(row, ends=None, spread=None, published=None) for row in known])
    series = []
    for other, colour in ((False, "@c1"), (True, "@other")):
        some = [(name, row) for name, row in zip(names, known, strict=True) if row.other == other]
        if not some:
            continue
        values = [row.value or 0.0 for _, row in some]
        series.append(
            Series(
                "bar",
                [name for name, _ in some],
                values,
                "",
                unit=unit,
                colour=colour,
                labels=[_words(row) + " (cut)" * ((row.value or 0.0) > top) for _, row in some],
            )
        )
    axis = Axis(", ".join(filter(None, (unit, f"{better} is better"))), limits=(0, top))
    chart = Chart(
        chart_id,
        ENDS_PX + ROW_PX * len(known),
        tuple(series),
        Axis(scale="category", categories=tuple(names)),
        (axis,),
        horizontal=True,
        stacked=True,
    )
    cut = f"Cut: {CUT_WORDS}." if any((row.value or 0.0) > top for row in known) else ""
    first = f"{names[0]}, {_words(known[0])} {unit}".strip() if known else ""
    own = "; ".join(
        f"{name}, {_words(row)} {unit}".strip()
        for name, row in zip(names, known, strict=True)
        if not row.other and name != names[0]
    )
    lead = " ".join(filter(None, (f"{doubt}." if doubt else "", cut)))
    return Panel(title, chart, "", lead=lead, said="; ".join(filter(None, (first, own))))


def _words(row: Bar) -> str:
    return row.words or number(row.value)
