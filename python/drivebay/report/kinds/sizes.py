"""Sizes of requests, as ATTO shows them: the rate of reads and writes over the size."""

from __future__ import annotations

from collections.abc import Sequence

from drivebay.analysis import Measured
from drivebay.report import captions, charts_load
from drivebay.report.blocks import names_of, run_key, time_panel
from drivebay.report.entries import Run
from drivebay.report.kinds.base import BarOf, Kind
from drivebay.report.panels import Panel, panel
from drivebay.report.words import inside, quantity

LINES = "Solid: reads; dotted: writes."


def bars(measured: Measured) -> list[BarOf]:
    """The highest rate of each direction."""
    shown = [measured.figures[key] for key in measured.main]
    return [BarOf(one.key, one.label, one.unit, half=len(shown) > 1) for one in shown]


def panels(prefix: str, found: Sequence[Run]) -> list[Panel]:
    """Rate and latency over the size, then the course of the run."""
    shown = [
        panel(
            title,
            charts_load.by_size(f"{prefix}-{what}", found, what),
            names_of(found),
            [captions.counted(run, of_ios=what == "latency") for run in found],
            captions.LOG if what == "latency" else captions.ZERO,
            lead=LINES,
            key=run_key(found),
            wide=what == "rate",
        )
        for what, title in (
            ("rate", "Data rate by size of request"),
            ("latency", "Mean latency by size of request"),
        )
    ]
    return [*shown, time_panel(prefix, found)]


def say(measured: Measured) -> list[str]:
    """The highest rate of each direction."""
    known = [
        f"{inside(one.label)}, {quantity(one.value, one.unit)}"
        for key in measured.main
        if (one := measured.figures[key]).value is not None
    ]
    return [f"{measured.test.title}: {'; '.join(known)}."] if known else []


KIND = Kind(bars=bars, panels=panels, say=say, table=captions.figures_table)
