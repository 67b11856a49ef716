"""The top of the report: what was tested, how complete it is, the first screen, the main figures.

Published figures stand beside the reproduced ones with their error; a shortened run says so and is
not compared. Everything that a target says of itself is text, whatever it contains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from drivebay.analysis import Headline, Measured, conditions
from drivebay.analysis.compare import gone, moved
from drivebay.analysis.figures import Figure
from drivebay.analysis.headline import plain_row
from drivebay.analysis.modified import changes
from drivebay.analysis.published import address
from drivebay.report import competitors, kinds
from drivebay.report.charts.model import Panel
from drivebay.report.figures import between, figure_bars, load_bars
from drivebay.report.kinds.client import scatter_panel
from drivebay.report.kinds.generic import BarOf, charts_of
from drivebay.report.markup import CUT, Child, Html, cited, details, el, publication, table
from drivebay.report.render_page import Page
from drivebay.report.runs import Entry, Run, capacity, run_differently, runs
from drivebay.report.sections import rank
from drivebay.report.text import DASH, GAP, inside, number, percent, quantity

FURTHEST = 2
DIFFERENCES_MAX = 6
WORTH_PERCENT = 1.0
KEY_BARS = {
    "cache": 1,
    "consistency": 1,
    "idle": 1,
    "ladder": 4,
    "ladders": 1,
    "mixed": 1,
    "qos": 3,
    "rounds": 3,
    "saturation": 1,
    "thermal": 1,
    "trace": 1,
    "waf": 1,
}
"""How many tests of each kind have bars on the first screen; of those whose bars are of loads, only
the first of each page."""
RANKED = 6
"""Rows of such a bar."""
SPREAD = (
    "± is the standard deviation of samples of 1 s, n their number; where it is another kind, "
    "pointing at the figure says so."
)


def header(all_entries: Sequence[Entry]) -> Html:
    """Title, what kind of figures these are, suite and seed of every review."""
    single = len(all_entries) == 1
    title = all_entries[0].full_name if single else "Drives side by side"
    lines = []
    for entry in all_entries:
        result = entry.review.result
        commit = result.tool.git_commit
        version = f"drivebay {result.tool.version}" + (f" ({commit[:10]})" if commit else "")
        name = None if single else el("strong", entry.name)
        lines.append(
            el(
                "div",
                name,
                el("p", chips(entry), class_="chips"),
                el(
                    "p",
                    " · ".join(
                        filter(
                            None,
                            (
                                result.suite.title,
                                f"seed {result.seed}",
                                capacity(entry.review),
                                _host(result.target),
                                version,
                            ),
                        )
                    ),
                    class_="meta",
                ),
                _stand_in(result.target),
                class_="who",
            )
        )
    return el("header", el("h1", title), lines)


def _stand_in(target: Mapping[str, Any]) -> Html | None:
    """Why too little is known of a virtual drive that is called a stand-in."""
    why = target.get("stand_in")
    return el("p", f"A stand-in: {why}.", class_="note") if why else None


def _host(target: Mapping[str, Any]) -> str:
    """The host that a virtual drive was tested in."""
    return f"in {target['host']}" if target.get("host") else ""


def chips(entry: Entry) -> list[Html]:
    """Labels that no figure of the review may be seen without."""
    result = entry.review.result
    if result.simulated:
        labels = [el("span", "Virtual drive: figures are simulated", class_="chip virtual")]
    else:
        what = "File on a real drive" if result.target["kind"] == "file" else "Real drive"
        labels = [el("span", f"{what}: figures are measured", class_="chip real")]
    given = str(result.target["drive"])
    if result.simulated and given != result.target["name"]:
        labels.append(el("span", f"Profile: {given}", class_="chip"))
    if changed := changes(result.target):
        labels.append(el("span", f"Changed: {', '.join(changed)}", class_="chip warn"))
    if result.quick:
        labels.append(el("span", "Shortened run: not comparable", class_="chip warn"))
    if result.missing:
        labels.append(el("span", "Incomplete review", class_="chip warn"))
    return labels


def incomplete(all_entries: Sequence[Entry]) -> list[Html]:
    """What is missing of a partial review, why, and how to go on."""
    notices = []
    for entry in all_entries:
        result = entry.review.result
        if not result.missing:
            continue
        rows = [
            el("li", f"{step.title}: ", "failed" if step.state == "failed" else "not run yet")
            if not step.error
            else el("li", f"{step.title}: failed: {step.error}")
            for step in result.missing
        ]
        who = f"{entry.name}: " if len(all_entries) > 1 else ""
        done = f"{who}{len(result.done)} of {len(result.steps)} tests are done."
        resume = el("code", f"drivebay review --resume {result.folder.name}")
        notices.append(
            el(
                "aside",
                el("p", el("strong", done), " To go on: ", resume, " in the folder that holds it."),
                details(f"{len(rows)} without figures so far", el("ul", rows)),
                class_="notice",
            )
        )
    return notices


# --- in sentences ---------------------------------------------------------------------------------


def overview(page: Page) -> Html:
    """The first screen: a verdict, the consistency test's seconds, key figures as bars; then, one
    click away, what each test found and every main figure."""
    entries = page.entries
    suites = {entry.review.result.suite.title: entry.review.result.suite for entry in entries}
    about = [el("p", " ".join(one.description.split()), class_="lede") for one in suites.values()]
    return el(
        "section",
        el("h2", "Summary", class_="sr-only"),
        [el("p", _verdict(page, entry), class_="verdict") for entry in entries],
        _differences(entries),
        el("div", page.show(_seconds(entries)), _key_bars(page), class_="pair key"),
        _among(page),
        [_found(entry) for entry in entries] if len(entries) == 1 else None,
        details(
            "Main figures of all tests", headline_table(entries), el("p", SPREAD, class_="small")
        ),
        all_published(entries),
        details(f"The suite: {', '.join(suites)}", about),
        id="summary",
        class_="page",
    )


def _verdict(page: Page, entry: Entry) -> list[Child]:
    """What it is, what it does best and worst, and with what reservations."""
    virtual = entry.kind == "virtual"
    figures = "virtual drive: its figures are simulated" if virtual else "real drive, measured"
    name = entry.full_name if len(page.entries) == 1 else entry.name
    lines = [f"{capacity(entry.review)}, {figures}.", _best_and_worst(page, entry)]
    return [
        el("strong", f"{name}: "),
        " ".join([*filter(None, lines), _reservations(entry)]),
    ]


def _best_and_worst(page: Page, entry: Entry) -> str:
    """By rank among the nearest other drives; without them by data rate."""
    places = []
    for measured, bar in _key_figures([entry]):
        value = measured.figures[bar.key].value if bar.key in measured.figures else None
        near = page.others[: competitors.NEAR]
        others = competitors.bars(near, measured, bar.key, real=False)
        values = [one.value for one in others if one.value is not None]
        if value is None or not values or len(values) < len(others) or not bar.better:
            continue
        before = sum(one < value if bar.better == "lower" else one > value for one in values)
        places.append((before / len(values), before + 1, len(values) + 1, measured.test.title))
    if len(places) > 1:
        best, worst = min(places), max(places)
        named = [
            f"{name}: no. {place} of {count} in {inside(title)}"
            for name, (_, place, count, title) in (("best", best), ("worst", worst))
        ]
        few = len(page.others) <= competitors.NEAR
        among = "drives" if few else "drives nearest in class and time"
        return f"Among {among}, {'; '.join(named)}."
    rates = []
    for measured in entry.review.tests.values():
        bars = kinds.of(measured.test.kind).bars(measured) if measured.phases else ()
        found = [measured.figures.get(bar.key) for bar in bars[:1] if bar.unit == "MB/s"]
        rates += [(one.value, measured.test.title) for one in found if one and one.value]
    if len(rates) < 2:
        return ""
    (high, best_in), (low, worst_in) = max(rates), min(rates)
    return (
        f"Highest data rate: {quantity(high, 'MB/s')} ({best_in}); lowest: "
        f"{quantity(low, 'MB/s')} ({worst_in})."
    )


def _reservations(entry: Entry) -> str:
    result = entry.review.result
    if result.quick:
        return "The run was shortened: its figures cannot be compared with published ones."
    if words := agreement(entry):
        return words
    if entry.kind == "virtual":
        return "No figures of this drive are published to compare these with."
    count = len(conditions(result).warnings)
    if count == 1:
        return "1 validity warning was raised."
    return f"{count or 'No'} validity warning{'s were' if count else ' was'} raised."


def _key_figures(entries: Sequence[Entry]) -> list[tuple[Measured, BarOf]]:
    """The first figure of the tests that reviews are known by."""
    left = dict(KEY_BARS)
    shown: list[tuple[Measured, BarOf]] = []
    pages: set[str] = set()
    tests = {test.id: test for one in entries for test in one.review.result.suite.tests}
    for test in tests.values():
        found = runs(entries, [test.id])
        if not found or not left.get(test.kind) or (test.kind == "ladder" and len(test.phases) < 2):
            continue
        bar = kinds.of(test.kind).bars(found[0].measured)[0]
        if bar.chart and test.page in pages:
            continue
        pages.add(test.page)
        shown.append((found[0].measured, bar))
        left[test.kind] -= 1
    return shown


def _key_bars(page: Page) -> list[Html]:
    """The key figures as bars, among the best of the other drives."""
    shown = []
    for measured, bar in _key_figures(page.entries):
        of = (measured.test.title, measured.test.id)
        found = runs(page.entries, [measured.test.id])
        ranked = rank(page, bar, found, of=of, most=RANKED)
        shown.append(ranked or _plain_bars(measured, bar, found, of))
    return shown


def _plain_bars(measured: Measured, bar: BarOf, found: Sequence[Run], of: tuple[str, str]) -> Html:
    """A key figure among no others, or that of every load; where jobs run together, that of the
    jobs beside the first, whose latency the test is about."""
    shown = kinds.of(measured.test.kind).bars(measured)
    loads = next(alike for alike in charts_of(shown) if bar in alike)
    beside = tuple(f"_{phase.label}" for phase in measured.test.phases if phase.together)
    loads = [one for one in loads if one.key.endswith(beside)] if beside else loads
    if not bar.chart:
        return figure_bars(bar.title, bar.unit, found, bar.key, better=bar.better, of=of)
    rows = [(one.key, one.row) for one in loads]
    return load_bars(bar.chart, bar.unit, found, rows, better=bar.better, of=of, brief=True)


def _among(page: Page) -> list[Html]:
    """Among which drives those of this page are ranked, and which of their results are old."""
    tests = [one.test for entry in page.entries for one in entry.review.tests.values()]
    if not any(competitors.running(page.others, test) for test in tests):
        return []
    count = len(page.others)
    versions = ", ".join(sorted({one["version"] for one in page.others}))
    lines = [
        el(
            "p",
            f"Ranked among {count} virtual drive{'s' * (count > 1)} of the catalog, simulated with "
            f"drivebay {versions}. A diamond is a published figure, with an open end where only a "
            f"bound was published; a whisker holds the figure with 90{GAP}%. A bar with a gap "
            f"is cut: it is over {CUT} times as long as any without.",
            class_="small",
        )
    ]
    old: dict[str, list[str]] = {}
    for one in page.others:
        if one["old"]:
            old.setdefault(one["old"], []).append(one["drive"])
    for why, drives in old.items():
        words = f"Old results ({why}; {competitors.AGAIN} computes them anew): {', '.join(drives)}."
        lines.append(el("p", words, class_="note old"))
    return lines


def _seconds(entries: Sequence[Entry]) -> list[Panel]:
    """The scatter of the first consistency test."""
    tests = [m.test for entry in entries for m in entry.review.tests.values()]
    test = next((one for one in tests if one.kind == "consistency"), None)
    found = runs(entries, [test.id]) if test else []
    return (
        [scatter_panel("summary-seconds", found, f"{test.title}: IOPS of each second")]
        if test and found
        else []
    )


def _differences(entries: Sequence[Entry]) -> list[Html]:
    if len(entries) != 2 or not (lines := difference(*entries)):
        return []
    names = [el("strong", entry.name) for entry in entries]
    return [
        el("p", "What differs most, from ", names[0], " to ", names[1], ":"),
        el("ul", [el("li", line) for line in lines], class_="findings"),
    ]


def _found(entry: Entry) -> Html | None:
    """What each test found, in the suite's order."""
    lines = [
        line
        for measured in entry.review.tests.values()
        if measured.phases
        for line in kinds.of(measured.test.kind).say(measured)
    ]
    if not lines:
        return None
    items = el("ul", [el("li", line) for line in lines], class_="findings")
    return details("What each test found", items)


