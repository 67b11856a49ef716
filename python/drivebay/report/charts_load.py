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
)
from drivebay.report.entries import Run
from drivebay.report.markup import chart_text
from drivebay.report.themes import STAGES
from drivebay.report.words import latency as latency_words
from drivebay.report.words import number

MEAN = "mean"
SHADES = {50.0: "@p1", 99.0: "@p2", 99.9: "@p3", 99.99: "@p4"}
OTHER_STAGE = "#77716a"


def rate(chart_id: str, runs: Sequence[Run]) -> Chart:
    """Data rate over the queue depth, IOPS on the right: one curve, as the block is the same."""
    chart = Chart(chart_id, 340)
    block = runs[0].measured.phases[0].workload.block_bytes
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
    top = from_zero(*(step.rate_mb_s for run in runs for step in run.measured.steps))
    # A second axis needs a trace of its own; this one is never seen.
    chart.traces.append({"type": "scatter", "x": [], "y": [], "yaxis": "y2", "showlegend": False})
    chart.layout = {
        "xaxis": depth_axis([step.queue_depth for run in runs for step in run.measured.steps]),
        "yaxis": {"range": top},
        "yaxis2": {
            "range": [0, top[1] * 1e6 / block],
            "overlaying": "y",
            "tickmode": "auto",
            "side": "right",
            "showgrid": False,
            "tickformat": "~s",
        },
        "annotations": [unit_label("MB/s"), unit_label("IOPS", side="right")],
        "showlegend": len(runs) > 1,
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
                    "line": {"color": colour, "width": 2, "dash": "dot" if q is None else "solid"},
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
            tick = "D2" if kind == "log" else None
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
        "showlegend": True,
    }
    return chart


def _latency_ms(step: Step, q: float | None) -> float | None:
    us = step.latency_mean_us if q is None else step.percentiles_us[q]
    return None if us is None else us / 1e3


def stages(chart_id: str, runs: Sequence[Run]) -> Chart | None:
    """Where the time went, one bar per phase; views "time" (per I/O), "share". None if unknown."""
    rows = [(name, phase) for name, phase in _phase_rows(runs) if phase.stages]
    if not rows:
        return None
    names = list(
        dict.fromkeys(
            [name for name in STAGES if any(s.stage == name for _, p in rows for s in p.stages)]
            + [s.stage for _, p in rows for s in p.stages]
        )
    )
    chart = Chart(chart_id, 70 + 34 * len(rows))
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
                    "legendgroup": chart_text(name),
                    "y": [chart_text(label) for label, _ in rows],
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
        "showlegend": False,
    }
    return chart


def distribution(chart_id: str, runs: Sequence[Run]) -> Chart | None:
    """How the latencies are spread, one row per phase, each scaled to its own peak."""
    rows = [(name, phase) for name, phase in _phase_rows(runs) if phase.histogram.total]
    if not rows:
        return None
    colours = {name: run.colour for run, name, _ in _labelled(runs)}
    chart = Chart(chart_id, 110 + 46 * len(rows))
    low, high = np.inf, 0.0
    for place, (name, phase) in enumerate(rows):
        base = len(rows) - 1 - place
        x, y = _outline(phase.histogram, base)
        low, high = min(low, x[0]), max(high, x[-1])
        chart.traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": rounded(x),
                "y": rounded(y),
                "fill": "toself",
                "line": {"color": colours[name], "width": 1},
                "hoverinfo": "skip",
                "showlegend": False,
            }
        )
        chart.traces.append(_ticks(phase, base, named=len(rows) <= 2))
    chart.layout = {
        "xaxis": {
            "type": "log",
            "range": log_range(float(low), float(high)),
            "title": {"text": "latency in ms, logarithmic"},
            "tickformat": "~g",
            "dtick": 1 if np.log10(high / max(low, 1e-9)) > 3.5 else "D2",
        },
        "yaxis": {
            "range": [-0.15, len(rows) - 0.02],
            "tickvals": list(range(len(rows))),
            "ticktext": [chart_text(name) for name, _ in reversed(rows)],
            "automargin": True,
            "showgrid": False,
            "zeroline": False,
        },
        "margin": {"t": 10},
        "showlegend": False,
    }
    return chart


def _outline(histogram: latency.Histogram, base: int) -> tuple[np.ndarray, np.ndarray]:
    """The corners of a histogram's steps on a logarithmic axis, from `base` up to at most 0.9."""
    drawn = latency.for_drawing(histogram)
    low = np.maximum(drawn.low_ns, 1) / 1e6
    high = np.maximum(drawn.high_ns, 2) / 1e6
    density = drawn.count / np.log2(high / low)
    height = base + 0.9 * density / density.max()
    x, y = [low[0]], [float(base)]
    for place in range(len(low)):
        if place and low[place] > high[place - 1]:  # a gap in which nothing was counted
            x += [high[place - 1], low[place]]
            y += [float(base), float(base)]
        x += [low[place], high[place]]
        y += [height[place], height[place]]
    return np.array([*x, high[-1]]), np.array([*y, float(base)])


def _ticks(phase: PhaseFigures, base: int, *, named: bool) -> Json:
    """Marks at the percentiles, which name themselves when pointed at."""
    known = [(q, us) for q, us in phase.step.percentiles_us.items() if us is not None]
    return {
        "type": "scatter",
        "mode": "markers+text" if named else "markers",
        "x": rounded([us / 1e3 for _, us in known]),
        "y": [base + 0.06] * len(known),
        "text": [f"p{q:g}" for q, _ in known],
        "customdata": [latency_words(us) for _, us in known],
        "textposition": "top center",
        "textfont": {"size": 11, "color": "@muted"},
        "hovertemplate": "%{text}: %{customdata}",
        "marker": {
            "symbol": "line-ns",
            "size": 11,
            "color": "@ink",
            "line": {"width": 2, "color": "@ink"},
        },
        "showlegend": False,
    }


def _labelled(runs: Sequence[Run]) -> list[tuple[Run, str, PhaseFigures]]:
    rows = []
    for run in runs:
        for phase in run.measured.phases:
            depth = f"QD {phase.workload.queue_depth}"
            if len(run.measured.phases) == 1:
                label = run.name if len(runs) > 1 else ""
            else:
                label = depth if len(runs) == 1 else f"{depth} · {run.name}"
            rows.append((run, label, phase))
    return rows


def _phase_rows(runs: Sequence[Run]) -> list[tuple[str, PhaseFigures]]:
    """Every phase with its label, equal queue depths next to each other."""
    rows = _labelled(runs)
    if any(len(run.measured.phases) > 1 for run in runs):
        rows.sort(key=lambda row: row[2].workload.queue_depth)
    return [(label, phase) for _, label, phase in rows]
