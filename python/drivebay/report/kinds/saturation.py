"""SNIA's write saturation: IOPS over time and over data written, and latency, by the minute."""

from __future__ import annotations

from collections.abc import Sequence

from drivebay.analysis import timeline
from drivebay.report import captions, charts_groups
from drivebay.report.blocks import inside_panels, names_of
from drivebay.report.charts import Json
from drivebay.report.charts_groups import Group
from drivebay.report.entries import Run
from drivebay.report.kinds import generic
from drivebay.report.kinds.base import Kind
from drivebay.report.panels import Note, Panel, panel

MINUTE_S = 60
SHORT_S = 20 * MINUTE_S
"""A run under so many seconds is drawn by the second."""


def panels(prefix: str, found: Sequence[Run]) -> list[Panel]:
    """The specification's three plots, then latency and stages."""
    return [
        _panel(f"{prefix}-time", found, "IOPS over time", "IOPS", "hours", wide=True),
        _panel(f"{prefix}-written", found, "IOPS over data written", "IOPS", "GB written"),
        _panel(f"{prefix}-latency-time", found, "Mean latency over time", "ms", "hours"),
        *inside_panels(prefix, found),
    ]


def _panel(
    chart_id: str, found: Sequence[Run], title: str, unit: str, across: str, *, wide: bool = False
) -> Panel:
    short = all(run.measured.phases[0].timeline.n < SHORT_S for run in found)

    def of(run: Run) -> list[Group]:
        minutes = timeline.stretches(run.measured.phases[0].timeline, 1 if short else MINUTE_S)
        x = minutes.written_gb if across == "GB written" else minutes.end_s / 3600
        y = minutes.ios if unit == "IOPS" else minutes.latency_ms_mean
        return [Group("", [round(float(one), 4) for one in x], y.tolist(), marks=len(x) < 100)]

    longest = max(max(group.x, default=1.0) for run in found for group in of(run))
    axis: Json = {"title": {"text": across}, "range": [0, longest]}
    return panel(
        title,
        charts_groups.chart(chart_id, found, of, unit=unit, axis=axis),
        names_of(found),
        [f"n = {run.measured.phases[0].timeline.n:,} s" for run in found],
        Note(captions.ZERO, "linear"),
        Note(captions.LOG, "log"),
        lead="One point per second." if short else "Means of a minute.",
        switches=charts_groups.switches(found, of),
        key=charts_groups.key(found, of),
        wide=wide,
    )


KIND = Kind(bars=generic.bars, panels=panels, say=generic.say, table=captions.figures_table)
