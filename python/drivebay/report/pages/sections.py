"""Sections of the report, one per page of the suite, in the order of the reviews.

A section receives the tests of its page and their runs. The kind of a test (`kinds`) decides what
is shown; this module decides the order: bars, facts, charts, explanations, missing results, method,
all figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from drivebay.analysis import Measured, explain
from drivebay.common.units import binary_bytes
from drivebay.definitions.suites import Phase, Test
from drivebay.report import kinds
from drivebay.report.base import text
from drivebay.report.base.figures import facts_of, figure_bars
from drivebay.report.base.markup import Child, Html, details, el, heading, linked
from drivebay.report.base.runs import Entry, Run, run_differently, runs_of, short_title
from drivebay.report.charts import stages
from drivebay.report.charts.model import Panel
from drivebay.report.kinds.generic import BarOf, charts_of
from drivebay.report.pages import verdict
from drivebay.report.render.page import Page, pairs

# Headings, in the order of the reviews; other pages follow after them.
PAGES: dict[str, str] = text.asset_table("pages")["pages"]
DIFFERENT = (
    "The reviews ran this test in different ways (different suite or shortened run): its figures "
    "are not comparable."
)


def page_title(page: str) -> str:
    """Heading of a page.

    >>> page_title("queue-sweep")
    'Queue sweep'
    """
    return PAGES.get(page, page.replace("-", " ").capitalize())


def in_order(pages: Iterable[str]) -> list[str]:
    """Sorts pages in the order of the reviews; unknown ones follow in the given order.

    >>> in_order(["mine", "thermal", "random"])
    ['random', 'thermal', 'mine']
    """
    known = list(PAGES)
    return sorted(pages, key=lambda page: known.index(page) if page in known else len(known))


def pages(all_entries: Sequence[Entry]) -> dict[str, list[Test]]:
    """Tests of the suites by page: pages in the order of the reviews, tests in the order of the
    suite.
    """
    tests_of: dict[str, list[Test]] = {}
    known: set[str] = set()
    for entry in all_entries:
        for test in entry.review.result.suite.tests:
            if test.id not in known:
                known.add(test.id)
                tests_of.setdefault(test.page, []).append(test)
    return {page: tests_of[page] for page in in_order(tests_of)}


def section(page: Page, name: str, tests: Sequence[Test]) -> Html:
    """One page of the suite. In a report of one review, a test with and without a modification of
    the drive shares its charts.
    """
    title_of = page_title(name)
    body: list[Child] = []
    together = [test for test in tests if _is_compared(test, tests)]
    apart = list(tests)
    if together and len(page.entries) == 1:
        body.append(_together(page, name, together))
        apart = [test for test in tests if test not in together]
    for test in apart:
        title = short_title(test) if test.title.startswith(title_of) else test.title
        runs = runs_of(page.entries, [test.id])
        different = run_differently(page.entries, test.id)
        body.append(
            el(
                "section",
                heading("h3", title, test.id),
                el("p", DIFFERENT, class_="note") if different else None,
                _shown(page, test.id, runs),
                missing(page, test),
                method(test),
                kinds.by_name(test.kind).table(runs) if runs else None,
                id=test.id,
                class_="test",
            )
        )
    anchor = f"page-{name}"
    return el("section", heading("h2", title_of, anchor), body, id=anchor, class_="page")


def _is_compared(test: Test, tests: Sequence[Test]) -> bool:
    """True if the page has this test both with and without a modification of the drive."""
    alike = [other for other in tests if (other.kind, other.phases) == (test.kind, test.phases)]
    return len({other.what_if for other in alike}) > 1


def _together(page: Page, name: str, tests: Sequence[Test]) -> list[Child]:
    runs = runs_of(page.entries, [test.id for test in tests])
    anchors = [el("span", id=test.id, class_="anchor") for test in tests]
    gaps = [line for test in tests for line in missing(page, test)]
    methods = [method(test) for test in tests]
    table = kinds.by_name(tests[0].kind).table(runs) if runs else None
    return [anchors, _shown(page, name, runs), gaps, methods, table]


def _shown(page: Page, prefix: str, runs: Sequence[Run]) -> list[Child]:
    """Bars, facts and charts of these runs, which are of one kind."""
    if not runs:
        return []
    kind = kinds.by_name(runs[0].measured.test.kind)
    return [
        _bars_of(kind.bars(runs[0].measured), runs),
        [
            _remark(run, remark)
            for run in runs
            for remark in [*_steady(run.measured), *kind.remarks(run.measured)]
        ],
        facts_of(runs),
        page.show([*kind.panels(prefix, runs), *_gap(prefix, runs)]),
        explained(runs),
    ]


def _gap(prefix: str, runs: Sequence[Run]) -> list[Panel]:
    """Latency difference of two drives, stage by stage."""
    if len(runs) != 2 or runs[0].entry is runs[1].entry:
        return []
    first, second = (explain.explain(run.measured) for run in runs)
    return stages.gap(f"{prefix}-gap", runs, explain.gaps(first, second))


def _bars_of(shown: Sequence[BarOf], runs: Sequence[Run]) -> list[Child]:
    """Bars of the figures: those of one chart share a scale, half-width ones stand side by side."""
    body: list[Child] = []
    halves: list[Html] = []
    for alike in charts_of(shown):
        first, several = alike[0], len(alike) > 1
        title = first.chart if several else first.title
        loads = [(bar.key, bar.row if several else "") for bar in alike]
        doubt = doubt_of(runs, first.key)
        html = figure_bars(title, first.unit, runs, loads, better=first.better, doubt=doubt)
        (halves if first.half and not several else body).append(html)
    return [*body, *pairs(halves)]


def doubt_of(runs: Sequence[Run], key: str, *, ranked: bool = False) -> str:
    """Reason not to trust a figure of these runs; "" if there is none (`verdict.doubt`)."""
    known = (verdict.doubt(run.entry, run.measured, key, ranked=ranked) for run in runs)
    return next(filter(None, known), "")


def missing(page: Page, test: Test) -> list[Html]:
    """Line for every review without results of this test, with the reason."""
    lines = []
    for entry in page.entries:
        steps = [step for step in entry.review.result.steps if step.id == test.id]
        who = f"{entry.name}: " if len(page.entries) > 1 else ""
        if not steps:
            lines.append(f"{who}the suite of this review does not contain this test.")
        elif not steps[0].done:
            state = "has not been run yet" if steps[0].state == "pending" else "failed"
            why = f": {steps[0].error}" if steps[0].error else ""
            lines.append(f"{who}{test.title} {state}{why}.")
    return [el("p", line, class_="missing") for line in lines]


def _remark(run: Run, remark: str) -> Html:
    remark = remark.removesuffix(".")
    sentence = f"{run.name}: {remark}." if run.name else f"{remark[:1].upper()}{remark[1:]}."
    return el("p", sentence, class_="note")


def _steady(measured: Measured) -> list[str]:
    """Result of the preconditioning, if the preparation requires a steady state."""
    rounds = measured.figures.get("steady_rounds")
    if rounds is None or measured.test.rounds is not None:
        return []
    if rounds.note:
        return [f"The steady state that the test requires was not reached: {rounds.note}"]
    count = text.number(rounds.value)
    return [f"Steady state (SNIA criterion) after {count} rounds of preconditioning"]


def method(test: Test) -> Html:
    """Description of a test's method, in a closed section."""
    rows: list[tuple[str, Child]] = [
        ("Preparation", text.preparation(test)),
        ("Workload", "; ".join(_loads(test))),
    ]
    if test.what_if:
        rows.insert(0, ("Modification", ", ".join(test.what_if)))
    if test.metric_window_s is not None:
        rows.append(("Result from", f"the last {text.number(test.metric_window_s)} s"))
    if len(test.metric_queue_depths) > 1:
        depths = ", ".join(map(str, test.metric_queue_depths))
        rows.append(("Result from", f"queue depths {depths}"))
    stable = test.phases[0].workload.until_stable
    if stable is not None:
        end = (
            f"all rates of the last {stable.window_s} s are within {stable.within_percent:g} % of "
            f"their mean, after at least {stable.min_s} s"
        )
        rows.append(("Ends when", end))
    rows.append(("Source", linked(test.source)))
    return details(
        f"Method: {test.title}",
        el("p", " ".join(test.method.split())),
        el("dl", [el("div", el("dt", name), el("dd", about)) for name, about in rows]),
        class_="method",
    )


