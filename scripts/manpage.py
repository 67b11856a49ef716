"""Writes the man page, below packaging/wheel, from the command line itself.

usage: scripts/manpage.py [--check]      --check: only say whether the file is the one to write

Source: man-pages(7), groff_man(7). The page is committed, as a wheel is built from what lies there;
a test holds it against the program, `make man` writes it again.
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
        *(f".B {_escaped(one.path)}\n{_escaped(_rest(one))}\n.br" for one in others),
        ".SH DESCRIPTION",
        *_paragraphs(top.words),
        ".SH OPTIONS",
        *_options(top.options),
    ]
    for one in others:
        if not one.arguments and one.options[0].form.startswith("-h"):
            continue  # only a place for commands below it
        lines += [f".SH {_escaped(one.path).upper()}", *_paragraphs(one.words)]
        lines += _options((*one.arguments, *one.options[:-1]))  # without --help
        if one.epilog:
            lines += [".PP", ".nf", *map(_line, one.epilog.splitlines()), ".fi"]
    lines += [".SH EXIT STATUS"]
    for code, meaning, example in problems.CODES:
        words = f"{meaning} {example}".strip().replace("`", "")
        lines += [".TP", f".B {code}", _line(words)]
    for heading, entries in (("ENVIRONMENT", ENVIRONMENT), ("FILES", FILES)):
        lines += [f".SH {heading}"]
        for name, words in entries:
            lines += [".TP", f".B {_escaped(name)}", _line(words)]
    lines += [".SH SEE ALSO", ".BR fio (1),", ".BR nvme (1),", ".BR smartctl (8)"]
    return "\n".join(lines) + "\n"


def _rest(command: commands.Command) -> str:
    return command.usage.removeprefix(command.path).strip()


def _options(options: tuple[commands.Option, ...]) -> list[str]:
    lines = []
    for option in options:
        lines += [".TP", f".B {_escaped(option.form)}", _line(option.words or " ")]
    return lines


def _paragraphs(words: str) -> list[str]:
    lines = []
    for paragraph in words.split("\n\n"):
        lines += [".PP", _line(" ".join(paragraph.split()))]
    return lines


def _escaped(words: str) -> str:
    """Words in which nothing is markup; hyphens stay hyphens when they are copied."""
    return re.sub(r"[^\x00-\x7f]", _character, words.replace("\\", "\\e").replace("-", "\\-"))


def _character(match: re.Match[str]) -> str:
    return f"\\[u{ord(match[0]):04X}]"


def _line(words: str) -> str:
    """A line of text, which a dot or an apostrophe at its beginning does not make a request."""
    escaped = _escaped(words)
    return f"\\&{escaped}" if escaped[:1] in (".", "'") else escaped


def main() -> int:
    """Writes the page, or compares it."""
    page = text()
    if sys.argv[1:] == ["--check"]:
        if PLACE.exists() and PLACE.read_text(encoding="utf-8") == page:
            return 0
        print(f"error: {PLACE.relative_to(TOP)} is not what the program says", file=sys.stderr)
        print("hint: make man", file=sys.stderr)
        return 1
    PLACE.parent.mkdir(parents=True, exist_ok=True)
    PLACE.write_text(page, encoding="utf-8")
    print(PLACE.relative_to(TOP))
    return 0


if __name__ == "__main__":
    sys.exit(main())