def agreement(entry: Entry) -> str:
    """How many published figures are met, and which lie furthest off; empty if there are none."""
    met, compared = entry.review.agreement
    if not compared:
        return ""
    verb = "is" if met == 1 else "are"
    off = sorted(
        (row for row in entry.review.headline if row.verdict == "off"),
        key=lambda row: -abs(row.error_percent or 0.0),
    )
    named = "; ".join(_miss(row) for row in off[:FURTHEST])
    furthest = f", {'furthest off' if len(off) > 1 else 'off'}: {named}" if off else ""
    return f"{met} of {compared} published figures {verb} met within their tolerance{furthest}."


def difference(before: Entry, after: Entry) -> list[str]:
    """The main figures that differ most between two reviews, largest first."""
    found = sorted(moved(before.review, after.review).values(), key=lambda one: -abs(one.percent))
    lines = [
        f"{title}, {inside(first.label)}: {_or_why(first)}; then {_or_why(other)}."
        for title, first, other in gone(before.review, after.review)
    ]
    lines += [
        f"{one.test_title}, {inside(one.after.label)}: "
        f"{quantity(one.before.value, one.before.unit)} to "
        f"{quantity(one.after.value, one.after.unit)} ({percent(one.percent)})."
        for one in found[:DIFFERENCES_MAX]
        if abs(one.percent) >= WORTH_PERCENT
    ]
    return lines


