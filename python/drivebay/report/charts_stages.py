"""Charts of where the time went: stage by stage for each phase, and over the run.

The stages of an I/O add up to its latency, so their means stack to the mean latency.
"""

from __future__ import annotations

from collections.abc import Sequence

from drivebay.analysis.explain import Gap
from drivebay.analysis.stages import ordered
from drivebay.report.charts import Chart, from_zero, rounded, row_height, unit_label, wrapped
from drivebay.report.entries import Run, labelled
from drivebay.report.markup import chart_text
from drivebay.report.themes import STAGES

OTHER_STAGE = "#77716a"
UNITS = (("time", "Time"), ("share", "Share"))


def stages(chart_id: str, runs: Sequence[Run]) -> Chart | None:
    """Where the time went, one bar per phase; views "time" (per I/O), "share". None if unknown."""
    rows = [(name, phase) for _, name, phase in labelled(runs) if phase.stages]
    if not rows:
        return None
    names = ordered({s.stage for _, phase in rows for s in phase.stages})
    chart = Chart(chart_id, 70 + row_height(34, [name for name, _ in rows]) * len(rows))
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
                    "meta": unit,
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


def over_time(chart_id: str, runs: Sequence[Run]) -> Chart | None:
    """The stages of each stretch of the run, all phases one after the other; one run at a time.

    Views: "time", "share". None where the target cannot see inside.
    """
    run = runs[0]
    phases = run.measured.phases
    names = ordered({n for p in phases if p.stages_over_time for n in p.stages_over_time.mean_us})
    if not names or not any(p.stages_over_time for p in phases):
        return None
    chart = Chart(chart_id, 300)
    highest = 0.0
    for unit in ("time", "share"):
        for name in names:
            x: list[float] = []
            y: list[float] = []
            start = 0.0
            for phase in phases:
                over = phase.stages_over_time
                if over is not None:
                    zero = [0.0] * len(over.second)
                    known = name in over.mean_us
                    values = over.mean_us[name] if unit == "time" and known else zero
                    if unit == "share" and known:
                        values = over.share_percent(name)
                    x += (over.second + start).tolist()
                    y += list(values)
                start += phase.timeline.n
            chart.traces.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "name": chart_text(name),
                    "stackgroup": unit,
                    "x": rounded(x),
                    "y": rounded(y),
                    "line": {"width": 0, "shape": "hv", "color": STAGES.get(name, OTHER_STAGE)},
                    "fillcolor": STAGES.get(name, OTHER_STAGE),
                    "meta": "µs" if unit == "time" else "%",
                    "hovertemplate": f"{chart_text(name)}: %{{y:,.4~g}} "
                    + ("µs" if unit == "time" else "%"),
                }
            )
    for phase in phases:
        if (over := phase.stages_over_time) is not None:
            columns = zip(*over.mean_us.values(), strict=True)
            highest = max(highest, *(sum(c) for c in columns if sum(c) == sum(c)), 0.0)
    n = len(names)
    length = sum(phase.timeline.n for phase in phases)
    for view, first, limits, label in (
        ("time", 0, from_zero(highest), "µs per I/O"),
        ("share", n, [0, 100], "% of the time"),
    ):
        annotations = [unit_label(label)]
        chart.add_view(view, range(first, first + n), yaxis__range=limits, annotations=annotations)
    chart.layout = {
        "xaxis": {"title": {"text": "seconds"}, "range": [0, length], "tickformat": ","},
        "yaxis": {"tickformat": ","},
    }
    return chart


def gap(chart_id: str, gaps: Sequence[Gap]) -> Chart | None:
    """How much longer the second drive takes than the first, load by load, split into stages.

    Stages in which it is faster lie to the left of zero; a dot marks the sum. None without a gap.
    """
    names = ordered({part.stage for one in gaps for part in one.parts})
    if not names:
        return None
    labels = [wrapped(one.label) for one in gaps]
    chart = Chart(chart_id, 70 + row_height(34, labels) * len(labels))
    for name in names:
        lengths = [next((p.us for p in one.parts if p.stage == name), 0.0) for one in gaps]
        chart.traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": chart_text(name),
                "y": labels,
                "x": rounded(lengths),
                "marker": {"color": STAGES.get(name, OTHER_STAGE), "line": {"width": 0}},
                "meta": "µs",
                "hovertemplate": f"{chart_text(name)}: %{{x:+,.4~g}} µs",
            }
        )
    chart.traces.append(
        {
            "type": "scatter",
            "mode": "markers",
            "name": "all stages",
            "y": labels,
            "x": rounded([one.us for one in gaps]),
            "marker": {"color": "@ink", "size": 9, "symbol": "diamond"},
            "meta": "µs",
            "hovertemplate": "all stages: %{x:+,.4~g} µs",
        }
    )
    chart.layout = {
        "barmode": "relative",
        "bargap": 0.3,
        "yaxis": {"type": "category", "autorange": "reversed", "automargin": True},
        "xaxis": {"title": {"text": "µs per I/O more, or less"}, "tickformat": "+,"},
        "margin": {"t": 10},
    }
    return chart


def same_scale(charts: Sequence[Chart]) -> None:
    """Gives charts of one kind that stand side by side the same axes."""
    for view in charts[0].views if charts else ():
        highest = max(chart.views[view]["layout"]["yaxis.range"][1] for chart in charts)
        for chart in charts:
            chart.views[view]["layout"]["yaxis.range"] = [0, highest]
    longest = max((chart.layout["xaxis"]["range"][1] for chart in charts), default=0)
    for chart in charts:
        chart.layout["xaxis"]["range"] = [0, longest]


def stage_names(runs: Sequence[Run]) -> list[str]:
    """The stages that took time in any of these runs, in the order an I/O passes them."""
    return ordered({s.stage for r in runs for phase in r.measured.phases for s in phase.stages})
