"""Every figure of one test, by name: what headlines, comparisons and charts are made from.

A figure always carries its unit, its spread and how many samples it rests on. A figure that cannot
be computed is there with value None and a note that says why, never left out in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from drivebay.analysis import consistency as consistencies
from drivebay.analysis import ladder as ladders
from drivebay.analysis import latency, stages, timeline
from drivebay.analysis import storage_bench as benches
from drivebay.analysis import thermal as thermals
from drivebay.analysis import trim as trims
from drivebay.analysis.stages import OverTime
from drivebay.suites import Test, Workload

SAMPLES = "1 s samples"
IOS = "I/Os"
SD = "standard deviation of 1 s samples"
SLOW_MS = (10, 100)
"""The reviews' limits: the share of I/Os slower than these."""
SMALL_BLOCK_BYTES = 8192
"""Up to this size a load is known by its IOPS, above it by its data rate."""


@dataclass(frozen=True)
class PhaseData:
    """One phase as the result folder has it; tables follow the schemas of `targets.base`, and
    `conditions` are those of the whole test."""

    label: str
    workload: Workload
    duration_s: float
    reads: int
    writes: int
    read_bytes: int
    write_bytes: int
    series: pa.Table
    histogram: pa.Table
    stages: pa.Table | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    conditions: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Figure:
    """One number with what is needed to believe it.

    `spread` is in the figure's own unit, of the kind `spread_kind` says; `n` counts `n_kind`.
    """

    key: str
    label: str
    value: float | None
    unit: str
    spread: float | None = None
    spread_kind: str = ""
    n: int = 0
    n_kind: str = SAMPLES
    note: str = ""


@dataclass(frozen=True)
class PhaseFigures:
    """One phase, computed: its timeline, merged histogram, stages, power and the ladder's row."""

    label: str
    workload: Workload
    timeline: timeline.Timeline
    histogram: latency.Histogram
    stages: tuple[stages.StageShare, ...]
    step: ladders.Step
    throttled_s: float | None = None
    stages_over_time: OverTime | None = None
    bench: benches.StorageBench | None = None


@dataclass(frozen=True)
class Measured:
    """One test's figures, by key, in the order to be read; `main` are those of the short table.

    `consistency`, `thermal`, `depth_mean` and `trim` are there for tests of that kind alone, and
    None where the run was too short for a single full second.
    """

    test: Test
    phases: tuple[PhaseFigures, ...]
    figures: Mapping[str, Figure]
    main: tuple[str, ...] = ()
    consistency: consistencies.Consistency | None = None
    thermal: thermals.Thermal | None = None
    depth_mean: ladders.DepthMean | None = None
    trim: trims.Trim | None = None

    @property
    def steps(self) -> tuple[ladders.Step, ...]:
        """The ladder's rows, one per phase."""
        return tuple(phase.step for phase in self.phases)

    @property
    def whole(self) -> timeline.Timeline:
        """All phases one after the other."""
        return timeline.joined([phase.timeline for phase in self.phases])


def measure(test: Test, phases: Sequence[PhaseData]) -> Measured:
    """All figures of a test; a kind without a function of its own has those of its phases."""
    computed = tuple(_phase(phase) for phase in phases)
    measured = KINDS.get(test.kind, _any_kind)(test, computed)
    found = trims.trim(phases[0].conditions) if phases else None
    measured = measured if found is None else _with_trim(measured, found)
    steady = _of_steady(phases[0].metrics) if phases else {}
    return replace(measured, figures={**measured.figures, **steady}) if steady else measured


def _consistency(test: Test, phases: tuple[PhaseFigures, ...]) -> Measured:
    window_s = test.metric_window_s or 0
    found = consistencies.consistency(phases[0].timeline, window_s=window_s) if phases else None
    rows = _of_consistency(found) + _of_phases(phases)
    main = ("mean_iops", "sd_iops", "mean_over_sd")
    return Measured(test, phases, _by_key(rows), main, consistency=found)


def _thermal(test: Test, phases: tuple[PhaseFigures, ...]) -> Measured:
    heat = thermals.thermal(phases[0].timeline) if phases else None
    rows = _of_thermal(heat) + _of_phases(phases)
    main = ("throttle_after_s", "initial_rate", "throttled_rate")
    return Measured(test, phases, _by_key(rows), main, thermal=heat)


def _trace(test: Test, phases: tuple[PhaseFigures, ...]) -> Measured:
    rows = _of_trace(phases[0].bench if phases else None) + _of_phases(phases)
    main = ("rate", "latency_mean", "over_10_ms", "over_100_ms", "outstanding")
    return Measured(test, phases, _by_key(rows), main)


def _ladder(test: Test, phases: tuple[PhaseFigures, ...]) -> Measured:
    steps = [phase.step for phase in phases]
    mean = ladders.mean_over(steps, test.metric_queue_depths)
    rows = _of_ladder(steps, mean, test.metric_queue_depths)
    small = all(phase.workload.block_bytes <= SMALL_BLOCK_BYTES for phase in phases)
    deepest = max((step.queue_depth for step in steps), default=0)
    whole = ("mean_rate", f"{'iops' if small else 'rate'}_qd{deepest}")
    main = whole if len(steps) > 1 else (f"rate_qd{deepest}",)
    return Measured(test, phases, _by_key(rows), main, depth_mean=mean)


