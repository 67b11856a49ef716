"""Charts as data: axes, series, reference marks, views, and their captions.

A chart is described once. `render.page` turns it into Plotly's JSON, `render.svg` draws it as SVG,
small for a page or as a picture, `render.files` writes pictures and data. This module depends on
none of them. A colour is a name of the theme ("@c1") or a CSS colour, a pattern one of
`theme.PATTERNS`; a limit, tick or mark is in the unit of its axis, also on a logarithmic axis.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import Literal

import numpy as np

from drivebay.report.base.runs import Run

HEADROOM = 1.06
# Margin above and below the values on a logarithmic axis, as a share of its height.
LOG_ROOM = 0.06
# Number of names from which those of an x axis are drawn vertically.
CROWDED = 10
LINEAR = ("linear", "Linear")
LOG = ("log", "Log")
CLOSE = ("close", "Close-up")
SCALE_NOTES = {
    "linear": "The axis starts at zero.",
    "log": "Logarithmic axis, does not start at zero.",
    "close": "Close-up: the axis does not start at zero.",
}

Limits = tuple[float, float]
Dash = Literal["solid", "dash", "dot"]


@dataclass(frozen=True)
class Axis:
    """An x or y axis of a chart.

    Parameters
    ----------
    label : quantity or unit; below an x axis, above a y axis.
    limits : ends of the axis; without them it fits the data and includes `include`.
    ticks : (value, label), instead of ticks chosen by the renderer.
    tick_step : distance of ticks; without it the renderer chooses.
    tick_form : "plain" with separators, "si" with prefixes, "signed".
    categories : order of the categories; without it the order of the data.
    wrap : characters after which a tick's label is broken into lines; 0 never.
    """

    label: str = ""
    scale: Literal["linear", "log", "category"] = "linear"
    limits: Limits | None = None
    ticks: tuple[tuple[float, str], ...] = ()
    tick_step: float | None = None
    tick_form: Literal["plain", "si", "signed"] = "plain"
    include: float | None = None
    categories: tuple[str, ...] = ()
    wrap: int = 0


@dataclass(frozen=True)
class Series:
    """One series of a chart; `y` has a value for each `x`, NaN if unknown.

    Parameters
    ----------
    kind : "area" is stacked on the previous areas of the same unit; "band" is a faint outline
        behind a line; "words" is not drawn: its `notes` are tooltips at its places.
    name, group : the run, and the group of values.
    pane : number of the pane, from the top.
    spread : half the length of each point's whisker; `ends` are both ends of asymmetric whiskers,
        None without one.
    steps : a value holds until the next.
    marker : size of the points; 0 draws none.
    pattern : distinguishes bars and areas without colours.
    labels : texts next to the points; `notes` are for `hover`.
    hover : tooltip template with {name}, {group}, {x}, {y}, {unit} and {note}; "" for none.
    """

    kind: Literal["line", "scatter", "bar", "area", "band", "words"]
    x: Sequence[float | str]
    y: Sequence[float]
    name: str = ""
    group: str = ""
    unit: str = ""
    colour: str = "@c1"
    pane: int = 0
    spread: Sequence[float] | None = None
    ends: Sequence[Limits | None] = ()
    dash: Dash = "solid"
    steps: bool = False
    width: float = 2
    marker: float = 0
    symbol: Literal["circle", "square", "diamond", "triangle", "tick"] = "circle"
    pattern: str = "plain"
    labels: Sequence[str] = ()
    notes: Sequence[str] = ()
    hover: str = "{x}: {y} {unit}"

    @property
    def title(self) -> str:
        """Group and name, for legends and tables of data."""
        return " · ".join(part for part in (self.group, self.name) if part)

    @property
    def whiskers(self) -> list[Limits]:
        """Both ends of every point's whisker, NaN without one; [] if no point has any."""
        if any(self.ends):
            return [interval or (math.nan, math.nan) for interval in self.ends]
        if self.spread is None or not any(self.spread):
            return []
        return [(y - sd, y + sd) for y, sd in zip(self.y, self.spread, strict=True)]


def diamonds(
    x: Sequence[float | str], y: Sequence[float], name: str, unit: str, colour: str
) -> Series:
    """Large diamonds on top of bars."""
    return Series("scatter", x, y, name, unit=unit, colour=colour, marker=9, symbol="diamond")


