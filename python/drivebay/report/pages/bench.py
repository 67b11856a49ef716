"""The Bench: a folder of pages over many reviews that opens from a file, offline.

    index.html                 select, sort, compare
    assets/plotly.min.js       the chart library, once
    data/index.js              loaded at once: names, labels, and figures shown as bars
    data/REVIEW/TEST.js        charts, facts and sentences of one test, compressed, loaded on demand
    reviews/REVIEW.html        report of each review

Data are scripts instead of JSON files, because a page opened from a file may load only scripts. A
test that two reviews ran differently (another suite, or shortened) is two tests here, so that
results that are not comparable are never compared.
"""

from __future__ import annotations

import json
import re
import shutil
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from drivebay.analysis import explain, nearest, trust
from drivebay.analysis.comparable import how
from drivebay.analysis.rank_keys import TABLE
from drivebay.common.files import unique
from drivebay.report.base.markup import Html, el, script_json, squeezed
from drivebay.report.base.runs import Entry
from drivebay.report.base.text import number
from drivebay.report.pages import review as page
from drivebay.report.pages.sections import in_order, page_title
from drivebay.report.peers.competitors import SUITE, peerage_of, suite_tests
from drivebay.report.peers.digest import STEADINESS, Json, digest
from drivebay.report.render.page import broken
from drivebay.results import files

INDEX = "index.html"
LIBRARY = "assets/plotly.min.js"
OWNED = ("data", "reviews", "assets")
LISTING = "data/index.js"
# Marks a Bench from the start; a folder with it may be overwritten.
MARK = ".drivebay-bench"
FIGURES = 5
# Number of tests of these pages whose first figure is in the first table.
FIVE = {"performance-consistency": 1, "random": 2, "sequential": 2}
# Beginning of the detail of such a figure; bench.js gives it no rank.
NEAREST = "nearest load"
# Key of a figure of a single queue depth, which comes after those of all depths.
ONE_DEPTH = "rate_qd"
# Characters after which a drive's name is broken into lines next to a chart.
NAME_WIDTH = 22
# Maximum number of reviews for which the Bench holds sentences on every pair.
PAIRS_MAX = 24


@dataclass(frozen=True)
class Variant:
    """A test as some reviews ran it; `key` is its name on the Bench, `test` one of its digests."""

    key: str
    test_id: str
    test: Json


@dataclass(frozen=True)
class Shown:
    """One review on the Bench, with the key of each of its finished tests by id; `entry` is None
    for a shipped one.
    """

    key: str
    digest: Json
    variants: dict[str, str]
    entry: Entry | None = None


