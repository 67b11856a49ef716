"""The blocks that sections are put together from: a figure's bars, a test's facts, shared charts.

Every block takes the runs that it shows, of one review or of several; its numbers come from
analysis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from drivebay.analysis import stages as stage_names
from drivebay.analysis.measure import SD
from drivebay.report import captions, charts_load, charts_time
from drivebay.report.charts import Chart
from drivebay.report.charts_load import OTHER_STAGE
from drivebay.report.entries import Entry, Run
from drivebay.report.markup import Html, el
from drivebay.report.parts import Bar, Key, bars, facts, figure, legend, switch, table, when
from drivebay.report.themes import STAGES
from drivebay.report.words import DASH, GAP, number
from drivebay.suites import Test


@dataclass
class Book:
    """What is being written: the entries, and the charts that the page must carry."""

    entries: tuple[Entry, ...]
    charts: dict[str, Chart] = field(default_factory=dict)

    def keep(self, chart: Chart) -> Chart:
        """Adds a chart to the page."""
        self.charts[chart.id] = chart
        return chart


def published_bars(run: Run, key: str) -> list[Bar]:
    """Bars for what is published of one figure."""
    return [
        Bar(
            "published",
            row.published,
            "@published-fill",
            detail=row.source.split(",")[0]
            + ("; not compared: shortened run" if row.verdict == "shortened" else ""),
            words=row.published_text.removesuffix(row.unit).strip(),
            published=True,
        )
        for row in run.entry.review.headline
        if (row.test_id, row.key) == (run.measured.test.id, key) and row.published is not None
    ]


def figure_bars(
    title: str, unit: str, found: Sequence[Run], key: str, *, better: str = "higher"
) -> Html:
    """One figure of every run as bars, each published figure right under its own."""
    rows: list[Bar] = []
    for run in found:
        one = run.measured.figures.get(key)
        if one is None:
            rows.append(Bar(_bar_name(run), None, run.colour, detail="run too short for it"))
            continue
        kind = " sd" if one.spread_kind == SD else ""
        detail = (
            f"±{GAP}{number(one.spread)}{kind}, n{GAP}={GAP}{one.n:,}"
            if one.spread is not None
            else ""
        )
        detail = detail or (f"n{GAP}={GAP}{one.n:,}" if one.value is not None else one.note)
        rows.append(Bar(_bar_name(run), one.value, run.colour, one.spread, detail))
        rows += published_bars(run, key)
    return bars(title, unit, rows, better=better)


def _bar_name(run: Run) -> str:
    """A lone run needs no name, only what kind of figure it is."""
    if run.name:
        return run.name
    return "reproduced" if run.entry.kind == "virtual" else "measured"


def facts_of(found: Sequence[Run]) -> Html:
    """What stands in no chart: in one line for one run, as a table for several."""
    pairs = [dict(captions.test_facts(run.measured)) for run in found]
    if len(found) == 1:
        return facts(list(pairs[0].items()))
    names = list(dict.fromkeys(name for one in pairs for name in one))
    rows = [
        [run.name, *(one.get(name, DASH) for name in names)]
        for run, one in zip(found, pairs, strict=True)
    ]
    return table(["", *names], rows, kind="data facts-table")


def with_heat(found: Sequence[Run]) -> str:
    """The end of a chart's title: which of temperature and power it has."""
    names = [("temperature_c", "temperature"), ("power_w", "power")]
    known = [name for attribute, name in names if charts_time.reports(found, attribute)]
    return f", with {' and '.join(known)}" if known else ""


def _stage_key(found: Sequence[Run]) -> Html | None:
    names = {s.stage for run in found for phase in run.measured.phases for s in phase.stages}
    ordered = [name for name in stage_names.ORDER if name in names]
    ordered += sorted(names - set(ordered))
    return legend(
        [
            Key(name, STAGES.get(name, OTHER_STAGE), meaning=stage_names.MEANING.get(name, name))
            for name in ordered
        ]
    )


def run_key(found: Sequence[Run], shape: str = "line") -> Html | None:
    """The runs' colours, where there are several."""
    return legend([Key(run.name, run.colour, shape) for run in found])


def time_chart(book: Book, test: Test, found: Sequence[Run]) -> Html:
    """Rate, temperature and power of every second, all phases one after the other."""
    chart = book.keep(charts_time.over_time(f"{test.id}-time", found))
    length = [f"n = {run.measured.whole.n:,} s" for run in found]
    return figure(
        "Data rate over time" + with_heat(found),
        chart,
        f"One point per second, joined. {captions.named(found, length)}",
        "The rate axis starts at zero.",
        captions.heat(found),
        captions.throttling(found),
        key=run_key(found),
    )


def inside(book: Book, name: str, found: Sequence[Run]) -> Html | None:
    """The distribution of latencies and, for virtual drives, where the time went."""
    spread = charts_load.distribution(f"{name}-spread", found)
    where = charts_load.stages(f"{name}-stages", found)
    total = [
        f"n = {sum(phase.histogram.total for phase in run.measured.phases):,} I/Os" for run in found
    ]
    parts: list[Html] = []
    if spread is not None:
        book.keep(spread)
        parts.append(
            figure(
                "Distribution of latency",
                spread,
                "Each row is as high as its own peak; marks at p50, p99, p99.9 and p99.99. "
                + captions.named(found, total),
                when("log", "Height is the logarithm of the count, so that rare I/Os are seen."),
                when("share", "Height is the share of I/Os."),
                "The latency axis is logarithmic and does not start at zero.",
                wide=where is None,
                controls=switch(
                    f"{name}-spread-height",
                    "Height",
                    (("log", "Log count"), ("share", "Share")),
                    charts=[spread.id],
                    slot=0,
                ),
            )
        )
    if where is not None:
        book.keep(where)
        parts.append(
            figure(
                "Where the time went",
                where,
                "Mean over all I/Os of a bar; the stages add up to the mean latency. "
                + captions.named(found, total),
                captions.ZERO,
                wide=False,
                key=_stage_key(found),
                controls=switch(
                    f"{name}-stage-unit",
                    "Show",
                    (("time", "Time"), ("share", "Share")),
                    charts=[where.id],
                    slot=0,
                ),
            )
        )
    return el("div", parts, class_="pair") if parts else None
