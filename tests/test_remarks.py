"""What published/remarks.toml says of rows in words: of rows that are there, and of every
conflict."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from drivebay.analysis import fidelity
from drivebay.lab.validate.plan import load_plan

ROWS = {row["id"]: row for row in fidelity.recorded()["rows"]}


@pytest.fixture
def remarks(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The generator of the pages, which is no part of the package."""
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parent.parent / "scripts"))
    return importlib.import_module("docgen.fidelity")


def test_remarks_are_of_rows_that_have_figures(remarks: Any) -> None:
    named = remarks.named(remarks.limits())
    for one in remarks.contradictions():
        named.update(one["rows"])
        assert one["answer"] in remarks.ANSWERS, one["sources"]
        assert len(one["why"]) > 20, one["sources"]
    assert named <= set(ROWS), sorted(named - set(ROWS))


def test_limits_are_of_figures_that_are_off_or_beside_one_that_is(remarks: Any) -> None:
    """A limit that no longer is one would be left standing otherwise."""
    for text in remarks.limits():
        rows = [ROWS[name] for name in remarks.named([text])]
        assert not rows or any(not row["ok"] for row in rows), text


def test_each_conflict_of_todays_drives_is_answered(remarks: Any) -> None:
    answered = {name for one in remarks.contradictions() for name in one["rows"]}
    rows = load_plan().only_scored(False).rows
    conflicts = {row.published.id for row in rows if row.conflict}
    same = {name for row in rows if row.published.id in answered for name in row.same_as}
    assert conflicts <= answered | same, sorted(conflicts - answered - same)


def test_an_open_contradiction_is_off_and_one_that_comes_out_is_not(remarks: Any) -> None:
    for one in remarks.contradictions():
        fine = [ROWS[name]["ok"] for name in one["rows"]]
        if one["answer"] == "open":
            assert not all(fine), one["sources"]
        if one["answer"] == "mechanism" and fine:
            assert any(fine), one["sources"]


def test_a_figure_is_said_beside_what_was_published(remarks: Any) -> None:
    rows = {"S104": {**ROWS["S104"], "reproduced": 118.8, "published": 40.0}}
    assert remarks.described(rows["S104"]) == "118.8 MB/s (published about 40 MB/s, S104)"
