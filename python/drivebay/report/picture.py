"""Draws one chart of the page with matplotlib, from the same traces, axes and captions.

What plotly can and no chart of ours uses is left out: other kinds of traces, legends in the layout.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import (
    EngFormatter,
    FixedLocator,
    FuncFormatter,
    LogLocator,
    NullFormatter,
    NullLocator,
)

from drivebay.report import themes
from drivebay.report.charts import Json, plain, points
from drivebay.report.panels import Panel

DPI = 100
WIDTH_PX = 960
DASHES = {"dot": ":", "dash": "--"}
MARKERS = {"line-ns": "|"}
LEGEND_MAX = 12


def draw(panel: Panel, view: Json | None, who: str) -> Figure:
    """A figure of the chart in this view, with title, units and caption; `who` names the drives."""
    chart = panel.chart
    layout = _with_view(chart.layout, view)
    shown = view.get("show") if view else None
    traces = [t for place, t in enumerate(chart.traces) if shown is None or shown[place]]
    figure = Figure(figsize=(WIDTH_PX / DPI, (chart.height + 130) / DPI), facecolor="white")
    box = (0.085, 0.17, 0.87, 0.68) if not _categories(layout) else (0.2, 0.17, 0.755, 0.68)
    axes = _axes(figure, layout, box)
    for trace in traces:
        _trace(axes[trace.get("yaxis", "y")], trace)
    _stacks(axes, traces)
    for name, one in axes.items():
        _scale(one, layout, name)
    _decorate(axes, layout)
    figure.suptitle(panel.title, x=0.02, y=0.985, ha="left", va="top", fontsize=13, weight="bold")
    samples = " ".join(filter(None, (panel.lead, panel.spoken())))
    notes = " ".join(note.words for note in panel.notes if not note.at or _default(panel, note.at))
    figure.text(
        0.02,
        0.015,
        f"{who}. {samples} {notes}",
        fontsize=7.5,
        color=themes.LIGHT["muted"],
        wrap=True,
    )
    _legend(figure, axes, panel)
    return figure


def _default(panel: Panel, at: str) -> bool:
    return any(one.options[0][0] == at for one in panel.switches)


def _with_view(layout: Json, view: Json | None) -> Json:
    """The layout with a view's settings in their places."""
    out = {key: dict(one) if isinstance(one, dict) else one for key, one in layout.items()}
    for path, value in (view or {}).get("layout", {}).items():
        *keys, last = path.split(".")
        node = out
        for key in keys:
            node[key] = dict(node.get(key) or {})
            node = node[key]
        node[last] = value
    return out


def _axes(figure: Figure, layout: Json, box: tuple[float, float, float, float]) -> dict[str, Axes]:
    left, bottom, width, height = box
    axes: dict[str, Axes] = {}
    names = sorted(name for name in layout if re.fullmatch(r"yaxis\d*", name)) or ["yaxis"]
    for name in names:
        key = "y" + name.removeprefix("yaxis")
        if layout.get(name, {}).get("overlaying"):
            axes[key] = axes["y"].twinx()
            continue
        low, high = layout.get(name, {}).get("domain", (0.0, 1.0))
        place = (left, bottom + low * height, width, (high - low) * height)
        axes[key] = figure.add_axes(place, sharex=axes.get("y"))
    return axes


def _colour(value: Any) -> str:
    name = str(value or "@c1")
    return themes.LIGHT.get(name[1:], name) if name.startswith("@") else name


def _known(values: Sequence[Any]) -> Any:
    return np.array([np.nan if value is None else value for value in values], dtype=float)


def _trace(axes: Axes, trace: Json) -> None:
    x, y = points(trace)
    if not len(x) or "stackgroup" in trace or trace.get("type") == "bar":
        return
    line, marker = trace.get("line", {}), trace.get("marker", {})
    mode = trace.get("mode", "lines")
    colour = _colour(line.get("color") or marker.get("color"))
    across = [plain(value) for value in x] if isinstance(x[0], str) else _known(x)
    if trace.get("fill") == "toself":
        axes.fill(across, _known(y), facecolor=colour, alpha=0.5, edgecolor=colour, linewidth=0.8)
        return
    style: Json = {"label": plain(trace.get("name", "")), "color": colour}
    style |= {"linestyle": "none", "linewidth": 0}
    if "lines" in mode:
        style |= {"linestyle": DASHES.get(line.get("dash", ""), "-"), "linewidth": 1.4}
        style |= {"drawstyle": "steps-post"} if line.get("shape") == "hv" else {}
    if "markers" in mode:
        symbol = MARKERS.get(marker.get("symbol", ""), "o")
        size = marker.get("size", 5) * (0.6 if symbol == "o" else 0.8)
        style |= {
            "marker": symbol,
            "markersize": size,
            "markeredgewidth": 0 if symbol == "o" else 1.5,
        }
    axes.plot(across, _known(y), **style)
    spread = trace.get("error_y", {}).get("array")
    if spread and any(spread):
        axes.errorbar(across, _known(y), yerr=_known(spread), fmt="none", ecolor=colour, capsize=2)
    for place, name in enumerate(trace.get("text", ())):
        at = (across[place], y[place])
        axes.annotate(name, at, (0, 5), textcoords="offset points", fontsize=7, ha="center")


