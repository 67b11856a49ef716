"""Writes the table of docs/fidelity.md from a recorded run of `drivebay validate --json`.

    drivebay validate --json > published/validation-run.json
    python scripts/fidelity.py

The table stands between two marks in the page; the words around it are written by hand. A test
asserts that the page has the table of the recorded run.
"""

from __future__ import annotations

import json
from pathlib import Path

from drivebay.lab.validate import table

TOP = Path(__file__).resolve().parent.parent
PAGE = TOP / "docs" / "fidelity.md"
RECORDED = TOP / "published" / "validation-run.json"
BEGIN, END = "<!-- table: begin -->\n", "<!-- table: end -->\n"


def page_with_table(page: str, recorded: str) -> str:
    """The page with the recorded run's table between the marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + "\n" + table.markdown(json.loads(recorded)) + "\n" + END + after


if __name__ == "__main__":
    PAGE.write_text(page_with_table(PAGE.read_text(), RECORDED.read_text()))
