"""Figures of drives that serve several loads at once: latency percentiles, write amplification.

Sources: SSD-iq (Haas et al., VLDB 2025) prints mean, median, p99, p99.9 and p99.99 of reads and of
writes against the requested rate, and write amplification against skew and used capacity; SNIA's
PTS has percentiles at a rate as quality of service. Leaves out: percentiles of each second; all
I/Os of a phase count equally.
"""

from __future__ import annotations

from dataclasses import replace

from drivebay.analysis import latency
from drivebay.analysis.figures import Figure, Measured, PhaseFigures, Phases, by_key, iops, per_io
from drivebay.analysis.phases import of_amplification, of_any_phase, of_phases, percentile
from drivebay.definitions.suites import Test, spoken

# The percentile that represents a load in the short table.
SERVED = 99.9


def qos(test: Test, phases: Phases) -> Measured:
    """IOPS, mean latency and percentiles of every phase."""
    rows = [row for phase in phases for row in _latencies(phase)]
    main = tuple(f"latency_p{SERVED:g}_{phase.label}" for phase in phases)
    return Measured(test, phases, by_key([*rows, *of_phases(phases)]), main)


def working_set(test: Test, phases: Phases) -> Measured:
    """IOPS, mean latency and percentiles of spans of growing size; the mean latency is the main
    figure.
    """
    main = tuple(f"latency_mean_{phase.label}" for phase in phases)
    return replace(qos(test, phases), main=main)


def waf(test: Test, phases: Phases) -> Measured:
    """Write amplification and IOPS of every phase, and the write amplification of its placement
    handle if the drive has several.
    """
    rows = []
    for phase in phases:
        step, suffix = phase.step, f", {spoken(phase.label)}"
        rows += of_amplification(phase, f"_{phase.label}", suffix)
        if (own := phase.metrics.get("waf_handle")) is not None:
            name = f"Write amplification of {phase.workload.place}{suffix}"
            rows.append(per_io(f"waf_handle_{phase.label}", name, own, "", step.total_ios))
        rows.append(iops(f"iops_{phase.label}", f"IOPS{suffix}", step))
    # Phases that run together share one drive, whose figure is reported with the first of them.
    firsts = [phase.label for phase in test.phases if not phase.together]
    main = tuple(f"waf_{phase.label}" for phase in phases if phase.label in firsts)
    main += tuple(row.key for row in rows if row.key.startswith("waf_handle_"))
    return Measured(test, phases, by_key([*rows, *of_phases(phases)]), main)


def _latencies(phase: PhaseFigures) -> list[Figure]:
    key, suffix = f"_{phase.label}", f", {spoken(phase.label)}"
    known, n = phase.step.percentiles_us.items(), phase.step.total_ios
    rows = of_any_phase(phase, alone=False)[1:3]
    rows += [percentile(q, us, n, key, suffix) for q, us in known]
    return rows + (_by_direction(phase) if len(phase.directions) > 1 else [])


def _by_direction(phase: PhaseFigures) -> list[Figure]:
    """Separate latencies of the reads and of the writes of a mix."""
    rows = []
    for direction, histogram in phase.directions.items():
        n, suffix = histogram.total, f", {direction}s, {spoken(phase.label)}"
        key, mean = f"_{direction}_{phase.label}", latency.mean_us(histogram)
        rows.append(per_io(f"latency_mean{key}", f"Mean latency{suffix}", mean, "µs", n))
        known = latency.percentiles_us(histogram).items()
        rows += [percentile(q, us, n, key, suffix) for q, us in known]
    return rows
