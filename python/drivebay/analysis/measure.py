"""Every figure of one test, by name: what headlines, comparisons and charts are made from.

A figure always carries its unit, its spread and how many samples it rests on. A figure that cannot
be computed is there with value None and a note that says why, never left out in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from drivebay.analysis import consistency as consistencies
from drivebay.analysis import groups, latency, mixes, power, stages, timeline, trim_write
from drivebay.analysis import ladder as ladders
from drivebay.analysis import rounds as roundings
from drivebay.analysis import storage_bench as benches
from drivebay.analysis import thermal as thermals
from drivebay.analysis.figures import (
    IOS,
    SD,
    Figure,
    Measured,
    PhaseData,
    PhaseFigures,
)
from drivebay.suites import Test

__all__ = ["IOS", "KINDS", "SD", "Figure", "Measured", "PhaseData", "PhaseFigures", "measure"]

SLOW_MS = (10, 100)
"""The reviews' limits: the share of I/Os slower than these."""
SMALL_BLOCK_BYTES = 8192
"""Up to this size a load is known by its IOPS, above it by its data rate."""


def measure(test: Test, phases: Sequence[PhaseData]) -> Measured:
    """All figures of a test; a kind without a function of its own has those of its phases."""
    computed = tuple(_phase(phase) for phase in phases)
    measured = KINDS.get(test.kind, _any_kind)(test, computed)
    rows = [*measured.figures.values(), *power.of_power(computed)]
    return replace(measured, figures=_by_key(rows))


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


def _any_kind(test: Test, phases: tuple[PhaseFigures, ...]) -> Measured:
    """Rate and mean latency of every phase; of a lone phase all that is known."""
    rows = [row for phase in phases for row in _of_any_phase(phase, alone=len(phases) == 1)]
    rows += _of_phases(phases)
    main = tuple(row.key for row in rows if row.unit == "MB/s")
    return Measured(test, phases, _by_key(rows), main)


def _loads(test: Test, phases: tuple[PhaseFigures, ...]) -> Measured:
    """Scores before the phases that they are made of."""
    measured = _any_kind(test, phases)
    rates = dict(groups.rates(phases))
    scores = [
        Figure(
            f"score_{score.key}",
            score.label,
            points := score.points(rates),
            "points",
            n=len(score.terms),
            n_kind="phases",
            note="" if points is not None else "not all phases were run",
        )
        for score in test.scores
    ]
    main = tuple(row.key for row in scores) + measured.main
    return Measured(test, phases, _by_key([*scores, *measured.figures.values()]), main)


def _compression(test: Test, phases: tuple[PhaseFigures, ...]) -> Measured:
    """For each direction the rate of random data, of the most compressible, and their ratio."""
    rows = []
    for group in groups.by_mix(phases):
        ends = sorted(group.phases, key=lambda one: one.workload.content.compressible_percent)
        first, last = ends[0].step, ends[-1].step
        percent = ends[-1].workload.content.compressible_percent
        gain = last.rate_mb_s / first.rate_mb_s if first.rate_mb_s else None
        rows.append(
            Figure(
                f"gain_{group.name}",
                f"{group.words}: {percent} % compressible over random data",
                gain,
                "",
                n=len(ends),
                n_kind="phases",
                note="" if gain is not None else "nothing was moved",
            )
        )
    measured = _any_kind(test, phases)
    rows += measured.figures.values()
    main = tuple(row.key for row in rows if row.key.startswith("gain_"))
    return Measured(test, phases, _by_key(rows), main)


def _ladders(test: Test, phases: tuple[PhaseFigures, ...]) -> Measured:
    """Every mix's rate and IOPS by queue depth; the deepest is the main one."""
    rows, main = [], []
    for group in groups.by_mix(phases):
        for one in _of_ladder([phase.step for phase in group.phases], None, ())[1:]:
            kind, _, depth = one.key.partition("_")
            label = f"{group.words}, {inside_label(one.label)}"
            rows.append(replace(one, key=f"{kind}_{group.name}_{depth}", label=label))
        main.append(rows[-1].key)
    return Measured(test, phases, _by_key(rows), tuple(main))


def inside_label(label: str) -> str:
    """A label as the second part of another: abbreviations keep their capitals.

    >>> inside_label("Data rate at QD 4"), inside_label("IOPS at QD 4")
    ('data rate at QD 4', 'IOPS at QD 4')
    """
    return label if label[:2].isupper() else label[:1].lower() + label[1:]


def _rounds(test: Test, phases: tuple[PhaseFigures, ...]) -> Measured:
    """Rates and latencies of the last rounds, after how many there were."""
    assert test.rounds is not None, "a rounds test has its rule"
    metrics = {phase.label: phase.metrics for phase in phases}
    found = roundings.rounds(test.rounds, metrics)
    rows = [_of_rounds(found, test.rounds.rounds_max)]
    for phase in phases:
        rows += _of_any_phase(phase, alone=False)
        longest = max(roundings.history(phase.metrics, "latency_max_us"), default=None)
        if longest is not None:
            last = roundings.history(phase.metrics, "latency_max_us")[-test.rounds.window_rounds :]
            label = f"Longest latency, {phase.label}"
            rows.append(
                Figure(
                    f"latency_max_{phase.label}",
                    label,
                    max(last),
                    "µs",
                    n=phase.step.total_ios,
                    n_kind=IOS,
                )
            )
    what = {"iops": "iops", "latency": "latency_mean"}[test.rounds.variable]
    large = all(phase.workload.block_bytes > SMALL_BLOCK_BYTES for phase in phases)
    what = "rate" if large and what == "iops" else what
    main = ("steady_rounds", *(f"{what}_{label}" for label in test.rounds.tracked))
    return Measured(test, phases, _by_key(rows), main, rounds=found)


