"""Distribution of latencies: share of I/Os slower than each latency, from exact counts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from drivebay.analysis import latency
from drivebay.analysis.figures import PhaseFigures
from drivebay.report.base.runs import Run, phase_name
from drivebay.report.charts import model
from drivebay.report.charts.curves import Curves, Group
from drivebay.report.charts.model import Axis, Panel
from drivebay.report.charts.stages import stages

TAIL_FLOOR_PERCENT = 1e-4
TITLE = "latency in ms"


def inside(prefix: str, runs: Sequence[Run]) -> list[Panel]:
    """Latency distribution and, for virtual drives, the latency breakdown."""
    return _tail(f"{prefix}-tail", runs) + stages(prefix, runs)


def _limits(phases: Sequence[PhaseFigures]) -> model.Limits:
    low = min(int(phase.histogram.low_ns[0]) for phase in phases)
    high = max(int(phase.histogram.high_ns[-1]) for phase in phases)
    return model.log_limits(max(low, 1) / 1e6, high / 1e6)


def _tail(chart_id: str, runs: Sequence[Run]) -> list[Panel]:
    """Share of I/Os slower than each latency, one load at a time."""
    phases = [p for run in runs for p in run.measured.phases if p.histogram.total]
    if not phases:
        return []

    def groups_of(run: Run) -> list[Group]:
        groups = []
        for phase in run.measured.phases:
            if not phase.histogram.total:
                continue
            drawn = latency.for_drawing(phase.histogram)
            # From 100 % below the fastest I/O to none above the slowest.
            edges = np.concatenate([drawn.low_ns[:1], drawn.high_ns]) / 1e6
            slower = np.concatenate([[100.0], latency.slower_percent(drawn)])
            slower[-1] = TAIL_FLOOR_PERCENT
            name = phase_name(run, phase)
            groups.append(Group(name, edges.tolist(), slower.tolist(), marks=False))
        return groups

    return [
        Curves(
            chart_id,
            runs,
            groups_of,
            title="Latency distribution",
            unit="%",
            x=Axis(TITLE, "log", _limits(phases)),
            y=Axis("% of I/Os that took longer", "log", model.log_limits(TAIL_FLOOR_PERCENT, 100)),
            samples=model.counted(runs, "histogram"),
            notes=["Both axes are logarithmic and do not start at zero."],
            lead="Share of I/Os that took longer than each latency, from exact counts.",
            steps=True,
            choice="Load",
            hover="{y} % slower than {x} ms",
            height=320,
        ).panel()
    ]
