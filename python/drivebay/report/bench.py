"""The Bench: a folder of pages over many reviews that opens from a file, offline.

    index.html                 choose, sort, compare
    assets/plotly.min.js       the chart library, once
    data/index.js              what the page reads at once: names, labels, and figures shown as bars
    data/REVIEW/TEST.js        charts, facts and sentences of one test, loaded when looked at
    reviews/REVIEW.html        each review's own report

Data are scripts and not JSON files, because a page opened from a file may load scripts beside it
and nothing else. A test that two reviews ran differently, by another suite or shortened, is two
tests here, so that nothing is compared in silence that must not be.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drivebay.analysis import Measured, explain
from drivebay.analysis.modified import changes
from drivebay.definitions.suites import Test
from drivebay.report import figures, kinds, page
from drivebay.report.charts.model import Panel
from drivebay.report.kinds.client import power_panel
from drivebay.report.markup import Html, el, script_json
from drivebay.report.render_page import broken, encoded
from drivebay.report.runs import Entry, bench_run, capacity, drive_title
from drivebay.report.sections import PAGES, in_order, page_title
from drivebay.report.text import number
from drivebay.results import files

Json = dict[str, Any]
INDEX = "index.html"
LIBRARY = "assets/plotly.min.js"
OWNED = ("data", "reviews", "assets")
LISTING = "data/index.js"
MARK = ".drivebay-bench"
"""In every Bench, from its first moment on: what has it may be written over."""
NAME_WIDTH = 22
"""Where a drive's name is broken into lines beside a chart, in signs."""
STEADINESS = ("sd_iops", "mean_over_sd")
"""Figures in which no drive is ranked where one is simulated: its seconds scatter too little."""
PAIRS_MAX = 24
"""Up to so many reviews the Bench holds what sets every two of them apart, in sentences."""


@dataclass(frozen=True)
class Variant:
    """A test as some reviews ran it; `key` is its name on the Bench."""

    key: str
    test: Test
    suite: str
    shortened: bool


@dataclass(frozen=True)
class Shown:
    """One review on the Bench, with the key of each of its finished tests by id."""

    key: str
    entry: Entry
    variants: dict[str, str]


def shown(entries: Sequence[Entry], folders: Sequence[str]) -> tuple[list[Shown], list[Variant]]:
    """Gives every review a key that may stand in an address, and every variant of a test one."""
    variants: dict[tuple[str, str], Variant] = {}
    found = []
    taken: set[str] = set()
    for entry, folder in zip(entries, folders, strict=True):
        result = entry.review.result
        own = {}
        for test_id, measured in entry.review.tests.items():
            if not measured.phases:
                continue
            how = _how(measured.test)
            if (test_id, how) not in variants:
                count = sum(1 for known, _ in variants if known == test_id)
                key = test_id if not count else f"{test_id}.{count + 1}"
                variants[test_id, how] = Variant(
                    key, measured.test, result.suite.title, result.quick
                )
            own[test_id] = variants[test_id, how].key
        key = _key(folder, taken)
        taken.add(key)
        found.append(Shown(key, entry, own))
    return found, list(variants.values())


def index(reviews: Sequence[Shown], variants: Sequence[Variant]) -> Json:
    """What the page reads at once."""
    twice = {
        variant.test.id
        for variant in variants
        if sum(w.test.id == variant.test.id for w in variants) > 1
    }
    order = {page: place for place, page in enumerate(in_order({w.test.page for w in variants}))}
    known = list(PAGES)
    tests = [
        {
            "key": variant.key,
            "page": page_title(variant.test.page),
            "title": _title(variant, several=variant.test.id in twice),
            "method": " ".join(variant.test.method.split()),
            "source": variant.test.source,
            "bars": _bars(variant, reviews),
        }
        for variant in sorted(
            variants,
            key=lambda w: (
                known.index(w.test.page) if w.test.page in known else len(known),
                order[w.test.page],
            ),
        )
    ]
    return {"reviews": [_review(one) for one in reviews], "tests": tests}