@dataclass(frozen=True)
class Mark:
    """Reference mark on the x axis: a shaded span from `start` to `end`, or a line at `start`;
    `thin`: the span is a thin line at the top.
    """

    start: float
    end: float | None = None
    thin: bool = False


@dataclass(frozen=True)
class View:
    """View for one position of the switches: some series, and other axes or marks."""

    shown: tuple[int, ...] | None = None
    x: Axis | None = None
    y: Axis | None = None
    marks: tuple[Mark, ...] | None = None


@dataclass(frozen=True)
class Chart:
    """A chart as data, for all renderers.

    Parameters
    ----------
    height : in pixels of a page.
    y : one axis per pane, from the top; all share the x axis.
    right : a second scale for the first pane, on its right side.
    views : by positions of the switches, joined by "|"; the first is shown first.
    labels : (x, text) above the first pane.
    horizontal : bars are horizontal; `x` is the axis of their names.
    stacked : bars of one name are stacked instead of side by side.
    """

    id: str
    height: int
    series: tuple[Series, ...]
    x: Axis
    y: tuple[Axis, ...]
    right: Axis | None = None
    views: Mapping[str, View] = field(default_factory=dict)
    marks: tuple[Mark, ...] = ()
    labels: tuple[tuple[float, str], ...] = ()
    horizontal: bool = False
    stacked: bool = False


@dataclass(frozen=True)
class Note:
    """Sentence of the caption; with `at` it is shown only in that position of a switch."""

    text: str
    at: str = ""


@dataclass(frozen=True)
class Switch:
    """Choice that sets one part of the chart's view; options are (value, text)."""

    name: str
    label: str
    options: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Key:
    """Entry of a legend; `shape` is a class of the style sheet: a line, or "tile" and a pattern."""

    name: str
    colour: str
    shape: str = ""
    meaning: str = ""

    @property
    def filled(self) -> bool:
        """True if it represents an area instead of a line."""
        return not self.shape or self.shape.startswith("tile")


@dataclass(frozen=True)
class Panel:
    """Chart with title, caption, switches and legend. `samples`: number of samples of each run and
    their spread. `apart`: on the Bench, charts of several drives stand side by side instead of
    being overlaid. `result`: the result in a sentence, as alternative text. `who`: the drives in
    it, if they are not all drives of the page.
    """

    title: str
    chart: Chart
    samples: str
    notes: tuple[Note, ...] = ()
    lead: str = ""
    switches: tuple[Switch, ...] = ()
    key: tuple[Key, ...] = ()
    wide: bool = True
    apart: bool = False
    result: str = ""
    who: str = ""

    @property
    def alt(self) -> str:
        """Alternative text of the picture: title and result."""
        return f"{self.title}: {self.result or self.samples}".rstrip(": ")


def notes(*texts: str) -> tuple[Note, ...]:
    """Sentences that are always shown; empty ones are dropped."""
    return tuple(Note(text) for text in texts if text)


def scale_notes(*scales: tuple[str, str]) -> tuple[Note, ...]:
    """Notes on the start of the axis for each position of a scale switch; for one scale, always
    shown.
    """
    lone = len(scales) == 1
    return tuple(Note(SCALE_NOTES[name], "" if lone else name) for name, _ in scales)


def spoken(runs: Sequence[Run], texts: Sequence[str]) -> str:
    """Statement for each run, with the run's name if there are several."""
    if len(runs) == 1:
        return texts[0]
    return "; ".join(f"{run.name}: {word}" for run, word in zip(runs, texts, strict=True))


def counted(runs: Sequence[Run], what: Literal["ios", "histogram", "seconds"] = "ios") -> str:
    """Number of I/Os of each run, of I/Os in its histograms, or of its full seconds."""
    texts = []
    for phases in (run.measured.phases for run in runs):
        if what == "seconds":
            total = sum(phase.step.rate.n for phase in phases if phase.step.rate)
        elif what == "ios":
            total = sum(phase.step.total_ios for phase in phases)
        else:
            total = sum(phase.histogram.total for phase in phases)
        unit = "samples of 1 s" if what == "seconds" else "I/Os"
        reported = not total and what == "ios" and any(phase.step.iops for phase in phases)
        texts.append("I/Os not counted" if reported else f"n = {total:,} {unit}")
    return spoken(runs, texts)


