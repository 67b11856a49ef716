"""Tests of kind `idle`: power and first read by idle time, and sleep of the drive."""

from __future__ import annotations

from collections.abc import Sequence

from drivebay.analysis import Measured
from drivebay.analysis.idle import WOKEN, rest_s
from drivebay.report.base.runs import Run
from drivebay.report.base.text import number
from drivebay.report.charts import latency, model
from drivebay.report.charts.curves import LOG_FIRST
from drivebay.report.charts.model import Axis, Panel
from drivebay.report.kinds import generic
from drivebay.report.kinds.generic import LOWER, BarOf, Kind

UNITS = {"latency_mean": "µs", "power_mean": "mW"}


def _bars(measured: Measured) -> list[BarOf]:
    """Latency and power of the longest idle time; for a single phase those of the test."""
    last = max(measured.phases, key=rest_s).label
    names = [f"{name}_{last}" if len(measured.phases) > 1 else name for name in UNITS]
    shown = [measured.figures[name] for name in names]
    return [BarOf(figure.key, figure.label, figure.unit, LOWER, half=True) for figure in shown]


def _panels(prefix: str, runs: Sequence[Run]) -> list[Panel]:
    """Latency and power by idle time, latencies and stages. Values over time are left out: a
    virtual drive updates its power per second only when commands arrive.
    """
    if not all(len(run.measured.phases) > 1 for run in runs):
        return generic.panels(prefix, runs)

    axis = Axis("idle time before each read", "category")

    def by_rest(name: str, title: str, samples: str = "") -> Panel:
        def keys_of(run: Run) -> list[tuple[str, str]]:
            rests = [(rest_s(phase), phase.label) for phase in run.measured.phases]
            rests.sort(key=lambda rest: rest[0])
            return [(f"{s:g} s" if s else "none", f"{name}_{label}") for s, label in rests]

        chart_id = f"{prefix}-{name.partition('_')[0]}"
        more = {"x": axis, "samples": samples, "scales": LOG_FIRST}
        return generic.by_figure(chart_id, runs, keys_of, title, UNITS[name], **more)

    shown = [by_rest("latency_mean", "Mean read latency by idle time")]
    powers = [figure.value for run in runs for figure in run.measured.figures.values()
              if figure.key.startswith("power_mean_")]  # fmt: skip
    if any(value is not None for value in powers):
        seconds = model.counted(runs, "seconds")
        shown.append(by_rest("power_mean", "Mean power by idle time", seconds))
    return [*shown, *latency.inside(prefix, runs)]


def _remarks(measured: Measured) -> list[str]:
    """Share of reads that woke the drive, or the reason why it is unknown."""
    woken = measured.figures.get(WOKEN)
    if woken is None:
        return []
    if woken.value is None:
        return [woken.note]
    return [f"{number(woken.value)} % of the reads after idle time woke the drive or its link"]


IDLE = Kind(bars=_bars, panels=_panels, remarks=_remarks)
