"""Figures of SNIA's tests: rounds until steady, and the course of a fresh drive to saturation.

Source: SNIA Solid State Storage Performance Test Specification 2.0.1. If steady state was not
reached, figures come from the last rounds, and the figure `steady_rounds` says so.
"""

from __future__ import annotations

from drivebay.analysis import timeline
from drivebay.analysis.figures import (
    SMALL_BLOCK_BYTES,
    TOO_SHORT,
    Figure,
    Measured,
    Phases,
    by_key,
    mean_of,
    per_io,
)
from drivebay.analysis.phases import of_any_phase, of_phases
from drivebay.analysis.rounds import RoundsFound, Tracked, history
from drivebay.definitions.suites import Rounds, Test

# Length of the first figure's window: SNIA's rounds take a minute.
FIRST_S = 60


def rounds(test: Test, phases: Phases) -> Measured:
    """Rates and latencies of the last rounds, preceded by the number of rounds."""
    assert test.rounds is not None, "a rounds test has its rule"
    large = all(phase.workload.block_bytes > SMALL_BLOCK_BYTES for phase in phases)
    course = _course(test.rounds, phases, large=large)
    rows = [_of_rounds(course, test.rounds.rounds_max)]
    for phase in phases:
        rows += of_any_phase(phase, alone=False)
        if longest := history(phase.metrics, "latency_max_us"):
            last = max(longest[-test.rounds.window_rounds :])
            label = f"Maximum latency, {phase.label}"
            rows.append(
                per_io(f"latency_max_{phase.label}", label, last, "µs", phase.step.total_ios)
            )
    quantity = {"iops": "iops", "latency": "latency_mean"}[test.rounds.variable]
    quantity = "rate" if large and quantity == "iops" else quantity
    main = ("steady_rounds", *(f"{quantity}_{label}" for label in test.rounds.tracked))
    return Measured(test, phases, by_key(rows), main, rounds=course)


def _course(rule: Rounds, phases: Phases, *, large: bool) -> RoundsFound | None:
    """Evaluates the rounds from the phases' metrics; None if there are too few rounds. Loads of
    `large` blocks are described by their data rate.
    """
    rates = {}
    for phase in phases:
        scale = phase.workload.block_bytes / 1e6 if large else 1.0
        rates[phase.label] = tuple(value * scale for value in history(phase.metrics, "iops"))
    latencies = {phase.label: history(phase.metrics, "latency_us") for phase in phases}
    values = rates if rule.variable == "iops" else latencies
    tracked = []
    for label in rule.tracked:
        course = values.get(label, ())
        if (window := rule.window(course)) is None:
            return None
        tracked.append(Tracked(**vars(window), label=label, values=course))
    unit = "MB/s" if large else "IOPS"
    return RoundsFound(
        count=len(tracked[0].values),
        window=rule.window_rounds,
        reached=all(state.steady for state in tracked),
        unit=unit if rule.variable == "iops" else "µs",
        tracked=tuple(tracked),
        history=rates,
    )


def _of_rounds(course: RoundsFound | None, most: int) -> Figure:
    label, note = "Rounds until steady", ""
    if course is None or not course.reached:
        label = "Rounds, steady state not reached"
        note = f"steady state was not reached in {most} rounds" if course else "too few rounds"
    count = course.count if course else 0
    value = float(count) if course else None
    return Figure("steady_rounds", label, value, "", n=count, n_kind="rounds", note=note)


def saturation(test: Test, phases: Phases) -> Measured:
    """IOPS of the first minute and of the last window, and the total written."""
    rows: list[Figure] = []
    if phases:
        line = phases[0].timeline
        window_s = test.metric_window_s or FIRST_S
        for key, label, part in (
            ("iops_first", f"IOPS, first {min(FIRST_S, line.n):,} s", slice(0, FIRST_S)),
            ("iops_last", f"IOPS, last {min(round(window_s), line.n):,} s", line.last(window_s)),
        ):
            some = timeline.spread(line.ios[part])
            rows.append(mean_of(key, label, some, "IOPS", "" if some else TOO_SHORT))
        written = phases[0].step.rate_mb_s * line.seconds_total / 1e3
        rows.append(Figure("written_gb", "Data written", written, "GB", n=line.n))
        rows.append(Figure("length_s", "Length of the run", line.seconds_total, "s", n=line.n))
    main = ("iops_first", "iops_last", "written_gb")
    return Measured(test, phases, by_key(rows + of_phases(phases)), main)
