"""Building blocks of Markdown: tables with arbitrary content, and code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def cell(text: object) -> str:
    """Formats a table's cell: one line, with escaped bars."""
    return " ".join(str(text).split()).replace("|", "\\|")


def plain(text: object) -> str:
    """Escapes text to one line without markup: <DRIVE>, * and [x] are kept; `code` stays code."""
    parts = re.split(r"(`[^`]+`)", str(text))
    parts[::2] = map(_escaped, parts[::2])  # every second part is code
    return cell("".join(parts))


def _escaped(text: str) -> str:
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([*_`\[\]])", r"\\\1", text)


def code(text: object) -> str:
    """Formats code inside a sentence or a cell."""
    return f"`{cell(text)}`"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Formats a table of Markdown cells; empty if there are no rows."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    if not lines:
        return ""
    return "\n".join([f"| {' | '.join(head)} |", "|" + " --- |" * len(head), *lines]) + "\n\n"


def fence(text: str, language: str = "text") -> str:
    """Formats a block of code."""
    return f"```{language}\n{text.rstrip()}\n```\n\n"


def page(title: str, introduction: str, body: str) -> str:
    """Formats a page with title and introduction."""
    return f"# {title}\n\n{introduction.strip()}\n\n{body.rstrip()}\n"
