"""Writes the man page, below packaging/wheel, from the command line itself.

usage: scripts/manpage.py [--check]      --check: only report whether the file is up to date

Source: man-pages(7), groff_man(7). The page is committed, because a wheel is built from the files
there; a test compares it with the program, `make man` writes it again.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "python"))
sys.path.insert(0, str(TOP / "scripts"))

from docgen import commands, problems  # noqa: E402

PLACE = TOP / "packaging/wheel/data/share/man/man1/drivebay.1"

ENVIRONMENT = (
    ("NO_COLOR", "If set, nothing is coloured."),
    ("COLUMNS", "The width of tables where the terminal does not tell its own."),
    ("TMPDIR", "Where recordings and large traces are kept until they are written."),
)
FILES = (("drivebay-results/", "Result folders, where no --out is given."),)


def text() -> str:
    """The whole page."""
    top, *others = commands.every()
    lines = [
        '.\\" Written by scripts/manpage.py; do not edit.',
        '.TH DRIVEBAY 1 "" "drivebay" "User Commands"',
        ".SH NAME",
        "drivebay \\- review SSDs, real ones and virtual ones",
        ".SH SYNOPSIS",
        *(f".B {_escaped(command.path)}\n{_escaped(_rest(command))}\n.br" for command in others),
        ".SH DESCRIPTION",
        *_paragraphs(top.description),
        ".SH OPTIONS",
        *_options(top.options),
    ]
    for command in others:
        if not command.arguments and command.options[0].form.startswith("-h"):
            continue  # only a parent of other commands
        lines += [f".SH {_escaped(command.path).upper()}", *_paragraphs(command.description)]
        lines += _options((*command.arguments, *command.options[:-1]))  # without --help
        if command.epilog:
            lines += [".PP", ".nf", *map(_line, command.epilog.splitlines()), ".fi"]
    lines += [".SH EXIT STATUS"]
    for code, meaning, example in problems.CODES:
        description = f"{meaning} {example}".strip().replace("`", "")
        lines += [".TP", f".B {code}", _line(description)]
    for heading, entries in (("ENVIRONMENT", ENVIRONMENT), ("FILES", FILES)):
        lines += [f".SH {heading}"]
        for name, description in entries:
            lines += [".TP", f".B {_escaped(name)}", _line(description)]
    lines += [".SH SEE ALSO", ".BR fio (1),", ".BR nvme (1),", ".BR smartctl (8)"]
    return "\n".join(lines) + "\n"


def _rest(command: commands.Command) -> str:
    return command.usage.removeprefix(command.path).strip()


def _options(options: tuple[commands.Option, ...]) -> list[str]:
    lines = []
    for option in options:
        lines += [".TP", f".B {_escaped(option.form)}", _line(option.description or " ")]
    return lines


def _paragraphs(text: str) -> list[str]:
    lines = []
    for paragraph in text.split("\n\n"):
        lines += [".PP", _line(" ".join(paragraph.split()))]
    return lines


def _escaped(text: str) -> str:
    """Escapes text for roff; hyphens stay hyphens when they are copied."""
    return re.sub(r"[^\x00-\x7f]", _character, text.replace("\\", "\\e").replace("-", "\\-"))


def _character(match: re.Match[str]) -> str:
    return f"\\[u{ord(match[0]):04X}]"


def _line(text: str) -> str:
    """A line of text; a dot or an apostrophe at its beginning is escaped, so that it is not a
    request.
    """
    escaped = _escaped(text)
    return f"\\&{escaped}" if escaped[:1] in (".", "'") else escaped


def main() -> int:
    """Writes the page, or compares it."""
    page = text()
    if sys.argv[1:] == ["--check"]:
        if PLACE.exists() and PLACE.read_text(encoding="utf-8") == page:
            return 0
        print(f"error: {PLACE.relative_to(TOP)} differs from the program", file=sys.stderr)
        print("hint: make man", file=sys.stderr)
        return 1
    PLACE.parent.mkdir(parents=True, exist_ok=True)
    PLACE.write_text(page, encoding="utf-8")
    print(PLACE.relative_to(TOP))
    return 0


if __name__ == "__main__":
    sys.exit(main())
