"""What the published rows say about the model: far misses mark tests, and the README's ten rows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from drivebay.analysis import fidelity, published, trust
from drivebay.common import data

SUITE = "anandtech-2015"


def test_a_test_whose_published_rows_are_missed_by_far_is_doubted_in_all_its_figures() -> None:
    found = trust.doubt("sm951-ahci-512", SUITE, "mixed-random", "mean_rate")
    assert found is not None and found.key == "" and found.off >= trust.FAR
    assert found.words.endswith("times the published data rate")


def test_a_missed_figure_says_nothing_of_the_others_of_its_test() -> None:
    assert trust.doubt("sm951-ahci-512", SUITE, "heavy-empty", "over_10_ms") is not None
    assert trust.doubt("sm951-ahci-512", SUITE, "heavy-empty", "rate") is None


def test_a_drive_without_rows_of_a_test_has_those_of_others_and_a_real_one_none() -> None:
    assert trust.doubt("t700-1tb", SUITE, "mixed-random", "mean_rate") is not None
    assert trust.doubt(None, SUITE, "mixed-random", "mean_rate") is None


@pytest.mark.parametrize(
    ("reproduced", "bounds", "times"),
    [(80.0, [30, 40], 2.0), (15.0, [30, 40], 0.5), (35.0, [30, 40], 1.0)],
)
def test_a_miss_is_counted_from_the_nearest_end_of_what_was_published(
    reproduced: float, bounds: list[float], times: float
) -> None:
    row = {"id": "X", "metric": "data rate", "relation": "eq", "published": "slow"}
    run = ({**row, "reproduced": reproduced, "bounds": bounds},)
    asked = {"X": {"statement": "words", "runs": ["drive/a-test"]}}
    (found,) = trust._answers(run, asked, {"a-test": {"suite": SUITE}})
    assert found.times == pytest.approx(times)


def test_the_page_beside_the_published_review_has_the_recorded_counts() -> None:
    text = (Path(__file__).parents[1] / "docs/concepts/first-published-review.md").read_text()
    known = published.figures()
    rows = [
        row
        for row in trust.recorded()
        if row["drive"] == "sm951-ahci-512" and "8979" in known[row["id"]].source
    ]
    counts = [tuple(map(int, pair)) for pair in re.findall(r"\| (\d+) of (\d+) \|", text)]
    met = sum(row["ok"] for row in rows)
    assert (sum(m for m, _ in counts), sum(n for _, n in counts)) == (met, len(rows))
    assert f"makes {len(rows)} statements" in text and f"meets {met} of them" in text


def test_rows_that_another_publication_contradicts_or_that_are_relative_tell_nothing() -> None:
    row = {"id": "X", "metric": "rate", "relation": "eq", "published": 1.0, "reproduced": 9.0}
    tests = {"a-test": {"suite": SUITE}}
    for more in ({"conflict": "another row"}, {"over": "d/a-test/f"}, {"change": "d/a-test/f"}):
        assert not list(trust._answers((row,), {"X": {"value": "d/a-test/f", **more}}, tests))


def test_without_a_recorded_run_nothing_is_doubted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(data, "path", lambda _: tmp_path)
    monkeypatch.setattr(fidelity, "recorded", fidelity.recorded.__wrapped__)
    assert trust.recorded.__wrapped__() == ()
