"""What a person reads of a report, some six screens: verdict, specification, eight figures among
drives of its time, consistency, scaling, heat, the Storage Bench, final words.

Everything else (every test with its method, stages, spread, all figures) stands below, in the
closed "Details" (`sections`). A suite without these tests shows the first chart of what it has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from drivebay.analysis import nearest
from drivebay.report import competitors, kinds, verdict
from drivebay.report.charts import time
from drivebay.report.charts.bars import bar_panel
from drivebay.report.charts.model import Panel
from drivebay.report.figures import beneath, figure_bars, own_bars, published_of, ranked
from drivebay.report.kinds import client
from drivebay.report.kinds.generic import BarOf, charts_of
from drivebay.report.kinds.replay import BUSY
from drivebay.report.markup import CUT, Bar, Child, Html, bars, el, table
from drivebay.report.render_page import Page, pairs
from drivebay.report.runs import Entry, Run, capacity, runs, short_title
from drivebay.report.sections import doubt_of
from drivebay.report.text import DASH, GAP, inside, quantity

TITLES = {
    "summary": "Verdict",
    "among": "Among its rivals",
    "consistency": "Consistency",
    "scaling": "Scaling",
    "heat": "Heat",
    "storage-bench": "Storage Bench",
    "tests": "Tests",
    "final-words": "Final Words",
}
PLAIN_MAX = 8
"""Charts of a suite without the tests of these chapters."""
NEAREST_MAX = 8
"""Loads of another tool that are set beside the catalog's."""
CHART_PX = 270
TRACE_KEYS = ("rate", "latency_mean", "over_10_ms", "over_100_ms")


def render(page: Page) -> dict[str, Html]:
    """The chapters that these reviews have something for, by anchor."""
    found: dict[str, Html] = {"summary": _summary(page)}
    parts: dict[str, Callable[[Page], Sequence[Child]]] = {
        "among": _among,
        "consistency": _consistency,
        "scaling": _scaling,
        "heat": _heat,
        "storage-bench": _storage_bench,
    }
    for name, part in parts.items():
        if body := part(page):
            found[name] = _chapter(name, body)
    if not found.keys() & {"consistency", "scaling", "heat", "storage-bench"}:
        found["tests"] = _chapter("tests", _tests(page))
    if words := _final_words(page):
        found["final-words"] = _chapter("final-words", words)
    return found


def _chapter(name: str, body: Sequence[Child]) -> Html:
    return el("section", el("h2", TITLES[name]), body, id=name, class_="page")


# --- verdict and specification --------------------------------------------------------------------


def _summary(page: Page) -> Html:
    single = len(page.entries) == 1
    lines = []
    for entry in page.entries:
        name = [] if single else [el("strong", f"{entry.name}: ")]
        lines += [
            el("p", name if not at else None, words, class_="verdict")
            for at, words in enumerate(verdict.sentences(entry, page.peers))
        ]
    halves = [_specification(page.entries[0]), _picture(page)] if single else []
    return el(
        "section",
        el("h2", TITLES["summary"], class_="sr-only"),
        lines,
        pairs([half for half in halves if half is not None]),
        id="summary",
        class_="page",
    )


def _specification(entry: Entry) -> Html:
    """What was tested, in a few rows."""
    target = entry.review.result.target
    facts: Mapping[str, Any] = (target.get("profile") or {}).get("drive", {})

    def fact(name: str) -> str:
        one = facts.get(name, target.get(name))
        return str(one.get("value") if isinstance(one, dict) else one or "")

    rows = [
        ("Capacity", capacity(entry.review)),
        ("Interface", competitors.interface(target)),
        ("File system", str(target.get("filesystem") or "")),
        ("Form factor", fact("form_factor")),
        ("Controller", fact("controller")),
        ("Flash", fact("flash")),
        ("Released", fact("released")),
        ("Model", fact("model")),
        ("Firmware", fact("firmware_rev") or fact("firmware")),
        ("Tested in", str(target.get("host") or "")),
    ]
    shown: list[list[Child]] = [[name, words] for name, words in rows if words]
    return table(["", ""], shown, caption="Specification", kind="data spec")


