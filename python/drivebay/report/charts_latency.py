"""Charts of latency: by queue depth, and how the latencies of each phase are spread.

A percentile is drawn as the histogram gives it (at most 1.6 % too high); one that rests on too few
I/Os is left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from drivebay.analysis import latency
from drivebay.analysis.figures import PhaseFigures
from drivebay.analysis.ladder import Step
from drivebay.report.charts import (
    Chart,
    Json,
    depth_axis,
    from_zero,
    log_range,
    rounded,
    row_height,
    unit_label,
    wrapped,
)
from drivebay.report.entries import Run, by_drive, labelled, phase_name
from drivebay.report.markup import chart_text
from drivebay.report.words import latency as latency_words

MEAN = "mean"
SHADES = {50.0: "@p1", 99.0: "@p2", 99.9: "@p3", 99.99: "@p4"}
LABEL_ROOM = 0.17  # of the axis: what a percentile's name needs in the narrowest chart
TAIL_FLOOR_PERCENT = 1e-4


def depth_latency(chart_id: str, runs: Sequence[Run]) -> Chart:
    """Mean and percentiles over the queue depth; for several drives one of them at a time.

    Views: "log", "linear" for one run; "KEY|log", "KEY|linear" for several, KEY "mean", "p50"...
    """
    chart = Chart(chart_id, 340)
    keys: list[tuple[str, float | None]] = [(MEAN, None)]
    keys += [(f"p{q:g}", q) for q in latency.PERCENTILES]
    values: dict[str, list[float]] = {key: [] for key, _ in keys}
    for key, q in keys:
        for run in runs:
            steps = run.measured.steps
            points = [_latency_ms(step, q) for step in steps]
            values[key] += [point for point in points if point is not None]
            single = not by_drive(runs)
            colour = ("@ink" if q is None else SHADES[q]) if single else run.colour
            chart.traces.append(
                {
                    "type": "scatter",
                    "mode": "lines+markers",
                    "name": key if single else chart_text(run.name),
                    "x": [step.queue_depth for step in steps],
                    "y": rounded([np.nan if point is None else point for point in points]),
                    "line": {
                        "color": colour,
                        "width": 2,
                        "dash": "dot" if single and q is None else "solid",
                    },
                    "marker": {"color": colour, "size": 6},
                    "meta": f"{key} ms",
                    "hovertemplate": f"QD %{{x}}, {key}: %{{y:,.4~g}} ms",
                }
            )
    groups = [("", list(values))] if not by_drive(runs) else [(f"{key}|", [key]) for key in values]
    for prefix, members in groups:
        found = [value for key in members for value in values[key]] or [1.0]
        shown = [
            place * len(runs) + offset
            for place, key in enumerate(values)
            for offset in range(len(runs))
            if key in members
        ]
        for kind, limits in (
            ("log", log_range(min(found), max(found))),
            ("linear", from_zero(max(found))),
        ):
            near = kind == "log" and limits[1] - limits[0] < 0.8
            tick = None if kind == "linear" else "D1" if near else "D2"
            chart.add_view(
                f"{prefix}{kind}",
                shown,
                yaxis__type=kind,
                yaxis__range=limits,
                yaxis__dtick=tick,
            )
    chart.layout = {
        "xaxis": depth_axis([step.queue_depth for run in runs for step in run.measured.steps]),
        "yaxis": {"tickformat": "~g"},
        "annotations": [unit_label("ms")],
    }
    return chart


def _latency_ms(step: Step, q: float | None) -> float | None:
    us = step.latency_mean_us if q is None else step.percentiles_us[q]
    return None if us is None else us / 1e3


def distribution(chart_id: str, runs: Sequence[Run]) -> Chart | None:
    """How the latencies are spread, one row per phase, each as high as its own peak.

    Views: "log", where height is the logarithm of the count, and "share".
    """
    rows = [(run, name, phase) for run, name, phase in labelled(runs) if phase.histogram.total]
    if not rows:
        return None
    chart = Chart(chart_id, 70 + row_height(46, [name for _, name, _ in rows]) * len(rows))
    low = min(int(phase.histogram.low_ns[0]) for _, _, phase in rows)
    high = max(int(phase.histogram.high_ns[-1]) for _, _, phase in rows)
    limits = log_range(max(low, 1) / 1e6, high / 1e6)
    for logarithmic in (True, False):
        for place, (run, _, phase) in enumerate(reversed(rows)):
            x, y = _outline(phase.histogram, place, logarithmic=logarithmic)
            chart.traces.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "x": rounded(x),
                    "y": rounded(y),
                    "fill": "toself",
                    "line": {"color": run.colour, "width": 1},
                    "hoverinfo": "skip",
                }
            )
    chart.data = [["load", "from_ns", "below_ns", "ios"]]
    for _, name, phase in rows:
        bins = latency.for_drawing(phase.histogram)
        edges = (bins.low_ns.tolist(), bins.high_ns.tolist(), bins.count.tolist())
        chart.data += [[name, *one] for one in zip(*edges, strict=True)]
    width = limits[1] - limits[0]
    marks = [_ticks(phase, place, width) for place, (_, _, phase) in enumerate(reversed(rows))]
    chart.traces += marks
    n = len(rows)
    chart.add_view("log", [*range(n), *range(2 * n, 3 * n)])
    chart.add_view("share", range(n, 3 * n))
    chart.layout = {
        "xaxis": {
            "type": "log",
            "range": limits,
            "title": {"text": "latency in ms, logarithmic"},
            "tickformat": "~g",
            "dtick": 1 if width > 3.5 else "D2",
        },
        "yaxis": {
            "range": [-0.3, n - 0.02],
            "tickvals": list(range(n)),
            "ticktext": [wrapped(name) for _, name, _ in reversed(rows)],
            "automargin": True,
            "showgrid": False,
            "zeroline": False,
        },
        "margin": {"t": 10},
    }
    return chart


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


def _ticks(phase: PhaseFigures, base: int, width: float) -> Json:
    """Marks at the percentiles; they name themselves where there is room, and when pointed at.

    `width` is how many powers of ten the axis spans.
    """
    known = [(q, us) for q, us in phase.step.percentiles_us.items() if us is not None]
    names: list[str] = []
    free_from = -np.inf
    for q, us in known:
        place = np.log10(us)
        names.append(f"p{q:g}" if place >= free_from else "")
        free_from = place + width * LABEL_ROOM if names[-1] else free_from
    return {
        "type": "scatter",
        "mode": "markers+text",
        "x": rounded([us / 1e3 for _, us in known]),
        "y": [base + 0.06] * len(known),
        "text": names,
        "customdata": [f"p{q:g}: {latency_words(us)}" for q, us in known],
        "textposition": "top center",
        "textfont": {"size": 11, "color": "@muted"},
        "hovertemplate": "%{customdata}",
        "marker": {
            "symbol": "line-ns",
            "size": 11,
            "color": "@ink",
            "line": {"width": 2, "color": "@ink"},
        },
    }


def tail(chart_id: str, runs: Sequence[Run]) -> Chart | None:
    """The share of I/Os that took longer than each latency, one phase at a time.

    Views: one for each phase's name.
    """
    names = list(dict.fromkeys(phase_name(run, p) for run in runs for p in run.measured.phases))
    rows = [
        (run, phase_name(run, phase), phase)
        for run in runs
        for phase in run.measured.phases
        if phase.histogram.total
    ]
    if not rows:
        return None
    chart = Chart(chart_id, 320)
    for run, name, phase in rows:
        drawn = latency.for_drawing(phase.histogram)
        # From all of them, before the fastest, down to none, after the slowest.
        edges = np.concatenate([drawn.low_ns[:1], drawn.high_ns]) / 1e6
        slower = np.concatenate([[100.0], latency.slower_percent(drawn)])
        slower[-1] = TAIL_FLOOR_PERCENT
        chart.traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": chart_text(run.name or name),
                "x": rounded(edges),
                "y": rounded(slower),
                "line": {"color": run.colour, "width": 2, "shape": "hv"},
                "hovertemplate": "%{y:.3~g} % slower than %{x:,.4~g} ms",
            }
        )
    low = min(int(phase.histogram.low_ns[0]) for _, _, phase in rows)
    high = max(int(phase.histogram.high_ns[-1]) for _, _, phase in rows)
    for name in names:
        shown = [place for place, row in enumerate(rows) if row[1] == name]
        chart.add_view(name, shown)
    chart.layout = {
        "xaxis": {
            "type": "log",
            "range": log_range(max(low, 1) / 1e6, high / 1e6),
            "title": {"text": "latency in ms, logarithmic"},
            "tickformat": "~g",
            "dtick": "D2" if high < 3000 * low else 1,
        },
        "yaxis": {
            "type": "log",
            "range": log_range(TAIL_FLOOR_PERCENT, 100),
            "tickformat": "~g",
            "dtick": 1,
        },
        "annotations": [unit_label("% of I/Os slower, logarithmic")],
    }
    return chart
