"""Figures of tests of kind `idle`: power while a drive rests, and the first read after each rest.

Reads come one at a time, each after a rest of the load's think time; a phase without think time
shows an awake drive. A virtual drive counts its wakes, so the share of reads that woke it is known;
of a real drive only host settings that prevent sleep are known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from drivebay.analysis.figures import SD, Figure, Measured, PhaseFigures, Phases, by_key, per_io
from drivebay.analysis.phases import absent, of_each
from drivebay.definitions.suites import Test

WOKEN = "woken"
CUT = "the load is shorter than the idle time, as with --quick: power needs the full test"
# Share of a rest that the load must cover for its power to be computed; a load may end a little
# early.
WHOLE = 0.98
UNKNOWN = "real drives do not report sleep: compare the latency with and without idle time"


def idle(test: Test, phases: Phases) -> Measured:
    """Power and mean latency for each length of rest; for a single phase, all its figures."""
    if len(phases) == 1:
        return Measured(test, phases, by_key(of_each(phases)), ("power_mean", "latency_mean"))
    ordered = sorted(phases, key=rest_s)
    latencies = [_latency(phase) for phase in ordered]
    powers = [_power(phase) for phase in ordered]
    main = [row.key for row in (*latencies, *powers)]
    return Measured(test, phases, by_key([*latencies, *powers]), tuple(main))


def with_sleep(measured: Measured, conditions: Mapping[str, Any]) -> Measured:
    """Adds the share of reads that woke the drive, or the reason why it did not sleep, as far as
    it is known; results of older versions have neither.
    """
    known = conditions.get("sleep")
    if known is None:
        return measured
    rested = [phase for phase in measured.phases if rest_s(phase)]
    reads = sum(phase.step.total_ios for phase in rested)
    counted = [phase.metrics["wakes"] for phase in rested if "wakes" in phase.metrics]
    share, note = None, "; ".join(known["why_not"])
    if not note and not reads:
        note = "no read followed idle time"
    elif not note and not counted:
        note = UNKNOWN
    elif not note:
        share = 100 * sum(counted) / reads
    row = per_io(WOKEN, "Reads that woke the drive", share, "%", reads, note)
    figures = {**measured.figures, WOKEN: row}
    return replace(measured, figures=figures, main=(*measured.main, WOKEN))


def rest_s(phase: PhaseFigures) -> float:
    """Rest before each read, in seconds."""
    load = phase.workload
    if load.rate_iops is not None:
        return 1 / load.rate_iops
    return (load.thinktime_us or 0) / 1e6


def _latency(phase: PhaseFigures) -> Figure:
    rest, mean = rest_s(phase), phase.step.latency_mean_us
    label = f"Mean read latency {f'after {rest:g} s idle' if rest else 'without idle time'}"
    key = f"latency_mean_{phase.label}"
    return per_io(key, label, mean, "µs", phase.step.total_ios, absent(mean))


def _power(phase: PhaseFigures) -> Figure:
    """Mean power; for a virtual drive its energy over the time, because its series has power
    only when commands come.
    """
    rest, key = rest_s(phase), f"power_mean_{phase.label}"
    label = f"Mean power {f'with {rest:g} s idle' if rest else 'without idle time'}"
    energy, seconds = phase.metrics.get("energy_j"), phase.timeline.seconds_total
    if seconds < rest * WHOLE:
        return Figure(key, label, None, "mW", note=CUT)
    if energy is not None and seconds:
        return Figure(key, label, 1000 * energy / seconds, "mW", n=phase.timeline.n)
    some = phase.step.power
    if some is None:
        return Figure(key, label, None, "mW", note=absent(some))
    sd = None if some.sd is None else 1000 * some.sd
    return Figure(key, label, 1000 * some.mean, "mW", sd, SD, some.n)
