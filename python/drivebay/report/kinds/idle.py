"""Tests of kind `idle`: power and the first read by length of rest, and whether the drive slept."""

from __future__ import annotations

from collections.abc import Sequence

from drivebay.analysis import Measured
from drivebay.analysis.idle import WOKEN, rest_s
from drivebay.report.charts import latency, model
from drivebay.report.charts.curves import LOG_FIRST, Group, curves
from drivebay.report.charts.model import Axis, Panel
from drivebay.report.kinds import generic
from drivebay.report.kinds.generic import LOWER, BarOf, Kind
from drivebay.report.runs import Run
from drivebay.report.text import number

UNITS = {"latency_mean": "µs", "power_mean": "mW"}


def _bars(measured: Measured) -> list[BarOf]:
    """Latency and power of the longest rest; of a lone phase those of the test."""
    last = max(measured.phases, key=rest_s).label
    names = [f"{name}_{last}" if len(measured.phases) > 1 else name for name in UNITS]
    shown = [measured.figures[name] for name in names]
    return [BarOf(one.key, one.label, one.unit, LOWER, half=True) for one in shown]


def _panels(prefix: str, found: Sequence[Run]) -> list[Panel]:
    """Latency and power by length of rest, latencies and stages. Without the course of the run: the
    seconds of a virtual drive know power only as commands come."""
    if not all(len(run.measured.phases) > 1 for run in found):
        return generic.panels(prefix, found)

    def by_rest(name: str, title: str, *, ios: bool) -> Panel:
        def of(run: Run) -> list[Group]:
            phases = sorted(run.measured.phases, key=rest_s)
            rests = [f"{rest_s(one):g} s" if rest_s(one) else "none" for one in phases]
            values = [run.measured.figures[f"{name}_{one.label}"].value for one in phases]
            return [Group("", rests, [float("nan") if one is None else one for one in values])]

        return curves(
            f"{prefix}-{name.partition('_')[0]}",
            found,
            of,
            title=title,
            unit=UNITS[name],
            x=Axis("rest before each read", scale="category"),
            samples=model.counted(found, "ios" if ios else "seconds"),
            scales=LOG_FIRST,
            height=320,
        )

    shown = [by_rest("latency_mean", "Mean read latency by rest", ios=True)]
    powers = [figure.value for run in found for figure in run.measured.figures.values()
              if figure.key.startswith("power_mean_")]  # fmt: skip
    if any(value is not None for value in powers):
        shown.append(by_rest("power_mean", "Mean power by rest", ios=False))
    return [*shown, *latency.inside(prefix, found)]


def _remarks(measured: Measured) -> list[str]:
    """Whether the drive slept, or why it did not, as far as it is known."""
    woken = measured.figures.get(WOKEN)
    if woken is None:
        return []
    if woken.value is None:
        return [woken.note]
    return [f"{number(woken.value)} % of the reads after a rest woke the drive or its link"]


IDLE = Kind(bars=_bars, panels=_panels, remarks=_remarks)
