"""Two reviews figure by figure: how far each main figure of the second lies from the first's.

Only where both ran the test in the same way: the same preparation, load, window and length.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter

from drivebay.analysis.figures import Figure
from drivebay.analysis.review import Review

WAY = attrgetter("prepare", "phases", "metric_window_s")
"""How a test was run."""


@dataclass(frozen=True)
class Moved:
    """One figure of two reviews; `percent` is the second's difference from the first's."""

    test_title: str
    before: Figure
    after: Figure
    percent: float


def moved(before: Review, after: Review) -> Mapping[tuple[str, str], Moved]:
    """By test id and figure's key: every figure that is in the short table of one of them.

    What one of them lacks, and what was zero before, is left out.
    """
    return {
        key: Moved(title, first, other, 100 * (other.value - first.value) / abs(first.value))
        for key, (title, first, other) in _pairs(before, after).items()
        if first.value and other.value is not None
    }


def gone(before: Review, after: Review) -> list[tuple[str, Figure, Figure]]:
    """Figures that only one of the two reviews could give, and the other says why not: the test's
    title, the first's figure, the second's. One for each reason of a test."""
    found: dict[tuple[str, str], tuple[str, Figure, Figure]] = {}
    for (test_id, _), (title, first, other) in _pairs(before, after).items():
        if (first.value is None) != (other.value is None):
            why = (test_id, first.note if first.value is None else other.note)
            found.setdefault(why, (title, first, other))
    return list(found.values())


def _pairs(before: Review, after: Review) -> dict[tuple[str, str], tuple[str, Figure, Figure]]:
    """The test's title and both figures of what is in the short table of one and known of both,
    where both ran the test in the same way."""
    found: dict[tuple[str, str], tuple[str, Figure, Figure]] = {}
    for row in (*before.headline, *after.headline):
        first, other = (one.tests.get(row.test_id) for one in (before, after))
        if first is None or other is None or WAY(first.test) != WAY(other.test):
            continue
        if row.key in first.figures and row.key in other.figures:
            pair = (row.test_title, first.figures[row.key], other.figures[row.key])
            found.setdefault((row.test_id, row.key), pair)
    return found