def _loads(test: Test) -> list[str]:
    """Workloads of the phases; if they differ in few values only, these are listed in one line."""
    first, depth = test.phases[0].workload, test.phases[0].workload.queue_depth
    plain = not any(
        phase.replay or phase.trim or phase.before or phase.together or phase.rate_of
        for phase in test.phases
    )
    varied = {
        name
        for phase in test.phases
        for name in type(first).model_fields
        if getattr(phase.workload, name) != getattr(first, name)
    }
    if not plain or not varied or varied - {"queue_depth", "read_percent", "block_bytes"}:
        return [_load(phase) for phase in test.phases]
    line = f"{text.load(first)} each"
    for name, single, several, say in (
        ("queue_depth", f"queue depth {depth}", "queue depths ", str),
        ("read_percent", text.kind(first), "read/write mixes ", _mix),
        ("block_bytes", binary_bytes(first.block_bytes), "", binary_bytes),
    ):
        if name in varied:
            values = dict.fromkeys(getattr(phase.workload, name) for phase in test.phases)
            line = line.replace(single, several + ", ".join(say(value) for value in values), 1)
    return [line]


def _mix(read_percent: float) -> str:
    return f"{read_percent:g}/{100 - read_percent:g}"


def _load(phase: Phase) -> str:
    before = [text.step_words(step) for step in phase.before]
    special = phase.replay or phase.trim
    load = text.load(phase.workload) if special is None else special.words()
    load += text.tenancy(phase)
    return f"{load} (preceded by: {', '.join(before)})" if before else load


def explained(runs: Sequence[Run]) -> Html | None:
    """Sentences from the latency breakdown, for each run and between two drives."""
    known = [(run, explain.explain(run.measured)) for run in runs]
    lines = [
        f"{run.name}: {line}" if run.name else line
        for run, explanation in known
        for line in explanation.sentences
    ]
    if len(known) == 2 and runs[0].entry is not runs[1].entry:
        (_, a), (_, b) = known
        lines += explain.compared(a, b, a_name=runs[0].name, b_name=runs[1].name)
    if not lines:
        return None
    lines = [line.replace(" %", f"{text.GAP}%") for line in lines]
    return el("ul", [el("li", line) for line in lines], class_="explained")
