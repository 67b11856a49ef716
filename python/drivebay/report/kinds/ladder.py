"""A ladder of queue depths: the mean of some as a bar, rate, latency and power over the depth."""

from __future__ import annotations

from collections.abc import Sequence

from drivebay.analysis import Measured
from drivebay.report import captions, charts_latency, charts_load
from drivebay.report.blocks import LOG_FIRST, inside_panels, names_of, run_key, time_panel
from drivebay.report.charts_latency import SHADES
from drivebay.report.entries import Run, by_drive
from drivebay.report.kinds.base import BarOf, Kind
from drivebay.report.panels import Note, Panel, Switch, panel
from drivebay.report.parts import Key
from drivebay.report.words import quantity


def bars(measured: Measured) -> list[BarOf]:
    """The mean over the low depths; for one depth alone its rate."""
    depths = [step.queue_depth for step in measured.steps]
    if len(depths) == 1:
        return [BarOf(f"rate_qd{depths[0]}", f"Data rate at queue depth {depths[0]}", "MB/s")]
    asked = ", ".join(map(str, measured.test.metric_queue_depths))
    of = f"Mean of queue depths {asked}" if "," in asked else f"At queue depth {asked}"
    bars = [BarOf("mean_rate", of, "MB/s")]
    if depths:
        key, unit = (measured.main[-1], "IOPS" if "iops" in measured.main[-1] else "MB/s")
        bars.append(BarOf(key, f"At queue depth {max(depths)}", unit))
    return bars


def panels(prefix: str, found: Sequence[Run]) -> list[Panel]:
    """Rate, latency and power by depth, the course of the run, latency and stages."""
    shown: list[Panel] = []
    if max(len(run.measured.steps) for run in found) > 1:
        shown = _by_depth(prefix, found)
    return [*shown, time_panel(prefix, found), *inside_panels(prefix, found)]


def _by_depth(prefix: str, found: Sequence[Run]) -> list[Panel]:
    names = names_of(found)
    samples = [
        f"n = {sum(step.rate.n for step in run.measured.steps if step.rate):,} samples of 1 s"
        for run in found
    ]
    ios = [f"n = {sum(step.total_ios for step in run.measured.steps):,} I/Os" for run in found]
    several = by_drive(found)
    percentiles = (("mean", "Mean"), *((f"p{q:g}", f"p{q:g}") for q in SHADES))
    switches = [Switch("percentile", "Latency", percentiles)] if several else []
    return [
        panel(
            "Data rate and IOPS by queue depth",
            charts_load.rate(f"{prefix}-rate", found),
            names,
            samples,
            "Both axes start at zero.",
            lead="Whiskers: standard deviation of the samples.",
            key=run_key(found),
            wide=False,
        ),
        panel(
            "Latency by queue depth",
            charts_latency.depth_latency(f"{prefix}-latency", found),
            names,
            ios,
            captions.PERCENTILES,
            Note(captions.ZERO, "linear"),
            Note(captions.LOG, "log"),
            switches=[*switches, Switch("axis", "Axis", LOG_FIRST)],
            key=run_key(found) if several else _percentile_key(),
            wide=False,
        ),
    ]


def power_panel(prefix: str, found: Sequence[Run]) -> Panel | None:
    """Mean power by queue depth, for the page of power."""
    chart = charts_load.power(f"{prefix}-power", found)
    if chart is None:
        return None
    samples = [
        f"n = {sum(step.power.n for step in run.measured.steps if step.power):,} samples of 1 s"
        for run in found
    ]
    return panel(
        "Power by queue depth",
        chart,
        names_of(found),
        samples,
        captions.ZERO,
        lead="Whiskers: standard deviation of the samples.",
        key=run_key(found),
        wide=False,
    )


def _percentile_key() -> list[Key]:
    keys = [Key("mean", "@ink", "line dotted")]
    return keys + [Key(f"p{q:g}", shade, "line") for q, shade in SHADES.items()]


def say(measured: Measured) -> list[str]:
    """The bar, and what the deepest queue gives."""
    known = [
        f"{quantity(one.value, one.unit)} {words}"
        for key, words in _keys(measured)
        if (one := measured.figures.get(key)) is not None and one.value is not None
    ]
    return [f"{measured.test.title}: {', '.join(known)}."] if known else []


def _keys(measured: Measured) -> list[tuple[str, str]]:
    depths = [step.queue_depth for step in measured.steps]
    if len(depths) <= 1:
        return [(f"rate_qd{depth}", f"at queue depth {depth}") for depth in depths]
    asked = ", ".join(map(str, measured.test.metric_queue_depths))
    return [
        (
            "mean_rate",
            f"as the mean of queue depths {asked}" if "," in asked else f"at queue depth {asked}",
        ),
        (measured.main[-1], f"at queue depth {max(depths)}"),
    ]


KIND = Kind(bars=bars, panels=panels, say=say, table=captions.ladder_table)
