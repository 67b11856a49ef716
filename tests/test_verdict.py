"""The verdict names what a figure alone hides: throttling that ends, a drop and its cause, tests
that the model misses; and pictures, CSV and terminal repeat what the page shows."""

from __future__ import annotations

import csv
import math
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import made_result
import numpy as np
import pytest

from drivebay import analysis, report, results
from drivebay.analysis import Review, trust
from drivebay.analysis.figures import Figure
from drivebay.analysis.headline import Headline
from drivebay.analysis.measure import measure
from drivebay.analysis.thermal import thermal
from drivebay.analysis.timeline import Timeline, slowed
from drivebay.cli.compare import _notes
from drivebay.common import documents
from drivebay.common.errors import UserError
from drivebay.definitions import profiles, suites
from drivebay.definitions.template import template
from drivebay.report.base import markup
from drivebay.report.base.markup import Bar, Published
from drivebay.report.base.runs import Entry, entries
from drivebay.report.charts.bars import bar_panel
from drivebay.report.pages import chapters, verdict
from drivebay.report.pages.review import all_panels
from drivebay.report.pages.sentences import PATTERNS, Sentence
from drivebay.report.peers import competitors
from drivebay.report.render.files import csv_of
from drivebay.report.render.page import Page
from drivebay.report.render.svg import picture


def sequential(rate: list[float], stage: list[float]) -> str:
    """The verdict on a run with these data rates and throttle stages, one for each second."""
    unknown = np.full(len(rate), np.nan)
    rates, stages = np.asarray(rate, dtype=float), np.asarray(stage, dtype=float)
    line = Timeline(rates, rates, unknown, unknown, unknown, unknown, stages, float(len(rate)))
    share = np.where(rates < 0.9 * rates.max(), 60.0, 0.5) * (stages > 0)
    found = thermal(slowed(line, None if np.isnan(stages).all() else share))
    assert found is not None
    return " ".join(verdict.sequential(found, load="sequential writes")).replace("\u00a0", " ")


@pytest.mark.parametrize(
    ("rate", "stage", "text"),
    [
        (
            [2000] * 293 + [1200] * 62 + [2000] * 100,
            [0] * 293 + [1] * 62 + [0] * 100,
            "run at 2,000 MB/s. Heat slows them to 1,200 MB/s in 62 s of 455 s, first after 293 s.",
        ),
        (
            [2000, 1200] * 30,
            [0, 1] * 30,
            "run at 2,000 MB/s. Heat slows them to 1,200 MB/s in 30 s of 60 s, first after 1 s.",
        ),
        (
            [1550] * 120 + [75] * 60,
            [0] * 31 + [1] * 149,
            "run at 1,550 MB/s for 120 s. Then the drive overheats, and they fall to 75 MB/s. From "
            "31 s on the drive reports light throttling, which takes 0.5 % of the latency.",
        ),
        (
            [1550] * 120 + [475] * 60,
            [0] * 180,
            "run at 1,550 MB/s for 120 s. Then the write cache is full, and they fall to 475 MB/s.",
        ),
        (
            [1550] * 60,
            [0] * 20 + [1] * 40,
            "average 1,550 MB/s over 60 s, without a sustained drop. From 20 s on the drive "
            "reports light throttling, which takes 0.5 % of the latency.",
        ),
        ([1550] * 60, [np.nan] * 60, "average 1,550 MB/s over 60 s, without a sustained drop."),
    ],
)
def test_throttling_is_reported_where_it_reduces_the_rate(
    rate: list[float], stage: list[float], text: str
) -> None:
    assert sequential(rate, stage) == f"Sequential writes {text}"


# --- every sentence, computed again ---------------------------------------------------------------


def said(entry: Entry, peers: Sequence[Any]) -> list[Sentence]:
    """All sentences of a verdict and a conclusion."""
    lines = [one for lines in verdict.paragraphs(entry, peers) for one in lines]
    return lines + [one for _, lines in verdict.conclusion(entry, peers) for one in lines]


