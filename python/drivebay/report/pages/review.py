"""One HTML file with all content: text, tables, chart data, Plotly, style and script.

It loads nothing: a content security policy in its head forbids all requests.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from importlib import resources

from drivebay.common import units
from drivebay.report.base import theme
from drivebay.report.base.markup import Child, Html, el, packed, script_json, table
from drivebay.report.base.runs import Entry, who_of
from drivebay.report.charts.model import Panel
from drivebay.report.pages import chapters, reference, summary
from drivebay.report.pages.sections import pages as pages_of
from drivebay.report.pages.sections import section
from drivebay.report.peers import competitors
from drivebay.report.peers.digest import Json
from drivebay.report.render.page import Page
from drivebay.report.render.svg import picture, tiles

POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'self' file:; style-src 'unsafe-inline'; "
    "img-src data: blob:; font-src data:; form-action 'none'; base-uri 'none'"
)

SIMULATED = (
    "The drive, its flash, its firmware and the host are simulated in virtual time. Specification "
    "lists every parameter with its source."
)
MEASURED = (
    "The figures were measured on the drive named above, with the tool and on the machine named "
    "here."
)
UNITS = (
    "Data rates are decimal: 1 MB/s is 1,000,000 bytes per second. Percentiles are nearest-rank "
    "percentiles of exact counts, given as the upper edge of a histogram bin at most 1.6 % wide; "
    "they are never averaged. Mean latency is the mean over all I/Os."
)
DETAILS = "Details: method, latency breakdown and all figures of every test, sources"


def render(
    all_entries: Sequence[Entry],
    *,
    shipped: Sequence[Json] = (),
    quick: Sequence[Json] = (),
    remarks: Sequence[str] = (),
    library: str | None = None,
    bench: str | None = None,
) -> str:
    """Whole document.

    Parameters
    ----------
    shipped : digests of other drives to rank these among (`competitors.load`).
    quick : digests of shortened runs (`competitors.load_quick`).
    remarks : sentences of the judge of benchmarks.
    library : path of Plotly's script relative to the page; None embeds it.
    bench : address of the Bench that the page belongs to.
    """
    page = made(all_entries, shipped, quick)
    parts = chapters.render(page)
    title = " and ".join(entry.name for entry in all_entries)
    links = [(name, chapters.TITLES[name]) for name in parts]
    links.append(("details", "Details"))
    below: list[Child] = [summary.overview(all_entries), every_test(page)]
    below += [reference.specifications(all_entries), _about(all_entries)]
    main = el(
        "main",
        summary.header(all_entries),
        summary.incomplete(all_entries),
        summary.judged(remarks),
        *parts.values(),
        el("details", el("summary", DETAILS), below, id="details"),
        id="top",
    )
    home = el("a", "The Bench", href=bench) if bench else None
    return document(
        page, links, main, title=f"{title} — drivebay review", home=home, library=library
    )


def made(
    all_entries: Sequence[Entry], shipped: Sequence[Json] = (), quick: Sequence[Json] = ()
) -> Page:
    """Page without content: the reviews and their peers. A shortened run is comparable with
    shortened runs only; results of another tool are not comparable with full-length ones.
    """
    short = all(entry.review.result.quick for entry in all_entries)
    peers = competitors.peers(quick if short else shipped, all_entries)
    return Page(tuple(all_entries), peers, tuple(quick))


def every_test(page: Page) -> list[Child]:
    """Details of every test."""
    return [section(page, name, tests) for name, tests in pages_of(page.entries).items()]


def all_panels(
    all_entries: Sequence[Entry], shipped: Sequence[Json] = (), quick: Sequence[Json] = ()
) -> list[Panel]:
    """Every panel of these reviews' report, including bars among other drives."""
    page = made(all_entries, shipped, quick)
    chapters.render(page)
    every_test(page)
    return [*page.pictures, *page.panels]


