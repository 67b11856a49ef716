"""Computation of one phase, and the figures that phases have in every kind of test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from drivebay.analysis import ladder as ladders
from drivebay.analysis import latency, stages, steadiness, timeline
from drivebay.analysis import storage_bench as benches
from drivebay.analysis.figures import SLOW_MS, Figure, PhaseFigures, iops, mean_of, per_io, rate
from drivebay.definitions.suites import spoken
from drivebay.results.records import PhaseResult

# Relative difference below which both kinds of write amplification are one figure.
ROUNDED = 0.005
PEAKS = {"power_w_peak_100ms": "highest 100 ms", "power_w_peak_1s": "highest second"}


def computed(phase: PhaseResult) -> PhaseFigures:
    """Computes a phase's timeline, histogram, stages and row."""
    seconds = timeline.from_table(phase.series, phase.duration_s)
    seconds = timeline.slowed(seconds, stages.heat_percent(phase.stages, seconds.n))
    counts = latency.from_table(phase.histogram)
    total, moved = phase.reads + phase.writes, phase.read_bytes + phase.write_bytes
    step = ladders.step(
        phase.label,
        phase.workload.queue_depth,
        seconds,
        counts,
        total_ios=total,
        total_bytes=moved,
        latency_mean_ns=phase.metrics.get("latency_ns_mean") or _mean_latency_ns(phase.series),
        metrics=phase.metrics,
    )
    return PhaseFigures(
        phase.label,
        phase.workload,
        seconds,
        counts,
        stages.shares(phase.stages, total_ios=total),
        step,
        phase.metrics.get("throttled_s"),
        stages.over_time(phase.stages, seconds.ios),
        benches.storage_bench(ios=total, moved_bytes=moved, metrics=phase.metrics),
        phase.metrics,
        latency.by_direction(phase.histogram),
    )


def _mean_latency_ns(series: pa.Table) -> float | None:
    """Mean over all I/Os, from each second's mean and count."""
    reads, writes = (np.asarray(series.column(name).to_numpy()) for name in ("reads", "writes"))
    ios = (reads + writes).astype(float)
    mean = np.asarray(series.column("latency_ns_mean").to_numpy(zero_copy_only=False), dtype=float)
    known = ~np.isnan(mean) & (ios > 0)
    return float(np.average(mean[known], weights=ios[known])) if known.any() else None


def absent(value: object) -> str:
    return "" if value is not None else "not reported by this target"


def of_phases(phases: Sequence[PhaseFigures]) -> list[Figure]:
    """Additional figures of a test with a single phase: latency, power, heat, WAF."""
    if len(phases) != 1:
        return []
    phase = phases[0]
    step, seconds, n = phase.step, phase.timeline.n, phase.step.total_ios
    peak = timeline.highest(phase.timeline.temperature_c)
    return [
        per_io("latency_mean", "Mean latency", step.latency_mean_us, "µs", n),
        *(
            percentile(q, us, n if us or phase.histogram.total else 0)
            for q, us in step.percentiles_us.items()
        ),
        *slow_shares(phase),
        *of_amplification(phase),
        *of_power([phase]),
        _per_second("temperature_peak", "Peak temperature", peak, "°C", seconds),
        _per_second("throttled_s", "Throttling reported", phase.throttled_s, "s", seconds),
    ]


def of_amplification(phase: PhaseFigures, key: str = "", suffix: str = "") -> list[Figure]:
    """Write amplification by mapping units, and by bytes (JESD218) if it is known; `key` and
    `suffix` name the phase.
    """
    n, waf, by_bytes = phase.step.total_ios, phase.step.waf, phase.metrics.get("waf_bytes")
    rows = [per_io(f"waf{key}", f"Write amplification{suffix}", waf, "", n, absent(waf))]
    if by_bytes is not None and waf is not None and abs(by_bytes - waf) > ROUNDED * waf:
        label = f"Write amplification by bytes (JESD218){suffix}"
        rows.append(per_io(f"waf_bytes{key}", label, by_bytes, "", n))
    return rows


