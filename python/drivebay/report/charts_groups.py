"""Charts of several groups of points in one test: mixes over sizes or depths, rounds, ages.

A lone run shows all its groups, each in a colour of its own. Runs of several drives, and those that
the Bench lays over each other, keep their drive's colour, and a switch chooses the group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from drivebay.report.charts import Chart, Json, from_zero, log_range, rounded, unit_label
from drivebay.report.entries import Run, by_drive
from drivebay.report.markup import chart_text
from drivebay.report.panels import Switch
from drivebay.report.parts import Key
from drivebay.report.themes import SERIES

AXES = (("linear", "Linear"), ("log", "Log"))
COLOURS = (*SERIES, "@muted", "@heat")


@dataclass(frozen=True)
class Group:
    """Points that belong together. `dash` is Plotly's; `marks` draws the points themselves."""

    name: str
    x: Sequence[float | str]
    y: Sequence[float]
    dash: str = "solid"
    marks: bool = True


Of = Callable[[Run], Sequence[Group]]


def chart(
    chart_id: str,
    found: Sequence[Run],
    of: Of,
    *,
    unit: str,
    axis: Json,
    bars: bool = False,
    log_first: bool = False,
    close: bool = False,
    height: int = 340,
) -> Chart:
    """The groups of every run over one axis; views "linear" and "log" (or "close", an axis around
    the values), behind the group's name where a switch chooses it."""
    out = Chart(chart_id, height)
    names = _names(found, of)
    values: dict[str, list[float]] = {name: [] for name in names}
    numbers: dict[str, list[int]] = {name: [] for name in names}
    for run in found:
        for group in of(run):
            values[group.name] += [value for value in group.y if value == value]
            numbers[group.name].append(len(out.traces))
            colour = run.colour if by_drive(found) else _colour(names, group.name)
            out.traces.append(_trace(run, group, colour, unit, bars=bars))
    for prefix, members in (
        [(f"{name}|", [name]) for name in names] if _chosen(found, of) else [("", names)]
    ):
        some = [value for name in members for value in values[name]]
        shown = [number for name in members for number in numbers[name]]
        for kind, (form, limits) in _ranges(some, close=close).items():
            out.add_view(f"{prefix}{kind}", shown, yaxis__type=form, yaxis__range=limits)
    if log_first:
        out.views = dict(sorted(out.views.items(), key=lambda one: not one[0].endswith("log")))
    out.layout = {
        "xaxis": {"automargin": True, **axis},
        "yaxis": {"tickformat": "~s" if unit == "IOPS" else ",~g"},
        "annotations": [unit_label(unit)],
    }
    if bars:
        out.layout |= {"barmode": "group", "bargap": 0.2}
    return out


def switches(found: Sequence[Run], of: Of, *, log_first: bool = False) -> list[Switch]:
    """The choice of the group, where there is one, and of the axis."""
    axes = tuple(reversed(AXES)) if log_first else AXES
    return [*choice(found, of), Switch("axis", "Axis", axes)]


def choice(found: Sequence[Run], of: Of) -> list[Switch]:
    """The choice of the group, where one group is shown at a time."""
    if not _chosen(found, of):
        return []
    return [Switch("group", "Show", tuple((name, name) for name in _names(found, of)))]


def key(found: Sequence[Run], of: Of) -> list[Key]:
    """What the colours stand for: groups, or drives."""
    if by_drive(found):
        return [Key(run.name, run.colour, "line") for run in found]
    names = _names(found, of)
    return [Key(name, _colour(names, name), "line") for name in names]


def _names(found: Sequence[Run], of: Of) -> list[str]:
    return list(dict.fromkeys(group.name for run in found for group in of(run)))


def _chosen(found: Sequence[Run], of: Of) -> bool:
    return by_drive(found) and len(_names(found, of)) > 1


def _colour(names: Sequence[str], name: str) -> str:
    return COLOURS[list(names).index(name) % len(COLOURS)]


def _trace(run: Run, group: Group, colour: str, unit: str, *, bars: bool) -> Json:
    name = " · ".join(part for part in (chart_text(group.name), chart_text(run.name)) if part)
    trace: Json = {
        "name": name,
        "x": [chart_text(x) if isinstance(x, str) else x for x in group.x],
        "y": rounded(list(group.y)),
        "meta": unit,
        "hovertemplate": f"{chart_text(group.name)}, %{{x}}: %{{y:,.5~g}} {unit}",
    }
    if bars:
        return {**trace, "type": "bar", "marker": {"color": colour, "line": {"width": 0}}}
    return {
        **trace,
        "type": "scatter",
        "mode": "lines+markers" if group.marks else "lines",
        "line": {"color": colour, "width": 2, "dash": group.dash},
        "marker": {"color": colour, "size": 6},
    }


def _ranges(values: Sequence[float], *, close: bool) -> dict[str, tuple[str, list[float]]]:
    high = max(values, default=1.0)
    if close:
        low = min(values, default=0.0)
        room = (high - low) * 0.15 or high * 0.02 or 1.0
        return {"close": ("linear", [max(0.0, low - room), high + room])}
    positive = [value for value in values if value > 0]
    return {
        "linear": ("linear", from_zero(high)),
        "log": ("log", log_range(min(positive, default=1.0), max(high, 1e-9))),
    }
