"""Renders panels for a page: the figure's HTML, and the chart as Plotly takes it.

The page's script only looks views up: which traces are shown, and which settings of the layout
differ. Colours stay names ("@c1") until the page knows its theme.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from drivebay.report import theme
from drivebay.report.charts.model import (
    Axis,
    Chart,
    Key,
    Mark,
    Panel,
    Series,
    Switch,
    lines_of,
    pane_spans,
    rounded,
)
from drivebay.report.markup import Child, Html, chart_text, el
from drivebay.report.render_svg import still
from drivebay.report.runs import Entry

Json = dict[str, Any]
TICK_FORMS = {"plain": ",", "si": "~s", "signed": "+,"}
NARROW_DECADES = 0.5
"""Logarithmic axes shorter than this have ticks at even steps."""
LABEL_EDGE = 0.1
"""Share of an axis at its ends that a label at a point would leave, on a phone."""
DIGITS = {"°C": 3, "W": 3, "%": 3}
"""That a pointer shows of values in these units; of others five."""
SYMBOLS = {"tick": "line-ns", "triangle": "triangle-up"}


# --- the figure -----------------------------------------------------------------------------------


def figure(panel: Panel) -> Html:
    """A chart's place on a page: title, switches, a still picture that the page's script replaces,
    its key, and the caption below."""
    chart_id = panel.chart.id
    controls = [switch(chart_id, place, one) for place, one in enumerate(panel.switches)]
    box = el(
        "div",
        still(panel),
        class_="plot",
        data_chart=chart_id,
        style=f"height:{panel.chart.height}px",
        role="img",
        aria_label=panel.alt,
    )
    caption = el("span", " ".join(filter(None, (panel.lead, f"{panel.samples}."))))
    others = {value for one in panel.switches for value, _ in one.options[1:]}
    notes = [
        el(
            "span",
            el("span", note.words, data_when=note.at, hidden=note.at in others)
            if note.at
            else note.words,
        )
        for note in panel.notes
    ]
    saves = [
        el(
            "button",
            form,
            type="button",
            data_save=form.lower(),
            data_of=chart_id,
            aria_label=f"Save as {form}: {panel.title}",
        )
        for form in ("CSV", "PNG", "SVG")
    ]
    link = el("a", "Link", href=f"#chart-{chart_id}", aria_label=f"Link to {panel.title}")
    return el(
        "figure",
        el("div", el("h4", panel.title), controls, class_="head"),
        box,
        legend(panel.key),
        el("figcaption", caption, notes),
        el("p", saves, link, class_="save"),
        id=f"chart-{chart_id}",
        class_="chart wide" if panel.wide else "chart",
    )


@dataclass
class Page:
    """A page in the making: the reviews on it, the digests of their peers (`competitors.peers`), of
    all drives' shortened runs, the panels whose charts it must carry, and those of its bars."""

    entries: tuple[Entry, ...] = ()
    peers: tuple[Json, ...] = ()
    quick: tuple[Json, ...] = ()
    panels: list[Panel] = field(default_factory=list)
    pictures: list[Panel] = field(default_factory=list)

    def show(self, panels: Sequence[Panel]) -> list[Html]:
        """The figures of a section; narrow ones that follow each other stand side by side."""
        body: list[Html] = []
        row: list[Html] = []
        for panel in panels:
            self.panels.append(panel)
            if panel.wide:
                body += [*pairs(row), figure(panel)]
                row = []
            else:
                row.append(figure(panel))
        return body + pairs(row)

    def charts(self) -> Json:
        """All charts by id, as the page's script reads them."""
        return {panel.chart.id: plotly(panel.chart) for panel in self.panels}


def pairs(row: Sequence[Child]) -> list[Html]:
    """Two of these beside each other in each row."""
    return [el("div", row[at : at + 2], class_="pair") for at in range(0, len(row), 2)]


def switch(chart_id: str, place: int, one: Switch) -> Html | None:
    """A row of choices that sets this part of the key of a chart's view; nothing for one choice."""
    if len(one.options) < 2:
        return None
    name = f"{chart_id}-{one.name}"
    buttons = [
        el("input", type="radio", name=name, id=f"{name}-{value}", value=value, checked=not at)
        + el("label", words, for_=f"{name}-{value}")
        for at, (value, words) in enumerate(one.options)
    ]
    return el(
        "fieldset",
        el("legend", one.label),
        [Html(button) for button in buttons],
        class_="switch",
        data_chart_of=chart_id,
        data_position=str(place),
    )


