"""Two reviews figure by figure: how far each main figure of the second lies from the first's.

Only where both ran the test in the same way: the same preparation, load, window and length.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from drivebay.analysis.headline import Headline
from drivebay.analysis.review import Review


@dataclass(frozen=True)
class Moved:
    """One figure of two reviews; `percent` is the second's difference from the first's."""

    before: Headline
    after: Headline
    percent: float


def moved(before: Review, after: Review) -> Mapping[tuple[str, str], Moved]:
    """By test id and figure's key, in the suite's order; what one of them lacks is left out."""
    found = {}
    firsts = {(row.test_id, row.key): row for row in before.headline}
    for row in after.headline:
        key = (row.test_id, row.key)
        first = firsts.get(key)
        if first is None or not first.value or row.value is None:
            continue
        if not _same_way(before, after, row.test_id):
            continue
        found[key] = Moved(first, row, 100 * (row.value - first.value) / abs(first.value))
    return found


def _same_way(before: Review, after: Review, test_id: str) -> bool:
    a, b = before.tests[test_id].test, after.tests[test_id].test
    return (a.prepare, a.phases, a.metric_window_s) == (b.prepare, b.phases, b.metric_window_s)