def shown(
    digests: Sequence[Json], keys: Sequence[str], entries: Sequence[Entry | None]
) -> tuple[list[Shown], list[Variant]]:
    """Gives every review a key that is valid in an address, and every variant of a test a key."""
    variants: dict[tuple[str, str], Variant] = {}
    shown_reviews = []
    taken: set[str] = set()
    for about, name, entry in zip(digests, keys, entries, strict=True):
        own = {}
        for test_id, test in about["tests"].items():
            if (test_id, test["how"]) not in variants:
                count = sum(1 for known, _ in variants if known == test_id)
                key = test_id if not count else f"{test_id}.{count + 1}"
                variants[test_id, test["how"]] = Variant(key, test_id, test)
            own[test_id] = variants[test_id, test["how"]].key
        key = unique(re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-") or "review", taken)
        shown_reviews.append(Shown(key, about, own, entry))
    return shown_reviews, list(variants.values())


def index(reviews: Sequence[Shown], variants: Sequence[Variant]) -> Json:
    """Data that the page loads at once."""
    ids = [variant.test_id for variant in variants]
    pages = in_order(dict.fromkeys(variant.test["page"] for variant in variants))
    tests = [
        {
            "key": variant.key,
            "page": page_title(variant.test["page"]),
            "title": _title(variant, several=ids.count(variant.test_id) > 1),
            "method": variant.test["method"],
            "source": variant.test["source"],
            "bars": _bars(variant, reviews),
        }
        for variant in sorted(variants, key=lambda w: pages.index(w.test["page"]))
    ]
    shown = [_review(review, variants) for review in reviews]
    usual = [test for test in tests if test["bars"]]
    counts = {test["key"]: sum(test["key"] in one["values"] for one in shown) for test in usual}
    usual.sort(key=lambda test: 2 * counts[test["key"]] < max(counts.values()))
    return {"reviews": shown, "tests": [TABLE, *tests], "five": _five(usual, variants)}


def _near(review: Shown, variants: Sequence[Variant]) -> Json:
    """Data rates of catalog tests that a review did not run in the same way: means of its nearest
    loads, as rows of bars by variant and key. Sustained writes are left out: the state of the drive
    decides them.
    """
    loads = nearest.loads(review.entry.review) if review.entry else []
    known = {test.id: test for test in suite_tests()}
    values: Json = {}
    for variant in variants if loads else ():
        test, own = known.get(variant.test_id), variant.key in review.variants.values()
        if test is None or own or how(test) != variant.test["how"]:
            continue
        for bar in variant.test["bars"]:
            one = [int(depth) for depth in re.findall(r"_qd(\d+)$", bar["key"])]
            if not one and bar["key"] != "mean_rate":
                continue
            depths = one or (test.metric_queue_depths if test.kind == "ladder" else ())
            phases = [nearest.described(phase.workload) for phase in test.phases]
            wanted = [load for load in phases if not depths or load["depth"] in depths]
            near = [load for want in wanted if (load := nearest.nearest(loads, want))]
            if len(near) == len(wanted):
                value = statistics.mean(nearest.rate(load, bar["unit"]) for load in near)
                names = ", ".join(dict.fromkeys(load["title"] for load in near))
                text = f"\N{ALMOST EQUAL TO} {number(value)}"
                row = [value, None, None, text, f"{NEAREST}: {names}"]
                values.setdefault(variant.key, {})[bar["key"]] = row
    return values


def _five(tests: Sequence[Json], variants: Sequence[Variant]) -> list[list[str]]:
    """Figures of the first table as (test, key), the known key figures first, then others in the
    order of the tests.
    """
    pages = {variant.key: variant.test["page"] for variant in variants}
    left = dict(FIVE)
    ranked = []
    for test in tests:
        page, figure = pages[test["key"]], test["bars"][0]["key"]
        wanted = left.get(page, 0) > 0 and not figure.startswith(ONE_DEPTH)
        ranked.append((not wanted, [test["key"], figure]))
        left[page] = left.get(page, 0) - wanted
    return [figure for _, figure in sorted(ranked, key=lambda pair: pair[0])][:FIGURES]


def against(review: Shown, others: Sequence[Shown], test_id: str) -> dict[str, list[str]]:
    """Sentences on the difference between this review and each later one that ran this variant."""
    lines: dict[str, list[str]] = {}
    for other in others:
        same = other.variants.get(test_id) == review.variants[test_id]
        if review.entry is None or other.entry is None or not same:
            continue
        lines_of = explain.compared(
            explain.explain(review.entry.review.tests[test_id]),
            explain.explain(other.entry.review.tests[test_id]),
            a_name=review.entry.name,
            b_name=other.entry.name,
        )
        if lines_of:
            lines[other.key] = list(lines_of)
    return lines


def _review(review: Shown, variants: Sequence[Variant]) -> Json:
    about = {name: part for name, part in review.digest.items() if name not in ("tests", "keys")}
    known = peerage_of(review.entry.review.result.target) if review.entry else about
    market = str(about.get("market", "other"))
    return {
        **about,
        "key": review.key,
        "plot": broken(review.digest["name"], NAME_WIDTH),
        "form": known.get("form", ""),
        "shipped": review.entry is None,
        "group": "Reviews" if review.entry else f"{market.capitalize()}, {about.get('bus', '')}",
        "tests": list(review.variants.values()),
        "values": {
            variant: {
                bar["key"]: bar["row"] for bar in review.digest["tests"][name]["bars"] if bar["row"]
            }
            for name, variant in review.variants.items()
        }
        | {**_near(review, variants), TABLE["key"]: review.digest.get("keys", {})},
    }


def _bars(variant: Variant, reviews: Sequence[Shown]) -> list[Json]:
    """Figures of a test as bars, in the order of the first review that has them; `doubt` is the
    reason why one has no ranks.
    """
    rows: dict[str, Json] = {}
    for review in reviews:
        if review.variants.get(variant.test_id) != variant.key:
            continue
        for bar in review.digest["tests"][variant.test_id]["bars"]:
            row = rows.setdefault(bar["key"], {**bar, "row": None})
            if review.digest["kind"] != "virtual":
                continue
            if bar["key"] in STEADINESS:
                row["better"] = ""
            row["doubt"] = row.get("doubt") or _doubt(review, variant.test_id, bar["key"])
    return [{name: part for name, part in row.items() if name != "row"} for row in rows.values()]


def _doubt(review: Shown, test_id: str, key: str) -> str:
    """Reason not to trust a simulated figure; "" if there is none."""
    suite = review.entry.review.result.suite.name if review.entry else SUITE
    miss = trust.doubt(review.digest["profile"], suite, test_id, key)
    return f"the model is known to be wrong here: {miss.words}" if miss else ""


def _title(variant: Variant, *, several: bool) -> str:
    test = variant.test
    way = f" ({test['suite']}{', shortened' if test['shortened'] else ''})" if several else ""
    return f"{test['title']}{way}"


# --- the folder -----------------------------------------------------------------------------------


def write(
    entries: Sequence[Entry],
    folders: Sequence[str],
    out: Path,
    *,
    shipped: Sequence[Json] = (),
    progress: Callable[[int], None] = lambda _: None,
) -> Path:
    """Writes the site and returns the path of its first page.

    Parameters
    ----------
    entries : the reviews, with unique names.
    folders : name of each review's result folder.
    shipped : digests of drives without a review here (`competitors.load`).
    progress : receives the number of reviews written so far.
    """
    # a Bench written earlier: reviews that are no longer given must not stay
    if (out / MARK).is_file():
        for name in OWNED:
            shutil.rmtree(out / name, ignore_errors=True)
    out.mkdir(parents=True, exist_ok=True)
    (out / MARK).touch()
    named = zip(entries, folders, strict=True)
    reviews, variants = shown(
        [*({**digest(entry), "folder": folder} for entry, folder in named), *shipped],
        [*folders, *(review["profile"] for review in shipped)],
        [*entries, *(None for _ in shipped)],
    )
    for name in OWNED:
        (out / name).mkdir(parents=True, exist_ok=True)
    (out / LIBRARY).write_text(page.plotly(), encoding="utf-8")
    few = len(reviews) <= PAIRS_MAX
    for place, review in enumerate(reviews):
        (out / "data" / review.key).mkdir(exist_ok=True)
        for test_id, variant in review.variants.items():
            data = review.digest["tests"][test_id]["data"]
            if few and review.entry is not None:
                data = {**data, "against": against(review, reviews[place + 1 :], test_id)}
            text = json.dumps(data, separators=(",", ":"), allow_nan=False)
            call = f"DrivebayBench.part({script_json([review.key, variant, squeezed(text)])});\n"
            (out / "data" / review.key / f"{variant}.js").write_text(call, encoding="ascii")
        if review.entry is not None:
            full_name = review.entry.full_name
            alone = Entry(review.key, full_name, full_name, "@c1", review.entry.review)
            html = page.render([alone], library=f"../{LIBRARY}", bench=f"../{INDEX}")
            (out / "reviews" / f"{review.key}.html").write_text(html, encoding="utf-8")
        progress(place + 1)
    listing = script_json(index(reviews, variants))
    files.replace(out / LISTING, f"DrivebayBench.index({listing});\n".encode("ascii"))
    files.replace(out / INDEX, _index(len(reviews)).encode())
    return out / INDEX


def _index(count: int) -> str:
    """Page of the Bench; its script adds lists and charts."""
    bar = page.navigation([el("li", el("a", "Drives", href="#choose"))])
    drives = f"{count} review{'s' if count != 1 else ''}"
    main = el(
        "main",
        el(
            "header",
            el("p", "drivebay", class_="eyebrow"),
            el("h1", "The Bench"),
            el("p", f"{drives}. Select drives to compare them in every test.", class_="meta"),
        ),
        el("noscript", el("p", "The Bench requires JavaScript; the reports in reviews/ do not.")),
        el(
            "section", el("h2", "Drives"), el("div", id="chooser"), id="choose", class_="page first"
        ),
        el("div", id="chosen", class_="chosen", role="region", aria_label="Selected drives"),
        el("p", id="said", class_="sr-only", role="status"),
        el("div", id="results"),
    )
    scripts = [
        el("script", Html(page.chart_script() + page.asset("bench.js"))),
        el("script", src=LISTING),
    ]
    head = page.head("The Bench — drivebay", page.asset("bench.css"))
    html = el("html", head, el("body", bar, main, scripts), lang="en")
    return f"<!doctype html>\n{html}\n"
