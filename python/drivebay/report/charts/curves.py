"""Curves and grouped bars: one value over queue depth, block size, mix, round or load.

A lone run shows all its groups, each in a colour of its own. Runs of several drives, and those that
the Bench lays over each other, keep their drive's colour, and a switch chooses the group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle

from drivebay.report.charts import model
from drivebay.report.charts.model import Axis, Chart, Key, Panel, Series, Switch, View
from drivebay.report.runs import Run, by_drive
from drivebay.report.theme import SERIES

Interval = tuple[float, float]

COLOURS = (*SERIES, "@muted", "@heat")
BOTH = (model.LINEAR, model.LOG)
LOG_FIRST = (model.LOG, model.LINEAR)
BAND = "Band: 90 % interval, as far as the drive's parameters are known."
WHISKERS = "Whiskers: 90 % interval, as far as the drive's parameters are known."
DEVIATION = "Whiskers: standard deviation of the samples."


@dataclass(frozen=True)
class Group:
    """Values that belong together; `marks` draws a mark at each. Without a colour of its own it has
    the next one of the series. `band` holds each value's interval, None where none is known: behind
    a line it is a band, on bars without a `spread` it is their whiskers."""

    name: str
    x: Sequence[float | str]
    y: Sequence[float]
    spread: Sequence[float] | None = None
    dash: model.Dash = "solid"
    marks: bool = True
    colour: str = ""
    notes: Sequence[str] = ()
    band: Sequence[Interval | None] = ()


def curves(
    chart_id: str,
    found: Sequence[Run],
    of: Callable[[Run], Sequence[Group]],
    *,
    title: str,
    unit: str,
    x: Axis,
    samples: str,
    notes: Sequence[str] = (),
    lead: str = "",
    scales: Sequence[tuple[str, str]] = (model.LINEAR,),
    y: Axis | None = None,
    right: Axis | None = None,
    bars: bool = False,
    steps: bool = False,
    choose: bool = True,
    choice: str = "Show",
    hover: str = "",
    height: int = 340,
    wide: bool = False,
) -> Panel:
    """The groups of every run over one axis.

    Parameters
    ----------
    scales : of the y axis; a switch chooses where there are several.
    y : the y axis, where it is not to be fitted to the values.
    choose : of several drives one group at a time; without it all groups are shown, in the
        drives' colours.
    """
    drives = by_drive(found)
    by_run = drives or not choose
    groups = [(run, group) for run in found for group in of(run)]
    names = list(dict.fromkeys(group.name for _, group in groups))
    own = {group.name: group.colour for _, group in groups}
    colours = {name: own[name] or COLOURS[place % len(COLOURS)] for place, name in enumerate(names)}
    known = [(run.name, run.colour) for run in found] if by_run else list(colours.items())
    shapes = {name: model.shape_of(at) for at, (name, _) in enumerate(known)}
    patterns = dict(zip(shapes, cycle(model.BAR_PATTERNS), strict=False))
    series = tuple(
        Series(
            "bar" if bars else "line",
            group.x,
            group.y,
            run.name,
            group.name,
            unit.partition(",")[0],
            run.colour if by_run else colours[group.name],
            spread=group.spread,
            ends=group.band if bars and group.spread is None else (),
            dash=group.dash if not drives or not choose else "solid",
            steps=steps,
            marker=7 if group.marks else 0,
            symbol="circle" if drives else shapes[run.name if by_run else group.name],
            pattern=patterns[run.name if by_run else group.name] if bars else "plain",
            notes=group.notes,
            hover=hover or ("{group}, " if group.name else "") + "{x}: {y} {unit}",
        )
        for run, group in groups
    )
    banded = [
        (at, _band(series[at], group.band))
        for at, (_, group) in enumerate(groups)
        if any(group.band) and not bars
    ]
    behind = tuple(one for _, one in banded)
    chosen = choose and drives and len(names) > 1
    base = Axis(unit, tick_form="si" if unit == "IOPS" else "plain")
    views = {}
    for part in names if chosen else [""]:
        shown = [at for at, (_, group) in enumerate(groups) if part in ("", group.name)]
        tops = [value for at in shown for value in _extent(series[at])]
        tops += [value for at, one in banded if at in shown for value in one.y]
        for scale, _ in scales:
            key = "|".join([part] * chosen + [scale] * (len(scales) > 1))
            axis = y or model.scaled(scale, tops, base)
            bands = [place for place, (at, _) in enumerate(banded) if at in shown]
            views[key] = View((*bands, *(at + len(banded) for at in shown)), y=axis)
    switches = []
    if chosen:
        switches.append(Switch("group", choice, tuple((name, name) for name in names)))
    if len(scales) > 1:
        switches.append(Switch("axis", "Axis", tuple(scales)))
    first = next(iter(views.values())).y or base
    whole = (*behind, *series)
    chart = Chart(chart_id, height, whole, x, (first,), right, views if switches else {})
    dotted = {group.name for _, group in groups if group.dash == "dot"}
    keys = [
        Key(
            name,
            colour,
            f"tile {patterns[name]}"
            if bars
            else f"line {shapes[name]}{' dotted' * (name in dotted)}",
        )
        for name, colour in known
    ]
    return Panel(
        title,
        chart,
        samples,
        (
            *(model.scale_notes(*scales) if y is None else ()),
            *model.notes(*notes, BAND if behind else ""),
            *model.notes(WHISKERS if any(any(one.ends) for one in series) else ""),
        ),
        lead,
        tuple(switches),
        tuple(keys),
        wide,
    )


def _band(line: Series, ends: Sequence[Interval | None]) -> Series:
    """The outline of the intervals around a line: their upper ends, then back their lower ones."""
    known = [(x, one) for x, one in zip(line.x, ends, strict=True) if one is not None]
    x = [place for place, _ in known]
    high, low = [one[1] for _, one in known], [one[0] for _, one in known]
    return Series(
        "band",
        [*x, *reversed(x)],
        [*high, *reversed(low)],
        line.name,
        line.group,
        line.unit,
        line.colour,
        width=0,
        hover="",
    )


def _extent(series: Series) -> list[float]:
    """The known values and the upper ends of their whiskers."""
    known = [value for value in series.y if value == value]
    return known + [high for _, high in series.whiskers if high == high]
