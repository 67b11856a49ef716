"""Writes the table of docs/concepts/preparation.md.

It shows how far each way of preparing leaves the catalog's drives, scaled to 1 GB or to their
smallest size, from steady state.

    .venv/bin/python scripts/prepare_table.py [--drive NAME ...]

About ten seconds per drive. Without --drive all are computed; with it only these drives' rows are
replaced.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from drivebay.definitions import profiles
from drivebay.definitions.scaling import with_capacity
from drivebay.lab.prepare import METHODS, Prepared, prepare

PAGE = Path(__file__).resolve().parent.parent / "docs" / "concepts" / "preparation.md"
BEGIN, END = "<!-- prepare_table: begin -->", "<!-- prepare_table: end -->"
CAPACITY = 10**9
HEAD = ("drive", "spare", "steady WAF", *METHODS)


def cell(prepared: Prepared, scale: float) -> str:
    """Formats the result of a method; `scale`: size of the whole drive relative to the scaled
    one.
    """
    more = "over 3" if prepared.more is None else f"{prepared.more:.1f}"
    hours = prepared.drive_s * scale / 3600
    took = f"{hours:.1f} h" if hours < 9.95 else f"{hours:,.0f} h"
    return f"{prepared.waf:.2f} ({prepared.error_percent:+.0f} %), {more}; {took}"


def row(name: str) -> str:
    """Computes a drive's line."""
    whole = profiles.load(name)
    profile = with_capacity(whole, CAPACITY)
    results = prepare(profile)
    spare = 100 * (profile.flash_bytes / profile.capacity_bytes - 1)
    cells = (
        name,
        f"{spare:.1f} %",
        f"{results[0].steady_waf:.2f}",
        *(cell(prepared, whole.capacity_bytes / profile.capacity_bytes) for prepared in results),
    )
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--drive", action="append", default=[])
    asked = parser.parse_args()
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    old, _, after = rest.partition(END)
    rows = {line.split("|")[1].strip(): line for line in old.splitlines() if line.startswith("| ")}
    for name in asked.drive or profiles.names():
        rows[name] = row(name)
        print(rows[name], flush=True)
        lines = [rows[name] for name in profiles.names() if name in rows]
        heads = f"| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}"
        text = "\n".join([BEGIN, heads, *lines, END])
        PAGE.write_text(before + text + after, encoding="utf-8")


if __name__ == "__main__":
    main()
