"""Bars of a figure among several drives as a chart for files; a page shows them as a table."""

from __future__ import annotations

from collections.abc import Sequence

from drivebay.report.base.markup import CUT_NOTE, Bar, top_of
from drivebay.report.base.text import number
from drivebay.report.charts import model
from drivebay.report.charts.curves import DEVIATION, WHISKERS
from drivebay.report.charts.model import Axis, Chart, Panel, Series

ROW_PX = 26
# Height above and below the rows.
ENDS_PX = 64


def bar_panel(
    chart_id: str,
    title: str,
    unit: str,
    rows: Sequence[Bar],
    *,
    better: str,
    doubt: str = "",
    who: str = "",
) -> Panel:
    """Bars of `markup.bars`, in their order, with intervals and published values. The value of a
    bar stands at its end; a bar that is cut is marked. `who`: drives named in the title.
    """
    known = [row for row in rows if row.value is not None]
    names = [f"{row.place}. {row.label}" if row.place else row.label for row in known]
    top = top_of(known)
    named = list(zip(names, known, strict=True))
    own, others = ([pair for pair in named if pair[1].other == other] for other in (False, True))
    series = [_series(unit, own, "@c1", top), _series(unit, others, "@other", top)]
    marks = [(name, row.published) for name, row in named if row.published is not None]
    places, values = [name for name, _ in marks], [published.value for _, published in marks]
    series.append(model.diamonds(places, values, "published", unit, "@published"))
    axis = Axis(", ".join(filter(None, (unit, f"{better} is better"))), limits=(0, top))
    chart = Chart(
        chart_id,
        ENDS_PX + ROW_PX * len(known),
        tuple(line for line in series if len(line.y)),
        Axis(scale="category", categories=tuple(names)),
        (axis,),
        horizontal=True,
        stacked=True,
    )
    notes = [
        f"{doubt[:1].upper()}{doubt[1:]}." if doubt else "",
        f"{CUT_NOTE}." if any((row.value or 0.0) > top for row in known) else "",
        WHISKERS if any(row.ends for row in known) else "",
        DEVIATION if any(row.whisker and not row.ends for row in known) else "",
        "Diamond: published figure." if marks else "",
    ]
    results = [f"{name}, {_text(row)} {unit}".strip() for name, row in own]
    first = [f"{name}, {_text(row)} {unit}".strip() for name, row in named[:1]]
    result = "; ".join(dict.fromkeys([*first, *results]))
    return Panel(title, chart, "", lead=" ".join(filter(None, notes)), result=result, who=who)


def _series(unit: str, rows: Sequence[tuple[str, Bar]], colour: str, top: float) -> Series:
    bars = [row for _, row in rows]
    spread = [float("nan") if row.spread is None else row.spread for row in bars]
    return Series(
        "bar",
        [name for name, _ in rows],
        [row.value or 0.0 for row in bars],
        "",
        unit=unit,
        colour=colour,
        spread=spread if any(row.spread is not None for row in bars) else None,
        ends=[row.whisker for row in bars],
        labels=[_text(row) + " (cut)" * ((row.value or 0.0) > top) for row in bars],
    )


def _text(row: Bar) -> str:
    return row.text or number(row.value)