def _stacks(axes: dict[str, Axes], traces: Sequence[Json]) -> None:
    """Stacked areas and stacked bars, which need their neighbours."""
    areas = [t for t in traces if "stackgroup" in t]
    if areas:
        layers = [np.nan_to_num(_known(t["y"])) for t in areas]
        colours = [_colour(t["fillcolor"]) for t in areas]
        names = [plain(t["name"]) for t in areas]
        axes["y"].stackplot(
            _known(areas[0]["x"]), *layers, colors=colours, labels=names, step="post", linewidth=0
        )
    left: dict[str, float] = {}
    for trace in traces:
        if trace.get("type") != "bar":
            continue
        names = [html.unescape(name.replace("<br>", "\n")) for name in trace["y"]]
        widths = np.nan_to_num(_known(trace["x"]))
        starts = [left.get(name, 0.0) for name in names]
        axes["y"].barh(
            names,
            widths,
            left=starts,
            color=_colour(trace["marker"]["color"]),
            label=plain(trace["name"]),
            height=0.7,
        )
        for name, start, length in zip(names, starts, widths, strict=True):
            left[name] = start + float(length)


def _categories(layout: Json) -> bool:
    axis = layout.get("yaxis", {})
    return axis.get("type") == "category" or bool(axis.get("ticktext"))


def _scale(axes: Axes, layout: Json, name: str) -> None:
    for which, key in (("x", "xaxis"), ("y", "yaxis" + name.removeprefix("y"))):
        axis = layout.get(key, {})
        own = axes.xaxis if which == "x" else axes.yaxis
        if axis.get("type") == "log":
            (axes.set_xscale if which == "x" else axes.set_yscale)("log")
            own.set_major_locator(LogLocator(subs=(1, 2, 5)))
            own.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            own.set_minor_formatter(NullFormatter())
        elif axis.get("tickformat") == "~s":
            own.set_major_formatter(EngFormatter(sep=""))
        elif axis.get("type") != "category":
            own.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
        if axis.get("range"):
            low, high = axis["range"]
            ends = (10.0**low, 10.0**high) if axis.get("type") == "log" else (low, high)
            (axes.set_xlim if which == "x" else axes.set_ylim)(*ends)
        elif which == "y" and axis.get("rangemode") == "tozero":
            axes.set_ylim(bottom=0)
        if axis.get("tickvals"):
            words = axis.get("ticktext") or axis["tickvals"]
            own.set_major_locator(FixedLocator(axis["tickvals"]))
            own.set_minor_locator(NullLocator())
            axes_ticks = [html.unescape(str(w).replace("<br>", "\n")) for w in words]
            (axes.set_xticklabels if which == "x" else axes.set_yticklabels)(axes_ticks)
        if axis.get("autorange") == "reversed":
            axes.invert_yaxis()
    if layout.get("yaxis", {}).get("showgrid", True) and name == "y":
        axes.grid(visible=True, color=themes.LIGHT["grid"])
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8, color=themes.LIGHT["rule"], labelcolor=themes.LIGHT["muted"])
    for spine in axes.spines.values():
        spine.set_color(themes.LIGHT["rule"])
        spine.set_visible(spine.spine_type in ("left", "bottom"))


def _decorate(axes: dict[str, Axes], layout: Json) -> None:
    """Units above the axes, the name of the shared axis, tints and lines."""
    first = axes["y"]
    lowest = min(axes.values(), key=lambda one: one.get_position().y0)
    title = layout.get("xaxis", {}).get("title", {}).get("text")
    if title:
        lowest.set_xlabel(plain(title), fontsize=8, color=themes.LIGHT["muted"])
    for one in axes.values():
        if one is not lowest and one.get_position().y0 > lowest.get_position().y0:
            one.tick_params(labelbottom=False)
    box, top = first.get_position(), max(one.get_position().y1 for one in axes.values())
    bottom = min(one.get_position().y0 for one in axes.values())
    figure = first.get_figure(root=True)
    assert figure is not None
    for note in layout.get("annotations", ()):
        lift = 0.004 + note.get("yshift", 0) / (figure.get_figheight() * DPI)
        y = bottom + note["y"] * (top - bottom) + lift
        x = box.x0 + note["x"] * box.width
        if note.get("xref") == "x":
            x = figure.transFigure.inverted().transform(first.transData.transform((note["x"], 0)))[
                0
            ]
        side = {"left": "left", "right": "right"}.get(note.get("xanchor", "left"), "center")
        figure.text(x, y, plain(note["text"]), fontsize=8, ha=side, color=themes.LIGHT["muted"])
    for shape in layout.get("shapes", ()):
        for one in axes.values():
            if shape["type"] == "rect":
                one.axvspan(shape["x0"], shape["x1"], color="#c2452d", alpha=0.09, linewidth=0)
            else:
                one.axvline(shape["x0"], color=themes.LIGHT["rule"], linewidth=0.8, linestyle=":")


def _legend(figure: Figure, axes: dict[str, Axes], panel: Panel) -> None:
    handles: dict[str, Any] = {}
    for one in axes.values():
        for handle, label in zip(*one.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    handles = {label: handle for label, handle in handles.items() if label}
    if 1 < len(handles) <= LEGEND_MAX:
        figure.legend(
            handles.values(),
            list(handles),
            loc="upper right",
            bbox_to_anchor=(0.985, 0.985),
            ncols=min(5, len(handles)),
            fontsize=7.5,
            frameon=False,
        )
