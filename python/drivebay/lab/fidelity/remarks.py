"""What docs/fidelity.md says of single rows, with figures of the newest run (remarks.toml)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drivebay.common import data
from drivebay.lab.validate import table

ANSWERS = {
    "mechanism": "both come out",
    "followed": "one is followed",
    "explained": "both can be",
    "open": "**open**",
}
"""What became of a contradiction: as remarks.toml says it, and as the page does."""

Rows = Mapping[str, dict[str, Any]]


@dataclass(frozen=True)
class Contradiction:
    """Sources that contradict each other about a drive; `rows` are those with their figures."""

    drive: str
    sources: str
    rows: tuple[str, ...]
    answer: str
    why: str


def limits() -> tuple[str, ...]:
    """What comes out wrong, with rows in braces."""
    return tuple(entry["text"] for entry in _read()["limit"])


def contradictions() -> tuple[Contradiction, ...]:
    """Where sources of today's drives contradict each other."""
    return tuple(
        Contradiction(**{**entry, "rows": tuple(entry["rows"])})
        for entry in _read()["contradiction"]
    )


def limits_page(rows: Rows) -> str:
    """A list of the limits."""
    return "".join(f"- {re.sub(r'{(S[0-9]+)}', lambda m: _said(rows[m[1]]), text)}\n"
                   for text in limits())  # fmt: skip


def contradictions_page(rows: Rows) -> str:
    """A table of the contradictions."""
    out = [
        "| drive | sources | published and reproduced | | how it is known |",
        "|---|---|---|---|---|",
    ]
    for one in contradictions():
        figures = "; ".join(_figure(rows[name]) for name in one.rows)
        cells = (one.drive, one.sources, figures, ANSWERS[one.answer], one.why)
        out.append("| " + " | ".join(cells) + " |")
    return "\n".join(out) + "\n"


def _said(row: dict[str, Any]) -> str:
    """ "118.8 MB/s (published about 40 MB/s, S104)"."""
    return f"{_reproduced(row)} (published {table.said(row)}, {row['id']})"


def _figure(row: dict[str, Any]) -> str:
    return f"{row['id']} {table.said(row)}: {_reproduced(row)}"


def _reproduced(row: dict[str, Any]) -> str:
    return table.number(row["reproduced"], row["unit"])


def named(texts: Sequence[str]) -> set[str]:
    """The rows that texts name in braces."""
    return {name for text in texts for name in re.findall(r"{(S[0-9]+)}", text)}


def _read() -> dict[str, Any]:
    with (data.path("published") / "remarks.toml").open("rb") as file:
        return tomllib.load(file)
