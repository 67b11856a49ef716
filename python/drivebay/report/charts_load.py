"""Charts over load: rate and power by queue depth, by phase, and by size of the requests.

Error bars are the standard deviation of the 1 s samples.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from drivebay.analysis.ladder import Step
from drivebay.analysis.mixes import NAMES
from drivebay.common.units import binary_bytes
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
from drivebay.report.entries import Run, phase_name
from drivebay.report.markup import chart_text
from drivebay.report.words import number


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
                "error_y": _whiskers(deviations, run.colour),
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


def power(chart_id: str, runs: Sequence[Run]) -> Chart | None:
    """Mean power over the queue depth; None where no run's target reports power."""
    if not any(step.power for run in runs for step in run.measured.steps):
        return None
    chart = Chart(chart_id, 300)
    tops = [0.0]
    for run in runs:
        steps = [step for step in run.measured.steps if step.power]
        means = [step.power.mean for step in steps if step.power]
        deviations = [step.power.sd or 0.0 for step in steps if step.power]
        tops += [mean + sd for mean, sd in zip(means, deviations, strict=True)]
        chart.traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": chart_text(run.name),
                "x": [step.queue_depth for step in steps],
                "y": rounded(means),
                "error_y": _whiskers(deviations, run.colour),
                "line": {"color": run.colour, "width": 2},
                "marker": {"color": run.colour, "size": 7},
                "hovertemplate": "QD %{x}: %{y:,.4~g} W",
            }
        )
    depths = [step.queue_depth for run in runs for step in run.measured.steps]
    chart.layout = {
        "xaxis": depth_axis(depths),
        "yaxis": {"range": from_zero(*tops)},
        "annotations": [unit_label("W")],
    }
    return chart


UNITS = {"rate": "MB/s", "latency": "ms, mean", "power": "W"}


def by_phase(chart_id: str, runs: Sequence[Run], what: str) -> Chart:
    """One figure of every phase, in the order they ran: `what` is "rate", "latency" or "power"."""
    chart = Chart(chart_id, 320)
    tops = [0.0]
    for run in runs:
        values, deviations = _values([phase.step for phase in run.measured.phases], what)
        tops += _tops(values, deviations)
        names = [wrapped(phase_name(run, phase), 12) for phase in run.measured.phases]
        chart.traces.append(_line(run, names, values, deviations, UNITS[what].partition(",")[0]))
    chart.layout = {
        "xaxis": {"type": "category", "automargin": True},
        "yaxis": {"range": from_zero(*tops)},
        "annotations": [unit_label(UNITS[what])],
    }
    return chart


def by_size(chart_id: str, runs: Sequence[Run], what: str) -> Chart:
    """One figure over the size of the requests: reads a solid line, writes a dotted one.

    Latency has a logarithmic axis."""
    chart = Chart(chart_id, 360)
    known: list[float] = []
    sizes = sorted({p.workload.block_bytes for run in runs for p in run.measured.phases})
    for run in runs:
        for percent, (_, words) in reversed(NAMES.items()):
            some = [p for p in run.measured.phases if p.workload.read_percent == percent]
            values, deviations = _values([phase.step for phase in some], what)
            known += [*_tops(values, deviations), *(v for v in values if v > 0)]
            names = [binary_bytes(phase.workload.block_bytes) for phase in some]
            trace = _line(run, names, values, deviations, UNITS[what].partition(",")[0])
            trace["hovertemplate"] = f"{words} of {trace['hovertemplate']}"
            trace["line"]["dash"] = "solid" if percent else "dot"
            chart.traces.append(trace)
    chart.layout = {
        "xaxis": {
            "type": "category",
            "categoryorder": "array",
            "categoryarray": [binary_bytes(size) for size in sizes],
            "automargin": True,
        },
        "yaxis": {"range": from_zero(*known)},
        "annotations": [unit_label(UNITS[what])],
    }
    if what == "latency":
        chart.layout["yaxis"] = {
            "type": "log",
            "range": log_range(min(known, default=1), max(known, default=1)),
        }
    return chart


def _values(steps: Sequence[Step], what: str) -> tuple[list[float], list[float]]:
    """The figure of each step and its standard deviation, NaN and 0 where unknown."""
    if what == "latency":
        means = [np.nan if (us := s.latency_mean_us) is None else us / 1e3 for s in steps]
        return means, [0.0 for _ in steps]
    spreads = [step.rate if what == "rate" else step.power for step in steps]
    deviations = [some.sd or 0.0 if some else 0.0 for some in spreads]
    if what == "rate":
        return [step.rate_mb_s for step in steps], deviations
    return [some.mean if some else np.nan for some in spreads], deviations


def _tops(values: Sequence[float], deviations: Sequence[float]) -> list[float]:
    both = zip(values, deviations, strict=True)
    return [value + sd for value, sd in both if value == value]


def _line(
    run: Run, names: list[str], values: list[float], deviations: list[float], unit: str
) -> Json:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": chart_text(run.name),
        "x": names,
        "y": rounded(values),
        "error_y": _whiskers(deviations, run.colour),
        "line": {"color": run.colour, "width": 2},
        "marker": {"color": run.colour, "size": 7},
        "hovertemplate": f"%{{x}}: %{{y:,.5~g}} {unit}",
    }


def _whiskers(deviations: Sequence[float], colour: str) -> Json:
    return {
        "type": "data",
        "array": rounded(list(deviations)),
        "thickness": 1,
        "width": 3,
        "color": colour,
    }