def part(one: Shown, test_id: str) -> Json:
    """One test of one review: its charts, each for this drive alone, its facts and sentences."""
    measured = one.entry.review.tests[test_id]
    kind = kinds.of(measured.test.kind)
    run = bench_run(one.entry.review, measured)
    panels: list[Panel | None] = list(kind.panels("", [run]))
    if len({step.queue_depth for step in measured.steps}) == len(measured.steps) > 1:
        panels.append(power_panel("", [run]))
    return {
        "panels": [encoded(panel) for panel in panels if panel is not None],
        "facts": figures.test_facts(measured),
        "notes": kind.remarks(measured),
        "sentences": list(explain.explain(measured).sentences),
    }


def against(one: Shown, others: Sequence[Shown], test_id: str) -> dict[str, list[str]]:
    """Sentences on the gap between this review and each later one that ran this variant."""
    mine = one.entry.review.tests[test_id]
    lines = {}
    for other in others:
        if other.variants.get(test_id) != one.variants[test_id]:
            continue
        found = explain.compared(
            explain.explain(mine),
            explain.explain(other.entry.review.tests[test_id]),
            a_name=one.entry.name,
            b_name=other.entry.name,
        )
        if found:
            lines[other.key] = list(found)
    return lines


def _review(one: Shown) -> Json:
    review = one.entry.review
    result = review.result
    labels = [f"Changed: {', '.join(changed)}"] if (changed := changes(result.target)) else []
    labels += ["shortened run"] if result.quick else []
    if result.missing:
        labels.append(f"{len(result.done)} of {len(result.steps)} tests")
    met, compared = review.agreement
    return {
        "key": one.key,
        "name": one.entry.name,
        "plot": broken(one.entry.name, NAME_WIDTH),
        "drive": drive_title(review),
        "kind": one.entry.kind,
        "suite": result.suite.title,
        "capacity": capacity(review),
        "bytes": int(result.target["capacity_bytes"]),
        "labels": labels,
        "met": f"{met} of {compared} published figures met" if compared else "",
        "tests": list(one.variants.values()),
        "values": {
            one.variants[m.test.id]: _values(one, m) for m in review.tests.values() if m.phases
        },
    }


def _values(one: Shown, measured: Measured) -> dict[str, list[Any]]:
    """By figure: value, spread, its words, samples in words; published value, words, relation."""
    printed = {
        row.key: (row.published, row.published_text, row.published_relation)
        for row in one.entry.review.headline
        if row.test_id == measured.test.id and row.published is not None
    }
    values = {}
    for bar in kinds.of(measured.test.kind).bars(measured):
        found = measured.figures.get(bar.key)
        if found is None:
            continue
        words = [number(found.value), figures.detail(found)]
        row: list[Any] = [found.value, found.spread, *words]
        values[bar.key] = row + list(printed.get(bar.key, ()))
    return values


def _bars(variant: Variant, reviews: Sequence[Shown]) -> list[Json]:
    """The figures of a test as bars, in the order of the first review that has them."""
    rows: dict[str, Json] = {}
    for one in reviews:
        measured = one.entry.review.tests.get(variant.test.id)
        if measured is None or one.variants.get(variant.test.id) != variant.key:
            continue
        for bar in kinds.of(measured.test.kind).bars(measured):
            row = {"key": bar.key, "title": bar.title, "unit": bar.unit, "better": bar.better}
            row = rows.setdefault(bar.key, row)
            if bar.key in STEADINESS and one.entry.kind == "virtual":
                row["better"] = ""
    return list(rows.values())


def _title(variant: Variant, *, several: bool) -> str:
    if not several:
        return variant.test.title
    return f"{variant.test.title} ({variant.suite}{', shortened' if variant.shortened else ''})"