def _or_why(figure: Figure) -> str:
    return quantity(figure.value, figure.unit) if figure.value is not None else figure.note


def _miss(row: Headline) -> str:
    return f"{row.test_title}, {inside(row.label)} ({percent(row.error_percent or 0.0)})"


# --- the table ------------------------------------------------------------------------------------


def headline_table(all_entries: Sequence[Entry]) -> Html:
    """Main figures; one drive: measured, published, error; several: one column each."""
    rows: dict[tuple[str, str], dict[str, Headline]] = {}
    for entry in all_entries:
        for row in entry.review.headline:
            rows.setdefault((row.test_id, row.key), {})[entry.key] = row
    if not rows:
        return el("p", "No test has figures yet.", class_="missing")
    single = len(all_entries) == 1
    compared = single and any(row.verdict for found in rows.values() for row in found.values())
    word = "Reproduced" if all_entries[0].kind == "virtual" else "Measured"
    heads = [word, "Published", "Error"] if compared else [word]
    differences = moved(*(e.review for e in all_entries)) if len(all_entries) == 2 else {}
    if not single:
        heads = [entry.name for entry in all_entries] + (["Difference"] if differences else [])
    body: list[Html] = []
    last = ""
    for (test_id, key), found in rows.items():
        any_row = next(iter(found.values()))
        if test_id != last:
            link: list[Child] = [el("a", any_row.test_title, href=f"#{test_id}")]
            if run_differently(all_entries, test_id):
                link.append(el("small", " run differently: not comparable", class_="bad"))
            span = str(len(heads) + 1)
            body.append(
                el("tr", el("th", link, colspan=span, scope="rowgroup"), class_="group-row")
            )
            last = test_id
        cells = (
            (_compared(any_row) if compared else [_value(any_row)])
            if single
            else [
                _value(found.get(entry.key) or _other(entry, test_id, key), published=True)
                for entry in all_entries
            ]
        )
        if differences:
            one = differences.get((test_id, key))
            cells.append(el("td", el("span", percent(one.percent) if one else DASH, class_="num")))
        body.append(el("tr", el("th", any_row.label, scope="row"), cells))
    head = el("tr", el("th", "", scope="col"), [el("th", name, scope="col") for name in heads])
    kind = "single" if single else "few" if len(all_entries) <= 3 else "many-drives"
    inner = el("table", el("thead", head), el("tbody", body), class_=f"headline {kind}")
    return el(
        "div", inner, class_="scroll", tabindex="0", role="region", aria_label="Headline figures"
    )


