"""Renders panels to files: PNG and SVG drawn by matplotlib, and the data as CSV.

Text stays text in SVG, a dollar sign a dollar sign, and the same chart has the same bytes.
"""

from __future__ import annotations

import csv
import io
import math
import re
import shutil
import tempfile
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.axis import Axis as DrawnAxis
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import (
    EngFormatter,
    FixedLocator,
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    MultipleLocator,
    NullLocator,
)

from drivebay.common.errors import UserError
from drivebay.report import theme
from drivebay.report.charts.model import (
    CROWDED,
    Axis,
    Chart,
    Panel,
    Series,
    View,
    categories,
    lines_of,
    pane_spans,
    rounded,
)

Json = dict[str, Any]
Floats = npt.NDArray[np.float64]
FORMS = ("png", "svg")
STAMPS: Json = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}
SETTINGS: Any = {"svg.fonttype": "none", "svg.hashsalt": "drivebay", "text.parse_math": False}
HATCHES = {
    "plain": "",
    "dots": "..",
    "level": "---",
    "upright": "|||",
    "rising": "///",
    "falling": "\\\\\\",
    "bricks": "-|",
    "checks": "**",
    "diamonds": "oo",
    "grid": "+++",
    "cross": "xxx",
}
"""matplotlib's nearest to the patterns of the theme."""
INK = (*to_rgb(theme.PATTERN_INK), theme.PATTERN_OPACITY)
DPI = 100
WIDTH_PX = 960
LINE_PX = 13
CAPTION_CHARACTERS = 185
DASHES = {"solid": "-", "dot": ":", "dash": "--"}
MARKERS = {"circle": "o", "square": "s", "diamond": "D", "triangle": "^", "tick": "|"}
LEGEND_MAX = 12
LEGEND_COLUMNS = 5
MARK = ".drivebay-pictures"
"""In a folder of ours, whose pictures may be replaced."""


def write(panels: Sequence[Panel], who: str, out: Path) -> list[Path]:
    """Writes every panel as PNG, SVG and CSV into a folder and returns the pictures' paths; `who`
    names the drives. All files are made before the first one is put in place."""
    others = any(out.iterdir()) if out.is_dir() else out.exists()
    if others and not (out / MARK).is_file():
        raise UserError(
            f"--png: {out} holds other files, which could be replaced", "give a new folder"
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}-"))
    try:
        names = []
        with matplotlib.rc_context(SETTINGS):
            for panel in panels:
                (made / f"{panel.chart.id}.csv").write_text(csv_of(panel.chart), encoding="utf-8")
                for name, view in views(panel):
                    figure = draw(panel, view, who)
                    for form in FORMS:
                        path = made / f"{name}.{form}"
                        figure.savefig(path, format=form, dpi=2 * DPI, metadata=STAMPS[form])
                        names.append(path.name)
        out.mkdir(exist_ok=True)
        (out / MARK).touch()
        for path in sorted(made.iterdir()):
            path.replace(out / path.name)
    finally:
        shutil.rmtree(made)
    return [out / name for name in names]


def csv_of(chart: Chart) -> str:
    """A chart's data: one row per point, with series, unit, place, value and spread."""
    out = io.StringIO()
    rows = csv.writer(out)
    if chart.table is not None:
        rows.writerows(chart.table)
        return out.getvalue()
    over = "load" if chart.horizontal else chart.x.label or "x"
    rows.writerow(["series", "unit", over, "value", "spread"])
    for one in chart.series:
        if one.kind in ("band", "words"):
            continue
        x = one.x if chart.x.scale == "category" else rounded([float(value) for value in one.x])
        spread = [None] * len(one.y) if one.spread is None else rounded(one.spread)
        for place, value, sd in zip(x, rounded(one.y), spread, strict=True):
            rows.writerow([one.title, one.unit, place, value, sd])
    return out.getvalue()


def views(panel: Panel) -> Iterator[tuple[str, View]]:
    """Name and view of each picture: one for each position of a switch shared by several charts,
    with the chart's own switches at their first position."""
    chart = panel.chart
    if not chart.views:
        yield chart.id, View()
        return
    first = next(iter(chart.views)).split("|")
    for key, view in chart.views.items():
        parts = key.split("|")
        if parts[panel.first_position :] == first[panel.first_position :]:
            shared = [re.sub(r"[^\w.-]+", "-", part) for part in parts[: panel.first_position]]
            yield "-".join([chart.id, *shared]), view


