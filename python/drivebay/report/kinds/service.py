"""Latency by another quantity: by the requested rate, and by working set.

Sources: SNIA's PTS and SSD-iq draw latency against IOPS; AnandTech and TechPowerUp against the span
of the addresses. Left out: tests of kind `qos` without shares of a rate, which are shown as any
other test.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from drivebay.analysis import latency as figures
from drivebay.analysis.figures import PhaseFigures
from drivebay.analysis.service import SERVED
from drivebay.definitions.suites import spoken
from drivebay.report.base.runs import Run
from drivebay.report.charts import latency, model, time
from drivebay.report.charts.curves import CATEGORIES, LOG_FIRST, Curves, Group
from drivebay.report.charts.model import Axis, Panel
from drivebay.report.kinds import generic
from drivebay.report.kinds.generic import Kind

BIN_ERROR = (
    f"Percentiles are nearest-rank percentiles of histogram bins, at most "
    f"{figures.BIN_ERROR_PERCENT} % too high."
)


def over(
    chart_id: str,
    runs: Sequence[Run],
    title: str,
    x: Axis,
    place_of: Callable[[PhaseFigures], Any],
    *,
    percentiles: Sequence[float] = (99.0, SERVED),
    wide: bool = False,
) -> Panel:
    """Mean and percentiles of each phase by the value of `place_of`, a number or a category."""

    def groups(run: Run) -> list[Group]:
        phases = list(run.measured.phases)
        phases = phases if x.scale == "category" else sorted(phases, key=place_of)
        places, steps = [place_of(phase) for phase in phases], [phase.step for phase in phases]
        lines = [("mean", [step.latency_mean_us for step in steps])]
        lines += [(f"p{q:g}", [step.percentiles_us.get(q) for step in steps]) for q in percentiles]
        drawn = []
        for name, values in lines:
            ms = [None if us is None else us / 1e3 for us in values]
            drawn.append(Group(name, places, ms, dash="dot" if name == "mean" else "solid"))
        return drawn

    return Curves(
        chart_id,
        runs,
        groups,
        title=title,
        unit="ms",
        x=x,
        notes=[BIN_ERROR],
        scales=LOG_FIRST,
        choice="Latency",
        wide=wide,
    ).panel()


def _qos_panels(prefix: str, runs: Sequence[Run]) -> list[Panel]:
    """Latency by IOPS if the phases are shares of a rate; else the generic charts."""
    phases = [phase for run in runs for phase in run.measured.test.phases]
    if not any(phase.rate_of for phase in phases) or any(phase.together for phase in phases):
        return generic.panels(prefix, runs)
    axis = Axis("achieved IOPS", tick_form="si", include=0)
    return [
        over(f"{prefix}-load", runs, "Latency by IOPS", axis, attrgetter("step.iops"), wide=True),
        time.over_time(prefix, runs, latency=True),
        *latency.inside(prefix, runs),
    ]


def _span_panels(prefix: str, runs: Sequence[Run]) -> list[Panel]:
    """Latency by span of the addresses."""
    axis = Axis("working set", "category", wrap=CATEGORIES.wrap)
    title = "Latency by working set"
    return [
        over(f"{prefix}-span", runs, title, axis, lambda phase: spoken(phase.label), wide=True),
        time.over_time(prefix, runs, latency=True),
    ]


def _per_watt(prefix: str, runs: Sequence[Run]) -> list[Panel]:
    """Data rate per watt of each load if power is known, the generic charts, and the power."""
    shown = generic.panels(prefix, runs)
    if all(phase.step.power is None for run in runs for phase in run.measured.phases):
        return shown

    def keys_of(run: Run) -> list[tuple[str, str]]:
        return [(spoken(phase.label), f"per_watt_{phase.label}") for phase in run.measured.phases]

    title, seconds = "Data rate per watt by load", model.counted(runs, "seconds")
    per_watt = generic.by_figure(
        f"{prefix}-per-watt", runs, keys_of, title, "MB/s per W", samples=seconds, bars=True
    )
    power = generic.by_phase(prefix, runs, "power", "Power by load", bars=True)
    return [per_watt, *shown, power]


def _waf_panels(prefix: str, runs: Sequence[Run]) -> list[Panel]:
    """Write amplification of each load and handle, and the generic charts."""

    def keys_of(run: Run) -> list[tuple[str, str]]:
        keys = {}
        several = any(phase.together for phase in run.measured.test.phases)
        for phase in run.measured.phases:
            name, key = spoken(phase.label), f"waf_{phase.label}"
            if key in run.measured.main:
                keys["all" if several else name] = key
            if (key := f"waf_handle_{phase.label}") in run.measured.figures:
                keys[f"{name}, {phase.workload.place}"] = key
        return list(keys.items())

    seconds = model.counted(runs, "seconds")
    waf = generic.by_figure(
        f"{prefix}-waf", runs, keys_of, "Write amplification", "", samples=seconds, bars=True
    )
    return [waf, *generic.panels(prefix, runs)]


QOS = Kind(panels=_qos_panels)
WORKING_SET = Kind(panels=_span_panels)
EFFICIENCY = Kind(panels=_per_watt)
WAF = Kind(panels=_waf_panels)
