"""Header of the report, its completeness, and the main figures with the published ones.

Published figures are shown with the error of the simulated ones; a shortened run is labelled and
not compared. All strings reported by a target are escaped text.
"""

from __future__ import annotations

from collections.abc import Sequence

from drivebay.analysis import Headline
from drivebay.analysis.compare import gone, moved
from drivebay.analysis.figures import Figure
from drivebay.analysis.headline import plain_row
from drivebay.analysis.modified import changes
from drivebay.analysis.published import address
from drivebay.report.base.figures import between
from drivebay.report.base.markup import Child, Html, cited, details, el, publication, table
from drivebay.report.base.runs import Entry, capacity, run_differently
from drivebay.report.base.text import DASH, GAP, inside, number, percent, quantity

DIFFERENCES_MAX = 6
WORTH_PERCENT = 1.0
SPREAD = (
    "± is the standard deviation of n samples of 1 s. The tooltip of a figure names any other kind "
    "of spread."
)


def header(all_entries: Sequence[Entry]) -> Html:
    """Title, kind of the figures, suite and seed of every review."""
    single = len(all_entries) == 1
    title = all_entries[0].full_name if single else "Comparison of drives"
    lines = []
    for entry in all_entries:
        result = entry.review.result
        commit = result.tool.git_commit
        version = f"drivebay {result.tool.version}" + (f" ({commit[:10]})" if commit else "")
        name = None if single else el("strong", entry.name)
        size = capacity(entry.review)
        host = f"in {result.target['host']}" if result.target.get("host") else ""
        known = filter(None, (result.suite.title, f"seed {result.seed}", size, host, version))
        labels = el("p", chips(entry), class_="chips")
        meta = el("p", " · ".join(known), class_="meta")
        why = el("p", f"Stand-in: {entry.stand_in}.", class_="note") if entry.stand_in else None
        lines.append(el("div", name, labels, meta, why, class_="who"))
    return el("header", el("h1", title), lines)


def chips(entry: Entry) -> list[Html]:
    """Labels that must accompany every figure of the review."""
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
    """Missing tests of a partial review, their reasons, and the command that resumes it."""
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
        done = f"{who}{len(result.done)} of {len(result.steps)} tests are complete."
        resume = el("code", f"drivebay review --resume {result.folder.name}")
        notices.append(
            el(
                "aside",
                el("p", el("strong", done), " Resume with ", resume, " in the parent folder."),
                details(f"{len(rows)} tests without results", el("ul", rows)),
                class_="notice",
            )
        )
    return notices


def judged(remarks: Sequence[str]) -> Html | None:
    """Flaws that the judge of benchmarks sees in the measurement."""
    if not remarks:
        return None
    head = el("p", el("strong", "The figures themselves show flaws of the measurement:"))
    return el("aside", head, el("ul", [el("li", line) for line in remarks]), class_="notice")


def overview(entries: Sequence[Entry]) -> list[Child]:
    """First part of the details: differences of two drives, all main figures, published figures."""
    suites = {entry.review.result.suite.title: entry.review.result.suite for entry in entries}
    about = [
        el("p", " ".join(suite.description.split()), class_="lede") for suite in suites.values()
    ]
    return [
        _differences(entries),
        el("h2", "Main figures of all tests"),
        headline_table(entries),
        el("p", SPREAD, class_="small"),
        all_published(entries),
        details(f"The suite: {', '.join(suites)}", about),
    ]


def _differences(entries: Sequence[Entry]) -> list[Html]:
    if len(entries) != 2 or not (lines := difference(*entries)):
        return []
    names = [el("strong", entry.name) for entry in entries]
    return [
        el("p", "Largest differences, from ", names[0], " to ", names[1], ":"),
        el("ul", [el("li", line) for line in lines], class_="findings"),
    ]


def difference(before: Entry, after: Entry) -> list[str]:
    """Main figures that differ most between two reviews, largest difference first."""
    differences = sorted(
        moved(before.review, after.review).values(), key=lambda change: -abs(change.percent)
    )
    lines = [
        f"{title}, {inside(first.label)}: {_or_why(first)}; then {_or_why(other)}."
        for title, first, other in gone(before.review, after.review)
    ]
    lines += [
        f"{change.test_title}, {inside(change.after.label)}: "
        f"{quantity(change.before.value, change.before.unit)} to "
        f"{quantity(change.after.value, change.after.unit)} ({percent(change.percent)})."
        for change in differences[:DIFFERENCES_MAX]
        if abs(change.percent) >= WORTH_PERCENT
    ]
    return lines


def _or_why(figure: Figure) -> str:
    return quantity(figure.value, figure.unit) if figure.value is not None else figure.note


# --- the table ------------------------------------------------------------------------------------


