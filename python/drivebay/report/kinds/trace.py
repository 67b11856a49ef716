"""The Storage Bench, a replayed trace: rate, latency and the long I/Os as bars, then the run.

The reviews gave the data rate, the mean latency, and the shares of I/Os over 10 and 100 ms.
"""

from __future__ import annotations

from drivebay.analysis import Measured
from drivebay.report import captions
from drivebay.report.kinds import generic
from drivebay.report.kinds.base import LOWER, BarOf, Kind


def bars(measured: Measured) -> list[BarOf]:
    """The reviews' four figures; of several phases whatever analysis calls main."""
    if "rate" not in measured.figures:
        return generic.bars(measured)
    return [
        BarOf("rate", measured.figures["rate"].label, "MB/s"),
        BarOf("latency_mean", "Mean latency", "µs", LOWER),
        BarOf("over_10_ms", "I/Os over 10 ms", "%", LOWER, half=True),
        BarOf("over_100_ms", "I/Os over 100 ms", "%", LOWER, half=True),
    ]


KIND = Kind(bars=bars, panels=generic.panels, say=generic.say, table=captions.figures_table)