def _picture(page: Page) -> Html | None:
    """The key figures against the median of the peers."""
    found = verdict.places(page.entries[0], page.peers)
    if len(found) < 2:
        return None
    rows = [
        Bar(one.measured.test.title, one.times, "@c1", words=f"{one.times:.2f}") for one in found
    ]
    title = f"Times the median of {verdict.others_of(page.entries[0])}"
    panel = bar_panel("bars-summary", title, "times", rows, better="higher")
    page.pictures.append(panel)
    return bars(title, "1 is the median", rows, picture=panel.chart.id)


# --- among others ---------------------------------------------------------------------------------


def _among(page: Page) -> list[Child]:
    """The key figures as bars, among peers where any ran the same test, else by themselves; of
    another tool's loads, beside the nearest of the catalog."""
    shown, alone = [], []
    for measured, bar in verdict.key_figures(page.entries):
        of = (measured.test.title, measured.test.id)
        found = runs(page.entries, [measured.test.id])
        ranked_one = _ranked(page, bar, found, of)
        if ranked_one is None:
            alone.append(measured.test.title)
        shown.append(ranked_one or _plain_bars(bar, found, of))
    near = [] if len(alone) < len(shown) else _nearest(page)
    body: list[Child] = [*pairs(near or shown)]
    if near:
        body.append(el("p", NEAREST, class_="small"))
    elif len(alone) < len(shown):
        body += _notes(page)
        if alone:
            names = ", ".join(map(inside, alone))
            body.append(
                el(
                    "p",
                    f"No drive of the catalog ran these in the same way: {names}.",
                    class_="small",
                )
            )
    return body


def _ranked(page: Page, one: BarOf, found: Sequence[Run], of: tuple[str, str]) -> Html | None:
    """A figure of one test among those of the page's peers, best first, ties with one rank; None
    where they have none. Where it is not to be trusted nobody is ranked."""
    measured = found[0].measured
    real = any(entry.kind == "real" for entry in page.entries)
    others = competitors.bars(page.peers, measured, one.key, real=real)
    if not others:
        return None
    doubt = doubt_of(found, one.key, ranked=True)
    own = own_bars(found, one.key)
    rows = ranked([*own, *others], better="" if doubt else one.better)
    picture = f"bars-{measured.test.id}"
    title = f"{measured.test.title}: {inside(one.title)}"
    page.pictures.append(bar_panel(picture, title, one.unit, rows, better=one.better, doubt=doubt))
    more: list[Child] = [beneath(row, several=len(own) > 1) for row in own]
    why = Counter(row.detail for row in others if row.value is None)
    more += [f"{count} others: {words}." for words, count in why.items()]
    shown = [row for row in rows if row.value is not None or not row.other]
    below = el("p", [[one, " "] for one in more if one], class_="beneath") if any(more) else None
    return bars(
        one.title,
        one.unit,
        shown,
        better=one.better,
        of=of,
        more=below,
        doubt=doubt,
        picture=picture,
    )


NEAREST = (
    "No test was run as those of the catalog. Each load stands beside the nearest one that the "
    "catalog's drives (simulated, shortened runs) had: the same pattern, about the same share of "
    "reads, size and queue depth at most twice or half. State and span of the drives differ."
)


def _nearest(page: Page) -> list[Html]:
    """Loads of a review beside the nearest of the catalog's shortened runs, the first of a test
    that are near the same one."""
    entry = page.entries[0]
    peers = {one["profile"] for one in competitors.peers(page.quick, page.entries)}
    quick = [one for one in page.quick if one["profile"] in peers]
    shown: list[Html] = []
    told: set[tuple[str, str]] = set()
    for load in nearest.loads(entry.review):
        known = [(one["drive"], nearest.nearest(one["loads"], load)) for one in quick]
        near = [(drive, other) for drive, other in known if other is not None]
        title = f"beside {near[0][1]['title']}, QD {near[0][1]['depth']}" if near else ""
        if not near or (load["test"], title) in told or len(told) >= NEAREST_MAX:
            continue
        told.add((load["test"], title))
        unit = nearest.unit(load)
        rows = [Bar(entry.name, nearest.rate(load, unit), "@c1")]
        rows += [
            Bar(f"{drive} (simulated)", nearest.rate(other, unit), "@other", other=True)
            for drive, other in near
        ]
        rows = ranked(rows, better="")
        panel_id = f"bars-near-{len(shown)}"
        page.pictures.append(bar_panel(panel_id, load["title"], unit, rows, better="higher"))
        of = (load["title"], load["test"])
        shown.append(bars(title, unit, rows, of=of, picture=panel_id))
    return shown