def unsteady(phase: PhaseFigures) -> str:
    """Reason why a phase's figures are not those of a steady state; empty if they are."""
    courses = {"rate": steadiness.fifths(phase.timeline.rate_mb_s)}
    if amplified := [v for name, v in phase.metrics.items() if name.startswith("waf_part_")]:
        courses["amplification"] = amplified
    return steadiness.unsteady(courses, freed=phase.metrics.get("freed"))


def percentile(q: float, us: float | None, n: int, key: str = "", suffix: str = "") -> Figure:
    """A latency percentile with the width of its bin; `key` and `suffix` name the phase."""
    note = "" if us is not None else "too few I/Os for this percentile" if n else absent(us)
    width = None if us is None else us * latency.BIN_ERROR_PERCENT / 100
    figure = per_io(f"latency_p{q:g}{key}", f"Latency p{q:g}{suffix}", us, "µs", n, note)
    return replace(figure, spread=width, spread_kind="width of the histogram's bin")


def _per_second(key: str, label: str, value: float | None, unit: str, seconds: int) -> Figure:
    n = 0 if value is None else seconds
    return Figure(key, label, value, unit, n=n, note=absent(value))


def slow_shares(phase: PhaseFigures, key: str = "", suffix: str = "") -> list[Figure]:
    """Share of I/Os over each of the reviews' limits; the bin of the limit counts in full."""
    n = phase.histogram.total
    reported = {} if n else {ms: phase.metrics.get(f"over_{ms}_ms_percent") for ms in SLOW_MS}
    none = ""
    if None in reported.values():
        none = absent(None) if phase.step.iops else "no I/O was completed"
    rows = []
    for ms in SLOW_MS:
        share = latency.share_slower_percent(phase.histogram, ms * 10**6) if n else reported[ms]
        label = f"I/Os over {ms} ms{suffix}"
        rows.append(per_io(f"over_{ms}_ms{key}", label, share, "%", n, none))
    return rows


def of_any_phase(phase: PhaseFigures, *, alone: bool) -> list[Figure]:
    """Rate and IOPS of a phase; for one of several phases its latency too, which a single phase
    has among the figures of its test.
    """
    step = phase.step
    key, suffix = ("", "") if alone else (f"_{phase.label}", f", {spoken(phase.label)}")
    rows = [
        rate(f"rate{key}", f"Data rate{suffix}", step),
        iops(f"iops{key}", f"IOPS{suffix}", step),
    ]
    if alone:
        return rows
    mean = step.latency_mean_us
    label = f"Mean latency{suffix}"
    rows.append(per_io(f"latency_mean{key}", label, mean, "µs", step.total_ios, absent(mean)))
    return rows + slow_shares(phase, key, suffix)


def of_each(phases: Sequence[PhaseFigures]) -> list[Figure]:
    """Figures that every phase has; for a single phase, all its figures."""
    alone = len(phases) == 1
    rows = [row for phase in phases for row in of_any_phase(phase, alone=alone)]
    return rows + of_phases(phases)


def of_power(phases: Sequence[PhaseFigures]) -> list[Figure]:
    """Mean and peak power, with value None if the target reports no power.

    Source: AnandTech's 2015 client suite logs power once per second. For a virtual drive the core
    records the peak of ten samples per second; for a real one the highest second is known.
    """
    watts = np.concatenate([phase.timeline.power_w for phase in phases] or [np.empty(0)])
    some = timeline.spread(watts)
    note = absent(some)
    peak, basis = timeline.highest(watts), "highest second"
    for name, metric_basis in PEAKS.items():
        if phases and all(name in phase.metrics for phase in phases):
            peak, basis = max(phase.metrics[name] for phase in phases), metric_basis
            break
    n = some.n if some else 0
    return [
        mean_of("power_mean", "Mean power", some, "W", note),
        Figure("power_peak", f"Peak power, {basis}", peak, "W", n=n, note=absent(peak)),
    ]
