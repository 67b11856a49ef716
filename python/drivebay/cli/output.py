"""Tables, numbers and JSON on stdout; lines on stderr."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from drivebay.common.documents import printable

PIPE_WIDTH = 200
# Length from which a cell without spaces may be broken.
WRAP_FROM = 24


_quiet = False


def be_quiet(quiet: bool) -> None:
    """Turns off progress and notes from now on, but not warnings, errors and results."""
    global _quiet
    _quiet = quiet


def is_quiet() -> bool:
    """True if progress and notes are turned off."""
    return _quiet


def say(line: str) -> None:
    """Prints a line to stderr at once, unless it is a note and notes are turned off.

    A closed terminal is ignored. The line is one write, so that lines of threads do not mix."""
    if _quiet and line.startswith("note: "):
        return
    with contextlib.suppress(OSError):
        print(f"{printable(line)}\n", end="", file=sys.stderr, flush=True)


def show(*lines: str) -> None:
    """Prints lines to stdout."""
    print("\n".join(map(printable, lines)))


def show_wrapped(text: str, begin: str = "", indent: int | None = None) -> None:
    """Prints text after `begin`: wrapped on a terminal, one line in a pipe, so that it can be
    searched. Further lines are indented as `begin` is long, or by `indent`."""
    indent = len(begin) if indent is None else indent
    lines = [printable(text)]
    if sys.stdout.isatty():
        lines = textwrap.wrap(lines[0], max(20, shutil.get_terminal_size().columns - indent - 1))
    print(begin + f"\n{' ' * indent}".join(lines))


def say_unless_quiet(*lines: str) -> None:
    """Prints progress lines to stderr, unless they are turned off."""
    if not _quiet:
        for line in lines:
            say(line)


def say_notes(notes: Iterable[str]) -> None:
    """Prints each note as a line; warnings carry their own prefix."""
    for note in notes:
        say(note if note.startswith("warning: ") else f"note: {note}")


def print_json(value: Any, **more: Any) -> None:
    """Prints JSON for scripts; NaN, which JSON lacks, becomes null."""
    print(json.dumps(_without_nan(value), indent=1, **more))


def print_json_rows(rows: Iterable[dict[str, Any]]) -> None:
    """Prints a JSON list row by row, with one row in memory at a time. Values that JSON lacks are
    written as strings."""
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
    """Returns the path relative to the working folder, if it is inside."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def number(value: float) -> str:
    """Formats a figure with three significant digits, or all digits before the point.

    >>> number(10873.4), number(108.13), number(7.456), number(0.0)
    ('10,873', '108', '7.46', '0')
    """
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def known(value: float | None, unit: str = "") -> str:
    """Formats a number with its unit, or None as "not known"."""
    return "not known" if value is None else f"{number(value)}{unit}"


def interval_in_percent(value: float | None, ends: tuple[float, float] | None) -> str:
    """Formats an interval by its distances from the value: "± 12 %", or "-40 % +70 %" if one is
    more than a fifth larger; empty without an interval."""
    if ends is None or not value:
        return ""
    low, high = (100 * abs(end / value - 1) for end in sorted(ends))
    digits = 0 if min(low, high) >= 10 else 1
    if max(low, high) <= 1.2 * min(low, high):
        return f"± {max(low, high):.{digits}f} %"
    return f"-{low:.{digits}f} % +{high:.{digits}f} %"


def answer(
    document: Any, as_json: bool, headers: Sequence[str], rows: Sequence[Sequence[str]], **more: Any
) -> None:
    """Prints the JSON document, or the table."""
    if as_json:
        print_json(document)
    else:
        table(headers, rows, **more)


def table(
    headers: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()
) -> None:
    """Prints columns to stdout; on a terminal cells are wrapped to fit, in a pipe they are not."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    width = None if sys.stdout.isatty() else PIPE_WIDTH
    console = Console(width=width, highlight=False)
    style = "" if os.environ.get("NO_COLOR") else "bold"
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style=style)
    for index, header in enumerate(headers):
        cells = [row[index] for row in rows]
        are_names = all(" " not in cell and len(cell) < WRAP_FROM for cell in cells)
        shown.add_column(
            Text(printable(header)),
            justify="right" if index in right else "left",
            no_wrap=are_names,
            overflow="fold",
        )
    for row in rows:
        shown.add_row(*(Text(printable(cell)) for cell in row))
    with console.capture() as lines:
        console.print(shown)
    print("\n".join(line.rstrip() for line in lines.get().splitlines()))