def _other(entry: Entry, test_id: str, key: str) -> Headline | None:
    """A figure that is in another review's short table and not in this one's."""
    measured = entry.review.tests.get(test_id)
    return None if measured is None else plain_row(measured, key)


def _value(row: Headline | None, *, published: bool = False) -> Html:
    """A measured value with spread and samples under it."""
    if row is None:
        return el("td", el("span", DASH, class_="num"))
    if row.value is None:
        return el("td", el("span", DASH, class_="num"), el("small", row.note, class_="why"))
    words = [text for text in (between(row), row.place) if text]
    words += [f"±{GAP}{number(row.spread)}"] if row.spread is not None else []
    words += [f"n{GAP}={GAP}{row.n:,}"] if row.n else []
    below = el("small", ", ".join(words), title=f"{row.spread_kind}; {row.n_kind}")
    said_of = (
        el("small", f"published: {row.published_text}", class_="said")
        if published and row.published_text
        else None
    )
    return el("td", el("span", quantity(row.value, row.unit), class_="num"), below, said_of)


def _compared(row: Headline) -> list[Html]:
    if row.verdict is None:
        return [_value(row), el("td"), el("td")]
    printed = el(
        "td",
        el("span", row.published_text, class_="num"),
        el(
            "small",
            publication(row.source.partition(",")[0], address(row.source)),
            title=f"{row.source}. {row.published_note}",
        ),
    )
    return [_value(row), printed, el("td", verdict(row))]


