"""Draws panels as SVG: small stills for a page, shown before its script draws, without JavaScript
and in print; and complete pictures with title, legend and caption.

A report has a hundred stills, so they are written directly from the charts' descriptions
(docs/adr/0035-one-svg-renderer.md). Coordinates are fractions of a pixel as whole numbers and
relative to the previous one, neighbours of the same style share a path, and colours are variables
of the theme. In a picture they are replaced by the light theme's colours.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from drivebay.report.base import theme
from drivebay.report.base.markup import Html, text
from drivebay.report.charts import model
from drivebay.report.charts.model import Axis, Panel, Series, View

# Coordinate units per pixel.
FINE = 2
# Largest coordinate; lines that leave the picture are clipped here.
FAR = 9_999
WIDTH_PX = 960
NARROW_PX = 580
# Space for the names of rows, next to the axis.
NAMES_PX = 150
FONT_PX = 11
LINE_PX = 13
LIGHT_PX = 3
# Half the length of a whisker's cap.
CAP_PX = 3
# Width of a number on an x axis.
NUMBER_PX = 36
# Margin around a pane in which points and lines on its edge stay visible.
EDGE_PX = 3
# Maximum number of points drawn per series; outlines and bars are complete.
MOST = {"scatter": 4_000, "line": 1_200, "area": 160}
DASHES = {"solid": "", "dash": ' stroke-dasharray="16 10"', "dot": ' stroke-dasharray="4 5"'}
# Corners of symbols, in halves of their size.
CORNERS = {
    "square": ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    "diamond": ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
    "triangle": ((0, -1.2), (1.15, 0.8), (-1.15, 0.8)),
}
PREFIXES = {-9: "n", -6: "µ", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T"}
Floats = npt.NDArray[np.float64]


def still(panel: Panel) -> Html:
    """Chart in its first view, without title, legend and caption."""
    return _Drawing(panel).svg()


FONT = "DejaVu Sans, Verdana, sans-serif"
TITLE_PX, SMALL_PX, MARGIN_PX = 17, 11, 16
# Width of a character relative to the font size, for DejaVu Sans, which is wide.
SIGN_WIDE = 0.62
KEYS_MAX = 12


def picture(panel: Panel, who: str) -> str:
    """Picture of the chart in its first view, for a file; `who` names the drives in the title."""
    inner = _Drawing(panel)
    wide, out = inner.out.width, _Svg(inner.out.width, 0)
    title = _lines(f"{panel.title}: {panel.who or who}", wide, TITLE_PX)
    out.text_px = TITLE_PX
    out.label(MARGIN_PX, MARGIN_PX + TITLE_PX, title, colour="var(--ink)", bold=True)
    out.text_px = SMALL_PX
    top = _legend(out, inner.series, MARGIN_PX + len(title) * (TITLE_PX + 4) + 8)
    chart = inner.svg((0, top))
    below = top + inner.out.height + LINE_PX
    caption = _lines(_caption(panel), wide, SMALL_PX)
    out.label(MARGIN_PX, below + SMALL_PX, caption, colour="var(--muted)")
    out.height = round(below + LINE_PX * len(caption) + MARGIN_PX)
    paper = f'<rect width="{FINE * wide}" height="{FINE * out.height}" fill="#ffffff"/>'
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{out.height}" '
        f'viewBox="0 0 {FINE * wide} {FINE * out.height}" font-family="{FONT}" '
        f'font-size="{FINE * FONT_PX}" fill="none" role="img" aria-label="{text(panel.alt)}">'
    )
    whole = f"{head}{paper}{_defs(inner.series)}{out.inside()}{chart}</svg>"
    return re.sub(r"var\(--([\w-]+)\)", lambda name: theme.LIGHT[name[1]], whole)


def _legend(out: _Svg, series: Sequence[Series], top: float) -> float:
    """Draws names with their colours if there are several; returns the position below them."""
    known = {
        entry.title: entry
        for entry in series
        if entry.title and len(entry.y) and entry.kind != "words"
    }
    if not 1 < len(known) <= KEYS_MAX:
        return top
    x = float(MARGIN_PX)
    for name, entry in known.items():
        needs = 26 + SIGN_WIDE * SMALL_PX * len(name)
        if x + needs > out.width and x > MARGIN_PX:
            x, top = float(MARGIN_PX), top + 18
        if entry.kind in ("line", "scatter") and not entry.marker:
            out.line(_stroke(entry.colour, 3) + DASHES[entry.dash], x, top + 6, x + 16, top + 6)
        else:
            out.box(_fill(entry), (x, x + 14), (top + 1, top + 12))
        out.label(x + 20, top + 11, [name], colour="var(--ink)")
        x += needs + 8
    return top + 22


def _caption(panel: Panel) -> str:
    first = {switch.options[0][0] for switch in panel.switches}
    notes = [note.text for note in panel.notes if not note.at or note.at in first]
    samples = f"{panel.samples}." if panel.samples else ""
    return " ".join(filter(None, (panel.lead, samples, *notes)))


def _lines(text: str, wide: float, font_px: float) -> list[str]:
    """Text in lines that fit into a picture of this width."""
    return textwrap.wrap(text, int((wide - 2 * MARGIN_PX) / (SIGN_WIDE * font_px)))


def tiles(panels: Sequence[Panel]) -> Html | None:
    """Patterns of a page's stills, defined once for all of them."""
    patterns = _defs([series for panel in panels for series in panel.chart.series])
    if not patterns:
        return None
    return Html(f'<svg class="tiles" width="0" height="0" aria-hidden="true">{patterns}</svg>')


