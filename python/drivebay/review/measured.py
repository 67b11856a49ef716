"""A test's phases as a target gives them, measured: for who keeps figures and no folder."""

from __future__ import annotations

from collections.abc import Iterable

from drivebay.analysis import Measured
from drivebay.analysis.figures import PhaseData
from drivebay.analysis.measure import measure
from drivebay.definitions.suites import Test
from drivebay.results.records import PhaseResult


def measured(test: Test, phases: Iterable[PhaseResult]) -> Measured:
    """What a review of this test alone would say of these phases."""
    return measure(test, [_data(phase) for phase in phases])


def _data(phase: PhaseResult) -> PhaseData:
    return PhaseData(
        label=phase.label,
        workload=phase.workload,
        duration_s=phase.duration_s,
        reads=phase.reads,
        writes=phase.writes,
        read_bytes=phase.read_bytes,
        write_bytes=phase.write_bytes,
        series=phase.series,
        histogram=phase.histogram,
        stages=phase.stages,
        metrics=phase.metrics,
        conditions=phase.conditions,
    )