def verdict(row: Headline) -> list[Child]:
    """The error and what it means, in words as well as in colour."""
    if row.verdict == "shortened":
        return [el("small", "shortened run, not compared")]
    if row.verdict == "not measured":
        return [el("small", "not measured")]
    bound = row.published_relation in ("lt", "gt")
    error = row.error_percent or 0.0
    within = row.verdict == "within"
    if bound and error == 0:
        return [el("span", "inside", class_="num good"), el("small", "the published bound")]
    limit = f"{number(row.tolerance_percent)} %"
    return [
        el("span", percent(error), class_="num good" if within else "num bad"),
        el("small", f"within {limit}" if within else f"off: more than {limit}"),
    ]


def all_published(all_entries: Sequence[Entry]) -> Html | None:
    """Every comparison with its note and source, one click away."""
    rows: list[list[Child]] = []
    for entry in all_entries:
        for row in entry.review.comparisons:
            name = f"{row.test_title}: {row.label}"
            rows.append(
                [
                    name if len(all_entries) == 1 else f"{entry.name}: {name}",
                    quantity(row.value, row.unit),
                    row.published_text,
                    verdict(row),
                    row.published_note,
                    [f"{row.published_id}, ", cited(row.source)],
                ]
            )
    if not rows:
        return None
    heads = ["Figure", "Here", "Published", "Error", "What the comparison rests on", "Source"]
    return details("All published figures, with sources and notes", table(heads, rows))
