"""One phase, computed, and the figures that phases have whatever the kind of their test."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from drivebay.analysis import ladder as ladders
from drivebay.analysis import latency, power, stages, timeline
from drivebay.analysis import storage_bench as benches
from drivebay.analysis.figures import IOS, SD, SLOW_MS, Figure, PhaseFigures
from drivebay.definitions.suites import spoken
from drivebay.results.records import PhaseResult


def computed(phase: PhaseResult) -> PhaseFigures:
    seconds = timeline.from_table(phase.series, phase.duration_s)
    counts = latency.from_table(phase.histogram)
    total = phase.reads + phase.writes
    step = ladders.step(
        phase.label,
        phase.workload.queue_depth,
        seconds,
        counts,
        total_ios=total,
        total_bytes=phase.read_bytes + phase.write_bytes,
        latency_mean_ns=phase.metrics.get("latency_ns_mean") or _mean_latency_ns(phase.series),
        waf=phase.metrics.get("waf"),
    )
    where = stages.shares(phase.stages, total_ios=total)
    throttled = phase.metrics.get("throttled_s")
    bench = benches.storage_bench(
        ios=total, moved_bytes=phase.read_bytes + phase.write_bytes, metrics=phase.metrics
    )
    return PhaseFigures(
        phase.label,
        phase.workload,
        seconds,
        counts,
        where,
        step,
        throttled,
        stages.over_time(phase.stages, seconds.ios),
        bench,
        phase.metrics,
    )


def _mean_latency_ns(series: pa.Table) -> float | None:
    """Mean over all I/Os, from each second's mean and its count."""
    reads, writes = (np.asarray(series.column(name).to_numpy()) for name in ("reads", "writes"))
    ios = (reads + writes).astype(float)
    mean = np.asarray(series.column("latency_ns_mean").to_numpy(zero_copy_only=False), dtype=float)
    known = ~np.isnan(mean) & (ios > 0)
    return float(np.average(mean[known], weights=ios[known])) if known.any() else None


def absent(value: object) -> str:
    return "" if value is not None else "not reported by this target"


def of_phases(phases: Sequence[PhaseFigures]) -> list[Figure]:
    """What a test of one phase has besides its own figures: latency, power, heat, WAF."""
    if len(phases) != 1:
        return []
    phase = phases[0]
    step, n = phase.step, phase.step.total_ios
    peak = timeline.highest(phase.timeline.temperature_c)
    rows = [Figure("latency_mean", "Mean latency", step.latency_mean_us, "µs", n=n, n_kind=IOS)]
    rows += [
        Figure(
            f"latency_p{q:g}",
            f"Latency p{q:g}",
            us,
            "µs",
            None if us is None else us * latency.BIN_ERROR_PERCENT / 100,
            "width of the histogram's bin",
            n,
            IOS,
            "" if us is not None else "too few I/Os for this percentile",
        )
        for q, us in step.percentiles_us.items()
    ]
    return [
        *rows,
        *slow_shares(phase),
        Figure("waf", "Write amplification", step.waf, "", n=n, n_kind=IOS, note=absent(step.waf)),
        *power.of_power([phase]),
        Figure(
            "temperature_peak",
            "Highest temperature",
            peak,
            "°C",
            n=phase.timeline.n if peak is not None else 0,
            note=absent(peak),
        ),
        Figure(
            "throttled_s",
            "Time spent throttling",
            phase.throttled_s,
            "s",
            n=phase.timeline.n if phase.throttled_s is not None else 0,
            note=absent(phase.throttled_s),
        ),
    ]


def slow_shares(phase: PhaseFigures, key: str = "", of: str = "") -> list[Figure]:
    """The share of I/Os over each limit of the reviews; the bin of the limit counts in full."""
    counted = phase.histogram.total
    return [
        Figure(
            f"over_{limit}_ms{key}",
            f"I/Os over {limit} ms{of}",
            latency.share_slower_percent(phase.histogram, limit * 10**6) if counted else None,
            "%",
            n=counted,
            n_kind=IOS,
            note="" if counted else "no I/O was counted",
        )
        for limit in SLOW_MS
    ]


def of_any_phase(phase: PhaseFigures, *, alone: bool) -> list[Figure]:
    step = phase.step
    key, of = ("", "") if alone else (f"_{phase.label}", f", {spoken(phase.label)}")
    rows = [
        Figure(
            f"rate{key}",
            f"Data rate{of}",
            step.rate_mb_s,
            "MB/s",
            step.rate.sd if step.rate else None,
            SD,
            step.rate.n if step.rate else 0,
        ),
        Figure(
            f"iops{key}",
            f"IOPS{of}",
            step.iops,
            "IOPS",
            step.ios.sd if step.ios else None,
            SD,
            step.ios.n if step.ios else 0,
        ),
    ]
    if not alone:  # a lone phase has it among the figures of its phase
        mean = step.latency_mean_us
        rows.append(
            Figure(
                f"latency_mean{key}",
                f"Mean latency{of}",
                mean,
                "µs",
                n=step.total_ios,
                n_kind=IOS,
                note=absent(mean),
            )
        )
        rows += slow_shares(phase, key, of)
    return rows
