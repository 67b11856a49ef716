"""Every figure of one test, by name: what headlines, comparisons and charts are made from.

A figure always carries its unit, its spread and how many samples it rests on. A figure that cannot
be computed is there with value None and a note that says why, never left out in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from drivebay.analysis import consistency as consistencies
from drivebay.analysis import ladder as ladders
from drivebay.analysis import loads, mixes, power, steady_state, trim_write
from drivebay.analysis import storage_bench as benches
from drivebay.analysis import thermal as thermals
from drivebay.analysis import trim as trims
from drivebay.analysis.ageing import ageing
from drivebay.analysis.figures import (
    IOS,
    SD,
    SMALL_BLOCK_BYTES,
    Figure,
    Measured,
    PhaseFigures,
    by_key,
)
from drivebay.analysis.phases import computed, of_any_phase, of_phases
from drivebay.definitions.suites import Test
from drivebay.results.records import PhaseResult


def measure(test: Test, phases: Sequence[PhaseResult]) -> Measured:
    """All figures of a test; a kind without a function of its own has those of its phases."""
    known = tuple(computed(phase) for phase in phases)
    measured = KINDS.get(test.kind, _any_kind)(test, known)
    rows = [*measured.figures.values(), *power.of_power(known)]
    measured = replace(measured, figures=by_key(rows))
    found = trims.trim(phases[0].conditions) if phases else None
    measured = measured if found is None else _with_trim(measured, found)
    steady = _of_steady(test, phases[0].metrics) if phases else {}
    return replace(measured, figures={**measured.figures, **steady}) if steady else measured


def _consistency(test: Test, phases: tuple[PhaseFigures, ...]) -> Measured:
    window_s = test.metric_window_s or 0
    found = consistencies.consistency(phases[0].timeline, window_s=window_s) if phases else None
    rows = _of_consistency(found) + of_phases(phases)
    main = ("mean_iops", "sd_iops", "mean_over_sd")
    block_bytes = test.phases[0].workload.block_bytes
    if found is not None and block_bytes > SMALL_BLOCK_BYTES:
        rows = [_mean_rate(found, block_bytes), *rows]
        main = ("mean_rate", "sd_iops", "mean_over_sd")
    return Measured(test, phases, by_key(rows), main, consistency=found)


def _thermal(test: Test, phases: tuple[PhaseFigures, ...]) -> Measured:
    heat = thermals.thermal(phases[0].timeline) if phases else None
    rows = _of_thermal(heat) + of_phases(phases)
    main = ("throttle_after_s", "initial_rate", "throttled_rate")
    return Measured(test, phases, by_key(rows), main, thermal=heat)


def _trace(test: Test, phases: tuple[PhaseFigures, ...]) -> Measured:
    rows = _of_trace(phases[0].bench if phases else None) + of_phases(phases)
    main = ("rate", "latency_mean", "over_10_ms", "over_100_ms", "outstanding")
    return Measured(test, phases, by_key(rows), main)


def _ladder(test: Test, phases: tuple[PhaseFigures, ...]) -> Measured:
    steps = [phase.step for phase in phases]
    mean = ladders.mean_over(steps, test.metric_queue_depths)
    rows = _of_ladder(steps, mean, test.metric_queue_depths)
    small = all(phase.workload.block_bytes <= SMALL_BLOCK_BYTES for phase in phases)
    deepest = max((step.queue_depth for step in steps), default=0)
    whole = ("mean_rate", f"{'iops' if small else 'rate'}_qd{deepest}")
    main = whole if len(steps) > 1 else (f"rate_qd{deepest}",)
    return Measured(test, phases, by_key(rows), main, depth_mean=mean)


def _with_trim(measured: Measured, found: trims.Trim) -> Measured:
    """What a validation found besides how long its reads take; its rates mean nothing, as it waits
    between reads."""
    share = 100 * found.old_blocks / found.blocks
    label = "Discarded blocks that give old data"
    note = f"not offered: {found.why_not}" if found.verdict == "not offered" else ""
    rows = [Figure("old_share", label, share, "%", n=found.blocks, n_kind="blocks", note=note)]
    rows += [one for key, one in measured.figures.items() if key.startswith("latency_")]
    return replace(measured, figures=by_key(rows), main=("old_share",), trim=found)


def _of_steady(test: Test, metrics: Mapping[str, float]) -> dict[str, Figure]:
    """The rounds that its preparation ran until the rate was steady, if it asks for that."""
    rounds = metrics.get("steady_rounds")
    if rounds is None or test.rounds is not None:
        return {}
    note = "" if metrics.get("steady_reached") else f"not steady within {rounds:,.0f} rounds"
    return {"steady_rounds": Figure("steady_rounds", "Rounds until steady", rounds, "", note=note)}


def _any_kind(test: Test, phases: tuple[PhaseFigures, ...]) -> Measured:
    """Rate and mean latency of every phase; of a lone phase all that is known."""
    rows = [row for phase in phases for row in of_any_phase(phase, alone=len(phases) == 1)]
    rows += of_phases(phases)
    main = tuple(row.key for row in rows if row.unit == "MB/s")
    return Measured(test, phases, by_key(rows), main)


def _mixed(test: Test, phases: tuple[PhaseFigures, ...]) -> Measured:
    rows = mixes.of_mixes(phases) + of_phases(phases)
    return Measured(test, phases, by_key(rows), ("mean_rate", "rate_lowest", "rate_highest"))


def _sizes(test: Test, phases: tuple[PhaseFigures, ...]) -> Measured:
    rows = mixes.of_sizes(phases) + of_phases(phases)
    main = tuple(row.key for row in rows if row.key.startswith("highest_"))
    return Measured(test, phases, by_key(rows), main)


def _trim_write(test: Test, phases: tuple[PhaseFigures, ...]) -> Measured:
    rows = trim_write.of_trim_write(phases) + of_phases(phases)
    ends = dict.fromkeys(phases[place].label for place in (0, -1)) if phases else {}
    main = ("left_percent", *(f"rate_{label}" for label in ends))
    return Measured(test, phases, by_key(rows), main)


KINDS: dict[str, Callable[[Test, tuple[PhaseFigures, ...]], Measured]] = {
    "ageing": ageing,
    "compression": loads.compression,
    "consistency": _consistency,
    "ladder": _ladder,
    "ladders": loads.ladders,
    "loads": loads.loads,
    "mixed": _mixed,
    "rounds": steady_state.rounds,
    "saturation": steady_state.saturation,
    "sizes": _sizes,
    "thermal": _thermal,
    "trace": _trace,
    "trim-write": _trim_write,
}
"""What computes each kind of test; a new kind is one function and one line here."""


_TOO_SHORT = "the run has not one full second"
_ONE_SECOND = "the run has a single full second"
_SAME = "every second was the same"


def _mean_rate(found: consistencies.Consistency, block_bytes: int) -> Figure:
    """The window's mean as a data rate, by which large blocks are known."""
    mega = block_bytes / 1e6
    window = found.window
    return Figure(
        "mean_rate",
        f"Mean data rate, last {window.n:,} s",
        window.mean * mega,
        "MB/s",
        None if window.sd is None else window.sd * mega,
        SD,
        window.n,
    )


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
