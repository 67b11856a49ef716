"""Each published row is of one kind, and what is good follows from the rows of a kind."""

from __future__ import annotations

from typing import Any

import pytest

from drivebay.analysis import fidelity
from drivebay.lab.fit import kinds
from drivebay.lab.validate.plan import load_plan

ROWS: list[dict[str, Any]] = fidelity.recorded()["rows"]


def row(
    metric: str = "IOPS",
    *,
    ok: bool = True,
    leverage: float | None = 0.0,
    loo_ok: bool | None = None,
    error: float | None = 0.0,
    published: float | str = 100.0,
) -> dict[str, Any]:
    """A row as validation-run.json has it, of a test of random reads."""
    number = published if isinstance(published, float) else 100.0
    return {
        "id": "S001",
        "test": "fio 4K random read",
        "metric": metric,
        "published": published,
        "reproduced": number + abs(number) * (error or 0.0) / 100,
        "bounds": sorted((0.95 * number, 1.05 * number)),
        "error_pct": error,
        "ok": ok,
        "loo_ok": ok if loo_ok is None else loo_ok,
        "leverage": leverage,
        "class": "fitted" if (leverage or 0) >= 0.5 else "predicted",
    }


def test_each_recorded_row_is_of_one_kind() -> None:
    wrong = {
        one["id"]: found
        for one in ROWS
        if len(found := kinds.kinds_of(one["test"], one["metric"])) != 1
    }
    assert not wrong


def test_each_row_that_will_be_compared_is_of_one_kind() -> None:
    wrong = {
        one.published.id: found
        for one in load_plan().rows
        if not one.not_covered
        and len(found := kinds.kinds_of(one.published.test, one.published.metric)) != 1
    }
    assert not wrong


def test_each_rule_is_of_a_known_kind_and_needed() -> None:
    compared = [one.published for one in load_plan().rows if not one.not_covered]
    for kind, tests, metrics in kinds.RULES:
        assert kind in kinds.KINDS
        assert any(tests.fullmatch(one.test) and metrics.fullmatch(one.metric) for one in compared)
    assert {kind for kind, _, _ in kinds.RULES} == set(kinds.KINDS)


def test_a_row_of_no_kind_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"S001 .* matches 0 kinds"):
        kinds.kind_of({**row(), "test": "a test that nobody knows"})


def test_rows_are_counted_by_kind() -> None:
    rows = [row(), row(ok=False), row(leverage=1.0), row("latency mean")]
    assert kinds.kinds(rows) == [
        kinds.Kind("random-read rates", rows=3, within=2, predicted=2, predicted_within=1),
        kinds.Kind("random-read latency", rows=1, within=1, predicted=1, predicted_within=1),
    ]


def test_a_predicted_row_counts_without_itself_in_the_fit() -> None:
    assert not kinds.within(row(ok=True, loo_ok=False))
    assert kinds.within(row(ok=True, loo_ok=False, leverage=0.9))
    assert kinds.within({**row(leverage=None), "loo_ok": None})


@pytest.mark.parametrize(
    ("rows", "within", "predicted", "predicted_within", "good", "bad"),
    [
        (10, 7, 2, 2, True, False),
        (10, 6, 2, 2, False, False),  # under 70 % of all
        (10, 10, 1, 1, False, False),  # too few that were not told
        (10, 8, 2, 1, False, False),  # half of those not told
        (10, 8, 5, 2, False, True),  # fits do not hide what is predicted wrong
        (10, 5, 0, 0, False, False),
        (10, 4, 0, 0, False, True),
        (1, 0, 1, 0, False, True),
    ],
)
def test_good_and_bad(
    rows: int, within: int, predicted: int, predicted_within: int, good: bool, bad: bool
) -> None:
    kind = kinds.Kind("TRIM", rows, within, predicted, predicted_within)
    assert (kind.good, kind.bad) == (good, bad)


def test_the_furthest_rows_are_off_by_the_largest_factors() -> None:
    fine = row(error=4.0)
    half, tenth, double = (row(ok=False, error=error) for error in (-50.0, -90.0, 150.0))
    words = row(ok=False, error=None, published="NAND")
    assert kinds.furthest([fine, half, words, tenth, double]) == [tenth, double, half]
    assert kinds.furthest([fine, words]) == []


def test_a_small_change_that_is_missed_is_not_far_off() -> None:
    none = row("average latency delta", ok=False, error=100.0, published=-0.5)
    more = row("average latency delta", ok=False, error=-140.0, published=-5.0)
    off = row(ok=False, error=20.0)
    assert kinds.furthest([none, more, off]) == [off, more, none]
