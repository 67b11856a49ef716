"""Renders panels for a page: HTML of the figure, and the chart as Plotly's JSON.

The page's script only selects views: traces to show, and settings of the layout. Colours stay names
("@c1") until the page knows its theme.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from drivebay.report.base import theme
from drivebay.report.base.markup import Child, Html, chart_text, el, save_button
from drivebay.report.base.runs import Entry
from drivebay.report.charts import model
from drivebay.report.charts.model import Axis, Chart, Key, Mark, Panel, Series, Switch
from drivebay.report.render.svg import still

Json = dict[str, Any]
TICK_FORMS = {"plain": ",", "si": "~s", "signed": "+,"}
# Logarithmic axes shorter than this have evenly spaced ticks.
NARROW_DECADES = 0.5
# Share of an axis at each end where a centred label of a point would leave the axis on a phone.
LABEL_EDGE = 0.1
# Digits in tooltips for values in these units; five for others.
DIGITS = {"°C": 3, "W": 3, "%": 3}
SYMBOLS = {"tick": "line-ns", "triangle": "triangle-up"}


# --- the figure -----------------------------------------------------------------------------------


def figure(panel: Panel) -> Html:
    """Figure of a chart: title, switches, still picture that the page's script replaces, legend and
    caption.
    """
    chart_id = panel.chart.id
    controls = [switch(chart_id, place, choice) for place, choice in enumerate(panel.switches)]
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
    others = {value for choice in panel.switches for value, _ in choice.options[1:]}
    notes = []
    for note in panel.notes:
        switched = el("span", note.text, data_when=note.at, hidden=note.at in others)
        notes.append(el("span", switched if note.at else note.text))
    saves = [
        save_button(form, panel.title, data_save=form.lower(), data_of=chart_id)
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
    """Page under construction: its reviews, the digests of their peers (`competitors.peers`) and of
    all shortened runs, the panels with charts, and the panels of bars.
    """

    entries: tuple[Entry, ...] = ()
    peers: tuple[Json, ...] = ()
    quick: tuple[Json, ...] = ()
    panels: list[Panel] = field(default_factory=list)
    pictures: list[Panel] = field(default_factory=list)

    def show(self, panels: Sequence[Panel]) -> list[Html]:
        """Figures of a section; consecutive narrow ones stand side by side."""
        body: list[Html] = []
        row: list[Html] = []
        for panel in panels:
            if not any(len(series.y) for series in panel.chart.series):
                continue  # no second is known, for example
            self.panels.append(panel)
            if panel.wide:
                body += [*pairs(row), figure(panel)]
                row = []
            else:
                row.append(figure(panel))
        return body + pairs(row)

    def charts(self) -> Json:
        """All charts by id, for the page's script."""
        return {panel.chart.id: plotly(panel.chart) for panel in self.panels}


def pairs(row: Sequence[Child]) -> list[Html]:
    """Rows of two elements side by side."""
    return [el("div", row[at : at + 2], class_="pair") for at in range(0, len(row), 2)]


def switch(chart_id: str, place: int, choice: Switch) -> Html | None:
    """Row of radio buttons that sets one part of the view's key; None for a single choice."""
    if len(choice.options) < 2:
        return None
    name = f"{chart_id}-{choice.name}"
    buttons = [
        el("input", type="radio", name=name, id=f"{name}-{value}", value=value, checked=not at)
        + el("label", text, for_=f"{name}-{value}")
        for at, (value, text) in enumerate(choice.options)
    ]
    return el(
        "fieldset",
        el("legend", choice.label),
        [Html(button) for button in buttons],
        class_="switch",
        data_chart_of=chart_id,
        data_position=str(place),
    )


def legend(keys: Sequence[Key]) -> Html | None:
    """Legend of a chart; each entry toggles its series. None for a single entry."""
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
    """Panel of a single run, as the Bench reads it."""
    return {
        "id": panel.chart.id,
        "title": panel.title,
        "lead": panel.lead,
        "samples": panel.samples,
        "notes": [[note.text, note.at] for note in panel.notes],
        "switches": [[switch.name, switch.label, switch.options] for switch in panel.switches],
        "key": [[key.name, key.colour, key.shape, key.meaning] for key in panel.key],
        "wide": panel.wide,
        "apart": panel.apart,
        "chart": plotly(panel.chart),
    }


# --- the chart ------------------------------------------------------------------------------------