def _defs(series: Sequence[Series]) -> str:
    """Pattern definitions of these series."""
    size = FINE * theme.TILE
    tiles = {_tile(area): area for area in series if _tile(area)}
    return "".join(
        f'<pattern id="{name}" width="{size}" height="{size}" patternUnits="userSpaceOnUse">'
        f'<rect width="{size}" height="{size}" fill="{_colour(area.colour)}"/>'
        f'<path fill="{theme.PATTERN_INK}" fill-opacity="{theme.PATTERN_OPACITY}" '
        f'transform="scale({FINE})" d="{theme.PATTERNS[area.pattern]}"/></pattern>'
        for name, area in tiles.items()
    )


class _Drawing:
    """One chart in its first view."""

    def __init__(self, panel: Panel) -> None:
        self.chart = chart = panel.chart
        view = next(iter(chart.views.values()), View())
        shown = range(len(chart.series)) if view.shown is None else view.shown
        self.series = [_thinned(chart.series[at]) for at in shown]
        self.x, self.values = view.x or chart.x, (view.y or chart.y[0], *chart.y[1:])
        self.marks = chart.marks if view.marks is None else view.marks
        named = self.x.scale == "category"
        names = model.categories(chart, self.series) if named else []
        self.names = {name: place for place, name in enumerate(names)}
        self.crowded = not chart.horizontal and len(names) >= model.CROWDED
        # Whether the upright axis has names.
        self.rows = chart.horizontal or chart.y[0].wrap > 0
        wide, height = WIDTH_PX if panel.wide else NARROW_PX, chart.height
        units = any(axis.label for axis in chart.y)
        self.left = min(0.4 * wide, max(NAMES_PX, self._names_px())) if self.rows else 56
        ends = max((len(label) for line in self.series for label in line.labels), default=0)
        beyond = 24 + 0.6 * FONT_PX * ends if chart.horizontal and ends else 18
        self.right = wide - (40 if chart.right is not None else beyond)
        self.top = 16 if not units else 38 if chart.labels else 20
        self.bottom = height - (80 if self.crowded else 40)
        self.out = _Svg(wide, height)

    def _names_px(self) -> float:
        """Space for the longest name of a row that is not broken into lines."""
        names = () if self.x.wrap or self.chart.y[0].wrap else self.names
        return 16 + 0.6 * FONT_PX * max(map(len, names), default=0)

    def svg(self, corner: tuple[float, float] | None = None) -> Html:
        """Whole drawing, or a part of a picture."""
        chart, out, rise = self.chart, self.out, self.bottom - self.top
        for at, (low, high) in enumerate(model.pane_spans(len(chart.y))):
            self._pane(at, self.bottom - high * rise, self.bottom - low * rise)
        below = self.values[0].label if chart.horizontal else self.x.label
        out.label((self.left + self.right) / 2, out.height - 6, [below], "middle")
        return out.svg(corner)

    def _pane(self, at: int, top: float, bottom: float) -> None:
        chart, out, axis, left, right = self.chart, self.out, self.values[at], self.left, self.right
        series = [line for line in self.series if line.pane == at]
        flat, upright = (axis, self.x) if chart.horizontal else (self.x, axis)
        ends = (top, bottom) if chart.horizontal else (bottom, top)
        points = [(self._places(line), np.asarray(line.y, dtype=float)) for line in series]
        points = [(y, x) for x, y in points] if chart.horizontal else points
        across = self._scale(flat, [x for x, _ in points], left, right)
        along = self._scale(upright, [y for _, y in points], *ends)
        apart = max(LINE_PX + 3, (bottom - top) / 9)
        flat_ticks = self._ticks(flat, across, NUMBER_PX if across.log else 2 * NUMBER_PX)
        upright_ticks = self._ticks(upright, along, apart)

        out.window(left, top, right, bottom)
        for mark in self.marks:
            if mark.end is not None:
                look = 'fill="var(--heat)"' if mark.thin else 'fill="var(--shade)"'
                end = top + LIGHT_PX if mark.thin else bottom
                out.box(look, across([mark.start, mark.end]), (top, end))
        for place, _ in flat_ticks:
            out.line(_stroke("@grid"), place, top, place, bottom)
        for place, _ in () if self.rows else upright_ticks:
            out.line(_stroke("@grid"), left, place, right, place)
        self._bars(series, across, along)
        self._areas(series, across, along)
        for line, (x, y) in zip(series, points, strict=True):
            self._points(line, across(x), along(y), along)
        for mark in self.marks:
            if mark.end is None:
                place = float(across(mark.start))
                out.line(f"{_stroke('@rule')}{DASHES['dot']}", place, top, place, bottom)
        out.window_ends()
        for line in series if chart.horizontal else ():
            highs = [high for _, high in line.whiskers] or line.y
            rows = zip(line.y, highs, self._places(line), line.labels, strict=False)
            for value, high, row, label in rows:
                end = min(max(float(across(value)), float(across(np.nan_to_num(high)))), right)
                out.label(end + 6, float(along(row)) + 4, [label], colour="var(--ink)")

        out.path(_stroke("@rule"), [left, left, right], [top, bottom, bottom])
        for place, label in upright_ticks:
            lines = model.lines_of(label, upright.wrap)
            out.label(left - 6, place + 4 - LINE_PX * (len(lines) - 1) / 2, lines, "end")
        for place, label in flat_ticks if axis is self.values[-1] else ():
            if self.crowded:
                out.label(place + 4, bottom + 6, [label], "end", turned=True)
            else:
                out.label(place, bottom + 16, model.lines_of(label, flat.wrap), "middle")
        if not chart.horizontal:
            out.label(left, top - (22 if chart.labels and not at else 5), [axis.label])
        for value, label in chart.labels if at == 0 else ():
            out.label(float(across(value)), top - 5, [label], "middle")
        if at == 0 and chart.right is not None:
            other = self._scale(chart.right, [], bottom, top)
            for place, label in self._ticks(chart.right, other, apart):
                out.label(right + 6, place + 4, [label])
            out.label(right, top - 5, [chart.right.label], "end")

    # --- series -------------------------------------------------------------------------------

    def _places(self, series: Series) -> Floats:
        places = [self.names[str(name)] for name in series.x] if self.names else series.x
        return np.asarray(places, dtype=float)

    def _points(self, series: Series, x: Floats, y: Floats, along: _Scale) -> None:
        out, fill = self.out, f'fill="{_colour(series.colour)}"'
        if series.kind == "band":
            out.path(f'{fill} fill-opacity="0.15"', x, y, close=True)
        elif series.kind == "line":
            corners = (np.repeat(x, 2)[1:], np.repeat(y, 2)[:-1]) if series.steps else (x, y)
            out.path(_stroke(series.colour, series.width) + DASHES[series.dash], *corners)
        if series.kind in ("line", "scatter") and series.marker:
            half = series.marker / 2
            if series.symbol == "circle":
                out.dots(f'{_stroke(series.colour, series.marker)} stroke-linecap="round"', x, y)
            for px, py in () if series.symbol == "circle" else zip(x, y, strict=True):
                if series.symbol == "tick":
                    out.line(_stroke(series.colour, 2), px, py - half, px, py + half)
                else:
                    outline = half * np.asarray(CORNERS[series.symbol])
                    out.path(fill, px + outline[:, 0], py + outline[:, 1], close=True)
        if series.kind != "bar" and not self.chart.horizontal:
            self._whiskers(series, x, along, series.colour)
            for px, py, text in zip(x, y, series.labels, strict=False):
                out.label(px, py - 7, [text], "middle")

    def _whiskers(self, series: Series, places: Floats, scale: _Scale, colour: str) -> None:
        """Whiskers along the value axis at these places of the other axis, in pixels."""
        style = _stroke(colour)
        line = self._line_across if self.chart.horizontal else self.out.line
        for place, ends in zip(places, series.whiskers, strict=False):
            start, end = scale(ends)
            line(style, place, start, place, end)
            for edge in (start, end):
                line(style, place - CAP_PX, edge, place + CAP_PX, edge)

    def _line_across(self, style: str, x: float, y: float, end_x: float, end_y: float) -> None:
        """Line of a chart with swapped axes."""
        self.out.line(style, y, x, end_y, end_x)

    def _areas(self, series: Sequence[Series], across: _Scale, along: _Scale) -> None:
        """Areas, each stacked on the previous ones of its unit."""
        floors: dict[str, Floats] = {}
        for area in series:
            if area.kind != "area":
                continue
            x, y = across(self._places(area)), np.nan_to_num(np.asarray(area.y, dtype=float))
            floor = floors.get(area.unit, np.zeros(len(y)))
            floors[area.unit] = floor + y
            edges = [along(floors[area.unit]), along(floor)]
            if area.steps:
                x, edges = np.repeat(x, 2)[1:], [np.repeat(edge, 2)[:-1] for edge in edges]
            outline = np.append(x, x[::-1]), np.append(edges[0], edges[1][::-1])
            self.out.path(_fill(area), *outline, close=True)

    def _bars(self, series: Sequence[Series], across: _Scale, along: _Scale) -> None:
        """Bars, stacked away from zero in both directions, or side by side."""
        bars = [bar for bar in series if bar.kind == "bar"]
        stacked = self.chart.stacked
        thick = 0.7 if stacked else 0.8 / max(len(bars), 1)
        low = (across if self.chart.horizontal else along).low
        ends = {sign: np.zeros(len(self.names)) for sign in (False, True)}
        for at, bar in enumerate(bars):
            shift = 0 if stacked else (at - (len(bars) - 1) / 2) * thick
            for row, value in zip(self._places(bar).astype(int), np.nan_to_num(bar.y), strict=True):
                start = ends[value < 0][row] if stacked else 0.0
                ends[value < 0][row] += value
                side = [row + shift - thick / 2, row + shift + thick / 2]
                length = [max(start, low), start + value]
                x, y = (length, side) if self.chart.horizontal else (side, length)
                self.out.box(_fill(bar), across(x), along(y))
            values, rows = (across, along) if self.chart.horizontal else (along, across)
            self._whiskers(bar, rows(self._places(bar) + shift), values, "@ink")

    # --- axes ---------------------------------------------------------------------------------

    def _scale(self, axis: Axis, data: Sequence[Floats], start: float, end: float) -> _Scale:
        if axis.scale == "category":
            return _Scale(-0.6, len(self.names) - 0.4, start, end)
        if axis.limits is not None and axis.limits[0] < axis.limits[1]:
            return _Scale(*axis.limits, start, end, axis.scale == "log")
        values = np.concatenate([*data, [] if axis.include is None else [axis.include]])
        values = values[np.isfinite(values)]
        low, high = (values.min(), values.max()) if len(values) else (0.0, 1.0)
        room = 0.05 * (high - low) or 0.5
        return _Scale(0 if axis.include == 0 else low - room, high + room, start, end)

    def _ticks(self, axis: Axis, scale: _Scale, apart: float) -> list[tuple[float, str]]:
        """Positions in pixels and labels; computed ticks are at least `apart` from each other."""
        if axis.scale == "category":
            named = [(float(place), name) for name, place in self.names.items()]
        elif axis.ticks:
            named = list(axis.ticks)
        else:
            values = _decades(scale, apart) if scale.log else _even(scale, apart, axis.tick_step)
            named = [(value, _number(value, axis.tick_form)) for value in values]
        return [(float(scale(value)), text) for value, text in named]