# Dashes of lines without points, in turn, which distinguish them without colours.
DASHES: tuple[Dash, ...] = ("solid", "dash", "dot")


def shape_of(place: int) -> Literal["circle", "square", "diamond", "triangle"]:
    """Symbol of the series at this place, which distinguishes it from its neighbours without
    colours.
    """
    return ("circle", "square", "diamond", "triangle")[place % 4]


# Patterns of adjacent bars, in turn.
BAR_PATTERNS = ("plain", "rising", "dots", "falling", "level", "grid")


def run_key(runs: Sequence[Run], *, points: bool = False) -> tuple[Key, ...]:
    """Legend of the runs: colours, dashes, and symbols of their points."""
    looks = [
        f"line {dash}" + (f" {shape_of(at)}" if points else "")
        for at, dash in zip(range(len(runs)), cycle(DASHES), strict=False)
    ]
    return tuple(Key(run.name, run.colour, look) for run, look in zip(runs, looks, strict=True))


def from_zero(*highest: float) -> Limits:
    """Limits from zero to a little above the highest value."""
    return 0, max([*highest, 1e-9]) * HEADROOM


def log_limits(lowest: float, highest: float) -> Limits:
    """Limits of a logarithmic axis, with a small margin on both sides."""
    low = max(lowest, 1e-9)
    high = max(highest, low)
    room = min(max((high / low) ** LOG_ROOM, 10**0.02), 10**0.08)
    return low / room, high * room


def scaled(scale: str, values: Sequence[float], base: Axis, *, room: float = 0.15) -> Axis:
    """Axis for these values: "linear" from zero, "log", or "close" around them."""
    high = max(values, default=1.0)
    if scale == "linear":
        limits = from_zero(high)
    elif scale == "log":
        positive = [value for value in values if value > 0]
        limits = log_limits(min(positive, default=1.0), max(high, 1e-9))
    else:
        low = min(values, default=0.0)
        more = (high - low) * room or high * 0.02 or 1.0
        limits = max(0.0, low - more), high + more
    kind: Literal["log", "linear"] = "log" if scale == "log" else "linear"
    return Axis(base.label, kind, limits, tick_form=base.tick_form)


def depth_axis(depths: Sequence[int]) -> Axis:
    """Axis of queue depths, each doubling at the same distance."""
    ticks = sorted(set(depths))
    low, high = math.log10(ticks[0]), math.log10(ticks[-1])
    room = 0.06 * (high - low) or 0.3
    return Axis(
        "queue depth",
        "log",
        (10 ** (low - room), 10 ** (high + room)),
        tuple((depth, str(depth)) for depth in ticks),
    )


def rounded(values: Iterable[float]) -> list[float | int | None]:
    """Numbers for drawing: five significant digits (a thousandth of a pixel), None if unknown."""
    out: list[float | int | None] = []
    for value in np.asarray(values, dtype=float).tolist():
        if not math.isfinite(value):
            out.append(None)
        else:
            out.append(int(value) if value == int(value) else float(f"{value:.5g}"))
    return out


def categories(chart: Chart, series: Sequence[Series]) -> list[str]:
    """Names on the x axis, in their order."""
    return list(dict.fromkeys([*chart.x.categories, *(str(x) for line in series for x in line.x)]))


def lines_of(text: str, width: int) -> list[str]:
    """Label broken into lines of at most `width` characters; 0 leaves it unbroken.

    >>> lines_of("Default over-provisioning", 16)
    ['Default over-', 'provisioning']
    """
    return (textwrap.wrap(text, width) if width else [text]) or [""]


def pane_spans(count: int) -> list[tuple[float, float]]:
    """Vertical spans of the panes, as shares of the height from below: the first is as high as two
    or three others, with gaps for the units between them.

    >>> pane_spans(1)
    [(0.0, 1.0)]
    """
    lower = count - 1
    share = min(0.25, 0.6 / max(lower, 1))
    height, gap, base = 0.68 * share, 0.32 * share, lower * share
    tops = [base - gap - place * (height + gap) for place in range(lower)]
    return [(base, 1.0), *((max(0.0, top - height), top) for top in tops)]
