"""Replayed traces: the Storage Bench, and a drive that ages by writes between its replays.

The reviews published data rate, mean latency, and the shares of I/Os over 10 and 100 ms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from drivebay.analysis import Measured
from drivebay.report.base.runs import Run
from drivebay.report.base.text import number
from drivebay.report.charts import model
from drivebay.report.charts.curves import BOTH, Curves, Group
from drivebay.report.charts.model import Panel
from drivebay.report.kinds import generic
from drivebay.report.kinds.generic import LOWER, BarOf, Kind

BUSY = "Data rates of trace replays are over busy time, without idle time."


def _bars(measured: Measured) -> list[BarOf]:
    """The four figures of the reviews; with several phases the main figures of the analysis."""
    if "rate" not in measured.figures:
        return generic.bars(measured)
    return [
        BarOf("rate", measured.figures["rate"].label, "MB/s"),
        BarOf("latency_mean", "Mean latency", "µs", LOWER),
        BarOf("over_10_ms", "I/Os over 10 ms", "%", LOWER, half=True),
        BarOf("over_100_ms", "I/Os over 100 ms", "%", LOWER, half=True),
    ]


def _remarks(measured: Measured) -> list[str]:
    """Check of rate, latency and outstanding I/Os by Little's law."""
    bench = measured.phases[0].bench if measured.phases else None
    if bench is None:
        return []
    verdict = "agree" if bench.little_holds else "do not agree: some time is not accounted for"
    return [
        f"Little's law: {number(bench.ios / bench.busy_s)} I/Os per second over "
        f"{number(bench.busy_s)} s of busy time, times a mean latency of "
        f"{number(bench.latency_mean_us)} µs, gives {number(bench.little)} outstanding I/Os; "
        f"{number(bench.outstanding_mean)} were counted. The two values {verdict}. With idle time "
        f"the run takes {number(bench.wall_s)} s."
    ]


def _panels(prefix: str, runs: Sequence[Run]) -> list[Panel]:
    """Generic charts; the chart over time includes idle time, as its caption notes."""
    return [
        replace(panel, lead=f"{panel.lead} {BUSY}") if panel.chart.id == f"{prefix}-time" else panel
        for panel in generic.panels(prefix, runs)
    ]


def _ageing_panels(prefix: str, runs: Sequence[Run]) -> list[Panel]:
    """Data rate over busy time and mean latency of every replay."""
    return [
        _each(f"{prefix}-rate", runs, "Data rate of each replay", "MB/s"),
        _each(f"{prefix}-latency", runs, "Mean latency of each replay", "ms"),
    ]


def _each(chart_id: str, runs: Sequence[Run], title: str, unit: str) -> Panel:
    def groups_of(run: Run) -> list[Group]:
        benches = [(phase.label, phase.bench) for phase in run.measured.phases if phase.bench]
        y = [
            bench.rate_busy if unit == "MB/s" else bench.latency_mean_us / 1e3
            for _, bench in benches
        ]
        return [Group("", [label for label, _ in benches], y)]

    ios = [sum(p.bench.ios for p in run.measured.phases if p.bench) for run in runs]
    return Curves(
        chart_id,
        runs,
        groups_of,
        title=title,
        unit=unit,
        samples=model.spoken(runs, [f"n = {count:,} I/Os" for count in ios]),
        lead="Over busy time." if unit == "MB/s" else "",
        scales=BOTH,
        wide=True,
    ).panel()


TRACE = Kind(bars=_bars, panels=_panels, remarks=_remarks)
AGEING = Kind(panels=_ageing_panels)
