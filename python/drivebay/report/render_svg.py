"""Draws panels as SVG: small ones for a page, shown before its script draws, without JavaScript and
on paper; and whole pictures, with title, legend and caption, that stand by themselves.

A report has a hundred of the former, so they are written straight from the charts' descriptions
(docs/adr/0035-one-svg-renderer.md). Coordinates are whole parts of a pixel and relative to the last
one, neighbours of the same style share a path, and colours are variables of the theme, which a
picture has replaced by the light theme's.
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

from drivebay.report import theme
from drivebay.report.charts.model import (
    CROWDED,
    Axis,
    Panel,
    Series,
    View,
    categories,
    lines_of,
    pane_spans,
)
from drivebay.report.markup import Html, text

FINE = 2
"""Coordinates are whole numbers of a pixel's parts."""
FAR = 9_999
"""Lines that leave the picture end here."""
WIDTH_PX = 960
NARROW_PX = 580
NAMES_PX = 150
"""Room for the names of rows, beside the axis."""
FONT_PX = 11
LINE_PX = 13
CAP_PX = 3
"""Half the end of a whisker."""
NUMBER_PX = 36
"""What a number on an x axis takes."""
EDGE_PX = 3
"""Points and lines on the edge of a pane are seen whole."""
MOST = {"scatter": 4_000, "line": 1_200, "area": 160}
"""Points of a series that are drawn; outlines and bars are whole."""
DASHES = {"solid": "", "dash": ' stroke-dasharray="16 10"', "dot": ' stroke-dasharray="4 5"'}
CORNERS = {
    "square": ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    "diamond": ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
    "triangle": ((0, -1.2), (1.15, 0.8), (-1.15, 0.8)),
}
"""Of symbols, in halves of their size."""
PREFIXES = {-9: "n", -6: "µ", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T"}
Floats = npt.NDArray[np.float64]


def still(panel: Panel) -> Html:
    """The chart in its first view, without title, legend and caption."""
    return _Drawing(panel).svg()


FONT = "DejaVu Sans, Verdana, sans-serif"
TITLE_PX, SMALL_PX, MARGIN_PX = 17, 11, 16
SIGN_WIDE = 0.62
"""Width of a sign, over the height of the font: that of DejaVu Sans, which is wide."""
KEYS_MAX = 12


def picture(panel: Panel, who: str) -> str:
    """A file's picture of the chart in its first view; `who` names the drives in the title."""
    inner = _Drawing(panel)
    wide, out = inner.out.width, _Svg(inner.out.width, 0)
    title = _lines(f"{panel.title}: {who}", wide, TITLE_PX)
    out.text_px = TITLE_PX
    out.words(MARGIN_PX, MARGIN_PX + TITLE_PX, title, colour="var(--ink)", bold=True)
    out.text_px = SMALL_PX
    top = _legend(out, panel, inner.series, MARGIN_PX + len(title) * (TITLE_PX + 4) + 8)
    chart = inner.svg((0, top))
    below = top + inner.out.height + LINE_PX
    caption = _lines(_caption(panel), wide, SMALL_PX)
    out.words(MARGIN_PX, below + SMALL_PX, caption, colour="var(--muted)")
    out.height = round(below + LINE_PX * len(caption) + MARGIN_PX)
    paper = f'<rect width="{FINE * wide}" height="{FINE * out.height}" fill="#ffffff"/>'
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{out.height}" '
        f'viewBox="0 0 {FINE * wide} {FINE * out.height}" font-family="{FONT}" '
        f'font-size="{FINE * FONT_PX}" fill="none" role="img" aria-label="{text(panel.alt)}">'
    )
    whole = f"{head}{paper}{_defs(inner.series)}{out.inside()}{chart}</svg>"
    return re.sub(r"var\(--([\w-]+)\)", lambda name: theme.LIGHT[name[1]], whole)


