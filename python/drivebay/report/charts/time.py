"""Charts over time: the scatter of a consistency test, rate and sensors of any test.

One point per second, without omissions or averages. Only lines over many hours use means, over the
shortest interval that leaves `POINTS_MAX` points, and are labelled accordingly. Rate, temperature
and power share a time axis. A pane without values in any run is left out, and the caption names it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from typing import Literal

import numpy as np

from drivebay.analysis.timeline import Floats, Timeline, spans, spread, thinned
from drivebay.report.base.runs import SELF, Run, by_drive, phase_name
from drivebay.report.charts import model, stages
from drivebay.report.charts.model import Axis, Chart, Mark, Panel, Series, View

TEMPERATURE_FROM_C = 20.0
TEMPERATURE_STEP_C = 10
MARKS_MAX = 200
FEW = 60
NAMED_MAX = 12
FURTHER_MAX = 6
POINTS_MAX = 3600
EACH_SECOND = "IOPS, 1 s samples"
# Scales of a whole run, logarithmic first: the first seconds of a new drive are so fast that a
# linear axis shows little else.
SCALES = ("log", "linear", "close")
END_SCALES = ("linear", "log", "close")
SLOWED = "Shaded: heat reduces the rate."
LIGHT = "Thin line at the top: the drive reports light throttling"


@dataclass(frozen=True)
class Pane:
    """One attribute of a timeline; `colour` is the colour of its line for a single run."""

    attribute: str
    label: str
    unit: str
    colour: str = ""

    def axis(self, samples: Sequence[Floats]) -> Axis:
        """Axis for these values, with a margin above them: from zero, or for temperatures between
        multiples of a step.
        """
        known = np.concatenate([*samples, np.empty(0)])
        known = known[np.isfinite(known)]
        start = TEMPERATURE_FROM_C if self.unit == "°C" else 0.0
        low, high = (known.min(), known.max()) if len(known) else (start, start)
        axis = Axis(self.label, include=start)
        if self.unit == "°C":
            step = TEMPERATURE_STEP_C
            above = math.ceil(max(high, start + step) * model.HEADROOM / step)
            return replace(axis, limits=(step * math.floor(min(low, start) / step), step * above))
        return replace(axis, limits=model.from_zero(high)) if low >= 0 and high > 0 else axis


SENSORS = (Pane("temperature_c", "°C", "°C", "@heat"), Pane("power_w", "W", "W", "@power"))


def reports(runs: Sequence[Run], attribute: str) -> bool:
    """True if any run has known values of this attribute."""
    return any(
        not np.isnan(getattr(phase.timeline, attribute)).all()
        for run in runs
        for phase in run.measured.phases
    )


def _sensors(runs: Sequence[Run]) -> list[Pane]:
    return [pane for pane in SENSORS if reports(runs, pane.attribute)]


def with_sensors(runs: Sequence[Run]) -> str:
    """End of a chart's title that names temperature and power, if they are drawn."""
    names = {"°C": "temperature", "W": "power"}
    known = [names[pane.unit] for pane in _sensors(runs)]
    return f", with {' and '.join(known)}" if known else ""


def sensor_notes(runs: Sequence[Run]) -> tuple[str, ...]:
    """Notes on temperature and power, drawn or not reported, and on shaded spans."""
    texts = []
    for name, attribute in (("Temperature", "temperature_c"), ("Power", "power_w")):
        if not reports(runs, attribute):
            texts.append(f"{name}: not reported by this target.")
    if reports(runs, "temperature_c"):
        texts.append("The temperature axis does not start at zero.")
    if reports(runs, "power_w"):
        texts.append("The power axis starts at zero.")
    lone = len({run.entry.key for run in runs}) == 1 and not any(r.colour == SELF for r in runs)
    return " ".join(texts), _throttling(runs) if lone else ""


def _throttling(runs: Sequence[Run]) -> str:
    """Meaning of the marks for heat that these runs have."""
    lines = [phase.timeline for run in runs for phase in run.measured.phases]
    texts = [SLOWED] if any(line.slowed.any() for line in lines) else []
    if any(line.light.any() for line in lines):
        known = [line.heat_percent[line.light] for line in lines if len(line.heat_percent)]
        cost = spread(np.concatenate([*known, np.empty(0)]))
        share = "" if cost is None else f", {cost.mean:.1f} % of the latency"
        texts.append(f"{LIGHT}{share}.")
    return " ".join(texts)


# --- IOPS of every second -------------------------------------------------------------------------


