"""Presentation of a test, with defaults for any kind: figures as bars, phases, rate over time.

The defaults know nothing about the test, so they state whether higher or lower is better only if
the unit decides it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from drivebay.analysis import Measured
from drivebay.analysis.figures import Figure
from drivebay.analysis.ladder import Step
from drivebay.report.base import figures
from drivebay.report.base.markup import Html
from drivebay.report.base.runs import Run, phase_name
from drivebay.report.charts import latency, model, time
from drivebay.report.charts.curves import DEVIATION, Curves, Group
from drivebay.report.charts.model import Panel

HIGHER = "higher"
LOWER = "lower"
BARS_MAX = 6
BETTER = {
    **dict.fromkeys(("MB/s", "MB/s per W", "IOPS", "points", "score"), HIGHER),
    **dict.fromkeys(("µs", "ms", "%", "W", "°C"), LOWER),
}
IN_FACTS = ("latency_", "over_", "waf", "power_", "temperature_", "throttled_")
# Bars of more phases than this use the full width of the page.
WIDE_FROM = 8


@dataclass(frozen=True)
class BarOf:
    """A figure shown as bars: on the page with the published value, on the Bench in rank order.
    `half`: two may stand side by side. `chart`: figures of one chart and unit share a scale on
    the page, each in its own row; "" is a chart of its own. `row`: name of that row.
    """

    key: str
    title: str
    unit: str
    better: str = HIGHER
    half: bool = False
    chart: str = ""
    row: str = ""


def charts_of(shown: Sequence[BarOf]) -> list[list[BarOf]]:
    """Groups the bars by chart, in their order."""
    charts: dict[tuple[str, str], list[BarOf]] = {}
    for bar in shown:
        charts.setdefault((bar.chart or bar.key, bar.unit), []).append(bar)
    return list(charts.values())


def bars(measured: Measured) -> list[BarOf]:
    """Main figures of the test, or else the first figures that appear nowhere else. Figures that
    differ in their load only ("Latency p99.9, 20 % of the highest rate") share a chart with all
    of them.
    """
    keys = list(measured.main) or [key for key in measured.figures if not key.startswith(IN_FACTS)]
    known = [figure for key in keys if (figure := measured.figures.get(key)) is not None]
    alike = Counter(_quantity(figure) for figure in known)
    shown, half = [], len(keys) > 1
    for place, figure in enumerate(known):
        name, _, row = figure.label.partition(", ")
        shared = bool(row) and alike[_quantity(figure)] > 1
        if shared or place < BARS_MAX:
            better, chart = BETTER.get(figure.unit, ""), (name, row) if shared else ("", "")
            shown.append(BarOf(figure.key, figure.label, figure.unit, better, half, *chart))
    return shown


def _quantity(figure: Figure) -> tuple[str, str]:
    """Quantity of a figure without its load, and its unit."""
    return figure.label.partition(", ")[0], figure.unit


def panels(prefix: str, runs: Sequence[Run]) -> list[Panel]:
    """Rate and latency of each phase, rate over time, latencies and stages; no rate if no data is
    transferred, as with zone resets.
    """
    shown: list[Panel] = []
    if any(len(run.measured.phases) > 1 for run in runs):
        moves = any(step.rate_mb_s for run in runs for step in run.measured.steps)
        values = [("rate", "Data rate")] * moves + [("latency", "Mean latency")]
        shown = [
            by_phase(prefix, runs, what, f"{name} by load", bars=True) for what, name in values
        ]
    return [*shown, time.over_time(prefix, runs, latency=True), *latency.inside(prefix, runs)]


def by_phase(
    prefix: str,
    runs: Sequence[Run],
    what: str,
    title: str,
    *,
    lead: str = "",
    samples: str = "",
    bars: bool = False,
) -> Panel:
    """One value per phase, in the order of the run: "rate", "latency" or "power"; as `bars` if
    values between phases are meaningless.
    """
    many = max((len(run.measured.phases) for run in runs), default=0) > WIDE_FROM

    def groups_of(run: Run) -> list[Group]:
        names = [phase_name(run, phase) for phase in run.measured.phases]
        values, deviations = step_values(run.measured.steps, what)
        return [Group("", names, values, deviations, band=bands(run.measured, what))]

    return Curves(
        f"{prefix}-{what}",
        runs,
        groups_of,
        title=title,
        unit={"rate": "MB/s", "latency": "ms, mean", "power": "W"}[what],
        samples=samples or model.counted(runs, "ios" if what == "latency" else "seconds"),
        lead=" ".join(filter(None, (lead, "" if what == "latency" else DEVIATION))),
        bars=bars,
        height=320,
        wide=bars and many,
    ).panel()


def by_figure(
    chart_id: str,
    runs: Sequence[Run],
    keys_of: Callable[[Run], Sequence[tuple[str, str]]],
    title: str,
    unit: str,
    **more: Any,
) -> Panel:
    """Some figures of each run; `keys_of` returns the place of each on the x axis, and its key."""

    def groups_of(run: Run) -> list[Group]:
        keys = keys_of(run)
        values = [run.measured.figures[key].value for _, key in keys]
        return [Group("", [place for place, _ in keys], values)]

    return Curves(chart_id, runs, groups_of, title=title, unit=unit, height=320, **more).panel()


def bands(measured: Measured, what: str) -> list[tuple[float, float] | None]:
    """Interval of each step's value, if known; latency in milliseconds."""
    key, factor = {"latency": ("latency_mean", 1e-3)}.get(what, (what, 1.0))
    figures = [measured.figures.get(f"{key}_{step.label}") for step in measured.steps]
    ends = [figure.interval if figure else None for figure in figures]
    return [interval and (interval[0] * factor, interval[1] * factor) for interval in ends]


def step_values(steps: Sequence[Step], what: str) -> tuple[list[float], list[float] | None]:
    """Value of each step, NaN if unknown, and its standard deviation (None for latency)."""
    if what == "latency":
        means = [step.latency_mean_us for step in steps]
        return [float("nan") if us is None else us / 1e3 for us in means], None
    if what == "iops":
        return [row.iops for row in steps], None
    spreads = [row.rate if what == "rate" else row.power for row in steps]
    deviations = [some.sd or 0.0 if some else 0.0 for some in spreads]
    if what == "rate":
        return [row.rate_mb_s for row in steps], deviations
    return [some.mean if some else float("nan") for some in spreads], deviations


@dataclass(frozen=True)
class Kind:
    """Presentation of the tests of one kind; the defaults fit any test.

    Parameters
    ----------
    bars : the figures shown as bars; their keys are keys of `Measured.figures`.
    panels : the charts of some runs; the first argument is the prefix of their ids. On the Bench it
        gets one run at a time, and the page overlays the charts (`runs.by_drive`).
    table : all figures.
    remarks : sentences between the bars and the charts.
    """

    bars: Callable[[Measured], Sequence[BarOf]] = bars
    panels: Callable[[str, Sequence[Run]], list[Panel]] = panels
    table: Callable[[Sequence[Run]], Html] = figures.figures_table
    remarks: Callable[[Measured], list[str]] = lambda _: []
