"""Small pieces of Markdown: tables whose cells may hold anything, and code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def cell(text: object) -> str:
    """A table's cell: one line, with bars that do not end it."""
    return " ".join(str(text).split()).replace("|", "\\|")


def plain(text: object) -> str:
    """Words that are nobody's markup, as one line: <DRIVE>, * and [x] stay; `code` is code."""
    parts = re.split(r"(`[^`]+`)", str(text))
    parts[::2] = map(_escaped, parts[::2])  # every second one is code
    return cell("".join(parts))


def _escaped(text: str) -> str:
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([*_`\[\]])", r"\\\1", text)


def code(text: object) -> str:
    """Code inside a sentence or a cell."""
    return f"`{cell(text)}`"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; cells are Markdown already. Nothing if there are no rows."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    if not lines:
        return ""
    return "\n".join([f"| {' | '.join(head)} |", "|" + " --- |" * len(head), *lines]) + "\n\n"


def fence(text: str, language: str = "text") -> str:
    """A block of code."""
    return f"```{language}\n{text.rstrip()}\n```\n\n"


def page(title: str, introduction: str, body: str) -> str:
    """A page that says of itself what it is generated from."""
    return f"# {title}\n\n{introduction.strip()}\n\n{body.rstrip()}\n"