def _window(run: Run, whole: bool) -> slice:
    timeline = run.measured.phases[0].timeline
    window_s = run.measured.test.metric_window_s
    return slice(0, timeline.n) if whole or window_s is None else timeline.last(window_s)


def _ios_axis(scale: str, samples: Sequence[Floats]) -> Axis:
    """Axis for IOPS of every second; a logarithmic one begins at a power of ten."""
    values = [value for some in samples for value in some.tolist()] or [0.0]
    axis = model.scaled(scale, values, Axis(EACH_SECOND), room=0.12)
    positive = [value for value in values if value > 0]
    if scale != "log" or not positive or axis.limits is None:
        return axis
    return replace(axis, limits=(10 ** math.floor(math.log10(min(positive))), axis.limits[1]))


def scatter(chart_id: str, runs: Sequence[Run], *, whole: bool, sensors: bool = True) -> Chart:
    """IOPS of every second as points: the whole run with sensors and published level, or the last
    seconds that the test's figure is computed from.

    Views: "linear", "log", and for the last seconds "close".
    """
    panes = [Pane("ios", EACH_SECOND, "IOPS"), *(_sensors(runs) if whole and sensors else [])]
    parts = {id(run): _window(run, whole) for run in runs}
    series = []
    for place, pane in enumerate(panes):
        for at, (run, dash) in enumerate(zip(runs, cycle(model.DASHES), strict=False)):
            part = parts[id(run)]
            values = getattr(run.measured.phases[0].timeline, pane.attribute)[part]
            line = _series(run, values, part.start, place, pane, run.colour)
            series.append(replace(line, dash=dash, symbol=model.shape_of(at)))
    known = [_level(run, parts[id(run)]) for run in runs if whole]
    levels = [level for level in known if level is not None]
    breakdowns = [stages.in_words(run, series[at].y) for at, run in enumerate(runs) if whole]
    series += [*levels, *filter(None, breakdowns)]
    timelines = [run.measured.phases[0].timeline for run in runs]
    ends = list(parts.values())
    samples = [timeline.ios[part] for timeline, part in zip(timelines, ends, strict=True)]
    samples += [np.asarray(level.y) for level in levels]
    marks = _tints(timelines[0]) if whole and len(runs) == 1 else ()
    x = Axis("seconds", limits=(min(end.start for end in ends), max(end.stop for end in ends)))
    form: Literal["si", "plain"] = "si" if whole else "plain"
    views = {
        scale: View(x=x, y=replace(_ios_axis(scale, samples), tick_form=form), marks=marks)
        for scale in (SCALES[:2] if whole else END_SCALES)
    }
    height = 320 + 130 * (len(panes) - 1)
    axes = [
        pane.axis([getattr(timeline, pane.attribute) for timeline in timelines]) for pane in panes
    ]
    axes[0] = replace(axes[0], tick_form=form)
    return Chart(chart_id, height, tuple(series), Axis("seconds"), tuple(axes), views=views)


def _level(run: Run, part: slice) -> Series | None:
    """Published mean of the last seconds, as a line over the run."""
    key = (run.measured.test.id, "mean_iops")
    rows = [row for row in run.entry.review.headline if (row.test_id, row.key) == key]
    if not rows or rows[0].published is None:
        return None
    return Series(
        "line",
        (part.start, part.stop),
        (rows[0].published, rows[0].published),
        run.name,
        f"published: {rows[0].published_text}",
        "IOPS",
        run.colour if by_drive([run]) else "@published",
        dash="dash",
        width=1.6,
        hover="",
    )


def scatter_both(chart_id: str, run: Run) -> Chart:
    """Scatter of one run for the Bench, whole or its last seconds.

    Views: "whole|SCALE", "last|SCALE" with SCALE "linear", "log" or "close".
    """
    timeline = run.measured.phases[0].timeline
    views = {}
    for part, window in (("whole", slice(0, timeline.n)), ("last", _window(run, False))):
        for scale in SCALES:
            y = replace(_ios_axis(scale, [timeline.ios[window]]), tick_form="si")
            span = (window.start, window.stop)
            views[f"{part}|{scale}"] = View(x=Axis("seconds", limits=span), y=y)
    return replace(scatter(chart_id, [run], whole=True), views=views)


# --- the course of a run --------------------------------------------------------------------------