def plotly(chart: Chart) -> Json:
    """Traces, layout and views for Plotly."""
    traces = [_trace(chart, series) for series in chart.series]
    out: Json = {"traces": traces, "layout": _layout(chart), "height": chart.height, "views": {}}
    if chart.right is not None:  # a second axis needs its own trace, which stays invisible
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


def broken(text: str, width: int) -> str:
    """Name for Plotly, in lines of at most `width` characters."""
    return "<br>".join(chart_text(line) for line in model.lines_of(text, width))


def _step(span: float) -> float:
    """Round tick distance that gives about six ticks in the span.

    >>> _step(8.1), _step(0.31)
    (2.0, 0.05)
    """
    power = 10.0 ** math.floor(math.log10(span / 6))
    return next(
        round(power * factor, 12) for factor in (1, 2, 5, 10) if power * factor >= 0.9 * span / 6
    )


def _places(axis: Axis, values: Sequence[float | str]) -> list[Any]:
    if axis.scale == "category":
        return [broken(str(value), axis.wrap) for value in values]
    return model.rounded([float(value) for value in values])


def _trace(chart: Chart, series: Series) -> Json:
    trace: Json = {
        "type": "bar" if series.kind == "bar" else "scatter",
        "name": chart_text(series.title),
        "y": model.rounded(series.y),
        "meta": series.unit,
    }
    if isinstance(series.x, range):
        trace |= {"x0": series.x.start, "dx": series.x.step}
    else:
        trace["x"] = _places(chart.x, series.x)
    if chart.horizontal:
        trace["x"], trace["y"] = trace["y"], trace["x"]
    if series.pane:
        trace["yaxis"] = f"y{series.pane + 1}"
    trace |= {"hovertemplate": _hover(chart, series)} if series.hover else {"hoverinfo": "skip"}
    if series.notes:
        trace["customdata"] = list(series.notes)
    if whiskers := series.whiskers:
        both = list(zip(whiskers, series.y, strict=True))
        ends: Json = {"array": model.rounded(series.spread or ())}
        if any(series.ends):
            lower = model.rounded([y - low for (low, _), y in both])
            upper = model.rounded([high - y for (_, high), y in both])
            ends = {"symmetric": False, "array": upper, "arrayminus": lower}
        colour = "@ink" if series.kind == "bar" or any(series.ends) else series.colour
        trace["error_y"] = {"type": "data", **ends, "thickness": 1, "width": 3, "color": colour}
    return trace | _STYLES[series.kind](chart, series)


def _bar(chart: Chart, series: Series) -> Json:
    marker: Json = {"color": series.colour, "line": {"width": 0}}
    if pattern := _pattern(series):
        marker["pattern"] = pattern
    style: Json = {"marker": marker}
    return style | ({"orientation": "h"} if chart.horizontal else {})


def _pattern(series: Series) -> Json:
    if series.pattern == "plain":
        return {}
    return {
        "path": theme.PATTERNS[series.pattern],
        "size": theme.TILE,
        "fillmode": "overlay",
        "fgcolor": theme.PATTERN_INK,
        "fgopacity": theme.PATTERN_OPACITY,
    }


def _line(_chart: Chart, series: Series) -> Json:
    line: Json = {"color": series.colour, "width": series.width}
    line |= {} if series.dash == "solid" else {"dash": series.dash}
    line |= {"shape": "hv"} if series.steps else {}
    if not series.marker:
        return {"mode": "lines", "line": line}
    marker: Json = {"color": series.colour, "size": series.marker}
    if series.symbol != "circle":
        marker["symbol"] = SYMBOLS.get(series.symbol, series.symbol)
    return {"mode": "lines+markers", "line": line, "marker": marker}


def _points(chart: Chart, series: Series) -> Json:
    marker: Json = {"size": series.marker, "color": series.colour}
    if series.symbol == "circle":
        return {"mode": "markers", "marker": marker | {"opacity": 0.7}}
    marker["symbol"] = SYMBOLS.get(series.symbol, series.symbol)
    if series.symbol == "tick":
        marker["line"] = {"width": 2, "color": series.colour}
    if not series.labels:
        return {"mode": "markers", "marker": marker}
    return {
        "mode": "markers+text",
        "marker": marker,
        "text": list(series.labels),
        "textposition": [_above_point(chart.x, x) for x in series.x],
        "textfont": {"size": 11, "color": "@ink", "shadow": "auto"},
    }


