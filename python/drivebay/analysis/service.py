"""Figures of drives that serve several loads at once: latency percentiles, write amplification.

Sources: SSD-iq (Haas et al., VLDB 2025) prints mean, median, p99, p99.9 and p99.99 of reads and of
writes against the rate that was asked for, and write amplification against skew and used capacity;
SNIA's PTS has percentiles at a rate as quality of service.
Left out: percentiles of each second; of a phase all I/Os count alike.
"""

from __future__ import annotations

from dataclasses import replace

from drivebay.analysis import latency
from drivebay.analysis.figures import Figure, Measured, PhaseFigures, by_key, iops, per_io
from drivebay.analysis.phases import absent, of_phases, percentile
from drivebay.definitions.suites import Test, spoken

Phases = tuple[PhaseFigures, ...]
SERVED = 99.9
"""The percentile that stands for a load in the short table."""


def qos(test: Test, phases: Phases) -> Measured:
    """IOPS, mean latency and percentiles of every phase."""
    rows = [row for phase in phases for row in _latencies(phase)]
    main = tuple(f"latency_p{SERVED:g}_{phase.label}" for phase in phases)
    return Measured(test, phases, by_key([*rows, *of_phases(phases)]), main)


def working_set(test: Test, phases: Phases) -> Measured:
    """The same of spans of growing size, whose mean latency tells most."""
    main = tuple(f"latency_mean_{phase.label}" for phase in phases)
    return replace(qos(test, phases), main=main)


def waf(test: Test, phases: Phases) -> Measured:
    """Write amplification and IOPS of every phase, and that of its placement handle where the drive
    has some."""
    rows = []
    for phase in phases:
        step, of = phase.step, f", {spoken(phase.label)}"
        n, note = step.total_ios, absent(step.waf)
        name = f"Write amplification{of}"
        rows.append(per_io(f"waf_{phase.label}", name, step.waf, "", n, note))
        if (own := phase.metrics.get("waf_handle")) is not None:
            name = f"Write amplification of {phase.workload.place}{of}"
            rows.append(per_io(f"waf_handle_{phase.label}", name, own, "", n))
        rows.append(iops(f"iops_{phase.label}", f"IOPS{of}", step))
    # Phases that run together have one drive: its figure is the first's.
    firsts = [phase.label for phase in test.phases if not phase.together]
    main = tuple(f"waf_{phase.label}" for phase in phases if phase.label in firsts)
    main += tuple(row.key for row in rows if row.key.startswith("waf_handle_"))
    return Measured(test, phases, by_key([*rows, *of_phases(phases)]), main)


def _latencies(phase: PhaseFigures) -> list[Figure]:
    step, of = phase.step, f", {spoken(phase.label)}"
    n, mean = step.total_ios, step.latency_mean_us
    rows = [iops(f"iops_{phase.label}", f"IOPS{of}", step)]
    name = f"Mean latency{of}"
    rows.append(per_io(f"latency_mean_{phase.label}", name, mean, "µs", n, absent(mean)))
    key, known = f"_{phase.label}", step.percentiles_us.items()
    rows += [percentile(q, us, n, key, of) for q, us in known]
    return rows + (_by_direction(phase) if len(phase.directions) > 1 else [])


def _by_direction(phase: PhaseFigures) -> list[Figure]:
    """Latencies of the reads and of the writes of a mix."""
    rows = []
    for direction, found in phase.directions.items():
        n, of = found.total, f", {direction}s, {spoken(phase.label)}"
        key, mean = f"_{direction}_{phase.label}", latency.mean_us(found)
        rows.append(per_io(f"latency_mean{key}", f"Mean latency{of}", mean, "µs", n))
        known = latency.percentiles_us(found).items()
        rows += [percentile(q, us, n, key, of) for q, us in known]
    return rows
