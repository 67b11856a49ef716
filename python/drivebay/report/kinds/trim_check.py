"""TRIM validation: the verdict in sentences, old data left as a bar, reads before and after.

The reviews gave the verdict alone; that reads of discarded blocks are answered without flash, which
is how a drive shows that it has understood, is seen in their latency.
"""

from __future__ import annotations

from collections.abc import Sequence

from drivebay.analysis import Measured
from drivebay.report import captions, charts_load
from drivebay.report.blocks import inside_panels, names_of, run_key
from drivebay.report.entries import Run
from drivebay.report.kinds.base import LOWER, BarOf, Kind
from drivebay.report.panels import Panel, panel
from drivebay.report.words import quantity


def bars(measured: Measured) -> list[BarOf]:
    """Old data that is left, and how long reads take before and after."""
    return [
        BarOf("old_share", "Discarded blocks that give old data", "%", LOWER),
        BarOf("latency_mean_written", "Mean read latency, before TRIM", "µs", LOWER, half=True),
        BarOf("latency_mean_discarded", "Mean read latency, after TRIM", "µs", "", half=True),
    ]


def panels(prefix: str, found: Sequence[Run]) -> list[Panel]:
    """Read latency before and after, as a mean and in full, and where the time went."""
    ios = [f"n = {sum(step.total_ios for step in run.measured.steps):,} reads" for run in found]
    latency = panel(
        "Mean read latency before and after TRIM",
        charts_load.by_phase(f"{prefix}-latency", found, "latency"),
        names_of(found),
        ios,
        captions.ZERO,
        lead="The same blocks, 4 KiB at queue depth 1.",
        key=run_key(found),
        wide=False,
    )
    return [latency, *inside_panels(prefix, found)]


def remarks(measured: Measured) -> list[str]:
    """The verdict, and what it rests on."""
    return [] if measured.trim is None else [". ".join(measured.trim.sentences())]


def say(measured: Measured) -> list[str]:
    """The verdict, and reads before and after."""
    if measured.trim is None:
        return []
    first, *more = measured.trim.sentences()
    times = [measured.figures[f"latency_mean_{half}"].value for half in ("written", "discarded")]
    took = " before and ".join(quantity(one, "µs") for one in times)
    return [f"{first}; reads take {took} after.", *(f"{words}." for words in more)]


KIND = Kind(bars=bars, panels=panels, say=say, table=captions.figures_table, remarks=remarks)
