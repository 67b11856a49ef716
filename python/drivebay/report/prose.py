"""The summary in sentences, each of them made from figures, without adjectives."""

from __future__ import annotations

from drivebay.analysis import Headline
from drivebay.analysis.figures import Figure
from drivebay.analysis.moved import gone, moved
from drivebay.report import kinds
from drivebay.report.entries import Entry
from drivebay.report.markup import Html, el
from drivebay.report.words import inside, percent, quantity

FURTHEST = 3
DIFFERENCES_MAX = 6
WORTH_PERCENT = 1.0


def of_review(entry: Entry) -> Html | None:
    """What each test found, in the suite's order."""
    lines = [
        line
        for measured in entry.review.tests.values()
        if measured.phases
        for line in kinds.of(measured.test.kind).say(measured)
    ]
    if not lines:
        return None
    return el("ul", [el("li", line) for line in lines], class_="findings")


def agreement(entry: Entry) -> list[str]:
    """How many published figures are met, and which lie furthest off."""
    met, compared = entry.review.agreement
    if not compared:
        return []
    verb = "is" if met == 1 else "are"
    lines = [f"{met} of {compared} published figures {verb} met within their tolerance."]
    off = sorted(
        (row for row in entry.review.headline if row.verdict == "off"),
        key=lambda row: -abs(row.error_percent or 0.0),
    )
    if off:
        named = "; ".join(_miss(row) for row in off[:FURTHEST])
        lines.append(f"{'Furthest off' if len(off) > 1 else 'Off'}: {named}.")
    return lines


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
    return (
        f"{row.test_title}, {inside(row.label)}: {quantity(row.value, row.unit)} against "
        f"{row.published_text} ({percent(row.error_percent or 0.0)})"
    )
