"""All that is read from outside as TOML, JSON or CSV: size, depth and types are limited here.

A document that passes can be walked recursively, printed and given to the system: it is nested at
most `DEPTH_MAX` deep, its whole numbers have 64 bits, its texts are valid Unicode without NUL.
Whoever reads a file catches `ValueError` (of which `Malformed` is one) and says which file it was.

Sources: TOML 1.0 (whole numbers of 64 bits); RFC 8259 (limits are the reader's to set); RFC 4627
section 3 (JSON's encoding is seen from the zeros in its first bytes).
Leaves out: encodings of one byte (Latin-1 and others), which can only be guessed. Effect: their
letters beyond ASCII become U+FFFD where a text is taken at all.
"""

from __future__ import annotations

import codecs
import csv
import errno
import json
import math
import os
import re
import stat
import tomllib
import unicodedata
from collections.abc import Iterable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any

WRITTEN_BYTES_MAX = 1_000_000
"""A file that a person writes: profile, suite, sweep, faults. The catalog's largest has 20 KB."""
KEPT_BYTES_MAX = 2**28
"""A file that a program writes: a manifest, a log. guess: far above the largest seen, 2 MB."""
DEPTH_MAX = 64
HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode's categories of controls, formats, halves of pairs, and ends of lines."""
LINE_BYTES_MAX = 2**20
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?(?:"""|\Z)'  # what has no end is an error for the parser, too
    r"|'''.*?(?:'''|\Z)"
    r'|"(?:\\.|[^"\\\n])*"?'
    r"|'[^'\n]*'?"
    r"|#[^\n]*",
    re.DOTALL,
)
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16's, with which it begins
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_DOTTED = re.compile(r"[\w-]+(?:[ \t]*\.[ \t]*[\w-]+)*")


class Malformed(ValueError):
    """A document that is refused; says what is wrong with it, but not which one it is."""


def read(path: Path, *, bytes_max: int = WRITTEN_BYTES_MAX) -> bytes:
    """The content of a file, of which no more is taken into memory than is allowed. Raises
    Malformed if it is larger; OSError if it cannot be read."""
    with path.open("rb") as file:
        content = file.read(bytes_max + 1)
    if len(content) > bytes_max:
        raise Malformed(f"it is over {bytes_max / 1e6:.3g} MB")
    return content


def read_kept(path: Path) -> bytes:
    """The content of a file that a program writes: a regular one, of at most `KEPT_BYTES_MAX`.
    Raises Malformed if it is larger, or `opened_kept` refuses it; OSError if it cannot be read."""
    with opened_kept(path) as file:
        content = file.read(KEPT_BYTES_MAX + 1)
    if len(content) > KEPT_BYTES_MAX:
        raise Malformed(f"it is over {KEPT_BYTES_MAX / 1e6:.3g} MB")
    return content


def opened_kept(path: Path) -> BufferedReader:
    """A regular file, to be read; nothing else is waited for, and no link is followed. Raises
    Malformed if it is a link, a folder, a pipe, a socket or a device; OSError if it cannot be
    opened."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as problem:
        if problem.errno in (errno.ELOOP, errno.ENXIO):  # a link, a socket
            raise Malformed("it is not a regular file") from None
        raise
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise Malformed("it is not a regular file")
    return os.fdopen(number, "rb")


def encoding(content: bytes) -> str:
    """The encoding of text that some program wrote, by its mark (BOM), or by the zeros of UTF-16
    between its first letters; UTF-8 where there are none.

    >>> encoding(b"time,power_w"), encoding("{".encode("utf-16")), encoding(b"{\\0\\n\\0")
    ('utf-8', 'utf-16', 'utf-16-le')
    """
    marked = next((name for mark, name in _MARKS if content.startswith(mark)), None)
    zeros = "".join("0" if byte == 0 else "x" for byte in content[:4])
    return marked or {"x0x0": "utf-16-le", "0x0x": "utf-16-be"}.get(zeros, "utf-8")


def text(content: bytes, *, errors: str = "replace") -> str:
    """Text that some program wrote: in any of these encodings, lines ended by LF alone, without the
    zeros that pad a file. `errors`: what becomes of bytes that are no text, as in `bytes.decode`.

    >>> text(b"\\xef\\xbb\\xbfa\\r\\nb\\xe4\\0\\0")
    'a\\nb\ufffd'
    """
    found = content.decode(encoding(content), errors)
    return found.strip("\0").replace("\r\n", "\n").replace("\r", "\n")


def is_utf8(name: str) -> bool:
    """Whether a name of a file is text; what results and other programs are given must be.

    >>> is_utf8("k\u00fchl"), is_utf8("k\\udcfchl")
    (True, False)
    """
    return not any("\ud800" <= letter <= "\udfff" for letter in name)


def printable(text: str) -> str:
    """A text as results, messages and a terminal can have it: bytes of names that are no UTF-8, and
    what would act on a terminal or turn the order of letters, are written as in a string of Python.

    >>> printable("disk 1"), printable("a\\nb\\udcff")
    ('disk 1', 'a\\\\nb\\\\xff')
    """
    if text.isprintable():
        return text
    return "".join(
        one
        if unicodedata.category(one) not in HIDDEN
        else f"\\x{ord(one) - 0xDC00:02x}"
        if "\udc80" <= one <= "\udcff"
        else one.encode("unicode_escape").decode()
        for one in text
    )


def toml(content: bytes | str) -> dict[str, Any]:
    """A TOML document.

    Raises
    ------
    Malformed
        If it is none, or beyond the limits.

    >>> toml("[nand]\\nread_us = { value = 60 }")
    {'nand': {'read_us': {'value': 60}}}
    >>> toml("a" + ".a" * 100 + " = 1")
    Traceback (most recent call last):
    ...
    drivebay.common.documents.Malformed: a key has more than 64 parts
    """
    try:
        written = content if isinstance(content, str) else text(content, errors="strict")
        # Before it is parsed: tomllib takes memory by the square of a key's parts.
        for name in _DOTTED.finditer(_STRING.sub("s", written)):
            if name[0].count(".") >= DEPTH_MAX:
                raise Malformed(f"a key has more than {DEPTH_MAX} parts")
        table: dict[str, Any] = limited(tomllib.loads(written))
        return table
    except RecursionError:
        raise _too_deep() from None
    except ValueError as problem:
        raise _as_malformed(problem) from None


def from_json(content: bytes | str, *, int_bits: int = 64) -> Any:
    """A JSON document; NaN and infinities, which JSON does not have, are refused, and so is 1e999.
    Raises Malformed if it is none, or beyond the limits. `int_bits`: the largest whole numbers;
    NVMe's counters have 128 bits.

    >>> from_json(b'{"a": [1, 2]}')
    {'a': [1, 2]}
    """
    try:
        parsed = json.loads(content, parse_constant=_no_constant)
        return limited(parsed, int_bits=int_bits, finite=True)
    except RecursionError:
        raise _too_deep() from None
    except ValueError as problem:
        raise _as_malformed(problem) from None


def csv_rows(lines: Iterable[str]) -> Iterator[list[str]]:
    """The rows of a CSV file's lines; one that cannot be read, or is too long, is an empty row."""
    for line in lines:
        try:
            yield next(csv.reader([line] if len(line) <= LINE_BYTES_MAX else []), [])
        except csv.Error:
            yield []


def limited(document: Any, *, int_bits: int = 64, finite: bool = False) -> Any:
    """The document, if it is within the limits; not recursive, as its depth is not known yet.
    Raises Malformed if it is not."""
    left = [(document, 0)]
    while left:
        node, depth = left.pop()
        if depth > DEPTH_MAX:
            raise _too_deep()
        if isinstance(node, dict):
            left += ((one, depth + 1) for pair in node.items() for one in pair)
        elif isinstance(node, list):
            left += ((one, depth + 1) for one in node)
        elif isinstance(node, str):
            if "\0" in node:
                raise Malformed("a text has a NUL in it")
            node.encode()  # raises for half of a surrogate pair
        elif isinstance(node, int) and node.bit_length() > int_bits:
            raise Malformed(f"a whole number has more than {int_bits} bits")
        elif finite and isinstance(node, float) and not math.isfinite(node):
            raise Malformed("a number is beyond 1.8e308")
    return document


def _no_constant(name: str) -> float:
    raise Malformed(f"{name} is no number in JSON")


def _too_deep() -> Malformed:
    return Malformed(f"it is nested more than {DEPTH_MAX} deep")


def _as_malformed(problem: ValueError) -> Malformed:
    words = " ".join(str(problem).split())
    return Malformed(words if len(words) <= 200 else f"{words[:200]}...")