def _above_point(axis: Axis, value: float | str) -> str:
    """Position of a label that keeps it inside the axis."""
    if axis.limits is None or isinstance(value, str):
        return "top center"
    scaled = [math.log10(end) if axis.scale == "log" else end for end in (*axis.limits, value)]
    low, high, at = scaled
    share = (at - low) / (high - low)
    side = "left" if share > 1 - LABEL_EDGE else "right" if share < LABEL_EDGE else "center"
    return f"top {side}"


def _area(_chart: Chart, series: Series) -> Json:
    style: Json = {
        "mode": "lines",
        "stackgroup": series.unit,
        "line": {"width": 0, "shape": "hv" if series.steps else "linear", "color": series.colour},
        "fillcolor": series.colour,
    }
    if pattern := _pattern(series):
        style["fillpattern"] = pattern
    return style


def _band(_chart: Chart, series: Series) -> Json:
    line = {"color": series.colour, "width": 0}
    return {"mode": "lines", "fill": "toself", "line": line, "opacity": 0.3, "showlegend": False}


def _note_points(_chart: Chart, series: Series) -> Json:
    texts = [note.replace(", ", ",<br>") for note in series.notes]
    look: Json = {"marker": {"color": series.colour}, "showlegend": False}
    return {"mode": "none", "customdata": texts, **look}


_STYLES = {
    "words": _note_points,
    "band": _band,
    "bar": _bar,
    "line": _line,
    "scatter": _points,
    "area": _area,
}


def _hover(chart: Chart, series: Series) -> str:
    """Tooltip template: names filled in, and Plotly's fields for values that differ by point."""
    x, y = ("y", "x") if chart.horizontal else ("x", "y")
    form = "" if chart.x.scale == "category" else ":,.6~r"
    sign = "+" if chart.y[0].tick_form == "signed" else ""
    fields = {
        "x": f"%{{{x}{form}}}",
        "y": f"%{{{y}:{sign},.{DIGITS.get(series.unit, 5)}~r}}",
        "note": "%{customdata}",
        "name": chart_text(series.name),
        "group": chart_text(series.group),
        "unit": chart_text(series.unit),
    }
    return re.sub(r"\{(\w+)\}", lambda match: fields[match[1]], series.hover)


def _axis(axis: Axis) -> Json:
    """Axis without its label."""
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
        out["ticktext"] = [broken(text, axis.wrap) for _, text in axis.ticks]
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
        spans = model.pane_spans(len(chart.y))
        for place, (axis, span) in enumerate(zip(chart.y, spans, strict=True)):
            pane = _axis(axis)
            if not axis.ticks:
                pane["nticks"] = 4 if place else 6
            if len(chart.y) > 1:
                pane["domain"] = [round(edge, 4) for edge in span]
                layout["xaxis"]["anchor"] = f"y{place + 1}"
            layout[f"yaxis{place + 1 if place else ''}"] = pane
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
    if any(series.kind == "bar" for series in chart.series):
        layout["barmode"] = "relative" if chart.stacked else "group"
        layout["bargap"] = 0.3 if chart.stacked else 0.2
    if chart.marks:
        layout["shapes"] = [_shape(mark) for mark in chart.marks]
    return layout


def _annotations(chart: Chart, first: Axis) -> list[Json]:
    """Units of the axes, horizontal above their ends, and labels."""
    spans = model.pane_spans(len(chart.y))
    axes = [first, *chart.y[1:]]
    annotations = [_above(axis.label, top) for axis, (_, top) in zip(axes, spans, strict=True)]
    if chart.right is not None:
        annotations.append(_above(chart.right.label, 1.0, "right"))
    if chart.labels:
        annotations[0]["yshift"] = 22
    for x, text in chart.labels:
        annotations.append(_above(text, 1.0) | {"xref": "x", "x": x, "xanchor": "center"})
    return [annotation for annotation in annotations if annotation["text"]]


def _above(text: str, y: float, side: str = "left") -> Json:
    return {
        "text": chart_text(text),
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
    if mark.thin:
        line = {"color": "@heat", "width": 3}
        return {"type": "line", **shape, "y0": 1, "line": line, "layer": "below"}
    return {"type": "rect", **shape, "fillcolor": "@shade", "line": {"width": 0}, "layer": "below"}
