"""Tests of kind `idle`: power and first read by idle time, and sleep of the drive."""

from __future__ import annotations

from collections.abc import Sequence

from drivebay.analysis import Measured
from drivebay.analysis.idle import WOKEN, rest_s
from drivebay.report.base.runs import Run
from drivebay.report.base.text import number
from drivebay.report.charts import latency, model
from drivebay.report.charts.curves import LOG_FIRST, Curves, Group
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

    def by_rest(name: str, title: str, *, ios: bool) -> Panel:
        def groups_of(run: Run) -> list[Group]:
            phases = sorted(run.measured.phases, key=rest_s)
            rests = [f"{rest_s(value):g} s" if rest_s(value) else "none" for value in phases]
            values = [run.measured.figures[f"{name}_{value.label}"].value for value in phases]
            return [Group("", rests, values)]

        return Curves(
            f"{prefix}-{name.partition('_')[0]}",
            runs,
            groups_of,
            title=title,
            unit=UNITS[name],
            x=Axis("idle time before each read", scale="category"),
            samples=model.counted(runs, "ios" if ios else "seconds"),
            scales=LOG_FIRST,
            height=320,
        ).panel()

    shown = [by_rest("latency_mean", "Mean read latency by idle time", ios=True)]
    powers = [figure.value for run in runs for figure in run.measured.figures.values()
              if figure.key.startswith("power_mean_")]  # fmt: skip
    if any(value is not None for value in powers):
        shown.append(by_rest("power_mean", "Mean power by idle time", ios=False))
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