def draw(panel: Panel, view: View, who: str) -> Figure:
    """A figure of the chart in this view, with title, legend, units and caption."""
    chart = panel.chart
    series = [one for at, one in enumerate(chart.series) if view.shown is None or at in view.shown]
    legend = list(dict.fromkeys(one.title for one in series if one.title and len(one.y)))
    legend = legend if 1 < len(legend) <= LEGEND_MAX else []
    caption = textwrap.wrap(_caption(panel, who), CAPTION_CHARACTERS)
    rows = math.ceil(len(legend) / LEGEND_COLUMNS)
    above = 62 + 18 * rows + (16 if chart.labels else 0)
    below = 58 + LINE_PX * len(caption) + (40 if _crowded(chart, series) else 0)
    height = chart.height + above + below - 90
    figure = Figure(figsize=(WIDTH_PX / DPI, height / DPI), facecolor="white")
    left = 0.2 if chart.horizontal or chart.y[0].wrap else 0.085
    box = (left, below / height, 0.955 - left, 1 - (above + below) / height)
    panes = _panes(figure, chart, box)
    _Drawing(chart, view, panes).draw(series)
    figure.text(0.02, 1 - 22 / height, panel.title, fontsize=13, weight="bold")
    muted = theme.LIGHT["muted"]
    for at, line in enumerate(reversed(caption)):
        figure.text(0.02, (8 + LINE_PX * at) / height, line, fontsize=7.5, color=muted)
    if legend:
        handles: dict[str, Any] = {}
        for axes in panes:
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
                handles.setdefault(label, handle)
        figure.legend(
            [handles[name] for name in legend],
            legend,
            loc="upper left",
            bbox_to_anchor=(0.012, 1 - 28 / height),
            ncols=LEGEND_COLUMNS,
            fontsize=7.5,
            frameon=False,
        )
    return figure


def _caption(panel: Panel, who: str) -> str:
    first = {one.options[0][0] for one in panel.switches}
    notes = [note.words for note in panel.notes if not note.at or note.at in first]
    return " ".join(filter(None, (f"{who}.", panel.lead, f"{panel.samples}.", *notes)))


def _crowded(chart: Chart, series: Sequence[Series]) -> bool:
    if chart.horizontal or chart.x.scale != "category":
        return False
    return len(categories(chart, series)) >= CROWDED


def _panes(figure: Figure, chart: Chart, box: tuple[float, float, float, float]) -> list[Axes]:
    left, bottom, width, height = box
    panes: list[Axes] = []
    for low, high in pane_spans(len(chart.y)):
        place = (left, bottom + low * height, width, (high - low) * height)
        shared = panes[0] if panes else None
        panes.append(figure.add_axes(place, sharex=shared, facecolor="none"))
    return panes


def _colour(name: str) -> str:
    return theme.LIGHT.get(name[1:], name) if name.startswith("@") else name