def headline_table(all_entries: Sequence[Entry]) -> Html:
    """Table of the main figures. One drive: value, published, error; several: a column each."""
    rows: dict[tuple[str, str], dict[str, Headline]] = {}
    for entry in all_entries:
        for row in entry.review.headline:
            rows.setdefault((row.test_id, row.key), {})[entry.key] = row
    if not rows:
        return el("p", "No test has figures yet.", class_="missing")
    single = len(all_entries) == 1
    compared = single and any(row.verdict for row in all_entries[0].review.headline)
    word = "Simulated" if all_entries[0].kind == "virtual" else "Measured"
    heads = [word, "Published", "Error"] if compared else [word]
    differences = moved(*(e.review for e in all_entries)) if len(all_entries) == 2 else {}
    if not single:
        heads = [entry.name for entry in all_entries] + (["Difference"] if differences else [])
    body: list[Html] = []
    last = ""
    for (test_id, key), headlines in rows.items():
        any_row = next(iter(headlines.values()))
        if test_id != last:
            link: list[Child] = [el("a", any_row.test_title, href=f"#{test_id}")]
            if run_differently(all_entries, test_id):
                link.append(el("small", " different conditions: not comparable", class_="bad"))
            span = str(len(heads) + 1)
            body.append(
                el("tr", el("th", link, colspan=span, scope="rowgroup"), class_="group-row")
            )
            last = test_id
        cells = _compared(any_row) if compared else [_value(any_row)]
        if not single:
            each = [
                headlines.get(entry.key) or _other(entry, test_id, key) for entry in all_entries
            ]
            cells = [_value(row, published=True) for row in each]
        if differences:
            change = differences.get((test_id, key))
            cells.append(
                el("td", el("span", percent(change.percent) if change else DASH, class_="num"))
            )
        body.append(el("tr", el("th", any_row.label, scope="row"), cells))
    head = el("tr", el("th", "", scope="col"), [el("th", name, scope="col") for name in heads])
    kind = "single" if single else "few" if len(all_entries) <= 3 else "many-drives"
    inner = el("table", el("thead", head), el("tbody", body), class_=f"headline {kind}")
    return el(
        "div", inner, class_="scroll", tabindex="0", role="region", aria_label="Headline figures"
    )


def _other(entry: Entry, test_id: str, key: str) -> Headline | None:
    """Figure of this review that only the short table of another review contains."""
    measured = entry.review.tests.get(test_id)
    return None if measured is None else plain_row(measured, key)


def _value(row: Headline | None, *, published: bool = False) -> Html:
    """Measured value with its spread and its samples below it."""
    if row is None:
        return el("td", el("span", DASH, class_="num"))
    if row.value is None:
        return el("td", el("span", row.missing, class_="num"), el("small", row.note, class_="why"))
    texts = [text for text in (between(row), row.place) if text]
    texts += [f"±{GAP}{number(row.spread)}"] if row.spread is not None and not texts else []
    texts += [f"n{GAP}={GAP}{row.n:,}"] if row.n else []
    below = el("small", ", ".join(texts), title=f"{row.spread_kind}; {row.n_kind}")
    shown = published and row.published_text
    printed = el("small", f"published: {row.published_text}", class_="said") if shown else None
    return el("td", el("span", quantity(row.value, row.unit), class_="num"), below, printed)


def _compared(row: Headline) -> list[Html]:
    if row.verdict is None:
        return [_value(row), el("td"), el("td")]
    name = publication(row.source.partition(",")[0], address(row.source))
    source = el("small", name, title=f"{row.source}. {row.published_note}")
    printed = el("td", el("span", row.published_text, class_="num"), source)
    return [_value(row), printed, el("td", verdict(row))]


def verdict(row: Headline) -> list[Child]:
    """Error and verdict, as text as well as by colour."""
    if row.verdict == "shortened":
        return [el("small", "shortened run, not compared")]
    if row.verdict == "not measured":
        return [el("small", "not measured")]
    within = row.verdict == "within"
    low, high = row.bounds or (0.0, 0.0)
    text = f"{'within' if within else 'outside'} {number(low)} to {number(high)}"
    error = el(
        "span", percent(row.error_percent or 0.0), class_="num good" if within else "num bad"
    )
    return [error, el("small", text)]


def all_published(all_entries: Sequence[Entry]) -> Html | None:
    """Every comparison with its note and source, in a closed section."""
    single = len(all_entries) == 1
    rows: list[list[Child]] = [
        [
            f"{'' if single else f'{entry.name}: '}{row.test_title}: {row.label}",
            quantity(row.value, row.unit),
            row.published_text,
            verdict(row),
            row.published_note,
            [f"{row.published_id}, ", cited(row.source)],
        ]
        for entry in all_entries
        for row in entry.review.comparisons
    ]
    if not rows:
        return None
    heads = ["Figure", "Result", "Published", "Error", "Basis of the comparison", "Source"]
    return details("All published figures, with sources and notes", table(heads, rows))