def tables(html: str) -> dict[str, tuple[bool, list[tuple[bool, float, float, float]]]]:
    """Ranked tables of a page by title: True if less is better, and for each row: own, value and
    both ends of the interval. A table with figures that are struck through is left out.
    """
    shown = {}
    for part in html.split("<table ")[1:]:
        title = re.search("<strong><a .*?>(.*?)</a>", part)
        rows = re.findall(r'<tr( class="other")?[^>]*data-value="([^"]*)"([^>]*)>', part)
        if not title or "<s>" in part or not rows or 'class="bars ranked"' not in part:
            continue
        read = []
        for other, value, rest in rows:
            ends = [re.search(f'data-{end}="([^"]*)"', rest) for end in ("low", "high")]
            room = abs(float(value)) * 0.005
            low, high = (float(end[1]) if end else math.nan for end in ends)
            low, high = (low, high) if ends[0] else (float(value) - room, float(value) + room)
            read.append((not other, float(value), low, high))
        if any(own for own, *_ in read):
            shown[unescape(title[1])] = ("lower is better" in part, read)
    return shown


def standing(html: str) -> dict[str, tuple[float, bool, int]]:
    """By title of a test: ratio to the median of the others, above 1 if better; True if the median
    is outside of the drive's interval; number of the others. Figures that another drive lacks are
    left out.
    """
    known = {}
    for title, (less, rows) in tables(html).items():
        ((_, value, low, high),) = [row for row in rows if row[0]]
        others = [row[1] for row in rows if not row[0]]
        median = statistics.median(others)
        times = median / value if less else value / median
        known[title] = (times, not low <= median <= high, len(others))
    most = max((count for _, _, count in known.values()), default=0)
    return {title: one for title, one in known.items() if one[2] == most}


def check_rank(line: Sentence, known: Mapping[str, tuple[float, bool, int]]) -> None:
    """Checks a sentence about other drives against the ranked tables of its page."""
    clear = {title: times for title, (times, is_clear, _) in known.items() if is_clear}
    claim = line.claim
    if "count" in claim:
        assert {claim["count"]} == {count for _, _, count in known.values()}
    if line.pattern == "equal":
        assert all(1 / 1.1 < times < 1.1 for times in clear.values())
    if line.pattern in ("best", "worst", "also", "behind", "use"):
        assert clear[claim["title"]] == pytest.approx(claim["times"])
    if line.pattern == "best":
        assert claim["times"] >= 1.1 and claim["times"] == pytest.approx(max(clear.values()))
    if line.pattern in ("worst", "also", "behind"):
        assert claim["times"] <= 1 / 1.1 and claim["times"] == pytest.approx(min(clear.values()))
    if line.pattern == "behind":
        assert max(times for times, _, _ in known.values()) < 1
        assert clear[claim["near"]] == pytest.approx(claim["least"])
    if line.pattern in ("wrong", "elsewhere", "unknown"):
        assert claim["title"] not in known, "a doubted figure has no rank"
        (row,) = [
            answer
            for answer in trust.answers()
            if answer.drive == claim["drive"] and answer.times == claim["times"]
        ]
        assert row.far and row.row["metric"] == claim["metric"]


def check_course(line: Sentence, review: Review) -> None:
    """Checks a sentence about the course of a test against the review's figures."""
    claim = dict(line.claim)

    who = claim.pop("who", "").removesuffix(": ").lower()
    reads = "reads" in claim.pop("load", "")

    def value(kind: str, key: str) -> float | None:
        known = [test for test in review.tests.values() if test.test.kind == kind]
        known = [test for test in known if test.test.title.lower().endswith(who)]
        loads = [(test, test.phases[0].workload.read_percent) for test in known]
        first = next(test for test, percent in loads if (percent > 0) == reads)
        return first.figures[key].value

    if line.pattern in ("heat", "full", "fall"):
        keys = {"rate": "initial_rate", "after": "throttle_after_s", "low": "throttled_rate"}
        assert claim == pytest.approx({name: value("thermal", key) for name, key in keys.items()})
    if line.pattern == "even":
        assert value("thermal", "throttle_after_s") is None
        assert claim["rate"] == pytest.approx(value("thermal", "initial_rate"))
    if line.pattern == "burst":
        keys = {"start": "burst_iops", "after": "burst_s", "rate": "mean_iops"}
        for name, key in keys.items():
            assert claim[name] == pytest.approx(value("consistency", key))
        assert claim["share"] == pytest.approx(100 * claim["rate"] / claim["start"])
    if line.pattern == "random":
        first = next(test for test in review.tests.values() if test.consistency)
        assert claim["rate"] == pytest.approx(first.phases[0].timeline.ios.mean())
        ios = first.phases[0].timeline.ios
        assert ios.min() >= np.median(ios[:3]) / 2
    if line.pattern == "range":
        rates = {
            figure.value
            for test in review.tests.values()
            for figure in test.figures.values()
            if figure.unit == "MB/s" and figure.value
        }
        assert {claim["low"], claim["high"]} <= rates
    if line.pattern == "load":
        known = [one for one in review.tests.values() if verdict._title(one) == claim["title"]]
        values = [figure.value for key, figure in known[0].figures.items() if "p99.9_" in key]
        assert {claim["low"], claim["high"]} <= set(values)


