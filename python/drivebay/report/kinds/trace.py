"""The Storage Bench, a replayed trace: rate, latency and the long I/Os as bars, then the run.

The reviews gave the data rate, the mean latency, and the shares of I/Os over 10 and 100 ms.
"""

from __future__ import annotations

from drivebay.analysis import Measured
from drivebay.report import captions
from drivebay.report.kinds import generic
from drivebay.report.kinds.base import LOWER, BarOf, Kind
from drivebay.report.words import number


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


def remarks(measured: Measured) -> list[str]:
    """Rate, latency and outstanding together, by Little's law: one of them alone says little."""
    bench = measured.phases[0].bench if measured.phases else None
    if bench is None:
        return []
    verdict = "agree" if bench.little_holds else "do not agree: time was lost somewhere"
    return [
        f"Little's law: {number(bench.ios / bench.busy_s)} I/Os/s over {number(bench.busy_s)} s of "
        f"busy time, times {number(bench.latency_mean_us)} µs, is {number(bench.little)} "
        f"outstanding; {number(bench.outstanding_mean)} were counted. They {verdict}. Idle time "
        f"makes the whole run {number(bench.wall_s)} s."
    ]


KIND = Kind(
    bars=bars,
    panels=generic.panels,
    say=generic.say,
    table=captions.figures_table,
    remarks=remarks,
)
