"""Upper part of a report, some six screens: verdict, specification, key figures among drives of its
time, consistency, scaling, heat, the Storage Bench, conclusion.

All other content (every test with its method, latency breakdown, spread and figures) follows in the
closed "Details" (`sections`). For a suite without these tests, the first chart of each of its tests
is shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from drivebay.analysis import nearest, trust
from drivebay.report import kinds
from drivebay.report.base.figures import beneath, figure_bars, own_bars, published_of, ranked
from drivebay.report.base.markup import CUT, Bar, Child, Html, bars, el, table
from drivebay.report.base.runs import Entry, Run, capacity, runs_of, short_title, who_of
from drivebay.report.base.text import DASH, GAP, inside, quantity
from drivebay.report.charts import time
from drivebay.report.charts.bars import bar_panel
from drivebay.report.charts.model import Panel
from drivebay.report.kinds import client
from drivebay.report.kinds.generic import BarOf, charts_of
from drivebay.report.kinds.replay import BUSY
from drivebay.report.pages import verdict
from drivebay.report.pages.sections import doubt_of
from drivebay.report.peers import competitors
from drivebay.report.render.page import Page, pairs

TITLES = {
    "summary": "Verdict",
    "among": "Key figures",
    "consistency": "Consistency",
    "scaling": "Scaling",
    "heat": "Heat",
    "storage-bench": "Storage Bench",
    "tests": "Tests",
    "conclusion": "Conclusion",
}
# Maximum number of charts for a suite without the tests of these chapters.
PLAIN_MAX = 8
# Maximum number of loads of another tool that are compared with the catalog.
NEAREST_MAX = 8
CHART_PX = 270
TRACE_KEYS = ("rate", "latency_mean", "over_10_ms", "over_100_ms")


def render(page: Page) -> dict[str, Html]:
    """Chapters that these reviews have content for, by anchor."""
    chapters: dict[str, Html] = {"summary": _summary(page)}
    parts: dict[str, Callable[[Page], Sequence[Child]]] = {
        "among": _among,
        "consistency": _consistency,
        "scaling": _scaling,
        "heat": _heat,
        "storage-bench": _storage_bench,
    }
    for name, part in parts.items():
        if body := part(page):
            chapters[name] = _chapter(name, body)
    plain = not chapters.keys() & {"consistency", "scaling", "heat", "storage-bench"}
    if plain and (body := _tests(page)):
        chapters["tests"] = _chapter("tests", body)
    if body := _conclusion(page):
        chapters["conclusion"] = _chapter("conclusion", body)
    return chapters


def _chapter(name: str, body: Sequence[Child]) -> Html:
    return el("section", el("h2", TITLES[name]), body, id=name, class_="page")


# --- verdict and specification --------------------------------------------------------------------


def _summary(page: Page) -> Html:
    single = len(page.entries) == 1
    lines = []
    for entry in page.entries:
        name = [] if single else [el("strong", f"{entry.name}: ")]
        lines += [
            el("p", name if not at else None, text, class_="verdict")
            for at, text in enumerate(verdict.sentences(entry, page.peers))
        ]
        if met := trust.agreement(entry.review.drive if entry.kind == "virtual" else None):
            lines.append(el("p", name, f"{met}.", class_="small"))
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
    """Specification of the tested drive, in a few rows."""
    target = entry.review.result.target
    facts: Mapping[str, Any] = (target.get("profile") or {}).get("drive", {})

    def fact(name: str) -> str:
        leaf = facts.get(name, target.get(name))
        return str(leaf.get("value") if isinstance(leaf, dict) else leaf or "")

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
    shown: list[list[Child]] = [[name, text] for name, text in rows if text]
    return table(["", ""], shown, caption="Specification", kind="data spec")


def _picture(page: Page) -> Html | None:
    """Key figures relative to the median of the peers."""
    places = verdict.places(page.entries[0], page.peers)
    if len(places) < 2:
        return None
    rows = [
        Bar(p.measured.test.title, p.times, "@c1", text=f"{p.times:.2f}", doubted=p.doubted)
        for p in places
    ]
    title = f"Relative to the median of {verdict.others_of(page.entries[0])}"
    panel = bar_panel("bars-summary", title, "median = 1", rows, better="higher")
    page.pictures.append(panel)
    return bars(title, "median = 1", rows, picture=panel.chart.id)


# --- among others ---------------------------------------------------------------------------------


def _among(page: Page) -> list[Child]:
    """Key figures as bars: among the peers that ran the same test, or alone without any. Loads of
    another tool are compared with the nearest ones of the catalog.
    """
    shown, alone = [], []
    for measured, bar, _ in verdict.key_figures(page.entries):
        link = (measured.test.title, measured.test.id)
        runs = runs_of(page.entries, [measured.test.id])
        ranked_one = _ranked(page, bar, runs, link)
        if ranked_one is None:
            alone.append(measured.test.title)
        shown.append(ranked_one or _plain_bars(bar, runs, link))
    near = [] if len(alone) < len(shown) else _nearest(page)
    body: list[Child] = [LEGEND if len(alone) < len(shown) else None, *pairs(near or shown)]
    if near:
        body.append(el("p", NEAREST, class_="small"))
    elif len(alone) < len(shown):
        body += _notes(page)
        if alone:
            names = ", ".join(map(inside, alone))
            text = f"No drive of the catalog has comparable results for: {names}."
            body.append(el("p", text, class_="small"))
    return body


# Meaning of the marks of bars.
LEGEND = el(
    "p",
    el("span", el("i", class_="mark"), "published figure"),
    el("span", el("i", class_="mark missed"), "missed"),
    el("span", el("i", class_="whisker"), f"90{GAP}% interval"),
    el("span", el("s", "1.00"), "model known to be wrong"),
    el("span", el("em", "throttled"), "heat reduces the rate"),
    class_="small marks",
)


def _ranked(page: Page, bar: BarOf, runs: Sequence[Run], link: tuple[str, str]) -> Html | None:
    """Bars of a figure of one test with those of the page's peers, best first, ties with one rank;
    None if no peer has it. Untrusted figures have no ranks.
    """
    measured = runs[0].measured
    real = any(entry.kind == "real" for entry in page.entries)
    others = competitors.bars(page.peers, measured, bar.key, real=real)
    if not others:
        return None
    doubt = doubt_of(runs, bar.key, ranked=True)
    own = own_bars(runs, bar.key)
    rows = [
        replace(row, doubted=bool(doubt) and (row.other or not real)) for row in [*own, *others]
    ]
    rows = ranked(rows, better="" if doubt else bar.better)
    picture = f"bars-{measured.test.id}"
    title = f"{measured.test.title}: {inside(bar.title)}"
    page.pictures.append(bar_panel(picture, title, bar.unit, rows, better=bar.better, doubt=doubt))
    more: list[Child] = [beneath(row, several=len(own) > 1) for row in own]
    why = Counter(row.detail for row in others if row.value is None)
    more += [f"{count} other drives: {text}." for text, count in why.items()]
    shown = [row for row in rows if row.value is not None or not row.other]
    below = el("p", [[line, " "] for line in more if line], class_="beneath") if any(more) else None
    return bars(
        bar.title,
        bar.unit,
        shown,
        better=bar.better,
        link=link,
        more=below,
        doubt=doubt,
        picture=picture,
    )


NEAREST = (
    "No test ran exactly as in the catalog. Each load is compared with the nearest load of the "
    "catalog's drives (simulated, shortened runs): same pattern, similar share of reads, request "
    "size and queue depth within a factor of two. Drive state and address span differ."
)


def _nearest(page: Page) -> list[Html]:
    """Bars of a review's loads, each with the nearest load of the catalog's shortened runs. Of the
    loads of one test with the same nearest load only the first is shown.
    """
    entry = page.entries[0]
    peers = {peer["profile"] for peer in competitors.peers(page.quick, page.entries)}
    quick = [peer for peer in page.quick if peer["profile"] in peers]
    shown: list[Html] = []
    told: set[tuple[str, str]] = set()
    for load in nearest.loads(entry.review):
        known = [(peer["drive"], nearest.nearest(peer["loads"], load)) for peer in quick]
        near = [(drive, other) for drive, other in known if other is not None]
        title = f"compared with {near[0][1]['title']}, QD {near[0][1]['depth']}" if near else ""
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
        name = f"{load['title']}, {title}"
        who = who_of(entry)
        page.pictures.append(bar_panel(panel_id, name, unit, rows, better="higher", who=who))
        link = (load["title"], load["test"])
        shown.append(bars(title, unit, rows, link=link, picture=panel_id))
    return shown


def _plain_bars(bar: BarOf, runs: Sequence[Run], link: tuple[str, str]) -> Html:
    """Bars of a key figure without peers, or of that figure for every load. If jobs run in
    parallel, only the jobs along with the first one are shown, because the test measures their
    latency.
    """
    measured = runs[0].measured
    shown = kinds.by_name(measured.test.kind).bars(measured)
    loads = next(alike for alike in charts_of(shown) if bar in alike)
    beside = tuple(f"_{phase.label}" for phase in measured.test.phases if phase.together)
    loads = [load for load in loads if beside and load.key.endswith(beside)] or loads
    rows = [(load.key, load.row if bar.chart else "") for load in loads]
    title = bar.chart or bar.title
    return figure_bars(
        title, bar.unit, runs, rows, better=bar.better, link=link, brief=bool(bar.chart)
    )


def _notes(page: Page) -> list[Html]:
    """Notes on the other drives, on the marks, and on outdated results."""
    quick = all(entry.review.result.quick for entry in page.entries)
    versions = ", ".join(sorted({peer["version"] for peer in page.peers}))
    dated = competitors.dated(page.entries[0])
    chosen = "closest bus, flash type and release year" if dated else "same bus, newest first"
    lines = [
        f"The other drives are virtual drives of the catalog, simulated"
        f"{' in shortened runs' * quick} with drivebay {versions} (same market, {chosen}). "
        f"Results whose intervals overlap share a rank; a stand-in has none. "
        f"Bar with a gap: more than {CUT} times as long as any bar without one."
    ]
    if any(peer["old"] for peer in page.peers):
        lines.append(
            "The model has changed since these results were computed; update them with "
            f"{competitors.AGAIN}."
        )
    why = [f"{peer['drive']} ({peer['stand_in']})" for peer in page.peers if peer.get("stand_in")]
    if why:
        lines.append(f"Stand-in: too little is published about the drive: {'; '.join(why)}.")
    return [el("p", " ".join(lines), class_="small")]


# --- the tests ------------------------------------------------------------------------------------


def _first(page: Page, kind: str) -> list[Run]:
    """Runs of the first test of a kind."""
    for entry in page.entries:
        for test in entry.review.result.suite.tests:
            if test.kind == kind and (runs := runs_of(page.entries, [test.id])):
                return runs
    return []


def _consistency(page: Page) -> list[Child]:
    """IOPS over time of the first consistency test, whole and for its last seconds; other
    consistency tests in a sentence.
    """
    runs = _first(page, "consistency")
    if not runs:
        return []
    window = runs[0].measured.test.metric_window_s
    last = f"IOPS over time, last {window:,.0f} s" if window else ""
    whole = "IOPS over time, whole run"
    panels = [client.scatter_panel("whole", runs, whole, height=CHART_PX)]
    if window:
        panels.append(client.scatter_panel("end", runs, last, height=CHART_PX, whole=False))
    lines = []
    for entry in page.entries:
        who = f"{entry.name}: " if len(page.entries) > 1 else ""
        for measured in entry.review.tests.values():
            if measured.consistency is not None and measured.test.id != runs[0].measured.test.id:
                end = measured.consistency.window
                steady = f"{quantity(end.mean, 'IOPS')} over the last {end.n:,} s"
                lines.append(f"{who}{short_title(measured.test)}: {steady}.")
    title = el("p", runs[0].measured.test.title, ". ", " ".join(lines), class_="lede")
    return [title, page.show([replace(measured, wide=False) for measured in panels])]


def _scaling(page: Page) -> list[Child]:
    """Data rate by queue depth; all ladders of a page share a chart."""
    by_page: dict[str, list[str]] = {}
    for entry in page.entries:
        for measured in entry.review.tests.values():
            if measured.test.kind == "ladder" and len(measured.steps) > 1:
                ids = by_page.setdefault(measured.test.page, [])
                ids += [] if measured.test.id in ids else [measured.test.id]
    panels = []
    for name, ids in by_page.items():
        runs = runs_of(page.entries, ids)
        titles = {run.measured.test.title for run in runs}
        if len(page.entries) == 1 and len(titles) > 1:  # by the whole title: reads and writes
            runs = [replace(run, name=run.measured.test.title) for run in runs]
        panel = client.rate_panel(f"scaling-{name}", runs)
        title = f"{name.capitalize()}: data rate by queue depth"
        panels.append(replace(panel, title=title, wide=False, result=_scaled(runs)))
    return [page.show(panels)] if panels else []


def _scaled(runs: Sequence[Run]) -> str:
    ranges = []
    for run in runs:
        first, last = run.measured.steps[0], run.measured.steps[-1]
        ranges.append(
            f"{run.name or run.measured.test.title} from {quantity(first.rate_mb_s, 'MB/s')} at QD "
            f"{first.queue_depth} to {quantity(last.rate_mb_s, 'MB/s')} at QD {last.queue_depth}"
        )
    return "; ".join(ranges)


def _heat(page: Page) -> list[Child]:
    """Data rate, temperature and power of the thermal test over time."""
    runs = _first(page, "thermal")
    if not runs:
        return []
    panel = time.over_time("heat", runs)
    results = []
    for thermal in filter(None, (run.measured.thermal for run in runs)):
        first, seconds = quantity(thermal.before.mean, "MB/s"), thermal.fall_s or thermal.before.n
        then = (
            f"then {quantity(thermal.after.mean, 'MB/s')}" if thermal.after else "no sustained drop"
        )
        results.append(f"{first} for {seconds:,} s, {then}")
    chart = replace(panel.chart, height=CHART_PX + 75 * (len(panel.chart.y) - 1))
    return [
        el("p", runs[0].measured.test.title, ".", class_="lede"),
        page.show([replace(panel, chart=chart, result="; ".join(results))]),
    ]


def _storage_bench(page: Page) -> list[Child]:
    """Table of all replayed traces, with the published value below each figure."""
    tests = {
        measured.test.id: measured.test
        for entry in page.entries
        for measured in entry.review.tests.values()
        if measured.test.kind == "trace" and "rate" in measured.figures
    }
    runs = runs_of(page.entries, list(tests))
    if not runs:
        return []
    heads = ["", "Data rate", "Mean latency", "Over 10 ms", "Over 100 ms", "Mean power"]
    rows: list[list[Child]] = []
    for run in runs:
        name = run.measured.test.title
        name += f" · {run.entry.name}" if len(page.entries) > 1 else ""
        power = run.measured.figures.get("power_mean")
        mean_power = quantity(power.value, power.unit) if power else DASH
        rows.append([name, *(_cell(run, key) for key in TRACE_KEYS), mean_power])
    return [el("p", BUSY, class_="small"), table(heads, rows, kind="data bench-table")]


def _cell(run: Run, key: str) -> Child:
    """Figure with its published value and the reason not to trust it, if any."""
    figure = run.measured.figures.get(key)
    if figure is None:
        return DASH
    printed = published_of(run, key)
    doubt = doubt_of([run], key)
    note = None
    if printed is not None:
        note = el("small", f"published: {printed.text}{GAP}{figure.unit}", class_="said")
    mark = el("small", doubt, class_="bad") if doubt else None
    return [el("span", quantity(figure.value, figure.unit), class_="num"), note, mark]


def _tests(page: Page) -> list[Child]:
    """First chart of each test, for a suite without any of the chapters."""
    tests = dict.fromkeys(name for entry in page.entries for name in entry.review.tests)
    panels: list[Panel] = []
    for test_id in tests:
        runs = runs_of(page.entries, [test_id])
        if not runs or len(panels) >= PLAIN_MAX:
            continue
        shown = kinds.by_name(runs[0].measured.test.kind).panels(f"first-{test_id}", runs)
        if shown:
            title = f"{runs[0].measured.test.title}: {inside(shown[0].title)}"
            panels.append(replace(shown[0], title=title, wide=False))
    return [*page.show(panels)]


def _conclusion(page: Page) -> list[Child]:
    """Suitable and unsuitable uses, and the nearest rivals."""
    body: list[Child] = []
    for entry in page.entries:
        rows = verdict.conclusion(entry, page.peers)
        if rows and len(page.entries) > 1:
            body.append(el("h3", entry.name))
        if rows:
            items = [
                el("div", el("dt", name), el("dd", [[line, el("br")] for line in lines]))
                for name, lines in rows
            ]
            body.append(el("dl", items, class_="final"))
    return body
