"""Thermal throttling: when the rate falls, from what to what, with rate and heat over time."""

from __future__ import annotations

from collections.abc import Sequence

from drivebay.analysis import Measured
from drivebay.report import captions
from drivebay.report.blocks import inside_panels, time_panel
from drivebay.report.entries import Run
from drivebay.report.kinds.base import BarOf, Kind
from drivebay.report.panels import Panel
from drivebay.report.words import quantity


def bars(measured: Measured) -> list[BarOf]:
    """Time, rate before and rate after."""
    return [
        BarOf("throttle_after_s", "Time until the rate falls", "s"),
        BarOf("initial_rate", "Data rate before", "MB/s", half=True),
        BarOf("throttled_rate", "Data rate after", "MB/s", half=True),
    ]


def panels(prefix: str, found: Sequence[Run]) -> list[Panel]:
    """The course of the run, then latency and stages."""
    return [time_panel(prefix, found), *inside_panels(prefix, found)]


def remarks(measured: Measured) -> list[str]:
    """Why there is no fall, or what else may look like one."""
    found = measured.figures.get("throttle_after_s")
    return [found.note] if found is not None and found.note else []


def say(measured: Measured) -> list[str]:
    """Whether the rate fell, when, from what to what."""
    found = measured.thermal
    if found is None:
        return []
    if found.fall_s is None or found.after is None:
        return [
            f"{measured.test.title}: {quantity(found.before.mean, 'MB/s')} for all of "
            f"{found.before.n:,} s; the rate never fell under half."
        ]
    at = found.temperature_at_fall_c
    where = "" if at is None else f", at {quantity(round(at, 1), '°C')}"
    return [
        f"{measured.test.title}: {quantity(found.before.mean, 'MB/s')} for {found.fall_s:,} s "
        f"({quantity(found.moved_gb, 'GB')}), then {quantity(found.after.mean, 'MB/s')}{where}."
    ]


KIND = Kind(
    bars=bars,
    panels=panels,
    say=say,
    table=captions.figures_table,
    remarks=remarks,
)
