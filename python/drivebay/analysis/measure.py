"""Figures of one test, by name, from which headlines, comparisons and charts are made.

A figure always has its unit, its spread and its number of samples. A figure that cannot be computed
is present with value None and a note that gives the reason, never silently left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from drivebay.analysis import cache as caches
from drivebay.analysis import consistency as consistencies
from drivebay.analysis import idle as idles
from drivebay.analysis import ladder as ladders
from drivebay.analysis import loads, service, steady_state
from drivebay.analysis import thermal as thermals
from drivebay.analysis import trim as trims
from drivebay.analysis.figures import (
    SD,
    SMALL_BLOCK_BYTES,
    TOO_SHORT,
    Figure,
    Measured,
    Phases,
    by_key,
    iops,
    mean_of,
    per_io,
    rate,
    sampled,
)
from drivebay.analysis.phases import computed, of_each, of_phases, of_power
from drivebay.analysis.storage_bench import StorageBench
from drivebay.definitions.suites import Test
from drivebay.results.records import PhaseResult

RESOLUTION, SECOND = "resolution of the samples", "data of one second"


def measure(test: Test, phases: Sequence[PhaseResult]) -> Measured:
    """Computes all figures of a test; a kind without a function of its own has those of its
    phases.
    """
    known = tuple(computed(phase) for phase in phases)
    measured = KINDS.get(test.kind, _any_kind)(test, known)
    # A mean over rests of several lengths has no meaning.
    power = [] if test.kind == "idle" and len(known) > 1 else of_power(known)
    rows = [*measured.figures.values(), *power]
    measured = replace(measured, figures=by_key(rows))
    validation = trims.trim(phases[0].conditions) if phases else None
    measured = measured if validation is None else _with_trim(measured, validation)
    if test.kind == "idle" and phases:
        measured = idles.with_sleep(measured, phases[0].conditions)
    steady = _of_steady(test, phases[0].metrics) if phases else {}
    return replace(measured, figures={**measured.figures, **steady}) if steady else measured


def _with_trim(measured: Measured, trim: trims.Trim) -> Measured:
    """Adds the findings of a validation and keeps its read latencies; its rates have no meaning,
    as it waits between reads.
    """
    share = 100 * trim.old_blocks / trim.blocks
    label = "Discarded blocks that return old data"
    note = f"not offered: {trim.why_not}" if trim.verdict == "not offered" else ""
    rows = [Figure("old_share", label, share, "%", n=trim.blocks, n_kind="blocks", note=note)]
    rows += [figure for key, figure in measured.figures.items() if key.startswith("latency_")]
    return replace(measured, figures=by_key(rows), main=("old_share",), trim=trim)


def _of_steady(test: Test, metrics: Mapping[str, float]) -> dict[str, Figure]:
    """Number of rounds that the preparation ran until the rate was steady, if it has that step."""
    rounds = metrics.get("steady_rounds")
    if rounds is None or test.rounds is not None:
        return {}
    note = "" if metrics.get("steady_reached") else f"not reached within {rounds:,.0f} rounds"
    return {"steady_rounds": Figure("steady_rounds", "Rounds until steady", rounds, "", note=note)}


def _any_kind(test: Test, phases: Phases) -> Measured:
    """Rate and mean latency of every phase; for a single phase, all its figures."""
    rows = of_each(phases)
    main = tuple(row.key for row in rows if row.unit == "MB/s")
    return Measured(test, phases, by_key(rows), main)


def _consistency(test: Test, phases: Phases) -> Measured:
    window_s = test.metric_window_s or 0
    found = consistencies.consistency(phases[0].timeline, window_s=window_s) if phases else None
    main = ("mean_iops", "sd_iops", "mean_over_sd")
    if found is None:
        rows = [Figure("mean_iops", "Mean IOPS", None, "IOPS", note=TOO_SHORT)]
        return Measured(test, phases, by_key(rows + of_phases(phases)), main)
    window, burst, n = found.window, found.burst, found.window.n
    last = f"last {n:,} s"
    lone = "" if n > 1 else "the run has only one full second"
    same = "" if found.mean_over_sd else lone or "all seconds are equal"
    over = f"Mean divided by standard deviation, {last}"
    rows = [
        mean_of("mean_iops", f"Mean IOPS, {last}", window, "IOPS"),
        Figure("sd_iops", f"Standard deviation, {last}", window.sd, "IOPS", n=n, note=lone),
        Figure("mean_over_sd", over, found.mean_over_sd, "", n=n, note=same),
        Figure("lowest_iops", f"Slowest second, {last}", found.lowest, "IOPS", n=n),
    ]
    none = "" if burst else "the rate never dropped below half of its initial value"
    length, resolution = (found.burst_s, 1.0) if found.burst_s else (None, None)
    name, rest = "Length of the initial burst", "Median IOPS after the burst"
    rows += [
        mean_of("burst_iops", "IOPS of the initial burst", burst, "IOPS", none),
        Figure("burst_s", name, length, "s", resolution, RESOLUTION, length or 0, note=none),
        sampled("after_burst_iops", rest, found.after_median, "IOPS", found.after, none),
    ]
    block_bytes = test.phases[0].workload.block_bytes
    if block_bytes > SMALL_BLOCK_BYTES:  # described by their data rate
        mega = block_bytes / 1e6
        sd = None if window.sd is None else window.sd * mega
        label = f"Mean data rate, {last}"
        rows.insert(0, Figure("mean_rate", label, window.mean * mega, "MB/s", sd, SD, n))
        main = ("mean_rate", "sd_iops", "mean_over_sd")
    return Measured(test, phases, by_key(rows + of_phases(phases)), main, consistency=found)


def _thermal(test: Test, phases: Phases) -> Measured:
    main = ("throttle_after_s", "initial_rate", "throttled_rate")
    thermal = thermals.thermal(phases[0].timeline) if phases else None
    if thermal is None:
        rows = [Figure("initial_rate", "Data rate at the start", None, "MB/s", note=TOO_SHORT)]
        return Measured(test, phases, by_key(rows + of_phases(phases)), main)
    fell = thermal.fall_s is not None
    before, after = thermal.before, thermal.after
    note = "" if fell else "no sustained drop below half of the initial rate"
    if not fell and (cut := thermal.throttling) is not None:
        note = f"throttles after {cut.start_s:,} s for {cut.seconds:,} s in total, but {note}"
    if thermal.by_heat is False:
        note = "the drive reports no throttling at the time of the drop, so heat is not its cause"
    elif fell and thermal.by_heat is None:
        note = "the target does not report throttling; a full write cache looks the same"
    name = "Data rate before the drop" if fell else "Data rate, no sustained drop"
    none = "" if after else note
    falls, sure = "Time until the rate drops", 1.0 if fell else None
    fall = Figure("throttle_after_s", falls, thermal.fall_s, "s", sure, RESOLUTION, before.n)
    label, moved, second, why = "Data written", None, None, note
    if fell:
        label, why = "Data written before the drop", ""
        moved, second = thermal.moved_gb, thermal.initial.mean / 1e3
    rows = [
        replace(fall, note=note, missing="never"),
        mean_of("initial_rate", name, before, "MB/s"),
        mean_of("throttled_rate", "Data rate after the drop", after, "MB/s", none),
        Figure("written_before_throttle", label, moved, "GB", second, SECOND, before.n, note=why),
    ]
    return Measured(test, phases, by_key(rows + of_phases(phases)), main, thermal=thermal)


def _trace(test: Test, phases: Phases) -> Measured:
    rows = _of_trace(phases[0].bench if phases else None) + of_phases(phases)
    main = ("rate", "latency_mean", "over_10_ms", "over_100_ms", "outstanding")
    return Measured(test, phases, by_key(rows), main)


def _of_trace(bench: StorageBench | None) -> list[Figure]:
    if bench is None:
        return [Figure("rate", "Data rate", None, "MB/s", note="no I/O of the trace was issued")]
    off = "" if bench.little_holds else "does not match rate and latency: some time is missing"
    values = [
        ("rate", "Data rate over busy time", bench.rate_busy, "MB/s", ""),
        ("rate_wall", "Data rate over wall time", bench.rate_wall, "MB/s", ""),
        ("over_10_ms", "I/Os over 10 ms", bench.over_10_ms_percent, "%", ""),
        ("over_100_ms", "I/Os over 100 ms", bench.over_100_ms_percent, "%", ""),
        ("outstanding", "Mean outstanding I/Os, counted", bench.outstanding_mean, "", off),
        ("little", "Mean outstanding I/Os by Little's law", bench.little, "", ""),
        ("outstanding_max", "Maximum outstanding I/Os", float(bench.outstanding_max), "", ""),
        ("busy_s", "Busy time", bench.busy_s, "s", ""),
        ("wall_s", "Wall time", bench.wall_s, "s", ""),
    ]
    return [
        per_io(key, label, value, unit, bench.ios, note) for key, label, value, unit, note in values
    ]


def _ladder(test: Test, phases: Phases) -> Measured:
    steps, depths = [phase.step for phase in phases], test.metric_queue_depths
    mean = ladders.mean_over(steps, depths)
    asked = ", ".join(map(str, depths))
    label = f"Mean of QD {asked}" if len(depths) > 1 else f"Data rate at QD {asked}"
    note = "" if mean else f"some of the queue depths {asked} were not run"
    rows = [mean_of("mean_rate", label, mean, "MB/s", note)]
    for step in steps:
        depth = step.queue_depth
        rows.append(rate(f"rate_qd{depth}", f"Data rate at QD {depth}", step))
        rows.append(iops(f"iops_qd{depth}", f"IOPS at QD {depth}", step))
    small = all(phase.workload.block_bytes <= SMALL_BLOCK_BYTES for phase in phases)
    deepest = max((step.queue_depth for step in steps), default=0)
    whole = ("mean_rate", f"{'iops' if small else 'rate'}_qd{deepest}")
    main = whole if len(steps) > 1 else (f"rate_qd{deepest}",)
    return Measured(test, phases, by_key(rows), main)


# Function for each kind of test; a new kind needs one function and one line here.
KINDS: dict[str, Callable[[Test, Phases], Measured]] = {
    "ageing": loads.ageing,
    "cache": caches.cache,
    "compression": loads.compression,
    "consistency": _consistency,
    "efficiency": loads.efficiency,
    "idle": idles.idle,
    "ladder": _ladder,
    "ladders": loads.ladders,
    "loads": loads.loads,
    "mixed": loads.mixes,
    "qos": service.qos,
    "rounds": steady_state.rounds,
    "saturation": steady_state.saturation,
    "sizes": loads.sizes,
    "thermal": _thermal,
    "trace": _trace,
    "trim-write": loads.trim_write,
    "waf": service.waf,
    "working-set": service.working_set,
}
