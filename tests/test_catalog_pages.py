"""The documentation has a page for each drive of the catalog, with its facts, sources and score."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from drivebay.analysis import fidelity
from drivebay.definitions import profiles as catalog

TOP = Path(__file__).resolve().parent.parent
RECORDED = fidelity.recorded()


@pytest.fixture
def drives(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The generator, which is no part of the package."""
    monkeypatch.syspath_prepend(str(TOP / "scripts"))
    return importlib.import_module("docgen.drives")


def test_each_drive_has_a_page_and_is_in_the_overview(drives: Any) -> None:
    pages = drives.pages()
    assert set(pages) == {drives.INDEX, *map(drives.path_of, catalog.names())}
    for name in catalog.names():
        profile = catalog.load(name)
        assert f"# {profile.title}\n" in pages[drives.path_of(name)]
        assert f"({name}.md)" in pages[drives.INDEX]


def test_the_navigation_has_each_drive_once(drives: Any) -> None:
    listed = [path for group in drives.navigation() for paths in group.values() for path in paths]
    assert sorted(listed) == sorted(map(drives.path_of, catalog.names()))


def test_a_page_says_whether_the_drive_is_a_stand_in(drives: Any) -> None:
    pages = drives.pages()
    for name in catalog.names():
        said = "**It is a stand-in**" in pages[drives.path_of(name)]
        assert said == (catalog.load(name).stand_in is not None), name


def test_every_fact_has_a_value_and_a_source(drives: Any) -> None:
    for name in catalog.names():
        facts = drives.facts(catalog.load(name))
        assert len(facts) >= 10, name
        for fact in facts:
            assert all(fact), (name, fact)


def test_all_values_are_counted_as_sourced_or_as_guesses(drives: Any) -> None:
    for name in catalog.names():
        raw = catalog.load(name).raw
        left_out = ("host", "variants", "intervals")
        counted = json.dumps({key: raw[key] for key in raw if key not in left_out})
        sourced, guessed = drives.sources(raw)
        assert sourced + guessed == counted.count('"source": ') > 50, name
        assert guessed >= counted.count('"source": "guess') > 20, name


def test_facts_of_drives_without_dram_and_without_pages(drives: Any) -> None:
    facts = {fact: value for fact, value, _ in drives.facts(catalog.load("samsung-980-1tb"))}
    assert "64 MiB of host memory (HMB)" in facts["Map"]
    assert "6 GB static, 154 GB dynamic" in facts["SLC cache"]
    facts = {fact: value for fact, value, _ in drives.facts(catalog.load("p4800x-375"))}
    assert facts["Map"] == "none: data is written in place"
    assert facts["Power-loss protection"].startswith("yes")
    facts = {fact: value for fact, value, _ in drives.facts(catalog.load("p5336-61440"))}
    assert "one entry for 16 KiB" in facts["Map"]


def test_a_drive_without_rows_says_so(drives: Any) -> None:
    text = drives.drive_page(catalog.load("sm951-ahci-512"), [], None)
    assert "compares no published row of this drive" in text
    assert "Good for" not in text


def test_a_score_is_that_of_the_recorded_run(drives: Any) -> None:
    rows = [row for row in RECORDED["rows"] if row["drive"] == "sm951-ahci-512"]
    score = RECORDED["drives"]["sm951-ahci-512"]
    text = drives.drive_page(catalog.load("sm951-ahci-512"), rows, score)
    assert f"| Rows compared | {len(rows)}, of which " in text
    assert f"| Predicted | {score['n_predicted']} numbers, " in text
    assert "| Leverage | computed |" in text


def test_rows_without_leverage_are_said_to_have_none(drives: Any) -> None:
    some = [{"leverage": None}, {"leverage": 0.5}]
    assert drives._leverage(some[:1]).startswith("not computed")
    assert drives._leverage(some) == "computed for 1 of 2 rows"


def test_links_lead_to_entries_of_the_calibrations_journal(drives: Any) -> None:
    links = drives.calibration(catalog.load("970-evo-plus-1tb"), [])
    assert links == ["[The 970 EVO Plus](../reference/trials.md#the-970-evo-plus)"]