def _plain_bars(bar: BarOf, found: Sequence[Run], of: tuple[str, str]) -> Html:
    """A key figure among no others, or that of every load; where jobs run together, that of the
    jobs beside the first, whose latency the test is about."""
    measured = found[0].measured
    shown = kinds.of(measured.test.kind).bars(measured)
    loads = next(alike for alike in charts_of(shown) if bar in alike)
    beside = tuple(f"_{phase.label}" for phase in measured.test.phases if phase.together)
    loads = [one for one in loads if beside and one.key.endswith(beside)] or loads
    rows = [(one.key, one.row if bar.chart else "") for one in loads]
    title = bar.chart or bar.title
    return figure_bars(
        title, bar.unit, found, rows, better=bar.better, of=of, brief=bool(bar.chart)
    )


def _notes(page: Page) -> list[Html]:
    """Who the others are, what the marks mean, which of their results are old."""
    quick = all(entry.review.result.quick for entry in page.entries)
    versions = ", ".join(sorted({one["version"] for one in page.peers}))
    dated = competitors.dated(page.entries[0])
    chosen = (
        f"those of its market nearest in {'bus, cells and year' if dated else 'bus, the newest'}"
    )
    lines = [
        f"The others are virtual drives of the catalog, simulated{' in shortened runs' * quick} "
        f"with drivebay {versions}: {chosen}. Figures "
        f"less than 1{GAP}% apart share a rank. A diamond is a published figure; a whisker holds "
        f"the figure with 90{GAP}%; a bar with a gap is over {CUT} times as long as any without."
    ]
    if any(one["old"] for one in page.peers):
        lines.append(
            f"The code of the model has changed since: {competitors.AGAIN} runs them again."
        )
    why = [f"{one['drive']} ({one['stand_in']})" for one in page.peers if one.get("stand_in")]
    if why:
        lines.append(f"A stand-in is a drive of which too little is known: {'; '.join(why)}.")
    return [el("p", " ".join(lines), class_="small")]


# --- the tests ------------------------------------------------------------------------------------


def _first(page: Page, kind: str) -> list[Run]:
    """The runs of the first test of a kind."""
    for entry in page.entries:
        for test in entry.review.result.suite.tests:
            if test.kind == kind and (found := runs(page.entries, [test.id])):
                return found
    return []


def _consistency(page: Page) -> list[Child]:
    """The first test's seconds: all, then the last ones; other consistency tests in a sentence."""
    found = _first(page, "consistency")
    if not found:
        return []
    window = found[0].measured.test.metric_window_s
    last = f"IOPS of each second, the last {window:,.0f} s" if window else ""
    whole = "IOPS of each second, the whole run"
    panels = [client.scatter_panel("whole", found, whole, height=CHART_PX)]
    if window:
        panels.append(client.scatter_panel("end", found, last, height=CHART_PX, whole=False))
    lines = []
    for entry in page.entries:
        who = f"{entry.name}: " if len(page.entries) > 1 else ""
        for one in entry.review.tests.values():
            if one.consistency is not None and one.test.id != found[0].measured.test.id:
                steady = quantity(one.consistency.window.mean, "IOPS")
                lines.append(f"{who}{short_title(one.test)}: {steady} in the end.")
    title = el("p", found[0].measured.test.title, ". ", " ".join(lines), class_="lede")
    return [title, page.show([replace(one, wide=False) for one in panels])]


def _scaling(page: Page) -> list[Child]:
    """Data rate by queue depth, the ladders of a page in one chart."""
    by_page: dict[str, list[str]] = {}
    for entry in page.entries:
        for one in entry.review.tests.values():
            if one.test.kind == "ladder" and len(one.steps) > 1:
                ids = by_page.setdefault(one.test.page, [])
                ids += [] if one.test.id in ids else [one.test.id]
    panels = []
    for name, ids in by_page.items():
        found = runs(page.entries, ids)
        titles = {run.measured.test.title for run in found}
        if len(page.entries) == 1 and len(titles) > 1:  # by the whole title: reads and writes
            found = [replace(run, name=run.measured.test.title) for run in found]
        panel = client.rate_panel(f"scaling-{name}", found)
        title = f"{name.capitalize()}: data rate by queue depth"
        panels.append(replace(panel, title=title, wide=False, said=_scaled(found)))
    return [page.show(panels)] if panels else []


