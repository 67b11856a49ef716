"""Latency where it depends on something: on the rate that was asked for, and on the working set.

Sources: SNIA's PTS and SSD-iq draw latency against IOPS; AnandTech and TechPowerUp against the span
of the addresses. Left out: tests of kind `qos` without shares of a rate, which are shown as any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from drivebay.analysis.figures import PhaseFigures
from drivebay.analysis.service import SERVED
from drivebay.definitions.suites import spoken
from drivebay.report.charts import latency, model, time
from drivebay.report.charts.curves import LOG_FIRST, Group, curves
from drivebay.report.charts.model import Axis, Panel
from drivebay.report.kinds import generic
from drivebay.report.kinds.generic import Kind
from drivebay.report.runs import Run

SHOWN = (99.0, SERVED)
"""The percentiles beside the mean."""


def _over(
    chart_id: str,
    found: Sequence[Run],
    title: str,
    x: Axis,
    of: Callable[[PhaseFigures], float | str],
) -> Panel:
    """Mean and percentiles of each phase over what `of` gives."""

    def groups(run: Run) -> list[Group]:
        phases = sorted(run.measured.phases, key=lambda one: one.step.iops)
        phases = list(run.measured.phases) if x.scale == "category" else phases
        places, steps = [of(phase) for phase in phases], [phase.step for phase in phases]
        lines = [("mean", [step.latency_mean_us for step in steps])]
        lines += [(f"p{q:g}", [step.percentiles_us.get(q) for step in steps]) for q in SHOWN]
        return [
            Group(name, places, [float("nan") if us is None else us / 1e3 for us in values])
            for name, values in lines
        ]

    return curves(
        chart_id,
        found,
        groups,
        title=title,
        unit="ms",
        x=x,
        samples=model.counted(found, "ios"),
        scales=LOG_FIRST,
        wide=True,
    )


def _qos_panels(prefix: str, found: Sequence[Run]) -> list[Panel]:
    """Latency over IOPS where the phases are shares of a rate; else as of any test."""
    phases = [phase for run in found for phase in run.measured.test.phases]
    if not any(phase.rate_of for phase in phases) or any(phase.together for phase in phases):
        return generic.panels(prefix, found)
    axis = Axis("IOPS reached", tick_form="si", include=0)
    return [
        _over(f"{prefix}-load", found, "Latency over IOPS", axis, lambda one: one.step.iops),
        time.over_time(prefix, found, latency=True),
        *latency.inside(prefix, found),
    ]


def _span_panels(prefix: str, found: Sequence[Run]) -> list[Panel]:
    """Latency over the span of the addresses."""
    axis = Axis("working set", "category", wrap=generic.PHASE_WRAP)
    title = "Latency by working set"
    return [
        _over(f"{prefix}-span", found, title, axis, lambda one: spoken(one.label)),
        time.over_time(prefix, found, latency=True),
    ]


def _per_watt(prefix: str, found: Sequence[Run]) -> list[Panel]:
    """What any test has, and the power of each load."""
    power = generic.by_phase(prefix, found, "power", "Power by load", bars=True)
    return [*generic.panels(prefix, found), power]


QOS = Kind(panels=_qos_panels)
WORKING_SET = Kind(panels=_span_panels)
EFFICIENCY = Kind(panels=_per_watt)
