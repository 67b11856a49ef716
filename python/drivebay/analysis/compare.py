"""Two reviews figure by figure: how far each main figure of the second lies from the first's.

Only where both ran the test in the same way: the same preparation, load, window and length.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from drivebay.analysis.figures import Figure
from drivebay.analysis.review import Review


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
    found = {}
    for row in (*before.headline, *after.headline):
        key = (row.test_id, row.key)
        if row.test_id not in before.tests or row.test_id not in after.tests or key in found:
            continue
        first = before.tests[row.test_id].figures.get(row.key)
        other = after.tests[row.test_id].figures.get(row.key)
        if first is None or other is None or not first.value or other.value is None:
            continue
        if _same_way(before, after, row.test_id):
            percent = 100 * (other.value - first.value) / abs(first.value)
            found[key] = Moved(row.test_title, first, other, percent)
    return found


def gone(before: Review, after: Review) -> list[tuple[str, Figure, Figure]]:
    """Figures that only one of the two reviews could give, and the other says why not: the test's
    title, the first's figure, the second's. One for each reason of a test."""
    found: dict[tuple[str, str], tuple[str, Figure, Figure]] = {}
    for row in (*before.headline, *after.headline):
        if row.test_id not in before.tests or row.test_id not in after.tests:
            continue
        first = before.tests[row.test_id].figures.get(row.key)
        other = after.tests[row.test_id].figures.get(row.key)
        if first is None or other is None or (first.value is None) == (other.value is None):
            continue
        if _same_way(before, after, row.test_id):
            why = (row.test_id, first.note if first.value is None else other.note)
            found.setdefault(why, (row.test_title, first, other))
    return list(found.values())


def _same_way(before: Review, after: Review, test_id: str) -> bool:
    a, b = before.tests[test_id].test, after.tests[test_id].test
    return (a.prepare, a.phases, a.metric_window_s) == (b.prepare, b.phases, b.metric_window_s)