def _of_rounds(found: roundings.RoundsFound | None, most: int) -> Figure:
    note = "" if found and found.reached else f"steady state was not reached in {most} rounds"
    count = found.count if found else 0
    return Figure(
        "steady_rounds",
        "Rounds until steady" if found and found.reached else "Rounds, steady state not reached",
        float(count) if found else None,
        "",
        n=count,
        n_kind="rounds",
        note=note if found else "too few rounds were run",
    )


def _saturation(test: Test, phases: tuple[PhaseFigures, ...]) -> Measured:
    """From the first minute to the last window, and how much was written in all."""
    rows: list[Figure] = []
    if phases:
        line = phases[0].timeline
        window_s = test.metric_window_s or 60.0
        for key, label, part in (
            ("iops_first", f"IOPS, first {min(60, line.n):,} s", slice(0, 60)),
            ("iops_last", f"IOPS, last {min(round(window_s), line.n):,} s", line.last(window_s)),
        ):
            some = timeline.spread(line.ios[part])
            rows.append(
                Figure(
                    key,
                    label,
                    some.mean if some else None,
                    "IOPS",
                    some.sd if some else None,
                    SD,
                    some.n if some else 0,
                    note="" if some else _TOO_SHORT,
                )
            )
        written = phases[0].step.rate_mb_s * line.seconds_total / 1e3
        rows.append(Figure("written_gb", "Written in all", written, "GB", n=line.n))
        rows.append(Figure("length_s", "Length of the run", line.seconds_total, "s", n=line.n))
    main = ("iops_first", "iops_last", "written_gb")
    return Measured(test, phases, _by_key(rows + _of_phases(phases)), main)


def _ageing(test: Test, phases: tuple[PhaseFigures, ...]) -> Measured:
    """For each part of the test the slowest and the mean rate over busy time, then every replay."""
    rows: list[Figure] = []
    for group in groups.by_age(phases):
        rates = [one.bench.rate_busy for one in group.phases if one.bench is not None]
        for key, label, value in (
            ("rate", "mean data rate", sum(rates) / len(rates)),
            ("rate_lowest", "lowest data rate", min(rates)),
            ("rate_last", "last data rate", rates[-1]),
        ):
            rows.append(
                Figure(
                    f"{key}_{group.name}",
                    f"{group.words}, {label}",
                    value,
                    "MB/s",
                    n=len(rates),
                    n_kind="replays",
                )
            )
    main = tuple(row.key for row in rows if row.key.startswith(("rate_lowest_", "rate_last_")))
    for phase in phases:
        if phase.bench is None:
            rows += _of_any_phase(phase, alone=False)[:2]
            continue
        for key, label, value, unit in (
            ("busy_rate", "Data rate over busy time", phase.bench.rate_busy, "MB/s"),
            ("latency_mean", "Mean latency", phase.bench.latency_mean_us, "µs"),
            ("over_10_ms", "I/Os over 10 ms", phase.bench.over_10_ms_percent, "%"),
        ):
            rows.append(
                Figure(
                    f"{key}_{phase.label}",
                    f"{label}, {phase.label}",
                    value,
                    unit,
                    n=phase.bench.ios,
                    n_kind=IOS,
                )
            )
    return Measured(test, phases, _by_key(rows), main)


def _mixed(test: Test, phases: tuple[PhaseFigures, ...]) -> Measured:
    rows = mixes.of_mixes(phases) + _of_phases(phases)
    return Measured(test, phases, _by_key(rows), ("mean_rate", "rate_lowest", "rate_highest"))


def _sizes(test: Test, phases: tuple[PhaseFigures, ...]) -> Measured:
    rows = mixes.of_sizes(phases) + _of_phases(phases)
    main = tuple(row.key for row in rows if row.key.startswith("highest_"))
    return Measured(test, phases, _by_key(rows), main)


def _trim_write(test: Test, phases: tuple[PhaseFigures, ...]) -> Measured:
    rows = trim_write.of_trim_write(phases) + _of_phases(phases)
    ends = dict.fromkeys(phases[place].label for place in (0, -1)) if phases else {}
    main = ("left_percent", *(f"rate_{label}" for label in ends))
    return Measured(test, phases, _by_key(rows), main)


KINDS: dict[str, Callable[[Test, tuple[PhaseFigures, ...]], Measured]] = {
    "ageing": _ageing,
    "compression": _compression,
    "consistency": _consistency,
    "ladder": _ladder,
    "ladders": _ladders,
    "loads": _loads,
    "mixed": _mixed,
    "rounds": _rounds,
    "saturation": _saturation,
    "sizes": _sizes,
    "thermal": _thermal,
    "trace": _trace,
    "trim-write": _trim_write,
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
        phase.metrics,
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
        *power.of_power([phase]),
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
