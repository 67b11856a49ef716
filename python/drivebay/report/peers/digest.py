"""Digest of a review for other reports: its figures as bars, and the charts of each test.

The Bench is made of digests, both of its own reviews and of the shipped ones; a report ranks its
drive among shipped digests. A digest is plain data. As a file it outlives the code that wrote it:
`FORMAT` names the code that can read it.
"""

from __future__ import annotations

from typing import Any

from drivebay.analysis import Measured, Review, explain
from drivebay.analysis.comparable import how
from drivebay.analysis.modified import changes
from drivebay.analysis.published import address
from drivebay.analysis.rank_keys import drive_bytes, rank_keys
from drivebay.report import kinds
from drivebay.report.base import figures
from drivebay.report.base.runs import Entry, bench_run, drive_title
from drivebay.report.base.text import number
from drivebay.report.kinds.generic import BARS_MAX
from drivebay.report.render.page import encoded

Json = dict[str, Any]
FORMAT = 1
# Figures without ranks if a drive is simulated: simulated seconds vary too little.
STEADINESS = ("sd_iops", "mean_over_sd")


def digest(entry: Entry) -> Json:
    """Returns the digest of a review; `tests` holds the tests that have figures, by id."""
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
        "bytes": int(drive_bytes(review)),
        "keys": {
            key: [value, None, None, f"{sign}{number(value)}", words]
            for key, (value, words, sign) in rank_keys(review).items()
        },
        "labels": labels,
        "stand_in": entry.stand_in,
        "tests": {
            measured.test.id: _test(entry, measured)
            for measured in review.tests.values()
            if measured.phases
        },
    }


def unchanged(review: Review) -> str:
    """Name of the virtual drive if it was tested without changes; empty otherwise."""
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
    """Figures shown as bars. `row` holds value, spread, both ends of the interval, the value as
    text and the samples as text; then published value, its text, relation, source and link.
    """
    printed: dict[str, list[Any]] = {}
    for known in entry.review.headline:
        if known.test_id == measured.test.id and known.published is not None:
            value = [known.published, known.published_text, known.published_relation]
            source = known.source
            printed[known.key] = [*value, source.partition(",")[0], address(source)]
    shown: list[Json] = []
    for place, bar in enumerate(kinds.by_name(measured.test.kind).bars(measured)):
        if place >= BARS_MAX and bar.chart:  # on the Bench each of them has its own ranking
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
    """Charts of one test for this drive alone, its facts and sentences."""
    kind = kinds.by_name(measured.test.kind)
    run = bench_run(entry.review, measured)
    return {
        "panels": [encoded(panel) for panel in kind.panels("", [run])],
        "facts": figures.test_facts(measured),
        "notes": kind.remarks(measured),
        "sentences": list(explain.explain(measured).sentences),
    }
