"""Curves and grouped bars: one value by queue depth, block size, mix, round or load.

A single run shows all its groups, each in its own colour. Runs of several drives, and runs that the
Bench overlays, use the colour of their drive, and a switch selects the group.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from itertools import cycle
from typing import Literal

from drivebay.report.base.runs import Run, by_drive
from drivebay.report.base.theme import SERIES
from drivebay.report.charts import model
from drivebay.report.charts.model import Axis, Chart, Key, Panel, Series, Switch, View

Interval = tuple[float, float]

COLOURS = (*SERIES, "@muted", "@heat")
# Axis of phases and other loads with names.
CATEGORIES = Axis(scale="category", wrap=12)
BOTH = (model.LINEAR, model.LOG)
LOG_FIRST = (model.LOG, model.LINEAR)
BAND = "Band: 90 % interval (parameter uncertainty and known error of the model)."
WHISKERS = "Whiskers: 90 % interval (parameter uncertainty and known error of the model)."
DEVIATION = "Whiskers: standard deviation of the samples."


@dataclass(frozen=True)
class Group:
    """Values of one curve, None if unknown; `marks` draws a mark at each. Without a colour it gets
    the next one of the series. `band` holds the interval of each value, None if unknown: a band
    behind a line, whiskers on bars without a `spread`.
    """

    name: str
    x: Sequence[float | str]
    y: Sequence[float | None]
    spread: Sequence[float] | None = None
    dash: model.Dash = "solid"
    marks: bool = True
    colour: str = ""
    notes: Sequence[str] = ()
    band: Sequence[Interval | None] = ()


@dataclass(frozen=True)
class Curves:
    """Groups of every run over one axis. `scales`: scales of the y axis; with several, a switch
    selects one. `y`: a fixed y axis instead of one that fits the values. `choose`: with several
    drives, a switch selects one group; otherwise all groups are shown in the colours of the
    drives. `samples`: number of samples, of all I/Os if not given.
    """

    chart_id: str
    runs: Sequence[Run]
    groups_of: Callable[[Run], Sequence[Group]]
    _: KW_ONLY
    title: str
    unit: str
    x: Axis = CATEGORIES
    samples: str = ""
    notes: Sequence[str] = ()
    lead: str = ""
    scales: Sequence[tuple[str, str]] = (model.LINEAR,)
    y: Axis | None = None
    right: Axis | None = None
    bars: bool = False
    steps: bool = False
    choose: bool = True
    choice: str = "Show"
    hover: str = ""
    height: int = 340
    wide: bool = False

    def panel(self) -> Panel:
        """Chart with its texts, switches and legend."""
        lines = tuple(self._series(run, group) for run, group in self._groups)
        bands = {
            at: _band(lines[at], group.band)
            for at, (_, group) in enumerate(self._groups)
            if any(group.band) and not self.bars
        }
        views = self._views(lines, bands)
        first = next(iter(views.values())).y or self._axis
        switches = self._switches()
        whole = (*bands.values(), *lines)
        shown = views if switches else {}
        chart = Chart(self.chart_id, self.height, whole, self.x, (first,), self.right, shown)
        notes = (
            *(model.scale_notes(*self.scales) if self.y is None else ()),
            *model.notes(*self.notes, BAND if bands else ""),
            *model.notes(WHISKERS if any(any(line.ends) for line in lines) else ""),
        )
        samples = self.samples or model.counted(self.runs)
        return Panel(
            self.title, chart, samples, notes, self.lead, switches, self._keys(), self.wide
        )

    @cached_property
    def _groups(self) -> list[tuple[Run, Group]]:
        return [(run, group) for run in self.runs for group in self.groups_of(run)]

    @cached_property
    def _names(self) -> list[str]:
        return list(dict.fromkeys(group.name for _, group in self._groups))

    @cached_property
    def _drives(self) -> bool:
        return by_drive(self.runs)

    @cached_property
    def _by_run(self) -> bool:
        """True if colours and shapes distinguish runs instead of groups."""
        return self._drives or not self.choose

    @cached_property
    def _chosen(self) -> bool:
        """True if a switch selects the group."""
        return self.choose and self._drives and len(self._names) > 1

    @cached_property
    def _colours(self) -> dict[str, str]:
        """Colour of each run or group, by its name."""
        if self._by_run:
            return {run.name: run.colour for run in self.runs}
        own = {group.name: group.colour for _, group in self._groups}
        named = enumerate(self._names)
        return {name: own[name] or COLOURS[place % len(COLOURS)] for place, name in named}

    @cached_property
    def _shapes(self) -> dict[str, Literal["circle", "square", "diamond", "triangle"]]:
        return {name: model.shape_of(at) for at, name in enumerate(self._colours)}

    @cached_property
    def _patterns(self) -> dict[str, str]:
        return dict(zip(self._colours, cycle(model.BAR_PATTERNS), strict=False))

    @cached_property
    def _axis(self) -> Axis:
        return Axis(self.unit, tick_form="si" if self.unit == "IOPS" else "plain")

    def _series(self, run: Run, group: Group) -> Series:
        name = run.name if self._by_run else group.name
        own_dash = not self._drives or not self.choose
        return Series(
            "bar" if self.bars else "line",
            group.x,
            [math.nan if y is None else y for y in group.y],
            run.name,
            group.name,
            self.unit.partition(",")[0],
            self._colours[name],
            spread=group.spread,
            ends=group.band if self.bars and group.spread is None else (),
            dash=group.dash if own_dash else "solid",
            steps=self.steps,
            marker=7 if group.marks else 0,
            symbol="circle" if self._drives else self._shapes[name],
            pattern=self._patterns[name] if self.bars else "plain",
            notes=group.notes,
            hover=self.hover or ("{group}, " if group.name else "") + "{x}: {y} {unit}",
        )

    def _views(self, lines: Sequence[Series], bands: dict[int, Series]) -> dict[str, View]:
        """View for each position of the switches."""
        views = {}
        for part in self._names if self._chosen else [""]:
            groups = enumerate(self._groups)
            shown = [at for at, (_, group) in groups if part in ("", group.name)]
            tops = [value for at in shown for value in _extent(lines[at])]
            tops += [value for at, band in bands.items() if at in shown for value in band.y]
            behind = [place for place, at in enumerate(bands) if at in shown]
            for scale, _ in self.scales:
                key = "|".join([part] * self._chosen + [scale] * (len(self.scales) > 1))
                axis = self.y or model.scaled(scale, tops, self._axis)
                views[key] = View((*behind, *(at + len(bands) for at in shown)), y=axis)
        return views

    def _switches(self) -> tuple[Switch, ...]:
        groups = tuple((name, name) for name in self._names)
        group = (Switch("group", self.choice, groups),) if self._chosen else ()
        axis = (Switch("axis", "Axis", tuple(self.scales)),) if len(self.scales) > 1 else ()
        return (*group, *axis)

    def _keys(self) -> tuple[Key, ...]:
        dotted = {group.name for _, group in self._groups if group.dash == "dot"}

        def mark(name: str) -> str:
            if self.bars:
                return f"tile {self._patterns[name]}"
            return f"line {self._shapes[name]}{' dotted' * (name in dotted)}"

        return tuple(Key(name, colour, mark(name)) for name, colour in self._colours.items())


def _band(line: Series, ends: Sequence[Interval | None]) -> Series:
    """Outline of the intervals around a line: upper ends, then lower ends in reverse order."""
    known = [
        (x, interval) for x, interval in zip(line.x, ends, strict=True) if interval is not None
    ]
    x = [place for place, _ in known]
    high, low = [interval[1] for _, interval in known], [interval[0] for _, interval in known]
    x, y = [*x, *reversed(x)], [*high, *reversed(low)]
    return Series("band", x, y, line.name, line.group, line.unit, line.colour, width=0, hover="")


def _extent(series: Series) -> list[float]:
    """Known values and the upper ends of their whiskers."""
    known = [value for value in series.y if value == value]
    return known + [high for _, high in series.whiskers if high == high]
