"""What every chart has in common: its data for Plotly, its views, its axes.

A chart is plain JSON: traces and a layout as Plotly takes them, colours as theme names ("@c1"). A
view is what the page shows for one position of the switches: which traces, and which settings of
the layout. All of it is worked out here; the page only looks views up.
"""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from drivebay.report.markup import chart_text

Json = dict[str, Any]
HEADROOM = 1.06


@dataclass
class Chart:
    """One chart. `views` maps positions of the switches, joined by "|", to a view. `data` is what
    its CSV holds where the traces are outlines: columns' names, then rows."""

    id: str
    height: int
    traces: list[Json] = field(default_factory=list)
    layout: Json = field(default_factory=dict)
    views: dict[str, Json] = field(default_factory=dict)
    data: list[list[Any]] | None = None

    def add_view(self, key: str, shown: Iterable[int] | None = None, **layout: Any) -> None:
        """A view that shows the traces of these numbers; double underscores are dots."""
        settings = {name.replace("__", "."): value for name, value in layout.items()}
        view: Json = {"layout": settings}
        if shown is not None:
            kept = set(shown)
            view["show"] = [number in kept for number in range(len(self.traces))]
        self.views[key] = view

    def encoded(self) -> Json:
        """As the page reads it."""
        out: Json = {
            "traces": self.traces,
            "layout": self.layout,
            "height": self.height,
            "views": self.views,
        }
        return out if self.data is None else {**out, "data": self.data}


def rounded(values: npt.NDArray[Any] | Sequence[float]) -> list[float | int | None]:
    """Numbers for drawing: five significant digits (a thousandth of a pixel), None for unknown."""
    out: list[float | int | None] = []
    for value in np.asarray(values, dtype=float).tolist():
        if not math.isfinite(value):
            out.append(None)
        elif value == int(value):
            out.append(int(value))
        else:
            out.append(float(f"{value:.5g}"))
    return out


def unit_label(text: str, y: float = 1.0, side: str = "left") -> Json:
    """The unit of an axis, written level above its end instead of turned beside it."""
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


def from_zero(*highest: float) -> list[float]:
    """An axis range from zero to a little above the highest value."""
    return [0, max([*highest, 1e-9]) * HEADROOM]


def log_range(lowest: float, highest: float) -> list[float]:
    """A range for a logarithmic axis, in powers of ten, with room on both sides."""
    low = max(lowest, 1e-9)
    return [math.log10(low) - 0.08, math.log10(max(highest, low)) + 0.08]


def depth_axis(depths: Sequence[int]) -> Json:
    """Queue depths, each doubling at the same distance."""
    ticks = sorted(set(depths))
    low, high = math.log10(ticks[0]), math.log10(ticks[-1])
    room = 0.06 * (high - low) or 0.3
    return {
        "type": "log",
        "tickvals": ticks,
        "ticktext": [str(depth) for depth in ticks],
        "range": [low - room, high + room],
        "title": {"text": "queue depth"},
        "minor": {"ticks": ""},
    }


def wrapped(name: str, width: int = 16) -> str:
    """A name for an axis, broken into lines so that it leaves room for the chart.

    >>> wrapped("Default over-provisioning")
    'Default over-<br>provisioning'
    """
    return "<br>".join(chart_text(line) for line in textwrap.wrap(name, width))


def row_height(least: int, names: Sequence[str]) -> int:
    """Pixels that a row needs for its name, which is broken into lines."""
    return max(least, *(22 + 16 * (1 + wrapped(name).count("<br>")) for name in names))


def plain(value: Any) -> Any:
    """Chart text as it is read: line breaks become spaces, escapes their signs."""
    if not isinstance(value, str):
        return value
    return html.unescape(value.replace("<br>", " ")).replace("\u200b", "")


def points(trace: Json) -> tuple[list[Any], list[Any]]:
    """Where a trace's points lie: x, y."""
    y = trace.get("y") or []
    if "x0" in trace:
        return [trace["x0"] + place * trace["dx"] for place in range(len(y))], y
    return trace.get("x") or [], y