def _with_trim(measured: Measured, found: trims.Trim) -> Measured:
    """What a validation found besides how long its reads take; its rates mean nothing, as it waits
    between reads."""
    share = 100 * found.old_blocks / found.blocks
    label = "Discarded blocks that give old data"
    note = f"not offered: {found.why_not}" if found.verdict == "not offered" else ""
    rows = [Figure("old_share", label, share, "%", n=found.blocks, n_kind="blocks", note=note)]
    rows += [one for key, one in measured.figures.items() if key.startswith("latency_")]
    return replace(measured, figures=_by_key(rows), main=("old_share",), trim=found)


def _of_steady(metrics: Mapping[str, float]) -> dict[str, Figure]:
    """The rounds that were run before the test until its rate was steady, if it asks for that."""
    rounds = metrics.get("steady_rounds")
    if rounds is None:
        return {}
    note = "" if metrics.get("steady_reached") else f"not steady within {rounds:,.0f} rounds"
    return {"steady_rounds": Figure("steady_rounds", "Rounds until steady", rounds, "", note=note)}


def _any_kind(test: Test, phases: tuple[PhaseFigures, ...]) -> Measured:
    """Rate and mean latency of every phase; of a lone phase all that is known."""
    rows = [row for phase in phases for row in _of_any_phase(phase, alone=len(phases) == 1)]
    rows += _of_phases(phases)
    main = tuple(row.key for row in rows if row.unit == "MB/s")
    return Measured(test, phases, _by_key(rows), main)


KINDS: dict[str, Callable[[Test, tuple[PhaseFigures, ...]], Measured]] = {
    "consistency": _consistency,
    "ladder": _ladder,
    "thermal": _thermal,
    "trace": _trace,
}
"""What computes each kind of test; a new kind is one function and one line here."""


def _phase(phase: PhaseData) -> PhaseFigures:
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
        latency_mean_ns=_mean_latency_ns(phase.series),
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
    )


def _mean_latency_ns(series: pa.Table) -> float | None:
    """Mean over all I/Os, from each second's mean and its count."""
    reads, writes = (np.asarray(series.column(name).to_numpy()) for name in ("reads", "writes"))
    ios = (reads + writes).astype(float)
    mean = np.asarray(series.column("latency_ns_mean").to_numpy(zero_copy_only=False), dtype=float)
    known = ~np.isnan(mean) & (ios > 0)
    return float(np.average(mean[known], weights=ios[known])) if known.any() else None


def _by_key(rows: list[Figure]) -> dict[str, Figure]:
    """The figures by key; a test's own one goes before that of its phase."""
    found: dict[str, Figure] = {}
    for row in rows:
        found.setdefault(row.key, row)
    return found


_TOO_SHORT = "the run has not one full second"
_ONE_SECOND = "the run has a single full second"
_SAME = "every second was the same"


def _of_consistency(found: consistencies.Consistency | None) -> list[Figure]:
    if found is None:
        return [Figure("mean_iops", "Mean IOPS", None, "IOPS", note=_TOO_SHORT)]
    n = found.window.n
    last = f"last {n:,} s"
    burst, after = found.burst, found.after
    no_burst = "" if burst else "the rate never fell under half of its start"
    return [
        Figure(
            "mean_iops", f"Mean IOPS, {last}", found.window.mean, "IOPS", found.window.sd, SD, n
        ),
        Figure(
            "sd_iops",
            f"Standard deviation, {last}",
            found.window.sd,
            "IOPS",
            n=n,
            note="" if n > 1 else _ONE_SECOND,
        ),
        Figure(
            "mean_over_sd",
            f"Mean over standard deviation, {last}",
            found.mean_over_sd,
            "",
            n=n,
            note="" if found.mean_over_sd else _SAME if n > 1 else _ONE_SECOND,
        ),
        Figure("lowest_iops", f"Slowest second, {last}", found.lowest, "IOPS", n=n),
        Figure(
            "burst_iops",
            "IOPS of the first burst",
            burst.mean if burst else None,
            "IOPS",
            burst.sd if burst else None,
            SD,
            burst.n if burst else 0,
            note=no_burst,
        ),
        Figure(
            "burst_s",
            "Length of the first burst",
            found.burst_s,
            "s",
            1.0 if found.burst_s else None,
            "resolution of the samples",
            found.burst_s or 0,
            note=no_burst,
        ),
        Figure(
            "after_burst_iops",
            "Median IOPS after the burst",
            found.after_median,
            "IOPS",
            after.sd if after else None,
            SD,
            after.n if after else 0,
            note=no_burst,
        ),
    ]