def legend(keys: Sequence[Key]) -> Html | None:
    """What the colours of a chart stand for, each a switch; nothing for a single one."""
    if len(keys) < 2:
        return None
    items = []
    for key in keys:
        colour = f"var(--{key.colour[1:]})" if key.colour.startswith("@") else key.colour
        style = f"background-color:{colour}" if key.filled else f"color:{colour}"
        mark = el("i", style=style, class_=key.shape or None, aria_hidden="true")
        button = el(
            "button",
            mark,
            key.name,
            type="button",
            aria_pressed="true",
            data_colour=key.colour,
            title=key.meaning or None,
        )
        items.append(el("li", button))
    return el("ul", items, class_="legend")


def encoded(panel: Panel) -> Json:
    """The panel of a single run, as the Bench reads it."""
    return {
        "id": panel.chart.id,
        "title": panel.title,
        "lead": panel.lead,
        "samples": panel.samples,
        "notes": [[note.words, note.at] for note in panel.notes],
        "switches": [[one.name, one.label, one.options] for one in panel.switches],
        "key": [[one.name, one.colour, one.shape, one.meaning] for one in panel.key],
        "wide": panel.wide,
        "apart": panel.apart,
        "chart": plotly(panel.chart),
    }


# --- the chart ------------------------------------------------------------------------------------


def plotly(chart: Chart) -> Json:
    """Traces, layout and views, as the page's script hands them to Plotly."""
    traces = [_trace(chart, one) for one in chart.series]
    out: Json = {"traces": traces, "layout": _layout(chart), "height": chart.height, "views": {}}
    if chart.right is not None:  # a second axis needs a trace of its own; this one is never seen
        traces.append({"type": "scatter", "x": [], "y": [], "yaxis": "y2"})
    value_axis = "xaxis" if chart.horizontal else "yaxis"
    for key, view in chart.views.items():
        layout: Json = {}
        for name, axis in ((value_axis, view.y), ("xaxis", view.x)):
            if axis is not None:
                made = _axis(axis)
                layout |= {
                    f"{name}.{part}": made[part] for part in ("type", "range") if part in made
                }
                if axis.scale == "log" or name == value_axis:
                    layout[f"{name}.dtick"] = made.get("dtick")
        if view.y is not None and chart.horizontal:
            layout["xaxis.title.text"] = chart_text(view.y.label)
        elif view.y is not None and view.y.label != chart.y[0].label:
            layout["annotations"] = _annotations(chart, view.y)
        if view.marks is not None:
            layout["shapes"] = [_shape(mark) for mark in view.marks]
        out["views"][key] = {"layout": layout}
        if view.shown is not None:
            out["views"][key]["show"] = [at in view.shown for at in range(len(chart.series))]
    return out


def broken(words: str, width: int) -> str:
    """A name for Plotly, in lines of at most `width` characters."""
    return "<br>".join(chart_text(line) for line in lines_of(words, width))


def _step(span: float) -> float:
    """A round number of which about six are in the span.

    >>> _step(8.1), _step(0.31)
    (2.0, 0.05)
    """
    power = 10.0 ** math.floor(math.log10(span / 6))
    return next(round(power * one, 12) for one in (1, 2, 5, 10) if power * one >= 0.9 * span / 6)


def _places(axis: Axis, values: Sequence[float | str]) -> list[Any]:
    if axis.scale == "category":
        return [broken(str(value), axis.wrap) for value in values]
    return rounded([float(value) for value in values])


def _trace(chart: Chart, one: Series) -> Json:
    trace: Json = {
        "type": "bar" if one.kind == "bar" else "scatter",
        "name": chart_text(one.title),
        "y": rounded(one.y),
        "meta": one.unit,
    }
    if isinstance(one.x, range):
        trace |= {"x0": one.x.start, "dx": one.x.step}
    else:
        trace["x"] = _places(chart.x, one.x)
    if chart.horizontal:
        trace["x"], trace["y"] = trace["y"], trace["x"]
    if one.pane:
        trace["yaxis"] = f"y{one.pane + 1}"
    trace |= {"hovertemplate": _hover(chart, one)} if one.hover else {"hoverinfo": "skip"}
    if one.notes:
        trace["customdata"] = list(one.notes)
    if one.spread is not None and any(one.spread):
        trace["error_y"] = {
            "type": "data",
            "array": rounded(one.spread),
            "thickness": 1,
            "width": 3,
            "color": "@ink" if one.kind == "bar" else one.colour,
        }
    if any(one.ends):
        both = list(zip(one.whiskers, one.y, strict=True))
        trace["error_y"] = {
            "type": "data",
            "symmetric": False,
            "array": rounded([high - y for (_, high), y in both]),
            "arrayminus": rounded([y - low for (low, _), y in both]),
            "thickness": 1,
            "width": 3,
            "color": "@ink",
        }
    return trace | _STYLES[one.kind](chart, one)


