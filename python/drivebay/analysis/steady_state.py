"""Figures of SNIA's tests: rounds until steady, and the course of a fresh drive to saturation.

Source: SNIA Solid State Storage Performance Test Specification 2.0.1. If steady state was not
reached, figures come from the last rounds, and the figure `steady_rounds` says so.
"""

from __future__ import annotations

from drivebay.analysis import rounds as roundings
from drivebay.analysis import timeline
from drivebay.analysis.figures import (
    SMALL_BLOCK_BYTES,
    TOO_SHORT,
    Figure,
    Measured,
    PhaseFigures,
    by_key,
    per_io,
    sampled,
)
from drivebay.analysis.phases import of_any_phase, of_phases
from drivebay.definitions.suites import Test

# Length of the first figure's window: SNIA's rounds take a minute.
FIRST_S = 60


def rounds(test: Test, phases: tuple[PhaseFigures, ...]) -> Measured:
    """Rates and latencies of the last rounds, preceded by the number of rounds."""
    assert test.rounds is not None, "a rounds test has its rule"
    known = [
        roundings.PhaseRounds(phase.label, phase.workload.block_bytes, phase.metrics)
        for phase in phases
    ]
    large = all(phase.workload.block_bytes > SMALL_BLOCK_BYTES for phase in phases)
    course = roundings.rounds(test.rounds, known, large=large)
    rows = [_of_rounds(course, test.rounds.rounds_max)]
    for phase in phases:
        rows += of_any_phase(phase, alone=False)
        longest = max(roundings.history(phase.metrics, "latency_max_us"), default=None)
        if longest is not None:
            last = roundings.history(phase.metrics, "latency_max_us")[-test.rounds.window_rounds :]
            label = f"Maximum latency, {phase.label}"
            key, n = f"latency_max_{phase.label}", phase.step.total_ios
            rows.append(per_io(key, label, max(last), "µs", n))
    quantity = {"iops": "iops", "latency": "latency_mean"}[test.rounds.variable]
    quantity = "rate" if large and quantity == "iops" else quantity
    main = ("steady_rounds", *(f"{quantity}_{label}" for label in test.rounds.tracked))
    return Measured(test, phases, by_key(rows), main, rounds=course)


def _of_rounds(course: roundings.RoundsFound | None, most: int) -> Figure:
    note = "" if course and course.reached else f"steady state was not reached in {most} rounds"
    count = course.count if course else 0
    return Figure(
        "steady_rounds",
        "Rounds until steady" if course and course.reached else "Rounds, steady state not reached",
        float(count) if course else None,
        "",
        n=count,
        n_kind="rounds",
        note=note if course else "too few rounds",
    )


def saturation(test: Test, phases: tuple[PhaseFigures, ...]) -> Measured:
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
            mean, note = (some.mean, "") if some else (None, TOO_SHORT)
            rows.append(sampled(key, label, mean, "IOPS", some, note))
        written = phases[0].step.rate_mb_s * line.seconds_total / 1e3
        rows.append(Figure("written_gb", "Data written", written, "GB", n=line.n))
        rows.append(Figure("length_s", "Length of the run", line.seconds_total, "s", n=line.n))
    main = ("iops_first", "iops_last", "written_gb")
    return Measured(test, phases, by_key(rows + of_phases(phases)), main)
