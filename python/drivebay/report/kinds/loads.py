"""Tests with several loads: scores and rates, by compressibility, by queue depth and mix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from drivebay.analysis import Measured
from drivebay.analysis.groups import by_mix
from drivebay.report.base.runs import Run
from drivebay.report.charts import latency, model, time
from drivebay.report.charts.curves import BOTH, Curves, Group
from drivebay.report.charts.model import Axis, Panel
from drivebay.report.kinds.generic import Kind, step_values

UNITS = {"rate": "MB/s", "iops": "IOPS", "latency": "ms"}
# Maximum number of loads whose latencies are drawn; with more, only the tables list them.
MANY = 12


def _remarks(measured: Measured) -> list[str]:
    """Formula of each score and its source."""
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


def _curves(chart_id: str, runs: Sequence[Run], title: str, what: str, x: Axis) -> Panel:
    """Value of each mix by compressibility or queue depth."""

    def groups_of(run: Run) -> list[Group]:
        groups = []
        for group in by_mix(run.measured.phases):
            loads = [phase.workload for phase in group.phases]
            depths = [load.queue_depth for load in loads]
            percents = [load.content.compressible_percent for load in loads]
            y, _ = step_values([phase.step for phase in group.phases], what)
            groups.append(Group(group.words, depths if x.scale == "log" else percents, y))
        return groups

    return Curves(
        chart_id,
        runs,
        groups_of,
        title=title,
        unit=UNITS[what],
        x=x,
        scales=BOTH,
    ).panel()


def _compression_panels(prefix: str, runs: Sequence[Run]) -> list[Panel]:
    """Rate by compressibility of the data, and rate over time."""
    axis = Axis("compressible data, %", limits=(-4, 104), tick_step=20)
    curve = _curves(f"{prefix}-curve", runs, "Data rate by compressibility", "rate", axis)
    return [replace(curve, wide=True), time.over_time(prefix, runs)]


def _ladders_panels(prefix: str, runs: Sequence[Run]) -> list[Panel]:
    """IOPS and mean latency of each mix by queue depth, and rate over time."""
    axis = model.depth_axis([step.queue_depth for run in runs for step in run.measured.steps])
    shown = [
        _curves(f"{prefix}-iops", runs, "IOPS by queue depth and mix", "iops", axis),
        _curves(f"{prefix}-latency", runs, "Mean latency by queue depth and mix", "latency", axis),
        time.over_time(prefix, runs),
    ]
    few = all(len(run.measured.phases) <= MANY for run in runs)
    return shown + (latency.inside(prefix, runs) if few else [])


LOADS = Kind(remarks=_remarks)
COMPRESSION = replace(LOADS, panels=_compression_panels)
LADDERS = replace(LOADS, panels=_ladders_panels)
