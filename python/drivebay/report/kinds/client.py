"""Tests of the client reviews: consistency, queue depths, mixes, request sizes, heat.

Presented as in the reviews: a bar for the mean, a line with a point for each load, and every second
of a consistency test as a point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from drivebay.analysis import Measured
from drivebay.analysis.groups import NAMES
from drivebay.analysis.timeline import Spread
from drivebay.common.units import binary_bytes
from drivebay.report.base.runs import SELF, Run
from drivebay.report.base.text import number, quantity
from drivebay.report.charts import latency as latencies
from drivebay.report.charts import model, time
from drivebay.report.charts.curves import DEVIATION, Curves, Group
from drivebay.report.charts.model import Axis, Chart, Note, Panel, Switch
from drivebay.report.kinds import generic, service
from drivebay.report.kinds.generic import LOWER, BarOf, Kind

STEADIER = "Simulated: a real drive varies more from second to second."

# --- consistency ----------------------------------------------------------------------------------


def _consistency_bars(measured: Measured) -> list[BarOf]:
    """The three bars of the reviews: the deviation is published since February 2015, the ratio
    since June 2015.
    """
    window = measured.consistency.window.n if measured.consistency else None
    last = f"last {window:,} s" if window else "last seconds"
    rate = [BarOf("mean_rate", f"Mean data rate, {last}", "MB/s")]
    return [
        *(rate if "mean_rate" in measured.figures else []),
        BarOf("mean_iops", f"Mean, {last}", "IOPS"),
        BarOf("sd_iops", f"Standard deviation, {last}", "IOPS", LOWER, half=True),
        BarOf("mean_over_sd", f"Mean divided by standard deviation, {last}", "", half=True),
    ]


def _consistency_panels(prefix: str, runs: Sequence[Run]) -> list[Panel]:
    """Scatter of the whole run and of its last seconds, then latency and stages."""
    inner = latencies.inside(prefix, runs)
    windows = {run.measured.figures["mean_iops"].n for run in runs}
    if any(run.colour == SELF for run in runs):
        part = Switch("part", "Part", (("whole", "Whole run"), ("last", "Last seconds")))
        title = "IOPS over time" + time.with_sensors(runs)
        chart = time.scatter_both(f"{prefix}-seconds", runs[0])
        lead = "One point per second; mean and sd refer to the last seconds."
        scales = (model.LOG, model.LINEAR, model.CLOSE)
        last = [_spread(window) for window in _windows(runs)]
        return [_scatter(title, chart, runs, last, lead, scales, part), *inner]
    title = "IOPS over time, whole run" + time.with_sensors(runs)
    end = f"last {min(windows):,} s" if len(windows) == 1 else "last seconds"
    return [
        scatter_panel(f"{prefix}-whole", runs, title, sensors=True),
        scatter_panel(f"{prefix}-end", runs, f"IOPS over time, {end}", whole=False),
        *inner,
    ]


def scatter_panel(
    chart_id: str,
    runs: Sequence[Run],
    title: str,
    *,
    whole: bool = True,
    sensors: bool = False,
    height: int | None = None,
) -> Panel:
    """Scatter of the run, with or without its sensors, or of its last seconds, for all runs."""
    chart = time.scatter(chart_id, runs, whole=whole, sensors=sensors)
    spreads = [run.measured.steps[0].ios for run in runs] if whole else _windows(runs)
    scales = (model.LOG, model.LINEAR) if whole else (model.LINEAR, model.LOG, model.CLOSE)
    chart = replace(chart, height=height or chart.height)
    notes = time.sensor_notes(runs)[0 if sensors else -1 :] if whole else ()
    samples = [_spread(spread) for spread in spreads]
    return _scatter(title, chart, runs, samples, "One point per second.", scales, sensors=notes)


def _windows(runs: Sequence[Run]) -> list[Spread | None]:
    """IOPS of the last seconds of each run; None for a run that was too short."""
    known = [run.measured.consistency for run in runs]
    return [consistency.window if consistency else None for consistency in known]


def _scatter(
    title: str,
    chart: Chart,
    runs: Sequence[Run],
    samples: Sequence[str],
    lead: str,
    scales: tuple[tuple[str, str], ...],
    part: Switch | None = None,
    sensors: Sequence[str] = (),
) -> Panel:
    axis = Switch("axis", "Axis", scales)
    if any(series.group.startswith("published") for series in chart.series):
        lead += " Dashed line: published mean of the last seconds."
    still = any((run.measured.phases[0].timeline.ios == 0).any() for run in runs)
    below = (Note("Seconds without I/O are below the axis.", "log"),) if still else ()
    virtual = any(run.entry.kind == "virtual" for run in runs)
    return Panel(
        title,
        chart,
        model.spoken(runs, samples),
        (*model.scale_notes(*scales), *below, *model.notes(*sensors, STEADIER if virtual else "")),
        lead,
        (part, axis) if part else (axis,),
        model.run_key(runs, points=True),
    )


def _spread(spread: Spread | None) -> str:
    """Spread as text: "7,779 IOPS, sd 48.9, n = 400"."""
    if spread is None:
        return "unknown"
    sd = "" if spread.sd is None else f", sd {number(spread.sd)}"
    return f"{quantity(spread.mean, 'IOPS')}{sd}, n = {spread.n:,}"


CONSISTENCY = Kind(bars=_consistency_bars, panels=_consistency_panels)

# --- queue depths ---------------------------------------------------------------------------------


def _ladder_bars(measured: Measured) -> list[BarOf]:
    """Mean over the low queue depths and rate at the deepest queue; for one depth its rate."""
    depths = [step.queue_depth for step in measured.steps]
    keys = [(f"rate_qd{depth}", f"Data rate at queue depth {depth}") for depth in depths]
    if len(depths) > 1:
        asked = ", ".join(map(str, measured.test.metric_queue_depths))
        mean = f"Mean of queue depths {asked}" if "," in asked else f"At queue depth {asked}"
        keys = [("mean_rate", mean), (measured.main[-1], f"At queue depth {max(depths)}")]
    return [BarOf(key, title, "IOPS" if "iops" in key else "MB/s") for key, title in keys]


def _ladder_panels(prefix: str, runs: Sequence[Run]) -> list[Panel]:
    """Rate and latency by queue depth, rate over time, latency and stages."""
    shown = [time.over_time(prefix, runs), *latencies.inside(prefix, runs)]
    if max(len(run.measured.steps) for run in runs) > 1:
        latency = service.over(
            f"{prefix}-latency",
            runs,
            "Latency by queue depth",
            _depths(runs),
            lambda phase: phase.workload.queue_depth,
            percentiles=(50.0, 99.0, 99.9, 99.99),
        )
        shown = [rate_panel(prefix, runs), latency, *shown]
        if time.reports(runs, "power_w"):
            shown.append(generic.by_phase(prefix, runs, "power", "Power by queue depth"))
    return shown


def _depths(runs: Sequence[Run]) -> Axis:
    return model.depth_axis([step.queue_depth for run in runs for step in run.measured.steps])


def rate_panel(prefix: str, runs: Sequence[Run]) -> Panel:
    """Data rate by queue depth, with IOPS on the right axis if all requests have one size."""

    banded = any(any(generic.bands(run.measured, "rate")) for run in runs)

    def groups_of(run: Run) -> list[Group]:
        steps = run.measured.steps
        values, deviations = generic.step_values(steps, "rate")
        deviations = None if banded else deviations
        iops = [number(step.iops) for step in steps]
        depths = [step.queue_depth for step in steps]
        band = generic.bands(run.measured, "rate")
        return [Group("", depths, values, deviations, notes=iops, band=band)]

    every = [step for run in runs for step in run.measured.steps]
    blocks = {phase.workload.block_bytes for run in runs for phase in run.measured.phases}
    highest = [step.rate_mb_s + (step.rate.sd or 0 if step.rate else 0) for step in every]
    highest += [ends[1] for run in runs for ends in generic.bands(run.measured, "rate") if ends]
    _, top = model.from_zero(*highest)
    right = None
    if len(blocks) == 1:
        right = Axis("IOPS", limits=(0, top * 1e6 / blocks.pop()), tick_form="si")
    return Curves(
        f"{prefix}-rate",
        runs,
        groups_of,
        title="Data rate and IOPS by queue depth",
        unit="MB/s",
        x=_depths(runs),
        y=Axis("MB/s", limits=(0, top)),
        right=right,
        samples=model.counted(runs, "seconds"),
        notes=["Both axes start at zero."],
        lead="" if banded else DEVIATION,
        hover="QD {x}: {y} {unit}, {note} IOPS",
    ).panel()


LADDER = Kind(bars=_ladder_bars, panels=_ladder_panels)

# --- mixes, sizes, heat ---------------------------------------------------------------------------


def _mixed_bars(measured: Measured) -> list[BarOf]:
    """Mean, then the extremes side by side."""
    keys = ("mean_rate", "rate_lowest", "rate_highest")
    shown = [measured.figures[key] for key in keys if key in measured.figures]
    return [BarOf(one.key, one.label, "MB/s", half=one.key != keys[0]) for one in shown]


def _mixed_panels(prefix: str, runs: Sequence[Run]) -> list[Panel]:
    """Rate, latency and power by mix, rate over time, latency and stages."""
    what = [("rate", "Data rate by mix"), ("latency", "Mean latency by mix")]
    what += [("power", "Power by mix")] if time.reports(runs, "power_w") else []
    lead = "Each point is one mix (reads/writes in percent)."
    shown = [generic.by_phase(prefix, runs, name, title, lead=lead) for name, title in what]
    return [*shown, time.over_time(prefix, runs), *latencies.inside(prefix, runs)]


def _sizes_panels(prefix: str, runs: Sequence[Run]) -> list[Panel]:
    """Rate and latency by request size, then rate over time."""
    sizes = sorted({p.workload.block_bytes for run in runs for p in run.measured.phases})
    names = tuple(binary_bytes(size) for size in sizes)

    def shown(what: str, title: str) -> Panel:
        def groups_of(run: Run) -> list[Group]:
            groups = []
            for percent, (_, name) in reversed(NAMES.items()):
                some = [p for p in run.measured.phases if p.workload.read_percent == percent]
                values, deviations = generic.step_values([phase.step for phase in some], what)
                x = [binary_bytes(phase.workload.block_bytes) for phase in some]
                groups.append(Group(name, x, values, deviations, "solid" if percent else "dot"))
            return groups

        return Curves(
            f"{prefix}-{what}",
            runs,
            groups_of,
            title=title,
            unit="MB/s" if what == "rate" else "ms, mean",
            x=Axis(scale="category", categories=names),
            samples=model.counted(runs, "seconds" if what == "rate" else "ios"),
            lead="Solid: reads; dotted: writes.",
            scales=(model.LINEAR,) if what == "rate" else (model.LOG,),
            choose=False,
            hover="{group} of {x}: {y} {unit}",
            height=360,
            wide=what == "rate",
        ).panel()

    return [
        shown("rate", "Data rate by request size"),
        shown("latency", "Mean latency by request size"),
        time.over_time(prefix, runs),
    ]


def _thermal_bars(_measured: Measured) -> list[BarOf]:
    """Time until the drop, rate before it and rate after it."""
    return [
        BarOf("throttle_after_s", "Time until the rate drops", "s"),
        BarOf("initial_rate", "Data rate before the drop", "MB/s", half=True),
        BarOf("throttled_rate", "Data rate after the drop", "MB/s", half=True),
    ]


def _thermal_panels(prefix: str, runs: Sequence[Run]) -> list[Panel]:
    """Rate over time, then latency and stages."""
    return [time.over_time(prefix, runs), *latencies.inside(prefix, runs)]


def _thermal_remarks(measured: Measured) -> list[str]:
    """Reason why there is no drop, or another possible cause of it."""
    figure = measured.figures.get("throttle_after_s")
    return [figure.note] if figure is not None and figure.note else []


MIXED = Kind(bars=_mixed_bars, panels=_mixed_panels)
SIZES = Kind(panels=_sizes_panels)
THERMAL = Kind(bars=_thermal_bars, panels=_thermal_panels, remarks=_thermal_remarks)