def _bar(chart: Chart, one: Series) -> Json:
    marker: Json = {"color": one.colour, "line": {"width": 0}}
    if pattern := _pattern(one):
        marker["pattern"] = pattern
    style: Json = {"marker": marker}
    return style | ({"orientation": "h"} if chart.horizontal else {})


def _pattern(one: Series) -> Json:
    if one.pattern == "plain":
        return {}
    return {
        "path": theme.PATTERNS[one.pattern],
        "size": theme.TILE,
        "fillmode": "overlay",
        "fgcolor": theme.PATTERN_INK,
        "fgopacity": theme.PATTERN_OPACITY,
    }


def _line(_chart: Chart, one: Series) -> Json:
    line: Json = {"color": one.colour, "width": one.width}
    line |= {} if one.dash == "solid" else {"dash": one.dash}
    line |= {"shape": "hv"} if one.steps else {}
    if not one.marker:
        return {"mode": "lines", "line": line}
    marker: Json = {"color": one.colour, "size": one.marker}
    if one.symbol != "circle":
        marker["symbol"] = SYMBOLS.get(one.symbol, one.symbol)
    return {"mode": "lines+markers", "line": line, "marker": marker}


def _points(chart: Chart, one: Series) -> Json:
    marker: Json = {"size": one.marker, "color": one.colour}
    if one.symbol == "circle":
        return {"mode": "markers", "marker": marker | {"opacity": 0.7}}
    marker["symbol"] = SYMBOLS.get(one.symbol, one.symbol)
    if one.symbol == "tick":
        marker["line"] = {"width": 2, "color": one.colour}
    if not one.labels:
        return {"mode": "markers", "marker": marker}
    return {
        "mode": "markers+text",
        "marker": marker,
        "text": list(one.labels),
        "textposition": [_above_point(chart.x, x) for x in one.x],
        "textfont": {"size": 11, "color": "@ink", "shadow": "auto"},
    }


def _above_point(axis: Axis, value: float | str) -> str:
    """Where a label stands, so that it does not end beyond the axis."""
    if axis.limits is None or isinstance(value, str):
        return "top center"
    scaled = [math.log10(one) if axis.scale == "log" else one for one in (*axis.limits, value)]
    low, high, at = scaled
    share = (at - low) / (high - low)
    side = "left" if share > 1 - LABEL_EDGE else "right" if share < LABEL_EDGE else "center"
    return f"top {side}"


def _area(_chart: Chart, one: Series) -> Json:
    style: Json = {
        "mode": "lines",
        "stackgroup": one.unit,
        "line": {"width": 0, "shape": "hv" if one.steps else "linear", "color": one.colour},
        "fillcolor": one.colour,
    }
    if pattern := _pattern(one):
        style["fillpattern"] = pattern
    return style


def _band(_chart: Chart, one: Series) -> Json:
    line = {"color": one.colour, "width": 0}
    return {"mode": "lines", "fill": "toself", "line": line, "opacity": 0.3, "showlegend": False}


def _words(_chart: Chart, one: Series) -> Json:
    words = [note.replace(", ", ",<br>") for note in one.notes]
    look: Json = {"marker": {"color": one.colour}, "showlegend": False}
    return {"mode": "none", "customdata": words, **look}


_STYLES = {
    "words": _words,
    "band": _band,
    "bar": _bar,
    "line": _line,
    "scatter": _points,
    "area": _area,
}


def _hover(chart: Chart, one: Series) -> str:
    """The template with names put in and Plotly's own fields for what differs between points."""
    x, y = ("y", "x") if chart.horizontal else ("x", "y")
    form = "" if chart.x.scale == "category" else ":,.6~r"
    sign = "+" if chart.y[0].tick_form == "signed" else ""
    fields = {
        "x": f"%{{{x}{form}}}",
        "y": f"%{{{y}:{sign},.{DIGITS.get(one.unit, 5)}~r}}",
        "note": "%{customdata}",
        "name": chart_text(one.name),
        "group": chart_text(one.group),
        "unit": chart_text(one.unit),
    }
    return re.sub(r"\{(\w+)\}", lambda found: fields[found[1]], one.hover)


