"""The report's sections, one per page of the suite, in the order of the reviews.

A section gets the tests of its page and the runs of them; what is shown of a test is its kind's
business (`kinds`), in what order is this module's: bars, facts, charts, what follows from them,
what is missing, the method, all figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from drivebay.definitions.suites import Test
from drivebay.report import captions, kinds
from drivebay.report.blocks import Book, explained, facts_of, figure_bars
from drivebay.report.entries import Entry, Run, run_differently, runs, short_title
from drivebay.report.kinds.base import BarOf
from drivebay.report.kinds.ladder import power_panel
from drivebay.report.markup import Child, Html, el

PAGES = {
    "performance-consistency": "Performance consistency",
    "destroyer": "Storage Bench: The Destroyer",
    "heavy": "Storage Bench: Heavy",
    "light": "Storage Bench: Light",
    "storage-bench": "Storage Bench",
    "random": "Random performance",
    "sequential": "Sequential performance",
    "mixed": "Mixed loads",
    "mixed-random": "Mixed random",
    "mixed-sequential": "Mixed sequential",
    "atto": "ATTO-style",
    "as-ssd": "AS-SSD-style",
    "crystaldiskmark": "CrystalDiskMark-3-style",
    "pcmark7": "PCMark-7-style",
    "pcmark8": "PCMark-8-style",
    "fio-fob": "fio, fresh out of box",
    "fio-steady": "fio, steady state",
    "fio-consistency": "fio, consistency and latency",
    "snia-wsat": "SNIA write saturation",
    "snia-iops": "SNIA IOPS",
    "snia-throughput": "SNIA throughput",
    "snia-latency": "SNIA latency",
    "thermal": "Thermal throttling",
    "trim": "TRIM",
    "sustained-random-write": "Sustained random write",
    "sustained-sequential-write": "Sustained sequential write",
}
"""Headings, in the order in which the reviews had them; pages not named here come after."""
SHORT = {
    "performance-consistency": "Consistency",
    "random": "Random",
    "sequential": "Sequential",
    "thermal": "Thermal",
    "destroyer": "Destroyer",
    "heavy": "Heavy",
    "light": "Light",
    "crystaldiskmark": "CDM-3-style",
    "fio-fob": "Fresh",
    "fio-steady": "Steady",
    "fio-consistency": "Consistency",
    "snia-wsat": "Saturation",
    "snia-iops": "IOPS",
    "snia-throughput": "Throughput",
    "snia-latency": "Latency",
}
"""What the bar on top calls a page where its heading is long."""
DIFFERENT = (
    "The reviews ran this test differently (another suite, or a shortened run): its figures must "
    "not be compared."
)


def page_title(page: str) -> str:
    """A page's heading.

    >>> page_title("queue-sweep")
    'Queue sweep'
    """
    return PAGES.get(page, page.replace("-", " ").capitalize())


def in_order(pages: Iterable[str]) -> list[str]:
    """Pages in the reviews' order, others after them as they come.

    >>> in_order(["mine", "thermal", "random"])
    ['random', 'thermal', 'mine']
    """
    known = list(PAGES)
    return sorted(pages, key=lambda page: known.index(page) if page in known else len(known))


def pages(all_entries: Sequence[Entry]) -> dict[str, list[Test]]:
    """The suites' tests by page, pages in the reviews' order, tests as they come."""
    found: dict[str, list[Test]] = {}
    known: set[str] = set()
    for entry in all_entries:
        for test in entry.review.result.suite.tests:
            if test.id not in known:
                known.add(test.id)
                found.setdefault(test.page, []).append(test)
    return {page: found[page] for page in in_order(found)}


def section(book: Book, page: str, tests: Sequence[Test]) -> Html:
    """One page of the suite. Tests of some kinds share their charts in a lone review."""
    heading = page_title(page)
    body: list[Child] = []
    together = [test for test in tests if kinds.of(test.kind).together or _is_compared(test, tests)]
    apart = list(tests)
    if together and len(book.entries) == 1:
        body.append(_together(book, page, together))
        apart = [test for test in tests if test not in together]
    for test in apart:
        title = short_title(test) if test.title.startswith(heading) else test.title
        found = runs(book.entries, [test.id])
        different = run_differently(book.entries, test.id)
        body.append(
            el(
                "section",
                el("h3", title),
                el("p", DIFFERENT, class_="note") if different else None,
                _shown(book, test.id, found),
                missing(book, test),
                captions.method(test),
                kinds.of(test.kind).table(found) if found else None,
                id=test.id,
                class_="test",
            )
        )
    return el("section", el("h2", heading), body, id=f"page-{page}", class_="page")


def _is_compared(test: Test, tests: Sequence[Test]) -> bool:
    """Whether the page has this test with and without some change of the drive."""
    alike = [other for other in tests if (other.kind, other.phases) == (test.kind, test.phases)]
    return len({other.what_if for other in alike}) > 1


def _together(book: Book, page: str, tests: Sequence[Test]) -> list[Child]:
    found = runs(book.entries, [test.id for test in tests])
    anchors = [el("span", id=test.id, class_="anchor") for test in tests]
    gaps = [line for test in tests for line in missing(book, test)]
    methods = [captions.method(test) for test in tests]
    table = kinds.of(tests[0].kind).table(found) if found else None
    return [anchors, _shown(book, page, found), gaps, methods, table]


def _shown(book: Book, prefix: str, found: Sequence[Run]) -> list[Child]:
    """Bars, facts and charts of these runs, which are of one kind."""
    if not found:
        return []
    kind = kinds.of(found[0].measured.test.kind)
    return [
        bars_of(kind.bars(found[0].measured), found),
        [
            _remark(run, words)
            for run in found
            for words in [*captions.steady(run.measured), *kind.remarks(run.measured)]
        ],
        facts_of(found),
        kind.shared(prefix, found),
        book.show(kind.panels(prefix, found)),
        explained(found),
    ]


def bars_of(shown: Sequence[BarOf], found: Sequence[Run]) -> list[Child]:
    """The bars; those that are half as wide side by side."""
    body: list[Child] = []
    halves: list[Html] = []
    for one in shown:
        html = figure_bars(one.title, one.unit, found, one.key, better=one.better)
        (halves if one.half else body).append(html)
    pairs = [el("div", halves[at : at + 2], class_="pair") for at in range(0, len(halves), 2)]
    return [*body, *pairs]


def power(book: Book) -> Html | None:
    """Power by queue depth of every ladder, on one page, as the reviews had it."""
    tests: dict[str, Test] = {}
    for entry in book.entries:
        for test in entry.review.result.suite.tests:
            if test.kind == "ladder" and len(test.phases) > 1:
                tests.setdefault(test.id, test)
    shown = []
    for test in tests.values():
        found = runs(book.entries, [test.id])
        one = power_panel(test.id, found) if found else None
        if one is not None:
            shown.append((test, one))
    if not shown:
        return None
    body = [
        el("div", el("h3", test.title), book.show([one]), class_="narrow-test")
        for test, one in shown
    ]
    return el(
        "section",
        el("h2", "Power by queue depth"),
        el("div", body, class_="pair"),
        id="page-power",
        class_="page",
    )


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


def _remark(run: Run, words: str) -> Html:
    text = words.removesuffix(".")
    said = f"{run.name}: {text}." if run.name else f"{text[:1].upper()}{text[1:]}."
    return el("p", said, class_="note")
