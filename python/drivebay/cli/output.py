"""Tables, numbers and JSON on stdout; lines on stderr."""

from __future__ import annotations

import contextlib
import json
import math
import sys
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

PIPE_WIDTH = 200
HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode's categories of controls, formats, halves of pairs, and ends of lines."""


_quiet = False


def be_quiet(quiet: bool) -> None:
    """From here on there is no progress and no note; warnings, errors and results stay."""
    global _quiet
    _quiet = quiet


def is_quiet() -> bool:
    """Whether progress and notes are left out."""
    return _quiet


def say(line: str) -> None:
    """A line on stderr, at once; a terminal that has gone is no reason to stop. It is one write, so
    that lines of several threads do not run into each other. A note is left out if asked so."""
    if _quiet and line.startswith("note: "):
        return
    with contextlib.suppress(OSError):
        print(f"{visible(line)}\n", end="", file=sys.stderr, flush=True)


def show(*lines: str) -> None:
    """Lines on stdout."""
    print("\n".join(map(visible, lines)))


def say_unless_quiet(*lines: str) -> None:
    """Lines on stderr of what is under way."""
    if not _quiet:
        for line in lines:
            say(line)


def visible(text: str) -> str:
    """Text for a terminal: what would act on it, or turn the order of letters, is escaped. A result
    of others may have a drive's name that does either.

    >>> visible(f"a{chr(27)}b") == "a" + chr(92) + "x1bb"
    True
    """
    if text.isprintable():
        return text
    return "".join(
        one if unicodedata.category(one) not in HIDDEN else ascii(one)[1:-1] for one in text
    )


def say_notes(notes: Iterable[str]) -> None:
    """A line for each; warnings have the word themselves."""
    for note in notes:
        say(note if note.startswith("warning: ") else f"note: {note}")


def print_json(value: Any, **more: Any) -> None:
    """JSON for scripts; NaN, which JSON lacks, becomes null."""
    print(json.dumps(_without_nan(value), indent=1, **more))


def print_json_rows(rows: Iterable[dict[str, Any]]) -> None:
    """The same of a list of any length, of which one row at a time is in memory; what is no JSON
    value is a text."""
    begin = "[\n"
    for row in rows:
        text = json.dumps(_without_nan(row), indent=1, default=str)
        print(begin + textwrap.indent(text, " "), end="")
        begin = ",\n"
    print("[]" if begin == "[\n" else "\n]")


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def short(path: Path) -> str:
    """The path as the user would type it from here."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def number(value: float) -> str:
    """A figure with three significant digits, or all before the point.

    >>> number(10873.4), number(108.13), number(7.456), number(0.0)
    ('10,873', '108', '7.46', '0')
    """
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def known(value: float | None, unit: str = "") -> str:
    """A number with its unit, or that it is not known."""
    return "not known" if value is None else f"{number(value)}{unit}"


def table(
    headers: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()
) -> None:
    """Columns on stdout: as wide as the terminal, wrapped inside their cells; whole in a pipe."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for index, header in enumerate(headers):
        shown.add_column(
            Text(visible(header)), justify="right" if index in right else "left", overflow="fold"
        )
    for row in rows:
        shown.add_row(*(Text(visible(cell)) for cell in row))
    width = None if sys.stdout.isatty() else PIPE_WIDTH
    console = Console(width=width, highlight=False)
    with console.capture() as lines:
        console.print(shown)
    print("\n".join(line.rstrip() for line in lines.get().splitlines()))