def over_time(prefix: str, runs: Sequence[Run], *, latency: bool = False) -> Panel:
    """Rate, sensors and all other values per second, all phases in sequence; with `latency` also
    mean and maximum of each second, if known.
    """
    wholes = {id(run): run.measured.whole for run in runs}
    length = max((whole.n for whole in wholes.values()), default=1)
    every = max(1, -(-length // POINTS_MAX))
    of_each = f"of each {'second' if every == 1 else f'{every} s'}"
    rate = f"MB/s, {'1 s samples' if every == 1 else f'means of {every} s'}"
    panes = [Pane("rate_mb_s", rate, "MB/s")]
    latency = latency and reports(runs, "latency_ms_mean")
    if latency:
        panes.append(Pane("latency_ms_mean", f"ms, mean {of_each}", "ms"))
    if latency and reports(runs, "latency_ms_max"):
        panes.append(Pane("latency_ms_max", f"ms, maximum {of_each}", "ms"))
    further = dict.fromkeys(n for r in runs for p in r.measured.phases for n in p.timeline.more)
    panes += _sensors(runs)
    panes += [Pane(n, n.replace("_", " "), n.replace("_", " ")) for n in [*further][:FURTHER_MAX]]
    series, axes = [], []
    for place, pane in enumerate(panes):
        drawn = []
        for run, dash in zip(runs, cycle(model.DASHES), strict=False):
            whole = wholes[id(run)]
            values = getattr(whole, pane.attribute, np.full(whole.n, np.nan))
            values = whole.more.get(pane.attribute, values)
            values = thinned(values, every, highest=pane.attribute == "latency_ms_max")
            colour = run.colour if by_drive(runs) else pane.colour or run.colour
            line = _series(run, values, 0, place, pane, colour, every)
            series.append(replace(line, dash=dash))
            drawn.append(values)
        axes.append(pane.axis(drawn))
    texts = [stages.in_words(run, series[at].y, every) for at, run in enumerate(runs)]
    series += [line for line in texts if line is not None]
    top = max((float(whole.rate_mb_s.max()) for whole in wholes.values() if whole.n), default=1)
    first, *rest = axes
    chart = Chart(
        f"{prefix}-time",
        330 + 110 * (len(panes) - 1),
        tuple(series),
        Axis("seconds", limits=(0, length)),
        (replace(first, limits=model.from_zero(top)), *rest),
    )
    if len(runs) == 1:
        tints = () if by_drive(runs) else _tints(wholes[id(runs[0])])
        ends, labels = _phases(runs[0])
        chart = replace(chart, marks=(*tints, *ends), labels=labels)
    starts = "axis and those of latency start" if latency else "axis starts"
    return Panel(
        f"Data rate {'and latency ' if latency else ''}over time{with_sensors(runs)}",
        chart,
        model.spoken(runs, [f"n = {run.measured.whole.n:,} s" for run in runs]),
        model.notes(f"The rate {starts} at zero.", *sensor_notes(runs)),
        f"One point {'per second' if every == 1 else f'per {every} s'}.",
        key=model.run_key(runs),
    )


def _series(
    run: Run, values: Floats, start: int, place: int, pane: Pane, colour: str, every: int = 1
) -> Series:
    n = len(values)
    points = pane.attribute == "ios"
    size = 7 if n <= FEW else 5 if n <= 10 * FEW else 3.2
    return Series(
        "scatter" if points else "line",
        range(start, start + every * n, every),
        values.tolist(),
        run.name,
        unit=pane.unit,
        colour=colour,
        pane=place,
        width=1.6,
        marker=size if points else 5 if n <= FEW else 0,
        hover="{y} {unit}",
    )


def _tints(timeline: Timeline) -> tuple[Mark, ...]:
    """Spans in which throttling reduces the rate, and spans of a light step of it."""
    marks = [Mark(*span) for span in spans(timeline.slowed)]
    marks += [Mark(*span, thin=True) for span in spans(timeline.light)]
    return tuple(marks[:MARKS_MAX])


def _phases(run: Run) -> tuple[tuple[Mark, ...], tuple[tuple[float, str], ...]]:
    """Mark between consecutive phases, and their names if there is space."""
    phases = run.measured.phases
    if len(phases) < 2:
        return (), ()
    starts = np.cumsum([0, *(phase.timeline.n for phase in phases)]).tolist()
    marks = tuple(Mark(start) for start in starts[1:-1])
    if len(phases) > NAMED_MAX:
        return marks, ()
    middles = [(a + b) / 2 for a, b in itertools.pairwise(starts)]
    names = [phase_name(run, phase) for phase in phases]
    return marks, tuple(zip(middles, names, strict=True))
