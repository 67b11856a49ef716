"""Charts of a digest with fewer digits.

Every number is rounded to at most a pixel of its axis, in every view that shows it: no point moves
by more than half a pixel. A vertical zoom would show the steps, but drivebay's charts zoom in time
only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

Json = dict[str, Any]
# Maximum distance of neighbouring rounded values.
STEP_PX = 1.0
# Width of a wide chart in a wide window, without its margins.
WIDTH_PX = 1250
# Part of a chart's height above and below its panes.
MARGINS_PX = 80
# Significant digits of numbers on axes without a length.
DIGITS = 4
# Minimum length of a logarithmic axis without given ends.
DECADE = 1.0


def rounded(panel: Json) -> Json:
    """Encoded panel with only the digits that its axes can show."""
    chart = dict(panel["chart"])
    chart["traces"] = [_rounded(chart, at, trace) for at, trace in enumerate(chart["traces"])]
    return {**panel, "chart": chart}


def _rounded(chart: Json, at: int, trace: Json) -> Json:
    out = dict(trace)
    for way in ("x", "y"):
        values = trace.get(way)
        if values and not any(isinstance(value, str) for value in values):
            known = [value for value in values if value is not None]
            steps = _steps(chart, at, way, known)
            out[way] = [_round(value, steps) for value in values]
    return out


def _steps(chart: Json, at: int, way: str, known: Sequence[float]) -> tuple[float, float]:
    """Rounding of a trace's values on an axis: the largest absolute step and the largest share of a
    value; infinite if no view requires it.
    """
    axis = f"{way}axis{chart['traces'][at].get(f'{way}axis', way)[1:]}"
    base = chart["layout"].get(axis, {})
    low, high = base.get("domain", (0, 1))
    height = (chart["height"] - MARGINS_PX) * (high - low)
    steps = (WIDTH_PX if way == "x" else height) / STEP_PX
    shown = [view["layout"] for view in chart["views"].values() if view.get("show", {at: True})[at]]
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
    """Value that an axis without given ends includes in addition to its data."""
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
