"""What a review is to the reports of others: its figures as bars, and the charts of each test.

The Bench is made of digests, of its own reviews and of the shipped ones alike; a report ranks its
drive among shipped digests. A digest is plain data, and as a file it outlives the code that made
it: `FORMAT` says which code can read it.
"""

from __future__ import annotations

from typing import Any

from drivebay.analysis import Measured, Review, explain
from drivebay.analysis.comparable import how
from drivebay.analysis.modified import changes
from drivebay.analysis.published import address
from drivebay.report import figures, kinds
from drivebay.report.kinds.generic import BARS_MAX
from drivebay.report.render_page import encoded
from drivebay.report.runs import Entry, bench_run, capacity, drive_title
from drivebay.report.text import number

Json = dict[str, Any]
FORMAT = 1
STEADINESS = ("sd_iops", "mean_over_sd")
"""Figures in which no drive is ranked where one is simulated: its seconds scatter too little."""


def digest(entry: Entry) -> Json:
    """A review's digest; `tests` are those that have figures, by id."""
    review = entry.review
    result = review.result
    labels = [f"Changed: {', '.join(changed)}"] if (changed := changes(result.target)) else []
    labels += ["shortened run"] if result.quick else []
    if result.missing:
        labels.append(f"{len(result.done)} of {len(result.steps)} tests")
    return {
        "name": entry.name,
        "drive": drive_title(review),
        "profile": unchanged(review),
        "kind": entry.kind,
        "suite": result.suite.title,
        "capacity": capacity(review),
        "bytes": int(result.target["capacity_bytes"]),
        "labels": labels,
        "tests": {
            measured.test.id: _test(entry, measured)
            for measured in review.tests.values()
            if measured.phases
        },
    }


def unchanged(review: Review) -> str:
    """The name of the virtual drive, if that is what was tested, without changes; else empty."""
    target = review.result.target
    return "" if changes(target) or not review.result.simulated else str(target["name"])


def _test(entry: Entry, measured: Measured) -> Json:
    test, result = measured.test, entry.review.result
    return {
        "how": how(test),
        "page": test.page,
        "title": test.title,
        "method": " ".join(test.method.split()),
        "source": test.source,
        "suite": result.suite.title,
        "shortened": result.quick,
        "bars": _bars(entry, measured),
        "data": _data(entry, measured),
    }


def _bars(entry: Entry, measured: Measured) -> list[Json]:
    """The figures shown as bars; `row`: value, spread, both ends of its interval, its words, its
    samples in words; then published value, words, relation, source and its address."""
    printed: dict[str, list[Any]] = {
        row.key: [
            row.published,
            row.published_text,
            row.published_relation,
            row.source.partition(",")[0],
            address(row.source),
        ]
        for row in entry.review.headline
        if row.test_id == measured.test.id and row.published is not None
    }
    shown: list[Json] = []
    for place, bar in enumerate(kinds.by_name(measured.test.kind).bars(measured)):
        if place >= BARS_MAX and bar.chart:  # there each has a ranking of its own
            continue
        figure = measured.figures.get(bar.key)
        about = {"key": bar.key, "title": bar.title, "unit": bar.unit, "better": bar.better}
        if figure is None:
            shown.append({**about, "row": None})
            continue
        texts = [number(figure.value), figures.detail(figure)]
        row = [figure.value, figure.spread, figure.interval, *texts, *printed.get(bar.key, ())]
        shown.append({**about, "row": row})
    return shown


def _data(entry: Entry, measured: Measured) -> Json:
    """One test's charts, each for this drive alone, its facts and sentences."""
    kind = kinds.by_name(measured.test.kind)
    run = bench_run(entry.review, measured)
    return {
        "panels": [encoded(panel) for panel in kind.panels("", [run])],
        "facts": figures.test_facts(measured),
        "notes": kind.remarks(measured),
        "sentences": list(explain.explain(measured).sentences),
    }
