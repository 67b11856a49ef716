"""The report's sections, one per page of the suite: bars first, then lines, then scatter.

A section gets the tests of its page and the runs of them; it asks analysis for every number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from drivebay.analysis import stages as stage_names
from drivebay.analysis.measure import SD
from drivebay.report import captions, charts_load, charts_time
from drivebay.report.charts import Chart
from drivebay.report.charts_load import OTHER_STAGE
from drivebay.report.entries import Entry, Run, runs, short_title
from drivebay.report.markup import Child, Html, el
from drivebay.report.parts import Bar, bars, facts, figure, legend, switch, table, when
from drivebay.report.themes import STAGES
from drivebay.report.words import DASH, number
from drivebay.suites import Test

PAGES = {
    "performance-consistency": "Performance consistency",
    "random": "Random performance",
    "sequential": "Sequential performance",
    "thermal": "Thermal throttling",
}
AXES = (("linear", "Linear"), ("log", "Log"))


@dataclass
class Book:
    """What is being written: the entries, and the charts that the page must carry."""

    entries: tuple[Entry, ...]
    charts: dict[str, Chart] = field(default_factory=dict)

    def keep(self, chart: Chart) -> Chart:
        """Adds a chart to the page."""
        self.charts[chart.id] = chart
        return chart


def page_title(page: str) -> str:
    """A page's heading.

    >>> page_title("mixed-random")
    'Mixed random'
    """
    return PAGES.get(page, page.replace("-", " ").capitalize())


def section(book: Book, page: str, tests: Sequence[Test]) -> Html:
    """One page of the suite. Consistency tests share their charts; the others have their own."""
    body: list[Child] = []
    heading = page_title(page)
    together = [test for test in tests if test.kind == "consistency"]
    if together:
        body.append(_consistency(book, page, together))
    makers: dict[str, Callable[[Book, Test], Child]] = {"ladder": _ladder, "thermal": _thermal}
    for test in tests:
        if test.kind in makers:
            body.append(
                el(
                    "section",
                    el("h3", short_title(test) if test.title.startswith(heading) else test.title),
                    makers[test.kind](book, test),
                    missing(book, test),
                    captions.method(test),
                    id=test.id,
                    class_="test",
                )
            )
    return el("section", el("h2", heading), body, id=f"page-{page}", class_="page")


def missing(book: Book, test: Test) -> list[Html]:
    """A line for every review in which this test has no figures, and why."""
    lines = []
    for entry in book.entries:
        found = [step for step in entry.review.result.steps if step.id == test.id]
        who = f"{entry.name}: " if len(book.entries) > 1 else ""
        if not found:
            lines.append(f"{who}this test is not in the suite that was run.")
        elif not found[0].done:
            state = "has not been run yet" if found[0].state == "pending" else "failed"
            why = f": {found[0].error}" if found[0].error else ""
            lines.append(f"{who}{test.title} {state}{why}.")
    return [el("p", line, class_="missing") for line in lines]


def published_bars(run: Run, key: str) -> list[Bar]:
    """Bars for what is published of one figure."""
    return [
        Bar(
            "published",
            row.published,
            "@published-fill",
            detail=row.source.split(",")[0],
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
        one = run.measured.figures[key]
        kind = " sd" if one.spread_kind == SD else ""
        detail = f"± {number(one.spread)}{kind}, n = {one.n:,}" if one.spread is not None else ""
        detail = detail or (f"n = {one.n:,}" if one.value is not None else one.note)
        rows.append(Bar(_bar_name(run), one.value, run.colour, one.spread, detail))
        rows += published_bars(run, key)
    return bars(title, unit, rows, better=better)


def _bar_name(run: Run) -> str:
    """A lone run needs no name, only what kind of figure it is."""
    if run.name:
        return run.name
    return "reproduced" if run.entry.kind == "virtual" else "measured"


# --- performance consistency ----------------------------------------------------------------------


def _consistency(book: Book, page: str, tests: Sequence[Test]) -> list[Child]:
    found = runs(book.entries, [test.id for test in tests])
    body: list[Child] = []
    if found:
        body = _consistency_charts(book, page, found)
    gaps = [line for test in tests for line in missing(book, test)]
    anchors = [el("span", id=test.id, class_="anchor") for test in tests]
    return [anchors, body, gaps, [captions.method(test) for test in tests]]


def _consistency_charts(book: Book, page: str, found: Sequence[Run]) -> list[Child]:
    windows = {run.measured.figures["mean_iops"].n for run in found}
    last = f"last {min(windows):,} s" if len(windows) == 1 else "last seconds"
    window = found[0].measured.test.metric_window_s or 0
    whole = book.keep(charts_time.scatter(f"{page}-whole", found))
    end = book.keep(charts_time.scatter(f"{page}-end", found, window_s=window))
    ids = [whole.id, end.id]
    tests = list(dict.fromkeys(run.measured.test.id for run in found))
    names = {run.measured.test.id: short_title(run.measured.test) for run in found}
    choices = [(test, names[test]) for test in tests]
    choices += [(charts_time.ALL, "All")] if len(tests) > 1 else []
    which = switch(f"{page}-which", "Test", choices, charts=ids, slot=0)
    axis = switch(f"{page}-axis", "Axis", AXES, charts=[whole.id], slot=1)
    axis_end = switch(
        f"{page}-axis-end", "Axis", (*AXES, ("close", "Close-up")), charts=[end.id], slot=1
    )
    seconds = [captions.spread(run.measured.steps[0].ios, "IOPS") for run in found]
    last_seconds = [
        captions.spread(found_one.window if found_one else None, "IOPS")
        for found_one in (run.measured.consistency for run in found)
    ]
    notes = [when("linear", captions.ZERO), when("log", captions.LOG)]
    return [
        figure_bars(f"Mean, {last}", "IOPS", found, "mean_iops"),
        el(
            "div",
            figure_bars(f"Standard deviation, {last}", "IOPS", found, "sd_iops", better="lower"),
            figure_bars(f"Mean over standard deviation, {last}", "", found, "mean_over_sd"),
            class_="pair",
        ),
        _facts(found),
        el(
            "div",
            which,
            figure(
                "The whole run: IOPS of each second, temperature and power",
                whole,
                f"One point per second. {captions.named(found, seconds)}",
                *notes,
                captions.heat(found),
                captions.throttling(found),
                controls=axis,
            ),
            figure(
                f"Steady state: IOPS of each of the {last}",
                end,
                f"One point per second. {captions.named(found, last_seconds)}",
                *notes,
                when("close", captions.CLOSE),
                controls=axis_end,
            ),
            class_="group",
        ),
        _inside(book, page, found),
        captions.figures_table(found),
    ]


def _facts(found: Sequence[Run]) -> Html:
    """What stands in no chart: in one line for one run, as a table for several."""
    pairs = [dict(captions.test_facts(run.measured)) for run in found]
    if len(found) == 1:
        return facts(list(pairs[0].items()))
    names = list(dict.fromkeys(name for one in pairs for name in one))
    rows = [
        [run.name, *(one.get(name, DASH) for name in names)]
        for run, one in zip(found, pairs, strict=True)
    ]
    return table(["", *names], rows)


def _stage_key(found: Sequence[Run]) -> Html:
    names = {s.stage for run in found for phase in run.measured.phases for s in phase.stages}
    ordered = [name for name in stage_names.ORDER if name in names]
    ordered += sorted(names - set(ordered))
    return legend(
        [
            (name, STAGES.get(name, OTHER_STAGE), stage_names.MEANING.get(name, name))
            for name in ordered
        ]
    )


# --- ladders --------------------------------------------------------------------------------------


def _ladder(book: Book, test: Test) -> list[Child]:
    found = runs(book.entries, [test.id])
    if not found:
        return []
    body: list[Child] = []
    steps = max(len(run.measured.steps) for run in found)
    if steps > 1:
        depths = ", ".join(map(str, test.metric_queue_depths))
        body.append(figure_bars(f"Mean of queue depths {depths}", "MB/s", found, "mean_rate"))
        body.append(_depth_charts(book, test, found))
    else:
        depth = test.phases[0].workload.queue_depth
        body.append(
            figure_bars(f"Data rate at queue depth {depth}", "MB/s", found, f"rate_qd{depth}")
        )
    body.append(_time_chart(book, test, found))
    body.append(_inside(book, test.id, found))
    body.append(captions.ladder_table(found))
    return body


def _depth_charts(book: Book, test: Test, found: Sequence[Run]) -> Html:
    rate = book.keep(charts_load.rate(f"{test.id}-rate", found))
    slow = book.keep(charts_load.depth_latency(f"{test.id}-latency", found))
    keys = [("mean", "Mean"), *((f"p{q:g}", f"p{q:g}") for q in charts_load.SHADES)]
    several = len(found) > 1
    which = (
        switch(f"{test.id}-percentile", "Latency", keys, charts=[slow.id], slot=0)
        if several
        else None
    )
    axis = switch(
        f"{test.id}-latency-axis",
        "Axis",
        tuple(reversed(AXES)),
        charts=[slow.id],
        slot=1 if several else 0,
    )
    samples = [
        f"n = {sum(step.rate.n for step in run.measured.steps if step.rate):,} 1 s samples"
        for run in found
    ]
    ios = [f"n = {sum(step.total_ios for step in run.measured.steps):,} I/Os" for run in found]
    return el(
        "div",
        figure(
            "Data rate and IOPS by queue depth",
            rate,
            f"Whiskers: standard deviation of 1 s samples. {captions.named(found, samples)}",
            "Both axes start at zero.",
            wide=False,
        ),
        figure(
            "Latency by queue depth",
            slow,
            captions.named(found, ios),
            captions.PERCENTILES,
            when("linear", captions.ZERO),
            when("log", captions.LOG),
            wide=False,
            controls=[which, axis],
        ),
        class_="pair",
    )


def _time_chart(book: Book, test: Test, found: Sequence[Run], title: str = "") -> Html:
    chart = book.keep(charts_time.over_time(f"{test.id}-time", found))
    length = [f"n = {run.measured.whole.n:,} s" for run in found]
    return figure(
        title or "Data rate over time",
        chart,
        f"One point per second, joined. {captions.named(found, length)}",
        "The rate axis starts at zero.",
        captions.heat(found),
        captions.throttling(found),
    )


def _inside(book: Book, name: str, found: Sequence[Run]) -> Html | None:
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
                "Each row is scaled to its own peak; marks at p50, p99, p99.9, p99.99. "
                + captions.named(found, total),
                "Logarithmic axis, does not start at zero.",
                wide=where is None,
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


# --- thermal --------------------------------------------------------------------------------------


def _thermal(book: Book, test: Test) -> list[Child]:
    found = runs(book.entries, [test.id])
    if not found:
        return []
    return [
        figure_bars("Time until the rate falls", "s", found, "throttle_after_s"),
        el(
            "div",
            figure_bars("Data rate before", "MB/s", found, "initial_rate"),
            figure_bars("Data rate after", "MB/s", found, "throttled_rate"),
            class_="pair",
        ),
        [
            el("p", f"{run.name}: {note}.", class_="note")
            for run in found
            if (note := run.measured.figures["throttle_after_s"].note)
        ],
        _facts(found),
        _time_chart(book, test, found, "Data rate, temperature and power over time"),
        _inside(book, test.id, found),
        captions.figures_table(found),
    ]
