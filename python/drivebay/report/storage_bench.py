"""A replayed trace: rate, latency and long I/Os as bars, Little's law in a line, the run."""

from __future__ import annotations

from collections.abc import Sequence

from drivebay.report import captions
from drivebay.report.blocks import Book, facts_of, figure_bars, inside, time_chart
from drivebay.report.entries import Run
from drivebay.report.markup import Child, Html, el
from drivebay.report.words import number
from drivebay.suites import Test


def body(book: Book, test: Test, found: Sequence[Run]) -> list[Child]:
    """Everything that is shown of a test of kind "trace"."""
    return [
        figure_bars("Data rate over busy time", "MB/s", found, "rate"),
        figure_bars("Mean latency", "µs", found, "latency_mean", better="lower"),
        el(
            "div",
            figure_bars("I/Os over 10 ms", "%", found, "over_10_ms", better="lower"),
            figure_bars("I/Os over 100 ms", "%", found, "over_100_ms", better="lower"),
            class_="pair",
        ),
        [_law(run) for run in found],
        facts_of(found),
        time_chart(book, test, found),
        inside(book, test.id, found),
        captions.figures_table(found),
    ]


def _law(run: Run) -> Html | None:
    """Rate, latency and outstanding together: one of them alone says little."""
    bench = run.measured.phases[0].bench if run.measured.phases else None
    if bench is None:
        return None
    who = f"{run.name}: " if run.name else ""
    verdict = "agree" if bench.little_holds else "do not agree: time was lost somewhere"
    return el(
        "p",
        f"{who}Little's law: {number(bench.ios / bench.busy_s)} I/Os/s over "
        f"{number(bench.busy_s)} s of busy time, times {number(bench.latency_mean_us)} µs, "
        f"is {number(bench.little)} outstanding; {number(bench.outstanding_mean)} were counted. "
        f"They {verdict}. Idle time makes the whole run {number(bench.wall_s)} s.",
        class_="note",
    )
