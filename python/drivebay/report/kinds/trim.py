"""TRIM: verdict of the validation with reads before and after, and write rates before and after.

The reviews published the verdict only. Latency shows in addition that reads of discarded blocks do
not access the flash, which proves that the drive has processed the command.
"""

from __future__ import annotations

from collections.abc import Sequence

from drivebay.analysis import Measured
from drivebay.report.base.runs import Run
from drivebay.report.charts import latency, model
from drivebay.report.charts.model import Panel
from drivebay.report.kinds import generic
from drivebay.report.kinds.generic import LOWER, BarOf, Kind


def _check_bars(_measured: Measured) -> list[BarOf]:
    """Share of old data, and read latency before and after."""
    return [
        BarOf("old_share", "Discarded blocks that return old data", "%", LOWER),
        BarOf("latency_mean_written", "Mean read latency, before TRIM", "µs", LOWER, half=True),
        BarOf("latency_mean_discarded", "Mean read latency, after TRIM", "µs", "", half=True),
    ]


def _check_panels(prefix: str, runs: Sequence[Run]) -> list[Panel]:
    """Read latency before and after, as a mean and in full, and its breakdown."""
    reads = generic.by_phase(
        prefix,
        runs,
        "latency",
        "Mean read latency before and after TRIM",
        lead="4 KiB reads of the same blocks at queue depth 1.",
        samples=model.counted(runs).replace("I/Os", "reads"),
        bars=True,
    )
    return [reads, *latency.inside(prefix, runs)]


def _check_remarks(measured: Measured) -> list[str]:
    """Verdict and its evidence."""
    return [] if measured.trim is None else [". ".join(measured.trim.sentences())]


def _write_bars(measured: Measured) -> list[BarOf]:
    """Rate after TRIM relative to the clean drive, then both rates."""
    shown = [measured.figures[key] for key in measured.main if key in measured.figures]
    return [
        BarOf(figure.key, figure.label, figure.unit, half=figure.unit == "MB/s") for figure in shown
    ]


TRIM_CHECK = Kind(bars=_check_bars, panels=_check_panels, remarks=_check_remarks)
TRIM_WRITE = Kind(bars=_write_bars)