def _how(test: Test) -> str:
    """What must be the same for two runs to be compared."""
    fields = {"kind", "prepare", "phases", "metric_window_s", "metric_queue_depths"}
    return json.dumps(test.model_dump(mode="json", include=fields), sort_keys=True)


def _key(folder: str, taken: set[str]) -> str:
    """A name that is safe in an address and a path, and not taken yet."""
    stem = re.sub(r"[^a-z0-9-]+", "-", folder.lower()).strip("-") or "review"
    key, count = stem, 1
    while key in taken:
        count += 1
        key = f"{stem}-{count}"
    return key


# --- the folder -----------------------------------------------------------------------------------


def write(
    entries: Sequence[Entry],
    folders: Sequence[str],
    out: Path,
    *,
    progress: Callable[[int], None] = lambda _: None,
) -> Path:
    """Writes the site and returns the path of its first page.

    Parameters
    ----------
    entries : the reviews, with names that differ.
    folders : the name of each review's result folder.
    progress : told how many reviews are written.
    """
    if (out / MARK).is_file():  # ours, of an earlier time: no review may stay that is gone
        for name in OWNED:
            shutil.rmtree(out / name, ignore_errors=True)
    out.mkdir(parents=True, exist_ok=True)
    (out / MARK).touch()
    reviews, variants = shown(entries, folders)
    for name in OWNED:
        (out / name).mkdir(parents=True, exist_ok=True)
    (out / LIBRARY).write_text(page.plotly(), encoding="utf-8")
    few = len(reviews) <= PAIRS_MAX
    for place, one in enumerate(reviews):
        (out / "data" / one.key).mkdir(exist_ok=True)
        for test_id, variant in one.variants.items():
            data = part(one, test_id)
            if few:
                data["against"] = against(one, reviews[place + 1 :], test_id)
            call = f"DrivebayBench.part({script_json([one.key, variant, data])});\n"
            (out / "data" / one.key / f"{variant}.js").write_text(call, encoding="ascii")
        alone = Entry(one.key, one.entry.full_name, one.entry.full_name, "@c1", one.entry.review)
        html = page.render([alone], library=f"../{LIBRARY}", bench=f"../{INDEX}")
        (out / "reviews" / f"{one.key}.html").write_text(html, encoding="utf-8")
        progress(place + 1)
    listing = script_json(index(reviews, variants))
    files.replace(out / LISTING, f"DrivebayBench.index({listing});\n".encode("ascii"))
    files.replace(out / INDEX, _index(len(reviews)).encode())
    return out / INDEX


def _index(count: int) -> str:
    """The Bench's page; its lists and charts are put in by its script."""
    bar = el(
        "nav",
        el("ul", el("li", el("a", "Drives", href="#choose"))),
        el("button", "Dark", type="button", id="theme", aria_label="Dark or light colours"),
        aria_label="Sections",
    )
    drives = f"{count} review{'s' if count != 1 else ''}"
    main = el(
        "main",
        el(
            "header",
            el("p", "drivebay", class_="eyebrow"),
            el("h1", "The Bench"),
            el("p", f"{drives}. Choose drives, and see them in every test.", class_="meta"),
        ),
        el("noscript", el("p", "The Bench needs JavaScript; the reports in reviews/ do not.")),
        el(
            "section", el("h2", "Drives"), el("div", id="chooser"), id="choose", class_="page first"
        ),
        el("div", id="chosen", class_="chosen", role="region", aria_label="Chosen drives"),
        el("p", id="said", class_="sr-only", role="status"),
        el("div", id="results"),
    )
    scripts = [
        el("script", Html(page.chart_script() + page.asset("bench.js"))),
        el("script", src=LISTING),
    ]
    head = page.head("The Bench — drivebay", page.POLICY, page.asset("bench.css"))
    html = el("html", head, el("body", bar, main, scripts), lang="en")
    return f"<!doctype html>\n{html}\n"
