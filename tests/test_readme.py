"""README.md: short, and its figures are those of the kept run of `drivebay validate`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from drivebay.analysis import fidelity, likeness, trust
from drivebay.analysis.published import figures

TOP = Path(__file__).resolve().parent.parent
README = (TOP / "README.md").read_text(encoding="utf-8")
ROW = re.compile(
    r"^\| (S\d+) \| (.*?) \| (.*?) \| (.*?) \| (.*?) \| (\w+) \| (.*?) \|$", re.MULTILINE
)
NUMBER = re.compile(r"[\d,]+(?:\.\d+)?")
LINES_MAX = 80
ROWS = ROW.findall(README)


def kept() -> dict[str, dict[str, Any]]:
    """The rows of the kept run by their id."""
    return {row["id"]: row for row in fidelity.recorded()["rows"]}


def number(text: str) -> float:
    found = NUMBER.search(text)
    assert found, text
    return float(found[0].replace(",", ""))


def test_it_is_read_in_a_minute() -> None:
    assert len(README.splitlines()) <= LINES_MAX
    assert README.splitlines()[2].startswith("!["), "the picture comes first"


def test_ten_rows_with_misses_among_them() -> None:
    assert len(ROWS) == 10
    assert sum("missed" in figure for _, figure, *_ in ROWS) >= 3


def test_every_test_that_is_missed_by_far_has_a_row() -> None:
    drive = [one for one in trust.answers() if one.drive == "sm951-ahci-512" and one.far]
    assert {one.row["test"] for one in drive} <= {figures()[one].test for one, *_ in ROWS}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_row_is_the_kept_one(row: tuple[str, ...]) -> None:
    one, figure, published, here, error, of_class, left_out = row
    found = kept()[one]
    assert ("missed" in figure) == (not found["ok"])
    assert number(published) == found["published"]
    digits = len(here.split()[0].partition(".")[2])
    assert number(here) == round(found["reproduced"], digits)
    assert of_class == found["class"]
    for text, key in ((error, "error_pct"), (left_out, "loo_error_pct")):
        assert text.replace("−", "-") == f"{found[key]:+.1f} %".replace("+0.0", "0.0")


def test_the_sentence_about_intervals_is_that_of_the_computed_data() -> None:
    held, judged = map(sum, zip(*map(fidelity.covered, likeness.KINDS), strict=True))
    assert f"For {held} of {judged} published numbers ({100 * held / judged:.0f} %)" in README


def test_the_sentences_are_short() -> None:
    text = re.sub(r"^(```|~~~).*?^\1$", "", README, flags=re.DOTALL | re.MULTILINE)
    prose = [line for line in text.splitlines() if line and line[0] not in "|#![-"]
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(prose)).replace("**", "")
    sentences = re.split(r"(?<=[.:;?])\s+", plain)
    assert [one for one in sentences if len(one.split()) > 25] == []
