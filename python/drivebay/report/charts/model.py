"""Charts as data: axes, series, reference marks, views, and the captions that belong to them.

A chart is described once. `render_page` turns it into Plotly's JSON, `render_svg` draws it as SVG,
small for a page or as a picture, `files` writes pictures and data. Nothing here knows them.
A colour is a name of the theme ("@c1") or a CSS colour, a pattern one of `theme.PATTERNS`; a limit,
tick or mark is in the axis' own unit, also on a logarithmic axis.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import Literal

import numpy as np

from drivebay.report.runs import Run

HEADROOM = 1.06
LOG_ROOM = 0.06
"""Of a logarithmic axis, the share of its height above and below the values."""
CROWDED = 10
"""From so many names on, those of an x axis stand upright."""
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
    limits : ends of the axis; without them it fits the data and reaches `include`.
    ticks : (value, label) where ticks are not chosen by the renderer.
    tick_step : distance of ticks; without it the renderer chooses.
    tick_form : "plain" with separators, "si" with prefixes, "signed".
    categories : order of the categories; without it they stand as they come.
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
    """One series of a chart; `y` has a value for each `x`, NaN where unknown.

    Parameters
    ----------
    kind : "area" is stacked on the areas of the same unit before it; "band" is a faint outline
        behind a line; "words" are not
        drawn: a pointer at their places shows their `notes`.
    name, group : whose values these are, and which of them.
    pane : number of the pane, from the top.
    spread : half the length of each point's whisker; `ends` are both its ends, where they do not
        lie evenly; None where there is none.
    steps : a value holds until the next.
    marker : size of the points; 0 draws none.
    pattern : what tells a bar or an area from others without colours.
    labels : words beside the points; `notes` are for `hover`.
    hover : what a pointer shows, with {name}, {group}, {x}, {y}, {unit} and {note}; "" is nothing.
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
        """Group and name, as a legend or a table of data names the series."""
        return " · ".join(part for part in (self.group, self.name) if part)

    @property
    def whiskers(self) -> list[Limits]:
        """Both ends of every point's whisker, NaN where there is none; [] without any."""
        if any(self.ends):
            return [interval or (math.nan, math.nan) for interval in self.ends]
        if self.spread is None or not any(self.spread):
            return []
        return [(y - sd, y + sd) for y, sd in zip(self.y, self.spread, strict=True)]


@dataclass(frozen=True)
class Mark:
    """A reference mark on the x axis: a tint from `start` to `end`, or a line at `start`."""

    start: float
    end: float | None = None


@dataclass(frozen=True)
class View:
    """What one position of the switches shows: some series, and other axes or marks."""

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
    y : one axis for each pane, from the top; all share the x axis.
    right : a second scale for the first pane, on its right side.
    views : by positions of the switches, joined by "|"; the first is shown first.
    labels : (x, words) above the first pane.
    horizontal : bars lie on their side; `x` is the axis of their names.
    stacked : bars of one name stand on each other instead of side by side.
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
    """A sentence of the caption; with `at` it is shown only while a switch stands there."""

    text: str
    at: str = ""


@dataclass(frozen=True)
class Switch:
    """A choice that sets one part of the chart's view; options are (value, words)."""

    name: str
    label: str
    options: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Key:
    """One entry of a legend; `shape` is a class of the style sheet: of a line, or "tile" and a
    pattern."""

    name: str
    colour: str
    shape: str = ""
    meaning: str = ""

    @property
    def filled(self) -> bool:
        """Whether it stands for an area, not for a line."""
        return not self.shape or self.shape.startswith("tile")


@dataclass(frozen=True)
class Panel:
    """A chart with title, caption, switches and legend. `samples`: how many samples there are of
    each run, and how far they spread. `apart`: on the Bench it stands beside those of other drives
    instead of under them. `result`: the result in a sentence, for readers who do not see the chart.
    `who`: the drives in it, if they are not all drives of the page."""

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
        """What stands for the picture: its title and its result."""
        return f"{self.title}: {self.result or self.samples}".rstrip(": ")


def notes(*texts: str) -> tuple[Note, ...]:
    """Sentences that are always shown; empty ones are dropped."""
    return tuple(Note(text) for text in texts if text)


def scale_notes(*scales: tuple[str, str]) -> tuple[Note, ...]:
    """What each position of a switch of scales says of the axis' start; of one scale, always."""
    lone = len(scales) == 1
    return tuple(Note(SCALE_NOTES[name], "" if lone else name) for name, _ in scales)


