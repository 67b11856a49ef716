"""Latency breakdown: stages of latency for each load, over the run, and between two drives.

The stages of an I/O add up to its latency, so their means add up to the mean latency.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from drivebay.analysis.explain import Gap
from drivebay.analysis.stages import meaning, ordered, title
from drivebay.report.base.runs import Run, labelled
from drivebay.report.base.theme import STAGE_PATTERNS, STAGES
from drivebay.report.charts import model
from drivebay.report.charts.model import Axis, Chart, Key, Panel, Series, Switch, View

OTHER_STAGE = ("#77716a", "diamonds")
# Maximum number of runs for which charts that cannot be overlaid are shown side by side.
APART_MAX = 2
WRAP = 16
SHOW = Switch("unit", "Show", (("time", "Time"), ("share", "Share")))
SAID_MAX = 4
SAID_LEAST_PERCENT = 1
UNITS = {"time": ("µs", "µs per I/O"), "share": ("%", "% of the latency")}
FIRST = Axis(UNITS["time"][1])


def stages(prefix: str, runs: Sequence[Run]) -> list[Panel]:
    """Breakdown by load, and over time for one or two drives; [] for real drives, which do not
    report stages.
    """
    by_load = _by_load(f"{prefix}-stages", runs)
    if by_load is None:
        return []
    panel = Panel(
        "Latency breakdown",
        by_load,
        model.counted(runs, "histogram"),
        model.scale_notes(model.LINEAR),
        "Each bar is the mean over its I/Os; the stages add up to the mean latency.",
        (SHOW,),
        stage_key(runs),
        wide=False,
    )
    return [panel, *(_over_time(prefix, runs) if len(runs) <= APART_MAX else [])]


def stage_key(runs: Sequence[Run]) -> tuple[Key, ...]:
    """Colours and patterns of the stages that took time in any of these runs."""
    names = ordered({s.stage for r in runs for phase in r.measured.phases for s in phase.stages})
    keys = []
    for name in names:
        colour, pattern = _looks(name)
        keys.append(Key(title(name), colour, f"tile {pattern}", meaning(name)))
    return tuple(keys)


def _looks(stage: str) -> tuple[str, str]:
    """Colour and pattern of a stage."""
    return (STAGES[stage], STAGE_PATTERNS[stage]) if stage in STAGES else OTHER_STAGE


def _names_axis(rows: Sequence[str]) -> tuple[Axis, int]:
    """Axis of bar names, and the height of a chart with that many bars."""
    row = max(22 + 16 * len(model.lines_of(name, WRAP)) for name in rows)
    return Axis(scale="category", wrap=WRAP), 70 + row * len(rows)


def _by_load(chart_id: str, runs: Sequence[Run]) -> Chart | None:
    rows = [(name, phase) for _, name, phase in labelled(runs) if phase.stages]
    if not rows:
        return None
    labels = [name for name, _ in rows]
    names = ordered({s.stage for _, phase in rows for s in phase.stages})
    longest = max(sum(s.mean_us for s in phase.stages) for _, phase in rows)

    def bar(name: str, unit: str) -> Series:
        attribute = "mean_us" if unit == "µs" else "share_percent"
        each = [{s.stage: getattr(s, attribute) for s in phase.stages} for _, phase in rows]
        return _bar(name, labels, [stages.get(name, 0.0) for stages in each], unit)

    axis, height = _names_axis(labels)
    series, views = _views(names, bar, longest)
    return Chart(
        chart_id, height, series, axis, (FIRST,), views=views, horizontal=True, stacked=True
    )


def _views(
    names: Sequence[str], drawn: Callable[[str, str], Series], highest: float
) -> tuple[tuple[Series, ...], dict[str, View]]:
    """Each stage as it is `drawn` in each unit, and a view of each unit."""
    series: list[Series] = []
    views = {}
    for view, (unit, label) in UNITS.items():
        shown = tuple(range(len(series), len(series) + len(names)))
        series += [drawn(name, unit) for name in names]
        limits = model.from_zero(highest) if unit == "µs" else (0, 100)
        views[view] = View(shown, y=Axis(label, limits=limits))
    return tuple(series), views


def _bar(stage: str, labels: Sequence[float | str], lengths: Sequence[float], unit: str) -> Series:
    colour, pattern = _looks(stage)
    return Series(
        "bar",
        labels,
        lengths,
        title(stage),
        unit=unit,
        colour=colour,
        pattern=pattern,
        hover="{name}: {y} {unit}",
    )


def _over_time(prefix: str, runs: Sequence[Run]) -> list[Panel]:
    """Breakdown over time: stacks cannot be overlaid, so there is one chart per run, on the same
    scale.
    """
    known = [run for run in runs if any(p.stages_over_time for p in run.measured.phases)]
    highest = max((_highest(run) for run in known), default=0.0)
    longest = max((sum(p.timeline.n for p in run.measured.phases) for run in known), default=0)
    panels = []
    for run in known:
        lengths = [p.stages_over_time.interval_s for p in run.measured.phases if p.stages_over_time]
        place = runs.index(run)
        panels.append(
            Panel(
                "Latency breakdown over time" + (f": {run.name}" if len(runs) > 1 else ""),
                _stack(f"{prefix}-stages-time{place or ''}", run, highest, longest),
                model.counted([run], "histogram"),
                model.scale_notes(model.LINEAR),
                f"Mean per I/O in intervals of {max(lengths)} s.",
                (SHOW,),
                stage_key([run]),
                wide=len(runs) == 1,
                apart=True,
            )
        )
    return panels


def in_words(run: Run, along: Sequence[float], every: int = 1) -> Series | None:
    """Largest stages of each interval, as tooltips of a chart over the run's seconds; `along` holds
    the chart's values, one per `every` seconds. None for real drives, which do not report
    stages.
    """
    x, texts, start = [], [], 0
    for phase in run.measured.phases:
        over = phase.stages_over_time
        shares = {title(name): over.share_percent(name) for name in over.mean_us} if over else {}
        for at, second in enumerate(over.second if over else ()):
            parts = sorted(((share[at], name) for name, share in shares.items()), reverse=True)
            largest = [f"{name} {part:.0f} %" for part, name in parts if part >= SAID_LEAST_PERCENT]
            middle = int(start + second + over.interval_s / 2) // every if over else 0
            if largest and middle < len(along):
                x.append(every * middle)
                texts.append(", ".join(largest[:SAID_MAX]))
        start += phase.timeline.n
    if not x:
        return None
    y = [along[place // every] for place in x]
    return Series("words", x, y, run.name, colour=run.colour, notes=texts, hover="{note}")


def _highest(run: Run) -> float:
    sums = [
        np.sum(list(phase.stages_over_time.mean_us.values()), axis=0)
        for phase in run.measured.phases
        if phase.stages_over_time is not None
    ]
    return max(
        (float(np.nanmax(total)) for total in sums if not np.isnan(total).all()), default=0.0
    )


def _stack(chart_id: str, run: Run, highest: float, longest: int) -> Chart:
    """Stages of each interval of the run, all phases in sequence."""
    phases = run.measured.phases
    names = ordered({n for p in phases if p.stages_over_time for n in p.stages_over_time.mean_us})

    def area(name: str, unit: str) -> Series:
        x: list[float] = []
        y: list[float] = []
        start = end = 0.0
        for phase in phases:
            over = phase.stages_over_time
            if over is not None:
                values = np.zeros(len(over.second))
                if name in over.mean_us:
                    values = over.mean_us[name] if unit == "µs" else over.share_percent(name)
                x += (over.second + start).tolist()
                y += values.tolist()
                end = start + phase.timeline.n
            start += phase.timeline.n
        x.append(end)  # a step ends where the next begins, so the last one needs an end
        y.append(y[-1])
        return replace(_bar(name, x, y, unit), kind="area", steps=True, hover="{y} {unit}")

    series, views = _views(names, area, highest)
    return Chart(chart_id, 300, series, Axis("seconds", limits=(0, longest)), (FIRST,), views=views)


def gap(chart_id: str, runs: Sequence[Run], gaps: Sequence[Gap]) -> list[Panel]:
    """Latency difference of the second drive from the first, per load and stage; [] without a
    difference.
    """
    names = ordered({part.stage for load in gaps for part in load.parts})
    if not names:
        return []
    labels = [load.label for load in gaps]
    series = []
    for name in names:
        lengths = [next((p.us for p in load.parts if p.stage == name), 0.0) for load in gaps]
        series.append(_bar(name, labels, lengths, "µs"))
    whole = model.diamonds(labels, [load.us for load in gaps], "All stages", "µs", "@ink")
    series.append(replace(whole, hover="{name}: {y} {unit}"))
    axis, height = _names_axis(labels)
    first, second = (run.name for run in runs)
    value = Axis("difference in µs per I/O", tick_form="signed")
    chart = Chart(chart_id, height, tuple(series), axis, (value,), horizontal=True, stacked=True)
    return [
        Panel(
            "Latency difference by stage",
            chart,
            f"{second} minus {first}",
            model.notes("At zero both drives are equal."),
            "Right of zero: stages in which the second drive takes longer. Diamond: sum of all "
            "stages.",
            key=stage_key(runs),
            wide=False,
        )
    ]
