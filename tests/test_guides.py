"""The guides and README do what they say: each command runs, and prints what the page shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from guide_blocks import PAGES, TOP, alike, blocks, run

REASON = re.compile(r"(is|needs|takes) .{4,}")
ELSEWHERE = re.compile(r"^(sudo|git|podman|docker|make) |/dev/(?!null)", re.MULTILINE)
"""What no test may run: it changes the machine, or needs a device."""
NAMES = [str(page.relative_to(TOP)) for page in PAGES]


@pytest.mark.parametrize("name", NAMES)
def test_each_block_runs_or_is_marked_with_a_reason(name: str) -> None:
    found = blocks(TOP / name)
    for block in found:
        assert block.mark != "not run" or REASON.match(block.text), block
        assert not block.runs or not ELSEWHERE.search(block.content), block


@pytest.mark.parametrize("name", [name for name in NAMES if name != "README.md"])
def test_the_head_of_a_guide_says_how_long_it_takes(name: str) -> None:
    head = "\n".join((TOP / name).read_text().splitlines()[:6])
    assert re.search(r"\bTakes about (\d+|an?) (minutes?|hours?)\b", head)


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_the_commands_of_a_page_print_what_it_shows(name: str, tmp_path: Path) -> None:
    troubles = [
        f"$ {entry.block.content}{trouble}"
        for entry in run(TOP / name, tmp_path)
        for trouble in entry.troubles()
    ]
    assert not troubles, "\n\n".join(troubles)


def test_lines_are_compared_by_their_words_and_by_numbers_within_a_tolerance() -> None:
    assert alike("rate  1,000 MB/s ± 20 %", "rate 1,030 MB/s   ± 20 %")
    assert not alike("rate  1,000 MB/s", "rate 1,080 MB/s")
    assert not alike("rate  1,000 MB/s", "rate 1,000 IOPS")