def spoken(runs: Sequence[Run], texts: Sequence[str]) -> str:
    """A statement for each run, with the run's name where there are several."""
    if len(runs) == 1:
        return texts[0]
    return "; ".join(f"{run.name}: {word}" for run, word in zip(runs, texts, strict=True))


def counted(runs: Sequence[Run], what: Literal["ios", "histogram", "seconds"] = "ios") -> str:
    """How many I/Os each run has, how many its histograms counted, or how many full seconds."""
    texts = []
    for phases in (run.measured.phases for run in runs):
        if what == "seconds":
            total = sum(phase.step.rate.n for phase in phases if phase.step.rate)
        elif what == "ios":
            total = sum(phase.step.total_ios for phase in phases)
        else:
            total = sum(phase.histogram.total for phase in phases)
        texts.append(f"n = {total:,} {'samples of 1 s' if what == 'seconds' else 'I/Os'}")
    return spoken(runs, texts)


DASHES: tuple[Dash, ...] = ("solid", "dash", "dot")
"""Of lines without points, in turn: told apart without colours."""


def shape_of(place: int) -> Literal["circle", "square", "diamond", "triangle"]:
    """The symbol of the series at this place: told apart from its neighbours without colours."""
    return ("circle", "square", "diamond", "triangle")[place % 4]


BAR_PATTERNS = ("plain", "rising", "dots", "falling", "level", "grid")
"""Of bars beside each other, in turn."""


def run_key(runs: Sequence[Run], *, points: bool = False) -> tuple[Key, ...]:
    """The runs' colours and dashes, with the symbols of their points."""
    looks = [
        f"line {dash}" + (f" {shape_of(at)}" if points else "")
        for at, dash in zip(range(len(runs)), cycle(DASHES), strict=False)
    ]
    return tuple(Key(run.name, run.colour, look) for run, look in zip(runs, looks, strict=True))


def from_zero(*highest: float) -> Limits:
    """From zero to a little above the highest value."""
    return 0, max([*highest, 1e-9]) * HEADROOM


def log_limits(lowest: float, highest: float) -> Limits:
    """Limits of a logarithmic axis, with a little room on both sides."""
    low = max(lowest, 1e-9)
    high = max(highest, low)
    room = min(max((high / low) ** LOG_ROOM, 10**0.02), 10**0.08)
    return low / room, high * room


def scaled(scale: str, values: Sequence[float], base: Axis, *, room: float = 0.15) -> Axis:
    """An axis for these values: "linear" from zero, "log", or "close" around them."""
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
    form = Axis(base.label, "log" if scale == "log" else "linear", limits)
    return Axis(**{**form.__dict__, "tick_form": base.tick_form})


def depth_axis(depths: Sequence[int]) -> Axis:
    """Queue depths, each doubling at the same distance."""
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
    """Numbers for drawing: five significant digits (a thousandth of a pixel), None for unknown."""
    out: list[float | int | None] = []
    for value in np.asarray(values, dtype=float).tolist():
        if not math.isfinite(value):
            out.append(None)
        else:
            out.append(int(value) if value == int(value) else float(f"{value:.5g}"))
    return out


def categories(chart: Chart, series: Sequence[Series]) -> list[str]:
    """The names on the x axis, in their order."""
    return list(dict.fromkeys([*chart.x.categories, *(str(x) for line in series for x in line.x)]))


def lines_of(text: str, width: int) -> list[str]:
    """A label broken into lines of at most `width` characters; 0 leaves it whole.

    >>> lines_of("Default over-provisioning", 16)
    ['Default over-', 'provisioning']
    """
    return (textwrap.wrap(text, width) if width else [text]) or [""]


def row_height(least: int, names: Sequence[str], width: int) -> int:
    """Pixels that a row needs for its name, which is broken into lines."""
    return max(least, *(22 + 16 * len(lines_of(name, width)) for name in names))


def pane_spans(count: int) -> list[tuple[float, float]]:
    """Where the panes lie, as shares of the height from below: the first as high as two or three
    others, gaps between them for the units.

    >>> pane_spans(1)
    [(0.0, 1.0)]
    """
    lower = count - 1
    share = min(0.25, 0.6 / max(lower, 1))
    height, gap, base = 0.68 * share, 0.32 * share, lower * share
    tops = [base - gap - place * (height + gap) for place in range(lower)]
    return [(base, 1.0), *((max(0.0, top - height), top) for top in tops)]
