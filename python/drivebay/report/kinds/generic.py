"""Any kind of test: its own figures as bars, its phases side by side, time, latency, stages.

It needs to know nothing of the test, so it claims nothing either: which way is better is said only
where the unit decides it.
"""

from __future__ import annotations

from collections.abc import Sequence

from drivebay.analysis import Measured
from drivebay.report import captions, charts_load
from drivebay.report.blocks import inside_panels, names_of, run_key, time_panel
from drivebay.report.entries import Run
from drivebay.report.kinds.base import HIGHER, LOWER, BarOf, Kind
from drivebay.report.panels import Panel, panel
from drivebay.report.words import inside, quantity

BARS_MAX = 6
BETTER = {
    **dict.fromkeys(("MB/s", "IOPS", "points", "score"), HIGHER),
    **dict.fromkeys(("µs", "ms", "%", "W", "°C"), LOWER),
}
IN_FACTS = ("latency_", "over_", "waf", "power_", "temperature_", "throttled_")


def bars(measured: Measured) -> list[BarOf]:
    """The test's main figures, else the first of its figures that stand nowhere else."""
    keys = list(measured.main) or [key for key in measured.figures if not key.startswith(IN_FACTS)]
    return [
        BarOf(key, one.label, one.unit, BETTER.get(one.unit, ""), half=len(keys) > 1)
        for key in keys[:BARS_MAX]
        if (one := measured.figures.get(key)) is not None
    ]


def panels(prefix: str, found: Sequence[Run]) -> list[Panel]:
    """Rate and latency of each phase, the course of the run, and the inside of it."""
    shown = phases(prefix, found) if any(len(run.measured.phases) > 1 for run in found) else []
    return [*shown, time_panel(prefix, found, latency=True), *inside_panels(prefix, found)]


def phases(prefix: str, found: Sequence[Run]) -> list[Panel]:
    """Rate and mean latency of each phase, in the order they ran."""
    samples = [
        f"n = {sum(step.rate.n for step in run.measured.steps if step.rate):,} samples of 1 s"
        for run in found
    ]
    ios = [f"n = {sum(step.total_ios for step in run.measured.steps):,} I/Os" for run in found]
    return [
        panel(
            "Data rate by phase",
            charts_load.by_phase(f"{prefix}-rate", found, "rate"),
            names_of(found),
            samples,
            captions.ZERO,
            lead="Whiskers: standard deviation of the samples.",
            key=run_key(found),
            wide=False,
        ),
        panel(
            "Mean latency by phase",
            charts_load.by_phase(f"{prefix}-latency", found, "latency"),
            names_of(found),
            ios,
            captions.ZERO,
            key=run_key(found),
            wide=False,
        ),
    ]


def say(measured: Measured) -> list[str]:
    """The main figures as they are."""
    known = [
        f"{inside(one.label)} {quantity(one.value, one.unit)}"
        for bar in bars(measured)
        if (one := measured.figures[bar.key]).value is not None
    ]
    return [f"{measured.test.title}: {', '.join(known)}."] if known else []


KIND = Kind(bars=bars, panels=panels, say=say, table=captions.figures_table)
