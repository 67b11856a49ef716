"""Comparison of two reviews by their main figures: difference of the second from the first.

Only tests that both ran in the same way are compared: same preparation, load, window and length.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter

from drivebay.analysis.figures import Figure
from drivebay.analysis.review import Review

# The parts of a test that define how it was run.
WAY = attrgetter("prepare", "phases", "metric_window_s")


@dataclass(frozen=True)
class Moved:
    """One figure of two reviews; `percent` is the second's difference from the first's."""

    test_title: str
    before: Figure
    after: Figure
    percent: float


def moved(before: Review, after: Review) -> Mapping[tuple[str, str], Moved]:
    """Differences by test id and figure key, of every figure that is in the short table of either
    review.

    Figures that are missing in one review, or zero in the first, are left out.
    """
    return {
        key: Moved(title, first, other, 100 * (other.value - first.value) / abs(first.value))
        for key, (title, first, other) in _pairs(before, after).items()
        if first.value and other.value is not None
    }


def gone(before: Review, after: Review) -> list[tuple[str, Figure, Figure]]:
    """Figures that only one of the two reviews has, while the other gives a reason: the test's
    title, the first review's figure, the second's. One entry per reason and test.
    """
    differences: dict[tuple[str, str], tuple[str, Figure, Figure]] = {}
    for (test_id, _), (title, first, other) in _pairs(before, after).items():
        if (first.value is None) != (other.value is None):
            why = (test_id, first.note if first.value is None else other.note)
            differences.setdefault(why, (title, first, other))
    return list(differences.values())


def _pairs(before: Review, after: Review) -> dict[tuple[str, str], tuple[str, Figure, Figure]]:
    """Title of the test and both figures, for figures in the short table of either review that
    both tests have, if both reviews ran the test in the same way.
    """
    pairs: dict[tuple[str, str], tuple[str, Figure, Figure]] = {}
    for row in (*before.headline, *after.headline):
        first, other = (review.tests.get(row.test_id) for review in (before, after))
        if first is None or other is None or WAY(first.test) != WAY(other.test):
            continue
        if row.key in first.figures and row.key in other.figures:
            pair = (row.test_title, first.figures[row.key], other.figures[row.key])
            pairs.setdefault((row.test_id, row.key), pair)
    return pairs