@dataclass(frozen=True)
class _Scale:
    """Mapping of an axis' values to pixels: `low` to `start`, `high` to `end`."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, values: Any) -> Floats:
        places, low, high = np.asarray(values, dtype=float), self.low, self.high
        if self.log:
            places = np.log10(np.maximum(places, 1e-12))
            low, high = math.log10(low), math.log10(high)
        return np.asarray(self.start + (places - low) / (high - low) * (self.end - self.start))


def _even(scale: _Scale, apart: float, step: float | None) -> list[float]:
    least = (scale.high - scale.low) * apart / abs(scale.end - scale.start)
    if step:
        step *= max(1, math.ceil(least / step))
    else:
        power = 10 ** math.floor(math.log10(least))
        step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= least)
    first, last = math.ceil(scale.low / step - 1e-9), math.floor(scale.high / step + 1e-9)
    return [at * step for at in range(first, last + 1)]


def _decades(scale: _Scale, apart: float) -> list[float]:
    """Powers of ten, then twice and five times these, then all multiples, if there is space."""
    powers = range(math.floor(math.log10(scale.low)), math.ceil(math.log10(scale.high)) + 1)
    taken: dict[float, float] = {}
    for digits in ((1,), (2, 5), (3, 4, 6, 7, 8, 9)):
        if len(taken) > 2 and 3 in digits:
            break
        for value in (digit * 10.0**power for power in powers for digit in digits):
            place = float(scale(value))
            free = all(abs(place - other) >= apart for other in taken.values())
            if scale.low <= value <= scale.high and free:
                taken[value] = place
    return list(taken)


def _number(value: float, form: str) -> str:
    if form != "si" or not value:
        return f"{value:{'+' if form == 'signed' else ''},.10g}"
    power = min(max(3 * math.floor(math.log10(abs(value)) / 3 + 1e-9), -9), 12)
    return f"{value / 10.0**power:.6g}{PREFIXES[power]}"


def _colour(name: str) -> str:
    return f"var(--{name[1:]})" if name.startswith("@") else name


def _tile(series: Series) -> str:
    """Name of the pattern on its colour; "" without one."""
    return "" if series.pattern == "plain" else f"tile-{series.pattern}-{series.colour[1:]}"


def _fill(series: Series) -> str:
    tile = f"url(#{_tile(series)}) " if _tile(series) else ""
    return f'fill="{tile}{_colour(series.colour)}"'


def _stroke(colour: str, width: float = 1) -> str:
    return f'stroke="{_colour(colour)}" stroke-width="{FINE * width:g}"'


def _thinned(series: Series) -> Series:
    step = math.ceil(len(series.y) / MOST.get(series.kind, math.inf)) or 1
    if step == 1 or series.labels:
        return series
    spread = None if series.spread is None else series.spread[::step]
    return replace(series, x=series.x[::step], y=series.y[::step], spread=spread)


class _Svg:
    """SVG elements in drawing order; consecutive paths of one style share an element."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.text_px = FONT_PX
        self._done: list[str] = []
        self._style = ""
        self._paths: list[str] = []

    def svg(self, corner: tuple[float, float] | None = None) -> Html:
        """Drawn elements as an SVG element: for a page, or at a corner of a picture."""
        size = f"{self.width * FINE} {self.height * FINE}"
        place = 'class="still" preserveAspectRatio="xMinYMin"'
        if corner is not None:
            wide, high = size.split()
            place = (
                f'x="{corner[0] * FINE:g}" y="{corner[1] * FINE:g}" width="{wide}" height="{high}"'
            )
        box = f'viewBox="0 0 {size}" font-size="{FONT_PX * FINE}" fill="none"'
        return Html(f"<svg {place} {box}>{self.inside()}</svg>")

    def inside(self) -> str:
        """Drawn elements without the enclosing SVG element."""
        self._end()
        return "".join(self._done)

    def window(self, left: float, top: float, right: float, bottom: float) -> None:
        """Clips all following elements to this box, until `window_ends`."""
        self._end()
        x, y = round(FINE * (left - EDGE_PX)), round(FINE * (top - EDGE_PX))
        width, height = (
            round(FINE * (size + 2 * EDGE_PX)) for size in (right - left, bottom - top)
        )
        box = f'x="{x}" y="{y}" width="{width}" height="{height}"'
        self._done.append(f'<svg {box} viewBox="{x} {y} {width} {height}">')

    def window_ends(self) -> None:
        """Ends the clipping."""
        self._end()
        self._done.append("</svg>")

    def label(
        self,
        x: float,
        y: float,
        lines: Sequence[str],
        side: str = "start",
        *,
        turned: bool = False,
        colour: str = "var(--muted)",
        bold: bool = False,
    ) -> None:
        """Lines of text below each other, the first at `y`."""
        self._end()
        apart = LINE_PX if self.text_px == FONT_PX else self.text_px + 4
        for at, line in enumerate(lines):
            left, base = round(FINE * x), round(FINE * (y + apart * at))
            turn = f' transform="rotate(-90 {left} {base})"' if turned else ""
            anchor = "" if side == "start" else f' text-anchor="{side}"'
            turn += ' font-weight="bold"' if bold else ""
            turn += f' font-size="{FINE * self.text_px}"' if self.text_px != FONT_PX or bold else ""
            place = f'x="{left}" y="{base}" fill="{colour}"'
            if line:
                self._done.append(f"<text {place}{anchor}{turn}>{text(line)}</text>")

    def line(self, style: str, x: float, y: float, end_x: float, end_y: float) -> None:
        """Straight line."""
        self.path(style, [x, end_x], [y, end_y])

    def box(self, style: str, x: Sequence[float] | Floats, y: Sequence[float] | Floats) -> None:
        """Rectangle between two x and two y coordinates."""
        self.path(style, [x[0], x[1], x[1], x[0]], [y[0], y[0], y[1], y[1]], close=True)

    def path(self, style: str, x: Any, y: Any, *, close: bool = False) -> None:
        """Line through these points, interrupted at unknown ones."""
        points = FINE * np.column_stack((x, y)).astype(float)
        known = np.isfinite(points).all(axis=1)
        whole = np.rint(np.clip(points, -FAR, FAR)[known]).astype(int)
        breaks = np.flatnonzero(np.diff(np.flatnonzero(known)) > 1) + 1
        for piece in np.split(whole, breaks) if len(breaks) and not close else (whole,):
            if data := _data(piece):
                self._add(style, f"{data}z" if close else data)

    def dots(self, style: str, x: Floats, y: Floats) -> None:
        """Dots at these points, without duplicates and sorted by x, as lines of zero length."""
        points = FINE * np.column_stack((x, y))
        points = points[np.isfinite(points).all(axis=1)]
        seen = np.unique(np.rint(np.clip(points, -FAR, FAR)).astype(int), axis=0)
        if len(seen):
            steps = np.diff(seen, axis=0).tolist()
            first = f"M{_pairs(seen[:1].tolist())}h0"
            self._add(style, first + "".join(f"m{_pairs([step])}h0" for step in steps))

    def _add(self, style: str, data: str) -> None:
        if style != self._style:
            self._end()
            self._style = style
        self._paths.append(data)

    def _end(self) -> None:
        if self._paths:
            self._done.append(f'<path {self._style} d="{"".join(self._paths)}"/>')
        self._style, self._paths = "", []


def _data(points: npt.NDArray[np.int64]) -> str:
    """Path data without intermediate points on straight lines."""
    steps = np.diff(points, axis=0)
    steps = steps[steps.any(axis=1)]
    if not len(steps):
        return ""
    turns = np.ones(len(steps), dtype=bool)
    (x, y), (next_x, next_y) = steps[:-1].T, steps[1:].T
    turns[:-1] = (x * next_y != y * next_x) | (x * next_x + y * next_y < 0)
    corners = np.cumsum(steps, axis=0)[turns]
    steps = np.diff(corners, axis=0, prepend=[[0, 0]])
    return f"M{_pairs(points[:1].tolist())}l{_pairs(steps.tolist())}"


def _pairs(steps: list[list[int]]) -> str:
    """Numbers separated by spaces; a minus sign needs no space before it."""
    return " ".join(f"{x} {y}" for x, y in steps).replace(" -", "-")
