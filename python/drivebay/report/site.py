"""Writes the Bench: a folder of pages over many reviews that opens from a file, offline.

    index.html                 choose, sort, compare
    assets/plotly.min.js       the chart library, once
    data/index.js              what the page reads at once
    data/REVIEW/TEST.js        the series of one test, loaded when looked at
    reviews/REVIEW.html        each review's own report

Data are scripts and not JSON files, because a page opened from a file may load scripts beside it
and nothing else. What is in the folder already is replaced; files of others are left alone.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from drivebay.report import bench, page
from drivebay.report.entries import Entry
from drivebay.report.markup import Html, el, script_json
from drivebay.results import files

INDEX = "index.html"
LIBRARY = "assets/plotly.min.js"
OWNED = ("data", "reviews", "assets")
LISTING = "data/index.js"
MARK = ".drivebay-bench"
"""In every Bench, from its first moment on: what has it may be written over."""


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
    reviews, ways = bench.shown(entries, folders)
    for name in OWNED:
        (out / name).mkdir(parents=True, exist_ok=True)
    (out / LIBRARY).write_text(page.plotly(), encoding="utf-8")
    few = len(reviews) <= bench.PAIRS_MAX
    for place, one in enumerate(reviews):
        (out / "data" / one.key).mkdir(exist_ok=True)
        for test_id, way in one.ways.items():
            data = bench.part(one, test_id)
            if few:
                data["against"] = bench.against(one, reviews[place + 1 :], test_id)
            call = f"DrivebayBench.part({script_json([one.key, way, data])});\n"
            (out / "data" / one.key / f"{way}.js").write_text(call, encoding="ascii")
        alone = Entry(one.key, one.entry.full_name, one.entry.full_name, "@c1", one.entry.review)
        html = page.render([alone], library=f"../{LIBRARY}", bench=f"../{INDEX}")
        (out / "reviews" / f"{one.key}.html").write_text(html, encoding="utf-8")
        progress(place + 1)
    listing = script_json(bench.index(reviews, ways))
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
