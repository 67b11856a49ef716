"""Mixes of reads and writes: their mean as a bar, rate, latency and power over the mix.

As the reviews showed it: one bar for the mean of the mixes, one line with a point for each.
"""

from __future__ import annotations

from collections.abc import Sequence

from drivebay.analysis import Measured
from drivebay.report import captions, charts_load
from drivebay.report.blocks import inside_panels, names_of, run_key, time_panel
from drivebay.report.charts_time import reports
from drivebay.report.entries import Run
from drivebay.report.kinds.base import BarOf, Kind
from drivebay.report.panels import Panel, panel
from drivebay.report.words import inside, quantity

MIX = "Each point is a mix, reads/writes in percent."


def bars(measured: Measured) -> list[BarOf]:
    """The mean, then the extremes side by side."""
    shown = [BarOf("mean_rate", measured.figures["mean_rate"].label, "MB/s")]
    for key in ("rate_lowest", "rate_highest"):
        if key in measured.figures:
            shown.append(BarOf(key, measured.figures[key].label, "MB/s", half=True))
    return shown


def panels(prefix: str, found: Sequence[Run]) -> list[Panel]:
    """Rate, latency and power by mix, the course of the run, and the inside of it."""
    what = [("rate", "Data rate by mix"), ("latency", "Mean latency by mix")]
    what += [("power", "Power by mix")] if reports(found, "power_w") else []
    shown = [_by_mix(prefix, found, name, title) for name, title in what]
    return [*shown, time_panel(prefix, found), *inside_panels(prefix, found)]


def _by_mix(prefix: str, found: Sequence[Run], what: str, title: str) -> Panel:
    whiskers = "" if what == "latency" else " Whiskers: standard deviation of the samples."
    return panel(
        title,
        charts_load.by_phase(f"{prefix}-{what}", found, what),
        names_of(found),
        [captions.counted(run, of_ios=what == "latency") for run in found],
        captions.ZERO,
        lead=MIX + whiskers,
        key=run_key(found),
        wide=False,
    )


def say(measured: Measured) -> list[str]:
    """The mean, and which mix is the worst."""
    mean, lowest = (measured.figures.get(key) for key in ("mean_rate", "rate_lowest"))
    if mean is None or mean.value is None or lowest is None:
        return []
    return [
        f"{measured.test.title}: {quantity(mean.value, 'MB/s')}, {inside(mean.label)}; "
        f"{inside(lowest.label)}, {quantity(lowest.value, 'MB/s')}."
    ]


KIND = Kind(bars=bars, panels=panels, say=say, table=captions.figures_table)
