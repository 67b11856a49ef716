"""Charts of how latencies are spread: a row for each load, or the share slower than each latency.

A percentile is drawn as the histogram gives it (at most 1.6 % too high); one that rests on too few
I/Os is left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from drivebay.analysis import latency
from drivebay.analysis.figures import PhaseFigures
from drivebay.report.charts import model
from drivebay.report.charts.curves import Group, curves
from drivebay.report.charts.model import Axis, Chart, Note, Panel, Series, Switch, View
from drivebay.report.charts.stages import stages
from drivebay.report.runs import SELF, Run, labelled, phase_name
from drivebay.report.text import latency as latency_words

LABEL_ROOM = 0.17
"""What a percentile's name needs in the narrowest chart, as a share of the axis."""
TAIL_FLOOR_PERCENT = 1e-4
WRAP = 16
TITLE = "latency in ms, logarithmic"


def inside(prefix: str, found: Sequence[Run]) -> list[Panel]:
    """How latencies are spread and, for virtual drives, where the time went."""
    where = stages(prefix, found)
    if any(run.colour == SELF for run in found):
        return _tail(f"{prefix}-tail", found) + where
    return _distribution(f"{prefix}-spread", found, wide=not where) + where


def _limits(phases: Sequence[PhaseFigures]) -> model.Limits:
    low = min(int(phase.histogram.low_ns[0]) for phase in phases)
    high = max(int(phase.histogram.high_ns[-1]) for phase in phases)
    return model.log_limits(max(low, 1) / 1e6, high / 1e6)


def _distribution(chart_id: str, found: Sequence[Run], *, wide: bool) -> list[Panel]:
    """One row per load, each as high as its own peak, marks at the percentiles."""
    rows = [(run, name, phase) for run, name, phase in labelled(found) if phase.histogram.total]
    if not rows:
        return []
    limits = _limits([phase for _, _, phase in rows])
    places = list(enumerate(reversed(rows)))
    series = []
    for logarithmic in (True, False):
        for place, (run, _, phase) in places:
            x, y = _outline(phase.histogram, place, logarithmic=logarithmic)
            series.append(Series("histogram", x, y, colour=run.colour, width=1, hover=""))
    decades = math.log10(limits[1] / limits[0])
    series += [_percentiles(phase, place, decades) for place, (_, _, phase) in places]
    n = len(rows)
    labels = [name for _, name, _ in rows]
    table: list[tuple[object, ...]] = [("load", "from_ns", "below_ns", "ios")]
    for _, name, phase in rows:
        bins = latency.for_drawing(phase.histogram)
        edges = (bins.low_ns.tolist(), bins.high_ns.tolist(), bins.count.tolist())
        table += [(name, *one) for one in zip(*edges, strict=True)]
    chart = Chart(
        chart_id,
        70 + model.row_height(46, labels, WRAP) * n,
        tuple(series),
        Axis(TITLE, "log", limits),
        (Axis(limits=(-0.3, n - 0.02), ticks=tuple(enumerate(reversed(labels))), wrap=WRAP),),
        views={
            "log": View((*range(n), *range(2 * n, 3 * n))),
            "share": View(tuple(range(n, 3 * n))),
        },
        table=tuple(table),
    )
    return [
        Panel(
            "Distribution of latency",
            chart,
            model.counted(found, "histogram"),
            (
                Note("Height is the logarithm of the count, so that rare I/Os are seen.", "log"),
                Note("Height is the share of I/Os.", "share"),
                Note("The latency axis is logarithmic and does not start at zero."),
            ),
            "Each row is as high as its own peak; marks at p50, p99, p99.9 and p99.99.",
            (Switch("height", "Height", (("log", "Log count"), ("share", "Share"))),),
            wide=wide,
        )
    ]


def _outline(
    histogram: latency.Histogram, base: int, *, logarithmic: bool
) -> tuple[list[float], list[float]]:
    """The corners of a histogram's steps on a logarithmic axis, from `base` to 0.9 above it."""
    drawn = latency.for_drawing(histogram)
    low = np.maximum(drawn.low_ns, 1) / 1e6
    high = np.maximum(drawn.high_ns, 2) / 1e6
    weight = np.log10(1 + drawn.count) if logarithmic else drawn.count / np.log2(high / low)
    height = base + 0.9 * weight / weight.max()
    x, y = [float(low[0])], [float(base)]
    for place in range(len(low)):
        if place and low[place] > high[place - 1]:  # a gap in which nothing was counted
            x += [float(high[place - 1]), float(low[place])]
            y += [float(base), float(base)]
        x += [float(low[place]), float(high[place])]
        y += [float(height[place])] * 2
    return [*x, float(high[-1])], [*y, float(base)]


def _percentiles(phase: PhaseFigures, base: int, decades: float) -> Series:
    """Marks at the percentiles; they name themselves where there is room, and when pointed at."""
    known = [(q, us) for q, us in phase.step.percentiles_us.items() if us is not None]
    names: list[str] = []
    free_from = -math.inf
    for q, us in known:
        place = math.log10(us)
        names.append(f"p{q:g}" if place >= free_from else "")
        free_from = place + decades * LABEL_ROOM if names[-1] else free_from
    return Series(
        "scatter",
        [us / 1e3 for _, us in known],
        [base + 0.06] * len(known),
        colour="@ink",
        marker=11,
        symbol="tick",
        labels=names,
        notes=[f"p{q:g}: {latency_words(us)}" for q, us in known],
        hover="{note}",
    )


def _tail(chart_id: str, found: Sequence[Run]) -> list[Panel]:
    """The share of I/Os that took longer than each latency, one load at a time."""
    phases = [p for run in found for p in run.measured.phases if p.histogram.total]
    if not phases:
        return []

    def of(run: Run) -> list[Group]:
        groups = []
        for phase in run.measured.phases:
            if not phase.histogram.total:
                continue
            drawn = latency.for_drawing(phase.histogram)
            # From all of them, before the fastest, down to none, after the slowest.
            edges = np.concatenate([drawn.low_ns[:1], drawn.high_ns]) / 1e6
            slower = np.concatenate([[100.0], latency.slower_percent(drawn)])
            slower[-1] = TAIL_FLOOR_PERCENT
            groups.append(
                Group(phase_name(run, phase), edges.tolist(), slower.tolist(), marks=False)
            )
        return groups

    return [
        curves(
            chart_id,
            found,
            of,
            title="I/Os slower than",
            unit="%",
            x=Axis(TITLE, "log", _limits(phases)),
            y=Axis(
                "% of I/Os slower, logarithmic", "log", model.log_limits(TAIL_FLOOR_PERCENT, 100)
            ),
            samples=model.counted(found, "histogram"),
            notes=["Both axes are logarithmic and do not start at zero."],
            lead="The share of I/Os that took longer, from exact counts.",
            steps=True,
            choice="Load",
            hover="{y} % slower than {x} ms",
            height=320,
        )
    ]