def _scaled(found: Sequence[Run]) -> str:
    words = []
    for run in found:
        first, last = run.measured.steps[0], run.measured.steps[-1]
        words.append(
            f"{run.name or run.measured.test.title} from {quantity(first.rate_mb_s, 'MB/s')} at QD "
            f"{first.queue_depth} to {quantity(last.rate_mb_s, 'MB/s')} at QD {last.queue_depth}"
        )
    return "; ".join(words)


def _heat(page: Page) -> list[Child]:
    """The course of the thermal test."""
    found = _first(page, "thermal")
    if not found:
        return []
    panel = time.over_time("heat", found)
    said = [
        f"{quantity(one.before.mean, 'MB/s')} for {one.fall_s or one.before.n:,} s"
        + (f", then {quantity(one.after.mean, 'MB/s')}" if one.after else ", without a fall")
        for run in found
        if (one := run.measured.thermal)
    ]
    chart = replace(panel.chart, height=CHART_PX + 75 * (len(panel.chart.y) - 1))
    return [
        el("p", found[0].measured.test.title, ".", class_="lede"),
        page.show([replace(panel, chart=chart, said="; ".join(said))]),
    ]


def _storage_bench(page: Page) -> list[Child]:
    """One table of all replayed traces; what was published stands below each figure."""
    tests = {
        one.test.id: one.test
        for entry in page.entries
        for one in entry.review.tests.values()
        if one.test.kind == "trace" and "rate" in one.figures
    }
    found = runs(page.entries, list(tests))
    if not found:
        return []
    heads = ["", "Data rate", "Mean latency", "Over 10 ms", "Over 100 ms", "Mean power"]
    rows: list[list[Child]] = []
    for run in found:
        name = run.measured.test.title
        power = run.measured.figures.get("power_mean")
        rows.append(
            [
                f"{name} · {run.entry.name}" if len(page.entries) > 1 else name,
                *(_cell(run, key) for key in TRACE_KEYS),
                quantity(power.value, power.unit) if power else DASH,
            ]
        )
    return [el("p", BUSY, class_="small"), table(heads, rows, kind="data bench-table")]


def _cell(run: Run, key: str) -> Child:
    """A figure, what was published of it, and whether it is to be trusted."""
    one = run.measured.figures.get(key)
    if one is None:
        return DASH
    printed = published_of(run, key)
    doubt = doubt_of([run], key)
    said = None
    if printed is not None:
        said = el("small", f"published: {printed.words}{GAP}{one.unit}", class_="said")
    mark = el("small", doubt, class_="bad") if doubt else None
    return [el("span", quantity(one.value, one.unit), class_="num"), said, mark]


def _tests(page: Page) -> list[Child]:
    """The first chart of each test of a suite that has none of the chapters."""
    tests = dict.fromkeys(name for entry in page.entries for name in entry.review.tests)
    panels: list[Panel] = []
    for test_id in tests:
        found = runs(page.entries, [test_id])
        if not found or len(panels) >= PLAIN_MAX:
            continue
        shown = kinds.of(found[0].measured.test.kind).panels(f"first-{test_id}", found)
        if shown:
            title = f"{found[0].measured.test.title}: {inside(shown[0].title)}"
            panels.append(replace(shown[0], title=title, wide=False))
    return [page.show(panels)]


def _final_words(page: Page) -> list[Child]:
    """For whom, not for whom, against the nearest rivals."""
    body: list[Child] = []
    for entry in page.entries:
        rows = verdict.final_words(entry, page.peers)
        if rows and len(page.entries) > 1:
            body.append(el("h3", entry.name))
        if rows:
            items = [el("div", el("dt", name), el("dd", words)) for name, words in rows]
            body.append(el("dl", items, class_="final"))
    return body