@pytest.mark.parametrize("suite", suites.names())
def test_the_sentences_of_every_suite_are_true_of_its_figures(suite: str, tmp_path: Path) -> None:
    review = made_result.reviewed(tmp_path / "r", suite)
    (entry,) = entries([review])
    lines = said(entry, ())
    for line in lines:
        check_course(line, review)
    rates = [one.pattern for one in lines if one.pattern == "range"]
    figures = [one for test in review.tests.values() for one in test.figures.values()]
    assert rates or sum(one.unit == "MB/s" and bool(one.value) for one in figures) < 2


def of_catalog(drive: dict[str, Any], made: Review) -> Entry:
    """The review of a catalog drive, as far as its shipped results hold it: figures of the bars,
    data rate and IOPS of every second; the rest is invented.
    """
    tests, suite = {}, suites.load("anandtech-2015")
    for whole in suite.tests:
        if whole.id not in drive["tests"]:
            continue
        name, test = whole.id, drive["tests"][whole.id]
        measured = replace(made.tests[name], test=whole)
        figures = dict(measured.figures)
        for bar in test["bars"]:
            if bar["row"] is None or bar["key"] not in figures:
                continue
            value, _, ends, *_ = bar["row"]
            interval = None if ends is None else tuple(ends)
            figures[bar["key"]] = replace(figures[bar["key"]], value=value, interval=interval)
        tests[name] = replace(measured, figures=figures, thermal=None, consistency=None)
        panels = {one["id"]: one["chart"]["traces"][0]["y"] for one in test["data"]["panels"]}
        rate = np.asarray(panels.get("-time", [0.0]), dtype=float)
        unknown = np.full(len(rate), np.nan)
        line = Timeline(rate, rate, unknown, unknown, unknown, unknown, unknown, float(len(rate)))
        if measured.test.kind == "thermal":
            tests[name] = replace(tests[name], thermal=thermal(slowed(line)))
    target = {"kind": "virtual", "title": drive["drive"], "capacity_bytes": drive["bytes"]}
    target |= {"name": drive["profile"], "drive": drive["profile"], "profile": {"name": {}}}
    target["stand_in"] = drive["stand_in"]
    result = replace(made.result, suite=suite, quick=False, target=target)
    return entries([replace(made, tests=tests, result=result)])[0]


def test_the_sentences_of_every_catalog_drive_are_true_of_its_page(tmp_path: Path) -> None:
    made = made_result.reviewed(tmp_path / "r", "anandtech-2015")
    shipped = competitors.load()
    patterns = set()
    for drive in shipped:
        entry = of_catalog(drive, made)
        page = Page((entry,), competitors.peers(shipped, [entry]), ())
        html = markup.text(chapters._among(page))
        titles = {test.test.title: verdict._title(test) for test in entry.review.tests.values()}
        known = {titles[title]: one for title, one in standing(html).items()}
        if entry.stand_in:
            assert not re.search('<tr(?! class="other")[^>]*>[^/]*<span class="place">', html)
        for line in said(entry, page.peers):
            patterns.add(line.pattern)
            check_rank(line, known)
            if line.pattern in ("heat", "full", "fall"):
                bars = {bar["key"]: bar["row"] for bar in drive["tests"]["thermal-write"]["bars"]}
                for name, key in (("rate", "initial_rate"), ("low", "throttled_rate")):
                    assert line.claim[name] == pytest.approx(bars[key][0], rel=0.02)
    assert {"best", "also", "wrong", "elsewhere", "unknown", "use", "rival"} <= patterns


