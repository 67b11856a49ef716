"""Charts of a digest with fewer digits, and with fewer points where a page must be small.

Every number is rounded to a part of a pixel of its axis, in every view that shows it: no point
moves by half a pixel. A zoom in height would show the steps; charts of drivebay are zoomed in time
alone. Thinned lines keep one point of so many; what lies between is not seen then, and the panel
says so. A cloud of points, whose outliers matter, is always whole.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

Json = dict[str, Any]
STEP_PX = 0.75
"""Rounded values lie at most so far apart."""
WIDTH_PX = 1250
"""A wide chart on a wide window, without its margins."""
MARGINS_PX = 80
"""What a chart's height has above and below its panes."""
DIGITS = 4
"""Of numbers on axes without a length."""
DECADE = 1.0
"""Length of a logarithmic axis whose ends are not given, at least."""


def thinned(panel: Json, most: int) -> Json:
    """An encoded panel (`render_page.encoded`) with at most `most` points in each line and area;
    clouds of points, outlines and bars are whole."""
    chart = dict(panel["chart"])
    steps = [_step(trace, most) for trace in chart["traces"]]
    every = max(steps, default=1)
    chart["traces"] = [_kept(*both) for both in zip(chart["traces"], steps, strict=True)]
    clouds = any(_cloud(trace) for trace in chart["traces"])
    what = "1 point of" if not clouds else "lines with 1 point of"
    words = f"{panel['samples']}; {what} {every} drawn" if every > 1 else panel["samples"]
    return {**panel, "samples": words, "chart": chart}


def _cloud(trace: Json) -> bool:
    return trace.get("mode") == "markers"


def _step(trace: Json, most: int) -> int:
    whole = trace["type"] == "bar" or trace.get("fill") == "toself" or _cloud(trace)
    return 1 if whole else max(1, math.ceil(len(trace["y"]) / most))


def _kept(trace: Json, step: int) -> Json:
    """A trace with one point of `step`."""
    count = len(trace["y"])
    out = {
        name: part[::step] if isinstance(part, list | tuple) and len(part) == count else part
        for name, part in trace.items()
    }
    return {**out, "dx": trace["dx"] * step} if "dx" in trace else out


def rounded(panel: Json) -> Json:
    """An encoded panel with no more digits than its axes show; without its table of data."""
    chart = {name: part for name, part in panel["chart"].items() if name != "data"}
    chart["traces"] = [_rounded(chart, at, trace) for at, trace in enumerate(chart["traces"])]
    return {**panel, "chart": chart}


def _rounded(chart: Json, at: int, trace: Json) -> Json:
    out = dict(trace)
    for way in ("x", "y"):
        values = trace.get(way)
        if values and not any(isinstance(one, str) for one in values):
            known = [one for one in values if one is not None]
            steps = _steps(chart, at, way, known)
            out[way] = [_round(one, steps) for one in values]
    return out


def _steps(chart: Json, at: int, way: str, known: Sequence[float]) -> tuple[float, float]:
    """What a value is rounded to on the axis of a trace: at most so much, and at most this share
    of itself; infinite where no view asks for it."""
    axis = f"{way}axis{chart['traces'][at].get(f'{way}axis', way)[1:]}"
    base = chart["layout"].get(axis, {})
    low, high = base.get("domain", (0, 1))
    height = (chart["height"] - MARGINS_PX) * (high - low)
    steps = (WIDTH_PX if way == "x" else height) / STEP_PX
    shown = [one["layout"] for one in chart["views"].values() if one.get("show", {at: True})[at]]
    flat, share = math.inf, math.inf
    for view in shown or [{}]:
        ends = view.get(f"{axis}.range", base.get("range"))
        if view.get(f"{axis}.type", base.get("type")) == "log":
            decades = max(ends[1] - ends[0] if ends else 0, DECADE)
            share = min(share, 10 ** (decades / steps) - 1)
        elif ends or known:
            seen = [*known, *_included(base)]
            low, high = ends or (min(seen), max(seen))
            flat = min(flat, (high - low) / steps or math.inf)
    return flat, share


def _included(axis: Json) -> list[float]:
    """What an axis without given ends reaches beside its data."""
    if axis.get("rangemode") == "tozero":
        return [0]
    return list(filter(None, [axis.get("autorangeoptions", {}).get("include")]))


def _round(value: float | None, steps: tuple[float, float]) -> float | int | None:
    if not value:
        return value
    step = min(steps[0], abs(value) * steps[1])
    if math.isinf(step):
        value = float(f"{value:.{DIGITS}g}")
    else:
        power = 10.0 ** math.floor(math.log10(step))
        step = next(power * part for part in (5, 2, 1) if power * part <= step * (1 + 1e-9))
        value = float(f"{round(value / step) * step:.12g}")
    return int(value) if value.is_integer() else value