def _legend(out: _Svg, panel: Panel, series: Sequence[Series], top: float) -> float:
    """Names with their colours where there are several; returns what is below."""
    known = {one.title: one for one in series if one.title and len(one.y) and one.kind != "words"}
    if not 1 < len(known) <= KEYS_MAX:
        return top
    x = float(MARGIN_PX)
    for name, one in known.items():
        needs = 26 + SIGN_WIDE * SMALL_PX * len(name)
        if x + needs > out.width and x > MARGIN_PX:
            x, top = float(MARGIN_PX), top + 18
        if one.kind in ("line", "scatter") and not one.marker:
            out.line(_stroke(one.colour, 3) + DASHES[one.dash], x, top + 6, x + 16, top + 6)
        else:
            out.box(_fill(one), (x, x + 14), (top + 1, top + 12))
        out.words(x + 20, top + 11, [name], colour="var(--ink)")
        x += needs + 8
    return top + 22


def _caption(panel: Panel) -> str:
    first = {one.options[0][0] for one in panel.switches}
    notes = [note.words for note in panel.notes if not note.at or note.at in first]
    samples = f"{panel.samples}." if panel.samples else ""
    return " ".join(filter(None, (panel.lead, samples, *notes)))


def _lines(words: str, wide: float, font_px: float) -> list[str]:
    """Words in lines that no picture of this width clips."""
    return textwrap.wrap(words, int((wide - 2 * MARGIN_PX) / (SIGN_WIDE * font_px)))


def tiles(panels: Sequence[Panel]) -> Html | None:
    """The patterns that the stills of a page are filled with, once for all of them."""
    patterns = _defs([one for panel in panels for one in panel.chart.series])
    if not patterns:
        return None
    return Html(f'<svg class="tiles" width="0" height="0" aria-hidden="true">{patterns}</svg>')


