"""The report's sections, one per page of the suite: bars first, then lines, then scatter.

A section gets the tests of its page and the runs of them; it asks analysis for every number.
"""

from __future__ import annotations

from collections.abc import Sequence

from drivebay.report import captions, charts_load, charts_time, storage_bench
from drivebay.report.blocks import (
    Book,
    facts_of,
    figure_bars,
    inside,
    run_key,
    time_chart,
    with_heat,
)
from drivebay.report.charts_load import SHADES
from drivebay.report.entries import Run, run_differently, runs, short_title
from drivebay.report.markup import Child, Html, el
from drivebay.report.parts import Key, figure, legend, switch, when
from drivebay.suites import Test

PAGES = {
    "performance-consistency": "Performance consistency",
    "random": "Random performance",
    "sequential": "Sequential performance",
    "storage-bench": "Storage Bench",
    "thermal": "Thermal throttling",
}
DIFFERENT = (
    "The reviews ran this test differently (another suite, or a shortened run): its figures must "
    "not be compared."
)
AXES = (("linear", "Linear"), ("log", "Log"))


def page_title(page: str) -> str:
    """A page's heading.

    >>> page_title("mixed-random")
    'Mixed random'
    """
    return PAGES.get(page, page.replace("-", " ").capitalize())


def section(book: Book, page: str, tests: Sequence[Test]) -> Html:
    """One page of the suite. The consistency tests of a lone review share their charts."""
    heading = page_title(page)
    body: list[Child] = []
    apart = list(tests)
    together = [test for test in tests if test.kind == "consistency"]
    if together and len(book.entries) == 1:
        body.append(_consistency(book, page, together))
        apart = [test for test in tests if test not in together]
    for test in apart:
        title = short_title(test) if test.title.startswith(heading) else test.title
        body.append(
            el(
                "section",
                el("h3", title),
                el("p", DIFFERENT, class_="note")
                if run_differently(book.entries, test.id)
                else None,
                _one_test(book, test),
                missing(book, test),
                captions.method(test),
                id=test.id,
                class_="test",
            )
        )
    return el("section", el("h2", heading), body, id=f"page-{page}", class_="page")


def _one_test(book: Book, test: Test) -> Child:
    found = runs(book.entries, [test.id])
    if not found:
        return None
    if test.kind == "consistency":
        return _consistency_charts(book, test.id, found)
    if test.kind == "trace":
        return storage_bench.body(book, test, found)
    if test.kind == "thermal":
        return _thermal(book, test, found)
    return _ladder(book, test, found)


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
    whole = book.keep(charts_time.scatter(f"{page}-whole", found, whole=True))
    end = book.keep(charts_time.scatter(f"{page}-end", found, whole=False))
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
        facts_of(found),
        el(
            "div",
            which,
            figure(
                "The whole run: IOPS of each second" + with_heat(found),
                whole,
                f"One point per second. {captions.named(found, seconds)}",
                *notes,
                captions.heat(found),
                captions.throttling(found),
                key=run_key(found, ""),
                controls=axis,
            ),
            figure(
                f"{last[:1].upper()}{last[1:]}: IOPS of each second",
                end,
                f"One point per second. {captions.named(found, last_seconds)}",
                *notes,
                when("close", captions.CLOSE),
                key=run_key(found, ""),
                controls=axis_end,
            ),
            class_="group",
        ),
        inside(book, page, found),
        captions.figures_table(found),
    ]


# --- ladders --------------------------------------------------------------------------------------


def _ladder(book: Book, test: Test, found: Sequence[Run]) -> list[Child]:
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
    body.append(time_chart(book, test, found))
    body.append(inside(book, test.id, found))
    body.append(captions.ladder_table(found))
    return body


def _depth_charts(book: Book, test: Test, found: Sequence[Run]) -> Html:
    rate = book.keep(charts_load.rate(f"{test.id}-rate", found))
    slow = book.keep(charts_load.depth_latency(f"{test.id}-latency", found))
    keys = [("mean", "Mean"), *((f"p{q:g}", f"p{q:g}") for q in SHADES)]
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
            key=run_key(found),
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
            key=run_key(found) if several else _percentile_key(),
            controls=[which, axis],
        ),
        class_="pair",
    )


def _percentile_key() -> Html | None:
    keys = [Key("mean", "@ink", "line dotted")]
    return legend(keys + [Key(f"p{q:g}", shade, "line") for q, shade in SHADES.items()])


# --- thermal --------------------------------------------------------------------------------------


def _thermal(book: Book, test: Test, found: Sequence[Run]) -> list[Child]:
    return [
        figure_bars("Time until the rate falls", "s", found, "throttle_after_s"),
        el(
            "div",
            figure_bars("Data rate before", "MB/s", found, "initial_rate"),
            figure_bars("Data rate after", "MB/s", found, "throttled_rate"),
            class_="pair",
        ),
        [_note(run, "throttle_after_s") for run in found],
        facts_of(found),
        time_chart(book, test, found),
        inside(book, test.id, found),
        captions.figures_table(found),
    ]


def _note(run: Run, key: str) -> Html | None:
    one = run.measured.figures.get(key)
    if one is None or not one.note:
        return None
    words = f"{run.name}: {one.note}." if run.name else f"{one.note[:1].upper()}{one.note[1:]}."
    return el("p", words, class_="note")
