"""Charts over time: the scatter of a consistency test, rate and heat of a ladder or thermal test.

One point per second, none left out and none averaged; only lines of many hours are of means over
the fewest seconds that leave `POINTS_MAX`, and say so. Rate, temperature and power lie on one time
axis; a panel whose values no run reports is left out, and the page says so by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from drivebay.analysis.timeline import Floats, Timeline, thinned, throttle_spans
from drivebay.report.charts import Chart, Json, from_zero, log_range, rounded, unit_label
from drivebay.report.entries import Run, by_drive, phase_name
from drivebay.report.markup import chart_text

ALL = "all"
TEMPERATURE_FROM_C = 20.0
SHAPES_MAX = 200
FEW = 60
NAMED_MAX = 12
FURTHER_MAX = 6
POINTS_MAX = 7200
ALONE = {"temperature_c": "@heat", "power_w": "@power"}


def scatter(chart_id: str, runs: Sequence[Run], *, whole: bool) -> Chart:
    """IOPS of every second as points: the whole run with heat and power, or the last seconds that
    the test's figure is taken from.

    Views: "TEST|linear", "TEST|log", and for a window "TEST|close"; TEST is a test's id or "all".
    """
    panels = [("ios", "IOPS, each second")]
    panels += _heat_panels(runs) if whole else []
    chart = Chart(chart_id, 320 + 130 * (len(panels) - 1))
    parts = {id(run): _window(run, whole) for run in runs}
    for panel, (attribute, _) in enumerate(panels):
        for run in runs:
            part = parts[id(run)]
            values = getattr(run.measured.phases[0].timeline, attribute)[part]
            mode = "markers" if attribute == "ios" else "lines"
            trace = _trace(run, values, part.start, panel, mode)
            trace["meta"] = _unit(attribute)
            trace["hovertemplate"] = f"%{{y:,.5~g}} {_unit(attribute)} at %{{x:,}} s"
            chart.traces.append(trace)
    tests = list(dict.fromkeys(run.measured.test.id for run in runs))
    for test in [*tests, ALL]:
        shown = [run for run in runs if test in (ALL, run.measured.test.id)]
        numbers = [
            panel * len(runs) + place
            for panel in range(len(panels))
            for place, run in enumerate(runs)
            if run in shown
        ]
        samples = [run.measured.phases[0].timeline.ios[parts[id(run)]] for run in shown]
        shapes = _shading(shown[0].measured.phases[0].timeline) if whole and len(shown) == 1 else []
        ranges = _ranges(samples)
        ends = [parts[id(run)] for run in shown]
        span = [min(part.start for part in ends), max(part.stop for part in ends)]
        for name, (kind, limits) in ranges.items():
            if name != "close" or not whole:
                chart.add_view(
                    f"{test}|{name}",
                    numbers,
                    yaxis__type=kind,
                    yaxis__range=limits,
                    xaxis__range=span,
                    shapes=shapes,
                )
    chart.layout = _layout([title for _, title in panels])
    chart.layout["yaxis"]["tickformat"] = "~s" if whole else ","
    return chart


def scatter_both(chart_id: str, run: Run) -> Chart:
    """The scatter of one run for the Bench, whole or its last seconds.

    Views: "whole|AXIS", "last|AXIS" with AXIS "linear", "log" or "close".
    """
    chart = scatter(chart_id, [run], whole=True)
    timeline = run.measured.phases[0].timeline
    chart.views.clear()
    for part, window in (("whole", slice(0, timeline.n)), ("last", _window(run, False))):
        for name, (kind, limits) in _ranges([timeline.ios[window]]).items():
            chart.add_view(
                f"{part}|{name}",
                yaxis__type=kind,
                yaxis__range=limits,
                xaxis__range=[window.start, window.stop],
            )
    return chart


def over_time(chart_id: str, runs: Sequence[Run], *, latency: bool = False) -> Chart:
    """Data rate, temperature and power of each second, all phases one after the other; with
    `latency` also the mean and the longest of each second."""
    wholes = {id(run): run.measured.whole for run in runs}
    length = max((whole.n for whole in wholes.values()), default=1)
    every = max(1, -(-length // POINTS_MAX))
    of_each = "of each second" if every == 1 else f"of each {every} s"
    panels = [("rate_mb_s", "MB/s, each second" if every == 1 else f"MB/s, means of {every} s")]
    if latency:
        panels.append(("latency_ms_mean", f"ms, mean {of_each}"))
    if latency and reports(runs, "latency_ms_max"):
        panels.append(("latency_ms_max", f"ms, longest {of_each}"))
    panels += [*_heat_panels(runs), *_further_panels(runs)]
    chart = Chart(chart_id, 330 + 110 * (len(panels) - 1))
    for panel, (attribute, _) in enumerate(panels):
        for run in runs:
            values = _values(wholes[id(run)], attribute)
            values = thinned(values, every, highest=attribute == "latency_ms_max")
            trace = _trace(run, values, 0, panel, "lines")
            trace["dx"] = every
            if not by_drive(runs):
                trace["line"]["color"] = ALONE.get(attribute, run.colour)
            trace["meta"] = _unit(attribute)
            trace["hovertemplate"] = f"%{{y:,.5~g}} {_unit(attribute)} at %{{x:,}} s"
            chart.traces.append(trace)
    chart.layout = _layout([title for _, title in panels])
    top = max((float(whole.rate_mb_s.max()) for whole in wholes.values() if whole.n), default=1)
    chart.layout["yaxis"]["range"] = from_zero(top)
    chart.layout["xaxis"]["range"] = [0, length]
    if len(runs) == 1:
        if not by_drive(runs):
            chart.layout["shapes"] = _shading(wholes[id(runs[0])])
        _mark_phases(chart, runs[0])
    return chart


def reports(runs: Sequence[Run], attribute: str) -> bool:
    """True when any of the runs has known values of this kind."""
    return any(
        not np.isnan(getattr(phase.timeline, attribute)).all()
        for run in runs
        for phase in run.measured.phases
    )


def _heat_panels(runs: Sequence[Run]) -> list[tuple[str, str]]:
    panels = [("temperature_c", "°C"), ("power_w", "W")]
    return [panel for panel in panels if reports(runs, panel[0])]


def _further_panels(runs: Sequence[Run]) -> list[tuple[str, str]]:
    """Whatever else a target told of each second, under its own name."""
    names = dict.fromkeys(n for r in runs for p in r.measured.phases for n in p.timeline.more)
    return [(name, name.replace("_", " ")) for name in names][:FURTHER_MAX]


def _values(timeline: Timeline, attribute: str) -> Floats:
    known = getattr(timeline, attribute, None)
    if known is not None and attribute not in timeline.more:
        return np.asarray(known)
    return timeline.more.get(attribute, np.full(timeline.n, np.nan))


def _unit(attribute: str) -> str:
    units = {"ios": "IOPS", "rate_mb_s": "MB/s", "temperature_c": "°C", "power_w": "W"}
    units["latency_ms_mean"] = units["latency_ms_max"] = "ms"
    return units.get(attribute, attribute.replace("_", " "))


def _window(run: Run, whole: bool) -> slice:
    timeline = run.measured.phases[0].timeline
    window_s = run.measured.test.metric_window_s
    return slice(0, timeline.n) if whole or window_s is None else timeline.last(window_s)


def _trace(run: Run, values: Floats, start: int, panel: int, mode: str) -> Json:
    trace: Json = {
        "type": "scatter",
        "mode": mode,
        "name": chart_text(run.name),
        "x0": start,
        "dx": 1,
        "y": rounded(values),
        "yaxis": "y" if panel == 0 else f"y{panel + 1}",
    }
    few = len(values) <= FEW
    if mode == "markers":
        size = 7 if few else 5 if len(values) <= 10 * FEW else 3.2
        trace["marker"] = {"size": size, "color": run.colour, "opacity": 0.7}
    else:
        trace["line"] = {"width": 1.6, "color": run.colour}
        trace["mode"] = "lines+markers" if few else "lines"
        trace["marker"] = {"size": 5}
    return trace


def _ranges(samples: Sequence[Floats]) -> dict[str, tuple[str, list[float]]]:
    """The axis of each switch position: from zero, logarithmic, and close up."""
    values = np.concatenate(samples) if samples else np.zeros(1)
    values = values if len(values) else np.zeros(1)
    low, high = float(values.min()), float(values.max())
    positive = values[values > 0]
    room = (high - low) * 0.12 or high * 0.02 or 1.0
    return {
        "linear": ("linear", from_zero(high)),
        "log": ("log", log_range(float(positive.min()) if len(positive) else 1.0, high)),
        "close": ("linear", [max(0.0, low - room), high + room]),
    }


def _shading(timeline: Timeline) -> list[Json]:
    """A tint over the seconds in which the drive reports that it throttles."""
    return [
        {
            "type": "rect",
            "xref": "x",
            "yref": "paper",
            "x0": start,
            "x1": end,
            "y0": 0,
            "y1": 1,
            "fillcolor": "@shade",
            "line": {"width": 0},
            "layer": "below",
        }
        for start, end in throttle_spans(timeline)[:SHAPES_MAX]
    ]


def _layout(titles: Sequence[str]) -> Json:
    """Panels above each other on one time axis, the first one as high as two or three others."""
    lower = len(titles) - 1
    layout: Json = {"annotations": []}
    share = min(0.25, 0.6 / max(lower, 1))  # of the height, for each of the others
    height, gap = 0.68 * share, 0.32 * share
    base = lower * share
    for panel, title in enumerate(titles):
        domain = [base, 1.0] if panel == 0 else None
        if domain is None:
            top = base - gap - (panel - 1) * (height + gap)
            domain = [max(0.0, top - height), top]
        axis: Json = {"domain": [round(edge, 4) for edge in domain], "rangemode": "tozero"}
        axis["tickformat"] = ","
        axis["nticks"] = 6 if panel == 0 else 4
        if title == "°C":
            axis |= {"rangemode": "normal", "autorangeoptions": {"include": TEMPERATURE_FROM_C}}
        layout["yaxis" if panel == 0 else f"yaxis{panel + 1}"] = axis
        layout["annotations"].append(unit_label(title, domain[1]))
    anchor = "y" if lower == 0 else f"y{lower + 1}"
    layout["xaxis"] = {"anchor": anchor, "title": {"text": "seconds"}, "tickformat": ","}
    return layout


def _mark_phases(chart: Chart, run: Run) -> None:
    """A line where one phase ends and the next begins, and its name on top where there is room."""
    phases = run.measured.phases
    if len(phases) < 2:
        return
    named = len(phases) <= NAMED_MAX
    start = 0
    shapes: list[Any] = chart.layout.setdefault("shapes", [])
    for number, phase in enumerate(phases):
        if number:
            shapes.append(
                {
                    "type": "line",
                    "xref": "x",
                    "yref": "paper",
                    "x0": start,
                    "x1": start,
                    "y0": 0,
                    "y1": 1,
                    "line": {"color": "@rule", "width": 1, "dash": "dot"},
                    "layer": "below",
                }
            )
        if named:
            label = unit_label(phase_name(run, phase))
            label |= {"xref": "x", "x": start + phase.timeline.n / 2, "xanchor": "center"}
            chart.layout["annotations"].append(label)
        start += phase.timeline.n
    chart.layout["annotations"][0] |= {"yshift": 22}
    chart.layout["margin"] = {"t": 50}