def _defs(series: Sequence[Series]) -> str:
    """The patterns of these series."""
    size = FINE * theme.TILE
    found = {_tile(one): one for one in series if _tile(one)}
    return "".join(
        f'<pattern id="{name}" width="{size}" height="{size}" patternUnits="userSpaceOnUse">'
        f'<rect width="{size}" height="{size}" fill="{_colour(one.colour)}"/>'
        f'<path fill="{theme.PATTERN_INK}" fill-opacity="{theme.PATTERN_OPACITY}" '
        f'transform="scale({FINE})" d="{theme.PATTERNS[one.pattern]}"/></pattern>'
        for name, one in found.items()
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
        names = categories(chart, self.series) if named else []
        self.names = {name: place for place, name in enumerate(names)}
        self.crowded = not chart.horizontal and len(names) >= CROWDED
        self.rows = chart.horizontal or chart.y[0].wrap > 0
        """Whether the upright axis has names."""
        wide, height = WIDTH_PX if panel.wide else NARROW_PX, chart.height
        units = any(axis.label for axis in chart.y)
        self.left = min(0.4 * wide, max(NAMES_PX, self._names_px())) if self.rows else 56
        ends = max((len(words) for one in self.series for words in one.labels), default=0)
        beyond = 24 + 0.6 * FONT_PX * ends if chart.horizontal and ends else 18
        self.right = wide - (40 if chart.right is not None else beyond)
        self.top = 16 if not units else 38 if chart.labels else 20
        self.bottom = height - (80 if self.crowded else 40)
        self.out = _Svg(wide, height)

    def _names_px(self) -> float:
        """Room for the longest name of a row that is not broken."""
        names = () if self.x.wrap or self.chart.y[0].wrap else self.names
        return 16 + 0.6 * FONT_PX * max(map(len, names), default=0)

    def svg(self, corner: tuple[float, float] | None = None) -> Html:
        """The whole drawing, or a part of a picture."""
        chart, out, rise = self.chart, self.out, self.bottom - self.top
        for at, (low, high) in enumerate(pane_spans(len(chart.y))):
            self._pane(at, self.bottom - high * rise, self.bottom - low * rise)
        below = self.values[0].label if chart.horizontal else self.x.label
        out.words((self.left + self.right) / 2, out.height - 6, [below], "middle")
        return out.svg(corner)

    def _pane(self, at: int, top: float, bottom: float) -> None:
        chart, out, axis, left, right = self.chart, self.out, self.values[at], self.left, self.right
        series = [one for one in self.series if one.pane == at]
        flat, upright = (axis, self.x) if chart.horizontal else (self.x, axis)
        ends = (top, bottom) if chart.horizontal else (bottom, top)
        points = [(self._places(one), np.asarray(one.y, dtype=float)) for one in series]
        points = [(y, x) for x, y in points] if chart.horizontal else points
        across = self._scale(flat, [x for x, _ in points], left, right)
        along = self._scale(upright, [y for _, y in points], *ends)
        apart = max(LINE_PX + 3, (bottom - top) / 9)
        flat_ticks = self._ticks(flat, across, NUMBER_PX if across.log else 2 * NUMBER_PX)
        upright_ticks = self._ticks(upright, along, apart)

        out.window(left, top, right, bottom)
        for mark in self.marks:
            if mark.end is not None:
                out.box('fill="var(--shade)"', across([mark.start, mark.end]), (top, bottom))
        for place, _ in flat_ticks:
            out.line(_stroke("@grid"), place, top, place, bottom)
        for place, _ in () if self.rows else upright_ticks:
            out.line(_stroke("@grid"), left, place, right, place)
        self._bars(series, across, along)
        self._areas(series, across, along)
        for one, (x, y) in zip(series, points, strict=True):
            self._points(one, across(x), along(y), along)
        for mark in self.marks:
            if mark.end is None:
                place = float(across(mark.start))
                out.line(f"{_stroke('@rule')}{DASHES['dot']}", place, top, place, bottom)
        out.window_ends()
        for one in series if chart.horizontal else ():
            for value, row, words in zip(one.y, self._places(one), one.labels, strict=False):
                end = min(float(across(value)), right)
                out.words(end + 6, float(along(row)) + 4, [words], colour="var(--ink)")

        out.path(_stroke("@rule"), [left, left, right], [top, bottom, bottom])
        for place, words in upright_ticks:
            lines = lines_of(words, upright.wrap)
            out.words(left - 6, place + 4 - LINE_PX * (len(lines) - 1) / 2, lines, "end")
        for place, words in flat_ticks if axis is self.values[-1] else ():
            if self.crowded:
                out.words(place + 4, bottom + 6, [words], "end", turned=True)
            else:
                out.words(place, bottom + 16, lines_of(words, flat.wrap), "middle")
        if not chart.horizontal:
            out.words(left, top - (22 if chart.labels and not at else 5), [axis.label])
        for value, words in chart.labels if at == 0 else ():
            out.words(float(across(value)), top - 5, [words], "middle")
        if at == 0 and chart.right is not None:
            other = self._scale(chart.right, [], bottom, top)
            for place, words in self._ticks(chart.right, other, apart):
                out.words(right + 6, place + 4, [words])
            out.words(right, top - 5, [chart.right.label], "end")

    # --- series -------------------------------------------------------------------------------

    def _places(self, one: Series) -> Floats:
        places = [self.names[str(name)] for name in one.x] if self.names else one.x
        return np.asarray(places, dtype=float)

    def _points(self, one: Series, x: Floats, y: Floats, along: _Scale) -> None:
        out, fill = self.out, f'fill="{_colour(one.colour)}"'
        if one.kind == "band":
            out.path(f'{fill} fill-opacity="0.15"', x, y, close=True)
        elif one.kind == "line":
            corners = (np.repeat(x, 2)[1:], np.repeat(y, 2)[:-1]) if one.steps else (x, y)
            out.path(_stroke(one.colour, one.width) + DASHES[one.dash], *corners)
        if one.kind in ("line", "scatter") and one.marker:
            half = one.marker / 2
            if one.symbol == "circle":
                out.dots(f'{_stroke(one.colour, one.marker)} stroke-linecap="round"', x, y)
            for px, py in () if one.symbol == "circle" else zip(x, y, strict=True):
                if one.symbol == "tick":
                    out.line(_stroke(one.colour, 2), px, py - half, px, py + half)
                else:
                    outline = half * np.asarray(CORNERS[one.symbol])
                    out.path(fill, px + outline[:, 0], py + outline[:, 1], close=True)
        if one.kind != "bar":
            self._whiskers(one, x, along, one.colour)
            for px, py, words in zip(x, y, one.labels, strict=False):
                out.words(px, py - 7, [words], "middle")

    def _whiskers(self, one: Series, x: Floats, along: _Scale, colour: str) -> None:
        """Of upright bars and points; those that lie on their side have their ends in words."""
        for px, ends in zip(x, () if self.chart.horizontal else one.whiskers, strict=False):
            start, end = along(ends)
            self.out.line(_stroke(colour), px, start, px, end)
            for py in (start, end):
                self.out.line(_stroke(colour), px - CAP_PX, py, px + CAP_PX, py)

    def _areas(self, series: Sequence[Series], across: _Scale, along: _Scale) -> None:
        """Each on those of its unit before it."""
        floors: dict[str, Floats] = {}
        for one in series:
            if one.kind != "area":
                continue
            x, y = across(self._places(one)), np.nan_to_num(np.asarray(one.y, dtype=float))
            floor = floors.get(one.unit, np.zeros(len(y)))
            floors[one.unit] = floor + y
            edges = [along(floors[one.unit]), along(floor)]
            if one.steps:
                x, edges = np.repeat(x, 2)[1:], [np.repeat(edge, 2)[:-1] for edge in edges]
            outline = np.append(x, x[::-1]), np.append(edges[0], edges[1][::-1])
            self.out.path(_fill(one), *outline, close=True)

    def _bars(self, series: Sequence[Series], across: _Scale, along: _Scale) -> None:
        """Stacked away from zero on both sides, or beside each other."""
        bars = [one for one in series if one.kind == "bar"]
        stacked = self.chart.stacked
        thick = 0.7 if stacked else 0.8 / max(len(bars), 1)
        low = (across if self.chart.horizontal else along).low
        ends = {sign: np.zeros(len(self.names)) for sign in (False, True)}
        for at, one in enumerate(bars):
            shift = 0 if stacked else (at - (len(bars) - 1) / 2) * thick
            for row, value in zip(self._places(one).astype(int), np.nan_to_num(one.y), strict=True):
                start = ends[value < 0][row] if stacked else 0.0
                ends[value < 0][row] += value
                side = [row + shift - thick / 2, row + shift + thick / 2]
                length = [max(start, low), start + value]
                x, y = (length, side) if self.chart.horizontal else (side, length)
                self.out.box(_fill(one), across(x), along(y))
            self._whiskers(one, across(self._places(one) + shift), along, "@ink")

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
        """Places in pixels and words; those that the axis does not name stand at least `apart`."""
        if axis.scale == "category":
            named = [(float(place), name) for name, place in self.names.items()]
        elif axis.ticks:
            named = list(axis.ticks)
        else:
            found = _decades(scale, apart) if scale.log else _even(scale, apart, axis.tick_step)
            named = [(value, _number(value, axis.tick_form)) for value in found]
        return [(float(scale(value)), words) for value, words in named]


@dataclass(frozen=True)
class _Scale:
    """Where an axis' values lie: from `low` at `start` to `high` at `end`, in pixels."""

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
        step = next(power * one for one in (1, 2, 2.5, 5, 10) if power * one >= least)
    first, last = math.ceil(scale.low / step - 1e-9), math.floor(scale.high / step + 1e-9)
    return [at * step for at in range(first, last + 1)]


def _decades(scale: _Scale, apart: float) -> list[float]:
    """Powers of ten, twice and five times these, or all multiples, as far as there is room."""
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


def _tile(one: Series) -> str:
    """The name of its pattern on its colour; "" without one."""
    return "" if one.pattern == "plain" else f"tile-{one.pattern}-{one.colour[1:]}"


def _fill(one: Series) -> str:
    tile = f"url(#{_tile(one)}) " if _tile(one) else ""
    return f'fill="{tile}{_colour(one.colour)}"'


def _stroke(colour: str, width: float = 1) -> str:
    return f'stroke="{_colour(colour)}" stroke-width="{FINE * width:g}"'


def _thinned(one: Series) -> Series:
    step = math.ceil(len(one.y) / MOST.get(one.kind, math.inf)) or 1
    if step == 1 or one.labels:
        return one
    spread = None if one.spread is None else one.spread[::step]
    return replace(one, x=one.x[::step], y=one.y[::step], spread=spread)


class _Svg:
    """Elements of SVG, written in their order; neighbouring paths of one style are one element."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.text_px = FONT_PX
        self._done: list[str] = []
        self._style = ""
        self._paths: list[str] = []

    def svg(self, corner: tuple[float, float] | None = None) -> Html:
        """What was drawn, for a page, or a picture's part from a corner on."""
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
        """The elements alone."""
        self._end()
        return "".join(self._done)

    def window(self, left: float, top: float, right: float, bottom: float) -> None:
        """Until `window_ends` nothing is seen outside of this box."""
        self._end()
        x, y = round(FINE * (left - EDGE_PX)), round(FINE * (top - EDGE_PX))
        width, height = (
            round(FINE * (size + 2 * EDGE_PX)) for size in (right - left, bottom - top)
        )
        box = f'x="{x}" y="{y}" width="{width}" height="{height}"'
        self._done.append(f'<svg {box} viewBox="{x} {y} {width} {height}">')

    def window_ends(self) -> None:
        """What follows is seen everywhere."""
        self._end()
        self._done.append("</svg>")

    def words(
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
        """Lines of words below each other, the first at `y`."""
        self._end()
        apart = LINE_PX if self.text_px == FONT_PX else self.text_px + 4
        for at, words in enumerate(lines):
            left, base = round(FINE * x), round(FINE * (y + apart * at))
            turn = f' transform="rotate(-90 {left} {base})"' if turned else ""
            anchor = "" if side == "start" else f' text-anchor="{side}"'
            turn += ' font-weight="bold"' if bold else ""
            turn += f' font-size="{FINE * self.text_px}"' if self.text_px != FONT_PX or bold else ""
            place = f'x="{left}" y="{base}" fill="{colour}"'
            if words:
                self._done.append(f"<text {place}{anchor}{turn}>{text(words)}</text>")

    def line(self, style: str, x: float, y: float, end_x: float, end_y: float) -> None:
        """A straight line."""
        self.path(style, [x, end_x], [y, end_y])

    def box(self, style: str, x: Sequence[float] | Floats, y: Sequence[float] | Floats) -> None:
        """A rectangle between two places across and two along."""
        self.path(style, [x[0], x[1], x[1], x[0]], [y[0], y[0], y[1], y[1]], close=True)

    def path(self, style: str, x: Any, y: Any, *, close: bool = False) -> None:
        """A line through these places, broken where one is unknown."""
        points = FINE * np.column_stack((x, y)).astype(float)
        known = np.isfinite(points).all(axis=1)
        whole = np.rint(np.clip(points, -FAR, FAR)[known]).astype(int)
        breaks = np.flatnonzero(np.diff(np.flatnonzero(known)) > 1) + 1
        for piece in np.split(whole, breaks) if len(breaks) and not close else (whole,):
            if data := _data(piece):
                self._add(style, f"{data}z" if close else data)

    def dots(self, style: str, x: Floats, y: Floats) -> None:
        """Each place once, from left to right, as lines without a length."""
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
    """Path data without places that the line passes anyway."""
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
    """Numbers one after the other; a minus needs no space before it."""
    return " ".join(f"{x} {y}" for x, y in steps).replace(" -", "-")