def document(
    page: Page,
    links: Sequence[tuple[str, str]],
    main: Html,
    *,
    title: str,
    home: Html | None = None,
    library: str | None = None,
) -> str:
    """Page with its charts; `links` are its sections: (anchor, title)."""
    items = [el("li", home)] if home else []
    items += [el("li", el("a", text, href=f"#{anchor}")) for anchor, text in links]
    who = "; ".join(who_of(entry) for entry in page.entries)
    pictures = {panel.chart.id: picture(panel, who) for panel in page.pictures}
    scripts = [
        [
            packed(json.dumps(chart, separators=(",", ":"), allow_nan=False), f"data-{name}")
            for name, chart in page.charts().items()
        ],
        packed_plotly() if library is None else None,
        el("script", Html(chart_script() + asset("page.js")), data_library=library),
        packed(json.dumps(pictures), "pictures") if pictures else None,
    ]
    skip = el("a", "Skip to the review", href="#top", class_="skip")
    body_of = el("body", skip, tiles(page.panels), navigation(items), main, scripts, data_who=who)
    html = el("html", head(title), body_of, lang="en")
    return f"<!doctype html>\n{html}\n"


def head(title: str, style: str = "") -> Html:
    """Head of the document: policy, style, and the reader's choice of colours first."""
    return el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", http_equiv="Content-Security-Policy", content=POLICY),
        el("meta", name="generator", content="drivebay"),
        el("title", title),
        el("style", Html(theme.style_sheet() + asset("page.css") + style)),
        el("script", Html(asset("theme.js"))),
    )


def chart_script() -> str:
    """Script that draws charts and keeps their state in the address, with the themes' colours."""
    colours = script_json({"light": theme.LIGHT, "dark": theme.DARK, "patterns": theme.PATTERNS})
    scripts = "".join(map(asset, ("address.js", "controls.js", "charts.js")))
    return f"const DRIVEBAY_THEMES = {colours};\n{scripts}"


def navigation(items: Sequence[Html]) -> Html:
    """Bar at the top: links, which become a menu in a narrow window, and the colour switch."""
    menu = el(
        "button", "Sections", type="button", id="menu", aria_expanded="false", aria_controls="links"
    )
    theme_button = el(
        "button", "Dark", type="button", id="theme", aria_label="Dark or light colours"
    )
    return el("nav", menu, el("ul", items, id="links"), theme_button, aria_label="Sections")


def _about(all_entries: Sequence[Entry]) -> Html:
    """Origin of the figures: tool, machine, seeds."""
    body: list[Child] = []
    for entry in all_entries:
        result = entry.review.result
        if len(all_entries) > 1:
            body.append(el("h3", entry.name))
        body.append(el("p", SIMULATED if result.simulated else MEASURED))
        rows: list[list[Child]] = [
            ["Tool", f"drivebay {result.tool.version}"],
            ["Commit", result.tool.git_commit or "unknown"],
            ["Suite", f"{result.suite.name}: {result.suite.source}"],
            ["Seed", str(result.seed)],
        ]
        if result.tool.core is not None:
            build = f"core {result.tool.core}, Python sources {result.tool.python}"
            rows.insert(2, ["Build", build])
        rows += [[reference.label(name), text] for name, text, _ in reference.flat(result.host)]
        drive_time = sum(
            phase.timeline.seconds_total
            for measured in entry.review.tests.values()
            for phase in measured.phases
        )
        rows.append(["Time under load", units.duration(drive_time)])
        body.append(table(["", ""], rows, caption="This review", kind="data narrow"))
        body += reference.health(result)
        body += reference.conditions(result)
    body.append(el("p", UNITS))
    return el("section", el("h2", "About"), body, id="about", class_="page")


@functools.cache
def asset(name: str) -> str:
    """Content of a file in `assets`."""
    return (resources.files("drivebay.report") / "assets" / name).read_text(encoding="utf-8")


def plotly() -> str:
    """Plotly's script: the bundle with bars and lines only, without the wrapper for other module
    systems. A browser parses a function in `(function` once, any other function twice: first for
    its end, then, when it is called, for its code. That is a third of the script's start time.
    """
    licence, _, bundle = asset("plotly-basic.min.js").partition("(\n function(root")
    script = bundle[bundle.index('"use strict"') : bundle.index("\nwindow.Plotly = Plotly")]
    assert "Plotly=(()=>{" in script, "another wrapper than that of Plotly 4.1"
    return licence + script.replace("Plotly=(()=>{", "Plotly=(function(){", 1)


@functools.cache
def packed_plotly() -> Html:
    """Plotly's script, compressed, for a page that stands alone."""
    return packed(plotly(), "plotly")