def _of_thermal(found: thermals.Thermal | None) -> list[Figure]:
    if found is None:
        return [Figure("initial_rate", "Data rate at the start", None, "MB/s", note=_TOO_SHORT)]
    fell = found.fall_s is not None
    after = found.after
    held = "" if fell else "the rate never fell under half of its start and stayed there"
    if found.by_heat is False:
        held = "the drive reports no throttling at that time: the fall is not from heat"
    elif fell and found.by_heat is None:
        held = "the target does not report throttling; a full write cache looks the same"
    return [
        Figure(
            "throttle_after_s",
            "Time until the rate falls",
            found.fall_s,
            "s",
            1.0 if fell else None,
            "resolution of the samples",
            found.before.n,
            note=held,
        ),
        Figure(
            "initial_rate",
            "Data rate before" if fell else "Data rate, never throttled",
            found.before.mean,
            "MB/s",
            found.before.sd,
            SD,
            found.before.n,
        ),
        Figure(
            "throttled_rate",
            "Data rate after",
            after.mean if after else None,
            "MB/s",
            after.sd if after else None,
            SD,
            after.n if after else 0,
            note="" if after else held,
        ),
        Figure(
            "written_before_throttle",
            "Moved before the rate falls" if fell else "Moved in all",
            found.moved_gb if fell else None,
            "GB",
            found.initial.mean / 1e3 if fell else None,
            "one second's worth",
            found.before.n,
            note="" if fell else held,
        ),
    ]


def _of_phases(phases: Sequence[PhaseFigures]) -> list[Figure]:
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
        *_slow_shares(phase),
        Figure("waf", "Write amplification", step.waf, "", n=n, n_kind=IOS, note=_absent(step.waf)),
        Figure(
            "power_mean",
            "Mean power",
            step.power.mean if step.power else None,
            "W",
            step.power.sd if step.power else None,
            SD,
            step.power.n if step.power else 0,
            note=_absent(step.power),
        ),
        Figure(
            "temperature_peak",
            "Highest temperature",
            peak,
            "°C",
            n=phase.timeline.n if peak is not None else 0,
            note=_absent(peak),
        ),
        Figure(
            "throttled_s",
            "Time spent throttling",
            phase.throttled_s,
            "s",
            n=phase.timeline.n if phase.throttled_s is not None else 0,
            note=_absent(phase.throttled_s),
        ),
    ]


def _of_trace(bench: benches.StorageBench | None) -> list[Figure]:
    if bench is None:
        return [Figure("rate", "Data rate", None, "MB/s", note="no I/O of the trace was issued")]
    n = bench.ios
    off = "" if bench.little_holds else "does not agree with rate and latency: time was lost"
    values = [
        ("rate", "Data rate over busy time", bench.rate_busy, "MB/s", ""),
        ("rate_wall", "Data rate over wall time", bench.rate_wall, "MB/s", ""),
        ("over_10_ms", "I/Os over 10 ms", bench.over_10_ms_percent, "%", ""),
        ("over_100_ms", "I/Os over 100 ms", bench.over_100_ms_percent, "%", ""),
        ("outstanding", "Mean outstanding, counted", bench.outstanding_mean, "", off),
        ("little", "Mean outstanding by Little's law", bench.little, "", ""),
        ("outstanding_max", "Most outstanding", float(bench.outstanding_max), "", ""),
        ("busy_s", "Busy time", bench.busy_s, "s", ""),
        ("wall_s", "Wall time", bench.wall_s, "s", ""),
    ]
    return [
        Figure(key, label, value, unit, n=n, n_kind=IOS, note=note)
        for key, label, value, unit, note in values
    ]


def _absent(value: object) -> str:
    return "" if value is not None else "not reported by this target"


def _of_ladder(
    steps: Sequence[ladders.Step], mean: ladders.DepthMean | None, depths: Sequence[int]
) -> list[Figure]:
    asked = ", ".join(map(str, depths))
    label = f"Mean of QD {asked}" if len(depths) > 1 else f"Data rate at QD {asked}"
    rows = [
        Figure(
            "mean_rate",
            label,
            mean.rate_mb_s if mean else None,
            "MB/s",
            mean.sd if mean else None,
            SD,
            mean.n if mean else 0,
            note="" if mean else f"not all of the queue depths {asked} were run",
        )
    ]
    for step in steps:
        at, rate, ios = f"QD {step.queue_depth}", step.rate, step.ios
        rows += [
            Figure(
                f"rate_qd{step.queue_depth}",
                f"Data rate at {at}",
                step.rate_mb_s,
                "MB/s",
                rate.sd if rate else None,
                SD,
                rate.n if rate else 0,
            ),
            Figure(
                f"iops_qd{step.queue_depth}",
                f"IOPS at {at}",
                step.iops,
                "IOPS",
                ios.sd if ios else None,
                SD,
                ios.n if ios else 0,
            ),
        ]
    return rows


def _slow_shares(phase: PhaseFigures, key: str = "", of: str = "") -> list[Figure]:
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


def _of_any_phase(phase: PhaseFigures, *, alone: bool) -> list[Figure]:
    step = phase.step
    key, of = ("", "") if alone else (f"_{phase.label}", f", {phase.label}")
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
                note=_absent(mean),
            )
        )
        rows += _slow_shares(phase, key, of)
    return rows
