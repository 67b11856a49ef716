"""Several loads in one test: scores and rates; over compressibility; by depth and mix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from drivebay.analysis import Measured
from drivebay.analysis.groups import by_mix
from drivebay.report import captions, charts_groups
from drivebay.report.blocks import inside_panels, names_of, time_panel
from drivebay.report.charts import Json, depth_axis
from drivebay.report.charts_groups import Group
from drivebay.report.entries import Run
from drivebay.report.kinds import generic
from drivebay.report.kinds.base import Kind
from drivebay.report.panels import Note, Panel, panel

MANY = 12
"""With more loads than that their latencies have no row each: the tables have them."""


def panels(prefix: str, found: Sequence[Run]) -> list[Panel]:
    """Rate and mean latency of each load as bars, the course of the run, latency and stages."""
    return [
        _each(f"{prefix}-rate", found, "Data rate by load", "MB/s"),
        _each(f"{prefix}-latency", found, "Mean latency by load", "ms"),
        time_panel(prefix, found),
        *inside_panels(prefix, found),
    ]


def _each(chart_id: str, found: Sequence[Run], title: str, unit: str) -> Panel:
    def of(run: Run) -> list[Group]:
        steps = run.measured.steps
        latencies = [step.latency_mean_us for step in steps]
        milli = [float("nan") if us is None else us / 1e3 for us in latencies]
        rates = [step.rate_mb_s for step in steps]
        return [Group("", [step.label for step in steps], rates if unit == "MB/s" else milli)]

    axis: Json = {"type": "category"}
    return panel(
        title,
        charts_groups.chart(chart_id, found, of, unit=unit, axis=axis, bars=True),
        names_of(found),
        [f"n = {sum(s.total_ios for s in run.measured.steps):,} I/Os" for run in found],
        Note(captions.ZERO, "linear"),
        Note(captions.LOG, "log"),
        switches=charts_groups.switches(found, of),
        key=charts_groups.key(found, of),
        wide=False,
    )


def remarks(measured: Measured) -> list[str]:
    """Where each score's formula is from."""
    weights = {
        score.key: ", ".join(f"{label} x {weight:g}" for label, weight in score.terms.items())
        for score in measured.test.scores
    }
    rules = {"sum": "the sum of", "geometric-mean": "the weighted geometric mean of"}
    return [
        f"{score.label}: {rules[score.rule]} {weights[score.key]}"
        f"{'' if score.factor == 1 else f', times {score.factor:g}'}, in {score.rate_unit} "
        f"({score.source})"
        for score in measured.test.scores
    ]


def _curves(chart_id: str, found: Sequence[Run], title: str, what: str, axis: Json) -> Panel:
    """What the loads of each mix do over compressibility or queue depth."""
    unit = {"rate": "MB/s", "iops": "IOPS", "latency": "ms"}[what]

    def of(run: Run) -> list[Group]:
        groups = []
        for group in by_mix(run.measured.phases):
            depth = "type" in axis  # a logarithmic axis is one of queue depths
            x = [
                p.workload.queue_depth if depth else p.workload.content.compressible_percent
                for p in group.phases
            ]
            y = {
                "rate": [p.step.rate_mb_s for p in group.phases],
                "iops": [p.step.iops for p in group.phases],
                "latency": [(p.step.latency_mean_us or 0.0) / 1e3 for p in group.phases],
            }[what]
            groups.append(Group(group.words, x, y))
        return groups

    return panel(
        title,
        charts_groups.chart(chart_id, found, of, unit=unit, axis=axis),
        names_of(found),
        [f"n = {sum(s.total_ios for s in run.measured.steps):,} I/Os" for run in found],
        Note(captions.ZERO, "linear"),
        Note(captions.LOG, "log"),
        switches=charts_groups.switches(found, of),
        key=charts_groups.key(found, of),
        wide=False,
    )


def compression_panels(prefix: str, found: Sequence[Run]) -> list[Panel]:
    """The rate over how far the data can be compressed, and the course of the run."""
    axis: Json = {"title": {"text": "compressible, %"}, "range": [-4, 104], "dtick": 20}
    curve = _curves(f"{prefix}-curve", found, "Data rate by compressibility", "rate", axis)
    return [replace(curve, wide=True), time_panel(prefix, found)]


def ladders_panels(prefix: str, found: Sequence[Run]) -> list[Panel]:
    """IOPS and mean latency of each mix by queue depth, and the course of the run."""
    axis = depth_axis([step.queue_depth for run in found for step in run.measured.steps])
    shown = [
        _curves(f"{prefix}-iops", found, "IOPS by queue depth and mix", "iops", axis),
        _curves(f"{prefix}-latency", found, "Mean latency by queue depth and mix", "latency", axis),
        time_panel(prefix, found),
    ]
    few = all(len(run.measured.phases) <= MANY for run in found)
    return shown + (inside_panels(prefix, found) if few else [])


LOADS = Kind(
    bars=generic.bars,
    panels=panels,
    say=generic.say,
    table=captions.figures_table,
    remarks=remarks,
)
COMPRESSION = replace(LOADS, panels=compression_panels)
LADDERS = replace(LOADS, panels=ladders_panels)
