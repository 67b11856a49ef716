"""A drive that ages and recovers: rate and latency of the replays, one after another."""

from __future__ import annotations

from collections.abc import Sequence

from drivebay.report import captions, charts_groups
from drivebay.report.blocks import names_of
from drivebay.report.charts import Json
from drivebay.report.charts_groups import Group
from drivebay.report.entries import Run
from drivebay.report.kinds import generic
from drivebay.report.kinds.base import Kind
from drivebay.report.panels import Note, Panel, panel


def panels(prefix: str, found: Sequence[Run]) -> list[Panel]:
    """Every replay's data rate over busy time, and its mean latency."""
    return [
        _panel(f"{prefix}-rate", found, "Data rate of each replay", "MB/s"),
        _panel(f"{prefix}-latency", found, "Mean latency of each replay", "ms"),
    ]


def _panel(chart_id: str, found: Sequence[Run], title: str, unit: str) -> Panel:
    def of(run: Run) -> list[Group]:
        benches = [(phase.label, phase.bench) for phase in run.measured.phases if phase.bench]
        y = [one.rate_busy if unit == "MB/s" else one.latency_mean_us / 1e3 for _, one in benches]
        return [Group("", [label for label, _ in benches], y)]

    axis: Json = {"type": "category"}
    ios = [sum(p.bench.ios for p in run.measured.phases if p.bench) for run in found]
    return panel(
        title,
        charts_groups.chart(chart_id, found, of, unit=unit, axis=axis),
        names_of(found),
        [f"n = {count:,} I/Os" for count in ios],
        Note(captions.ZERO, "linear"),
        Note(captions.LOG, "log"),
        lead="Over busy time." if unit == "MB/s" else "",
        switches=charts_groups.switches(found, of),
        key=charts_groups.key(found, of),
    )


KIND = Kind(bars=generic.bars, panels=panels, say=generic.say, table=captions.figures_table)
