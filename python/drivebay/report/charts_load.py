"""Charts over load: rate, latency and stages by queue depth, and the distribution of latencies.

A percentile is drawn as the histogram gives it (at most 1.6 % too high); one that rests on too few
I/Os is left out. Error bars are the standard deviation of the 1 s samples.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from drivebay.analysis import latency
from drivebay.analysis.ladder import Step
from drivebay.analysis.measure import PhaseFigures
from drivebay.report.charts import (
    Chart,
    Json,
    depth_axis,
    from_zero,
    log_range,
    rounded,
    unit_label,
    wrapped,
)
from drivebay.report.entries import Run
from drivebay.report.markup import chart_text
from drivebay.report.themes import STAGES
from drivebay.report.words import latency as latency_words
from drivebay.report.words import number

MEAN = "mean"
SHADES = {50.0: "@p1", 99.0: "@p2", 99.9: "@p3", 99.99: "@p4"}
OTHER_STAGE = "#77716a"
LABEL_ROOM = 0.17  # of the axis: what a percentile's name needs in the narrowest chart


def rate(chart_id: str, runs: Sequence[Run]) -> Chart:
    """Data rate over the queue depth, with IOPS on the right where all blocks are of one size."""
    chart = Chart(chart_id, 340)
    blocks = {phase.workload.block_bytes for run in runs for phase in run.measured.phases}
    for run in runs:
        steps = run.measured.steps
        deviations = [step.rate.sd if step.rate and step.rate.sd else 0.0 for step in steps]
        chart.traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": chart_text(run.name),
                "x": [step.queue_depth for step in steps],
                "y": rounded([step.rate_mb_s for step in steps]),
                "customdata": [number(step.iops) for step in steps],
                "error_y": {
                    "type": "data",
                    "array": rounded(deviations),
                    "thickness": 1,
                    "width": 3,
                    "color": run.colour,
                },
                "line": {"color": run.colour, "width": 2},
                "marker": {"color": run.colour, "size": 7},
                "hovertemplate": "QD %{x}: %{y:,.5~g} MB/s, %{customdata} IOPS",
            }
        )
    every = [step for run in runs for step in run.measured.steps]
    highest = [step.rate_mb_s + (step.rate.sd or 0 if step.rate else 0) for step in every]
    top = from_zero(*highest)
    chart.layout = {
        "xaxis": depth_axis([step.queue_depth for step in every]),
        "yaxis": {"range": top},
        "annotations": [unit_label("MB/s")],
    }
    if len(blocks) == 1:
        # A second axis needs a trace of its own; this one is never seen.
        chart.traces.append({"type": "scatter", "x": [], "y": [], "yaxis": "y2"})
        chart.layout["annotations"].append(unit_label("IOPS", side="right"))
        chart.layout["yaxis2"] = {
            "range": [0, top[1] * 1e6 / blocks.pop()],
            "overlaying": "y",
            "tickmode": "auto",
            "side": "right",
            "showgrid": False,
            "tickformat": "~s",
        }
    return chart


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
            single = len(runs) == 1
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
                    "hovertemplate": f"QD %{{x}}, {key}: %{{y:,.4~g}} ms",
                }
            )
    groups = [("", list(values))] if len(runs) == 1 else [(f"{key}|", [key]) for key in values]
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


def stages(chart_id: str, runs: Sequence[Run]) -> Chart | None:
    """Where the time went, one bar per phase; views "time" (per I/O), "share". None if unknown."""
    rows = [(name, phase) for _, name, phase in _labelled(runs) if phase.stages]
    if not rows:
        return None
    names = list(
        dict.fromkeys(
            [name for name in STAGES if any(s.stage == name for _, p in rows for s in p.stages)]
            + [s.stage for _, p in rows for s in p.stages]
        )
    )
    chart = Chart(chart_id, 70 + _row_height(34, [name for name, _ in rows]) * len(rows))
    for attribute, unit in (("mean_us", "µs"), ("share_percent", "%")):
        for name in names:
            lengths = [
                next((getattr(s, attribute) for s in p.stages if s.stage == name), 0.0)
                for _, p in rows
            ]
            chart.traces.append(
                {
                    "type": "bar",
                    "orientation": "h",
                    "name": chart_text(name),
                    "y": [wrapped(label) for label, _ in rows],
                    "x": rounded(lengths),
                    "marker": {"color": STAGES.get(name, OTHER_STAGE), "line": {"width": 0}},
                    "hovertemplate": f"{chart_text(name)}: %{{x:,.4~g}} {unit}",
                }
            )
    longest = max(sum(s.mean_us for s in p.stages) for _, p in rows)
    for view, first, limits, label in (
        ("time", 0, from_zero(longest), "µs per I/O"),
        ("share", len(names), [0, 100], "% of the time"),
    ):
        shown = range(first, first + len(names))
        chart.add_view(view, shown, xaxis__range=limits, xaxis__title__text=label)
    chart.layout = {
        "barmode": "stack",
        "bargap": 0.3,
        "yaxis": {"type": "category", "autorange": "reversed", "automargin": True},
        "xaxis": {"title": {"text": "µs per I/O"}, "tickformat": ","},
        "margin": {"t": 10},
    }
    return chart


def distribution(chart_id: str, runs: Sequence[Run]) -> Chart | None:
    """How the latencies are spread, one row per phase, each as high as its own peak.

    Views: "log", where height is the logarithm of the count, and "share".
    """
    rows = [(run, name, phase) for run, name, phase in _labelled(runs) if phase.histogram.total]
    if not rows:
        return None
    chart = Chart(chart_id, 70 + _row_height(46, [name for _, name, _ in rows]) * len(rows))
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


def _row_height(least: int, names: Sequence[str]) -> int:
    """Pixels that a row needs for its name, which is broken into lines."""
    return max(least, *(22 + 16 * (1 + wrapped(name).count("<br>")) for name in names))


def _labelled(runs: Sequence[Run]) -> list[tuple[Run, str, PhaseFigures]]:
    """Every phase with its run and its label, equal queue depths next to each other."""
    rows = []
    for run in runs:
        for phase in run.measured.phases:
            depth = f"QD {phase.workload.queue_depth}"
            if len(run.measured.phases) == 1:
                label = run.name if len(runs) > 1 else ""
            else:
                label = depth if len(runs) == 1 else f"{depth} · {run.name}"
            rows.append((run, label, phase))
    if any(len(run.measured.phases) > 1 for run in runs):
        rows.sort(key=lambda row: row[2].workload.queue_depth)
    return rows
