"""One HTML file that holds everything: text, tables, chart data, Plotly, style and script.

It asks for nothing from anywhere: a content security policy in its head forbids all requests.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from importlib import resources

from plotly.offline import get_plotlyjs

from drivebay import units
from drivebay.report import summary, themes
from drivebay.report.blocks import Book
from drivebay.report.conditions import conditions_of
from drivebay.report.entries import Entry
from drivebay.report.markup import Child, Html, el, script_json
from drivebay.report.parts import table
from drivebay.report.sections import page_title, section
from drivebay.suites import Test

POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; font-src data:; form-action 'none'; base-uri 'none'"
)


def render(all_entries: Sequence[Entry]) -> str:
    """The whole document."""
    book = Book(tuple(all_entries))
    pages = _pages(all_entries)
    body = [section(book, page, tests) for page, tests in pages.items()]
    title = " and ".join(entry.name for entry in all_entries)
    links = [("summary", "Summary"), ("specification", "Specification")]
    links += [(f"page-{page}", page_title(page)) for page in pages]
    links += [("about", "About")]
    main = el(
        "main",
        summary.header(all_entries),
        summary.incomplete(all_entries),
        _summary(all_entries),
        summary.specifications(all_entries),
        body,
        _about(all_entries),
        id="top",
    )
    data = {
        "charts": {chart.id: chart.encoded() for chart in book.charts.values()},
        "themes": {"light": themes.LIGHT, "dark": themes.DARK},
    }
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", http_equiv="Content-Security-Policy", content=POLICY),
        el("meta", name="generator", content="drivebay"),
        el("title", f"{title} — drivebay review"),
        el("style", Html(themes.style_sheet() + asset("page.css"))),
        el("script", Html(asset("theme.js"))),
    )
    scripts = [
        el("script", script_json(data), type="application/json", id="data"),
        el("script", plotly()),
        el("script", Html(asset("page.js"))),
    ]
    page = el("html", head, el("body", _bar(links), main, scripts), lang="en")
    return f"<!doctype html>\n{page}\n"


def _pages(all_entries: Sequence[Entry]) -> dict[str, list[Test]]:
    """The suites' tests by page, in the order they first come up."""
    pages: dict[str, list[Test]] = {}
    known: set[str] = set()
    for entry in all_entries:
        for test in entry.review.result.suite.tests:
            if test.id not in known:
                known.add(test.id)
                pages.setdefault(test.page, []).append(test)
    return pages


def _bar(links: Sequence[tuple[str, str]]) -> Html:
    items = [el("li", el("a", words, href=f"#{target}")) for target, words in links]
    button = el("button", "Dark", type="button", id="theme", aria_label="Dark or light colours")
    return el("nav", el("ul", items), button, aria_label="Sections")


def _summary(all_entries: Sequence[Entry]) -> Html:
    about = [
        el("p", " ".join(entry.review.result.suite.description.split()), class_="lede")
        for entry in _first_of_each_suite(all_entries)
    ]
    return el(
        "section",
        el("h2", "Summary"),
        summary.agreement(all_entries),
        summary.headline_table(all_entries),
        el(
            "p",
            "± is the standard deviation of 1 s samples, n their number; where it is another "
            "kind, pointing at the figure says so.",
            class_="small",
        ),
        summary.all_published(all_entries),
        about,
        id="summary",
        class_="page",
    )


def _first_of_each_suite(all_entries: Sequence[Entry]) -> list[Entry]:
    seen: dict[str, Entry] = {}
    for entry in all_entries:
        seen.setdefault(entry.review.result.suite.name, entry)
    return list(seen.values())


def _about(all_entries: Sequence[Entry]) -> Html:
    """Where the figures come from: tool, machine, seeds."""
    body: list[Child] = []
    for entry in all_entries:
        result = entry.review.result
        if len(all_entries) > 1:
            body.append(el("h3", entry.name))
        body.append(
            el(
                "p",
                "The drive, its flash, its firmware and the host are a model that ran in virtual "
                "time. Every parameter and its source is listed under Specification."
                if result.simulated
                else "The figures were measured on the drive named above by the tool and on the "
                "machine named here.",
            )
        )
        rows: list[list[Child]] = [
            ["Tool", f"drivebay {result.tool.version}"],
            ["Commit", result.tool.git_commit or "not known"],
            ["Suite", f"{result.suite.name}: {result.suite.source}"],
            ["Seed", str(result.seed)],
        ]
        rows += [[summary.label(name), words] for name, words, _ in summary.flat(result.host)]
        drive_time = sum(
            phase.timeline.seconds_total
            for one in entry.review.tests.values()
            for phase in one.phases
        )
        rows.append(["Time under load", units.duration(drive_time)])
        body.append(table(["", ""], rows, caption="This review", kind="data narrow"))
        body += conditions_of(result)
    body.append(
        el(
            "p",
            "Rates are decimal: 1 MB/s is 1,000,000 bytes per second. Percentiles are nearest-rank "
            "over exact counts, given as the upper edge of a bin that is at most 1.6 % wide; they "
            "are never averaged. A mean latency is the mean over all I/Os.",
        )
    )
    return el("section", el("h2", "About"), body, id="about", class_="page")


@functools.cache
def asset(name: str) -> str:
    """A file of the folder `assets`."""
    return (resources.files(__package__) / "assets" / name).read_text(encoding="utf-8")


@functools.cache
def plotly() -> Html:
    """Plotly's own packaged script; it must not end the element that it stands in."""
    source = str(get_plotlyjs())
    assert "</script" not in source.lower(), "plotly.js must not close the script element"
    return Html(source)