class _Drawing:
    """One chart in one view on its panes."""

    def __init__(self, chart: Chart, view: View, panes: Sequence[Axes]) -> None:
        self.chart, self.panes = chart, panes
        self.x = view.x or chart.x
        self.y = (view.y or chart.y[0], *chart.y[1:])
        self.marks = chart.marks if view.marks is None else view.marks
        self.names: dict[str, int] = {}

    def draw(self, series: Sequence[Series]) -> None:
        """All series, then axes, marks and units."""
        if self.x.scale == "category":
            names = categories(self.chart, series)
            self.names = {name: place for place, name in enumerate(names)}
        self._bars([one for one in series if one.kind == "bar"])
        areas = [one for one in series if one.kind == "area"]
        if areas:
            self.panes[0].stackplot(
                self._places(areas[0]),
                *(np.nan_to_num(np.asarray(one.y, dtype=float)) for one in areas),
                colors=[_colour(one.colour) for one in areas],
                labels=[one.title for one in areas],
                step="post" if areas[0].steps else None,
                hatch=[HATCHES[one.pattern] for one in areas],
                edgecolor=INK,
                linewidth=0,
            )
        for one in series:
            if one.kind in ("line", "scatter"):
                self._points(one)
            elif one.kind == "band":
                outline = self._places(one)
                self.panes[0].fill(outline, one.y, color=_colour(one.colour), alpha=0.15, lw=0)
            elif one.kind == "histogram":
                colour = _colour(one.colour)
                style: Json = {
                    "facecolor": colour,
                    "edgecolor": colour,
                    "alpha": 0.5,
                    "linewidth": 0.8,
                }
                self.panes[0].fill(self._places(one), one.y, **style)
        for axes, axis in zip(self.panes, self.y, strict=True):
            self._scales(axes, axis)
        self._units()
        for mark in self.marks:
            for axes in self.panes:
                if mark.end is None:
                    axes.axvline(mark.start, color=_colour("@rule"), linewidth=0.8, linestyle=":")
                else:
                    tint: Json = {"color": _colour("@heat"), "alpha": 0.09, "linewidth": 0}
                    axes.axvspan(mark.start, mark.end, **tint)

    def _places(self, one: Series) -> Floats:
        places = [self.names[str(x)] if self.names else float(x) for x in one.x]
        return np.asarray(places, dtype=float)

    def _points(self, one: Series) -> None:
        axes, places, values = self.panes[one.pane], self._places(one), np.asarray(one.y, float)
        x, y = (values, places) if self.chart.horizontal else (places, values)
        colour, thin = _colour(one.colour), one.symbol == "tick"
        line = one.kind == "line"
        axes.plot(
            x,
            y,
            label=one.title,
            color=colour,
            linestyle=DASHES[one.dash] if line else "none",
            linewidth=0.7 * one.width if line else 0,
            drawstyle="steps-post" if one.steps else "default",
            marker=MARKERS[one.symbol] if one.marker else "",
            markersize=one.marker * (0.8 if thin else 0.6),
            markeredgewidth=1.5 if thin else 0,
        )
        if one.spread is not None and any(one.spread):
            spread = np.nan_to_num(np.asarray(one.spread, dtype=float))
            axes.errorbar(x, y, yerr=spread, fmt="none", ecolor=colour, capsize=2, elinewidth=0.8)
        for place, words in enumerate(one.labels):
            style: Json = {"textcoords": "offset points", "fontsize": 7, "ha": "center"}
            axes.annotate(words, (x[place], y[place]), (0, 5), **style)

    def _bars(self, bars: Sequence[Series]) -> None:
        """Stacked away from zero on both sides, or beside each other."""
        axes, stacked = self.panes[0], self.chart.stacked
        thick = 0.7 if stacked else 0.8 / max(len(bars), 1)
        ends = {sign: np.zeros(len(self.names)) for sign in (-1, 1)}
        for at, one in enumerate(bars):
            places = self._places(one)
            values = np.nan_to_num(np.asarray(one.y, dtype=float))
            starts = np.zeros(len(values))
            if stacked:
                for bar, (row, value) in enumerate(zip(places.astype(int), values, strict=True)):
                    end = ends[-1 if value < 0 else 1]
                    starts[bar] = end[row]
                    end[row] += value
            else:
                places = places + (at - (len(bars) - 1) / 2) * thick
            style: Json = {"color": _colour(one.colour), "label": one.title}
            if hatch := HATCHES[one.pattern]:
                style |= {"hatch": hatch, "edgecolor": INK, "linewidth": 0}
            if self.chart.horizontal:
                axes.barh(places, values, left=starts, height=thick, **style)
            else:
                axes.bar(places, values, bottom=starts, width=thick, **style)
            if whiskers := one.whiskers:
                low, high = np.nan_to_num(np.asarray(whiskers).T - values)
                look: Json = {"fmt": "none", "ecolor": _colour("@ink"), "capsize": 2}
                axes.errorbar(places, values, yerr=(-low, high), elinewidth=0.8, **look)

    def _scales(self, axes: Axes, axis: Axis) -> None:
        chart = self.chart
        x, y = (axis, self.x) if chart.horizontal else (self.x, axis)
        for own, described in ((axes.xaxis, x), (axes.yaxis, y)):
            self._scale(axes, own, described, upright=own is axes.xaxis)
        if chart.horizontal:
            axes.invert_yaxis()
        if not (chart.horizontal or axis.wrap):
            axes.grid(visible=True, color=_colour("@grid"))
        axes.set_axisbelow(True)
        axes.tick_params(labelsize=8, color=_colour("@rule"), labelcolor=_colour("@muted"))
        if axes is not self.panes[-1]:
            axes.tick_params(labelbottom=False)
        for spine in axes.spines.values():
            spine.set_color(_colour("@rule"))
            spine.set_visible(spine.spine_type in ("left", "bottom"))

    def _scale(self, axes: Axes, own: DrawnAxis, axis: Axis, *, upright: bool) -> None:
        flat = own is axes.xaxis
        limits = axes.set_xlim if flat else axes.set_ylim
        ticks = list(axis.ticks)
        if axis.scale == "category":
            ticks = [(place, name) for name, place in self.names.items()]
            limits(-0.6, len(ticks) - 0.4)
        elif axis.scale == "log":
            (axes.set_xscale if flat else axes.set_yscale)("log")
        elif axis.tick_step:
            own.set_major_locator(MultipleLocator(axis.tick_step))
        else:
            few = axes is not self.panes[0] and not flat
            own.set_major_locator(MaxNLocator(4 if few else 8, steps=[1, 2, 2.5, 5, 10]))
        if axis.limits is not None:
            if axis.limits[0] < axis.limits[1]:
                limits(*axis.limits)
        elif axis.include is not None:
            low, high = axes.get_ylim()
            limits(axis.include if axis.include == 0 else min(low, axis.include), high)
        if axis.scale == "log" and not ticks and axis.limits is not None:
            few = math.log10(axis.limits[1] / axis.limits[0]) > 3.6
            own.set_major_locator(LogLocator(subs=(1,) if few else (1, 2, 5)))
            own.set_minor_locator(NullLocator())
        if ticks:
            own.set_major_locator(FixedLocator([place for place, _ in ticks]))
            own.set_minor_locator(NullLocator())
            words = ["\n".join(lines_of(words, axis.wrap)) for _, words in ticks]
            turned = upright and axis.scale == "category" and len(words) >= CROWDED
            own.set_ticklabels(words, rotation=90 if turned else 0)
        elif axis.tick_form == "si":
            own.set_major_formatter(EngFormatter(sep=""))
        else:
            sign = "+" if axis.tick_form == "signed" else ""
            own.set_major_formatter(FuncFormatter(lambda value, _: f"{value:{sign},.6g}"))

    def _units(self) -> None:
        """Units above the panes, the x axis' label below them, labels of the marks."""
        chart, figure = self.chart, self.panes[0].get_figure(root=True)
        assert figure is not None, "panes belong to a figure"
        style: Json = {"fontsize": 8, "color": _colour("@muted")}
        below = self.y[0].label if chart.horizontal else self.x.label
        if below:
            self.panes[-1].set_xlabel(below, **style)
        if chart.horizontal:
            return
        pixel = 1 / (figure.get_figheight() * DPI)
        for axes, axis in zip(self.panes, self.y, strict=True):
            box = axes.get_position()
            lift = 22 if chart.labels and axes is self.panes[0] else 5
            figure.text(box.x0, box.y1 + lift * pixel, axis.label, **style)
        box = self.panes[0].get_position()
        if chart.right is not None and chart.right.limits is not None:
            other = self.panes[0].twinx()
            other.set_ylim(*chart.right.limits)
            other.yaxis.set_major_formatter(EngFormatter(sep=""))
            other.tick_params(labelsize=8, color=_colour("@rule"), labelcolor=_colour("@muted"))
            other.set_frame_on(False)
            figure.text(box.x1, box.y1 + 5 * pixel, chart.right.label, ha="right", **style)
        low, high = self.panes[0].get_xlim()
        for x, words in chart.labels:
            place = box.x0 + box.width * (x - low) / (high - low)
            figure.text(place, box.y1 + 5 * pixel, words, ha="center", **style)
