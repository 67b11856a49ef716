"""What TRIM gives back: the same write on the clean drive and after torture and TRIM."""

from __future__ import annotations

from drivebay.analysis import Measured
from drivebay.report import captions
from drivebay.report.kinds import generic
from drivebay.report.kinds.base import BarOf, Kind
from drivebay.report.words import inside, quantity


def bars(measured: Measured) -> list[BarOf]:
    """What is left of the clean drive's rate, then both rates."""
    shown = [measured.figures[key] for key in measured.main if key in measured.figures]
    rates = [BarOf(one.key, one.label, "MB/s", half=True) for one in shown if one.unit == "MB/s"]
    left = [BarOf(one.key, one.label, "%") for one in shown if one.unit == "%"]
    return [*left, *rates]


def say(measured: Measured) -> list[str]:
    """Both rates and their ratio."""
    shown = [measured.figures[key] for key in measured.main if key in measured.figures]
    known = [f"{inside(one.label)} {quantity(one.value, one.unit)}" for one in shown if one.value]
    return [f"{measured.test.title}: {', '.join(known)}."] if known else []


KIND = Kind(bars=bars, panels=generic.panels, say=say, table=captions.figures_table)