def test_a_pattern_has_no_brackets_and_no_unused_name() -> None:
    source = Path(verdict.__file__).read_text(encoding="utf-8")
    for name, text in PATTERNS.items():
        assert "(" not in text and f'"{name}"' in source


def test_an_own_miss_is_told_with_what_was_published(tmp_path: Path) -> None:
    (entry,) = entries([made_result.reviewed(tmp_path / "r", "anandtech-2015")])
    (line,) = verdict._wrong(entry)
    assert line.startswith("Mixed 4 KiB random has no rank, because the model gives ")
    assert "AnandTech 8979 found: \u201cdoes not do very well\u201d, about 40 MB/s." in line


@pytest.mark.parametrize("base", ["980-pro-1tb", "sm951-nvme-512"])
def test_a_new_profile_does_not_take_the_identity_of_its_base(base: str) -> None:
    known = profiles.load(base)
    new = profiles.from_document(documents.toml(template("mine", known)), where="mine.toml")
    facts = new.raw["drive"]
    assert facts["model"]["value"] == "mine" and "released" not in facts
    assert "identify" not in new.raw
    assert {facts[key]["value"] for key in ("controller", "flash", "form_factor")} == {"unknown"}


def rows_of(chart: Any) -> list[dict[str, str]]:
    return list(csv.DictReader(csv_of(chart).splitlines()))


def test_picture_and_csv_of_bars_have_interval_and_published_figure() -> None:
    published = Published(108.0, "108", "AnandTech 8979")
    rows = [
        Bar("mine", 107.4, "@c1", ends=(84.9, 136.1), published=published),
        Bar("other", 90.0, "@other", spread=2.0, other=True),
    ]
    panel = bar_panel("b", "4 KiB random read", "MB/s", rows, better="higher", who="mine alone")
    own, other, mark = rows_of(panel.chart)
    assert (own["low"], own["high"], own["spread"]) == ("84.9", "136.1", "")
    assert (other["low"], other["high"], other["spread"]) == ("88", "92", "2")
    assert (mark["series"], mark["value"]) == ("published", "108")
    svg = picture(panel, "both drives")
    assert "mine alone" in svg and "both drives" not in svg and "Diamond" in svg
    ink, gold = ('stroke="#1d2126"', 'fill="#8a5f00"')
    assert ink in svg and gold in svg, "a whisker and a diamond"
    ElementTree.fromstring(svg)


def test_a_curve_has_its_band_in_the_csv(tmp_path: Path) -> None:
    folder = made_result.make(tmp_path / "r", only=("random-read",))
    review = analysis.review(results.load(folder))
    panels = all_panels(entries([review]))
    chart = next(one.chart for one in panels if one.chart.id == "random-read-rate")
    figure = review.tests["random-read"].figures["rate_qd1"]
    first = rows_of(chart)[0]
    assert figure.interval is not None
    assert [float(first[key]) for key in ("low", "high")] == pytest.approx(
        figure.interval, rel=1e-4
    )


def test_pictures_of_no_review_are_a_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="needs result folders") as mistake:
        report.write_pictures([], tmp_path / "pictures")
    assert "--png" in mistake.value.hint


def test_a_missing_value_is_printed_with_its_reason(tmp_path: Path) -> None:
    folder = made_result.make(tmp_path / "r", only=("thermal-write",))
    step = results.load(folder).step("thermal-write")
    cut = [replace(phase, duration_s=100.0) for phase in step.phases()]
    figure = measure(step.test, cut).figures["throttle_after_s"]
    assert (figure.value, figure.missing) == (None, "never")
    assert Figure("x", "X", None, "s").missing == "\N{EN DASH}"
    row = Headline(**vars(figure), test_id="thermal-write")
    assert _notes([{0: row, 1: row}], ["a", "b"]) == [
        f"thermal-write, {name}: no sustained drop below half of the initial rate" for name in "ab"
    ]