def _axis(axis: Axis) -> Json:
    """An axis without its label."""
    if axis.scale == "category":
        out: Json = {"type": "category", "automargin": True}
        if axis.categories:
            names = [broken(name, axis.wrap) for name in axis.categories]
            out |= {"categoryorder": "array", "categoryarray": names}
        return out
    out = {"type": axis.scale, "tickformat": TICK_FORMS[axis.tick_form]}
    if axis.limits is not None:
        log = axis.scale == "log"
        out["range"] = [round(math.log10(end), 6) if log else end for end in axis.limits]
        if log and not axis.ticks:
            decades = out["range"][1] - out["range"][0]
            out["dtick"] = "D1" if decades < 0.8 else "D2" if decades <= 3.6 else 1
            if decades < NARROW_DECADES:
                out["dtick"] = f"L{_step(axis.limits[1] - axis.limits[0]):g}"
    if axis.include:
        out |= {"rangemode": "normal", "autorangeoptions": {"include": axis.include}}
    elif axis.include is not None:
        out["rangemode"] = "tozero"
    if axis.tick_step:
        out["dtick"] = axis.tick_step
    if axis.ticks:
        out["tickvals"] = [value for value, _ in axis.ticks]
        out["ticktext"] = [broken(words, axis.wrap) for _, words in axis.ticks]
        out["minor"] = {"ticks": ""}
        if axis.wrap:  # names of rows
            out |= {"automargin": True, "showgrid": False, "zeroline": False}
    return out


def _layout(chart: Chart) -> Json:
    layout: Json = {}
    if chart.horizontal:
        value = {**_axis(chart.y[0]), "title": {"text": chart_text(chart.y[0].label)}}
        layout = {"xaxis": value, "yaxis": {**_axis(chart.x), "autorange": "reversed"}}
        layout["margin"] = {"t": 10}
    else:
        layout["xaxis"] = _axis(chart.x)
        if chart.x.label:
            layout["xaxis"]["title"] = {"text": chart_text(chart.x.label)}
        for place, (axis, span) in enumerate(zip(chart.y, pane_spans(len(chart.y)), strict=True)):
            one = _axis(axis)
            if not axis.ticks:
                one["nticks"] = 4 if place else 6
            if len(chart.y) > 1:
                one["domain"] = [round(edge, 4) for edge in span]
                layout["xaxis"]["anchor"] = f"y{place + 1}"
            layout[f"yaxis{place + 1 if place else ''}"] = one
        layout["annotations"] = _annotations(chart, chart.y[0])
        if not any(axis.label for axis in chart.y):
            layout["margin"] = {"t": 10}
    if chart.labels:
        layout["margin"] = {"t": 50}
    if chart.right is not None:
        layout["yaxis2"] = {
            **_axis(chart.right),
            "overlaying": "y",
            "tickmode": "auto",
            "side": "right",
            "showgrid": False,
        }
    if any(one.kind == "bar" for one in chart.series):
        layout["barmode"] = "relative" if chart.stacked else "group"
        layout["bargap"] = 0.3 if chart.stacked else 0.2
    if chart.marks:
        layout["shapes"] = [_shape(mark) for mark in chart.marks]
    return layout


def _annotations(chart: Chart, first: Axis) -> list[Json]:
    """The units of the axes, level above their ends instead of turned beside them, and labels."""
    spans = pane_spans(len(chart.y))
    axes = [first, *chart.y[1:]]
    found = [_above(axis.label, top) for axis, (_, top) in zip(axes, spans, strict=True)]
    if chart.right is not None:
        found.append(_above(chart.right.label, 1.0, "right"))
    if chart.labels:
        found[0]["yshift"] = 22
    for x, words in chart.labels:
        found.append(_above(words, 1.0) | {"xref": "x", "x": x, "xanchor": "center"})
    return [one for one in found if one["text"]]


def _above(words: str, y: float, side: str = "left") -> Json:
    return {
        "text": chart_text(words),
        "xref": "paper",
        "yref": "paper",
        "x": 0 if side == "left" else 1,
        "y": y,
        "xanchor": side,
        "yanchor": "bottom",
        "showarrow": False,
        "align": side,
        "font": {"size": 12, "color": "@muted"},
        "yshift": 4,
    }


def _shape(mark: Mark) -> Json:
    end = mark.start if mark.end is None else mark.end
    shape: Json = {"xref": "x", "yref": "paper", "x0": mark.start, "x1": end, "y0": 0, "y1": 1}
    if mark.end is None:
        line = {"color": "@rule", "width": 1, "dash": "dot"}
        return {"type": "line", **shape, "line": line, "layer": "below"}
    return {"type": "rect", **shape, "fillcolor": "@shade", "line": {"width": 0}, "layer": "below"}
