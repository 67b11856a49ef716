"""Reading of TOML, JSON and CSV from outside, with limits on size, depth and types.

A document that passes can be walked recursively, printed and passed to the system: it is nested at
most `DEPTH_MAX` deep, its integers fit in 64 bits, its strings are valid Unicode without NUL. The
caller that reads a file catches `ValueError` (the base of `Malformed`) and adds the file's name.

Sources: TOML 1.0 (integers of 64 bits); RFC 8259 (the reader may set limits); RFC 4627 section 3
(JSON's encoding follows from the zeros in its first bytes). Leaves out: single-byte encodings
(Latin-1 and others), which can only be guessed. Effect: their letters beyond ASCII become U+FFFD
where the caller accepts such text at all.
"""

from __future__ import annotations

import codecs
import errno
import json
import math
import os
import re
import stat
import unicodedata
import zlib
from collections.abc import Iterable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

# Size limit of a file that a person writes: profile, suite, sweep, faults. The catalog's largest
# has 20 KB.
WRITTEN_BYTES_MAX = 1_000_000
# Size limit of a file that a program writes: a manifest, a log. guess: far above the largest
# seen, 2 MB.
KEPT_BYTES_MAX = 2**28
GZIP = b"\x1f\x8b"
DEPTH_MAX = 64
# Unicode categories of control and format characters, surrogates, and line and paragraph
# separators.
HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
LINE_BYTES_MAX = 2**20
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?(?:"""|\Z)'  # an unterminated string is left to the parser to report
    r"|'''.*?(?:'''|\Z)"
    r'|"(?:\\.|[^"\\\n])*"?'
    r"|'[^'\n]*'?"
    r"|#[^\n]*",
    re.DOTALL,
)
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16's, which is a prefix of it
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_DOTTED = re.compile(r"[\w-]+(?:[ \t]*\.[ \t]*[\w-]+)*")


class Malformed(ValueError):
    """A document was refused; the message gives the reason, but not the name of the document."""


def read(path: Path, *, bytes_max: int = WRITTEN_BYTES_MAX) -> bytes:
    """Returns the content of a file, reading at most `bytes_max` bytes. Raises Malformed if the
    file is larger; OSError if it cannot be read.
    """
    with path.open("rb") as file:
        return _whole(file, bytes_max)


def read_packed(path: Path) -> bytes:
    """Returns the content of a file that may be packed with gzip, of at most `KEPT_BYTES_MAX`.
    Raises Malformed if it is larger, or its gzip is damaged; OSError if it cannot be read.
    """
    packed = read(path, bytes_max=KEPT_BYTES_MAX)
    if not packed.startswith(GZIP):
        return packed
    content = b""
    while packed:  # zeros after a member are padding
        unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
        try:
            content += unpacker.decompress(packed, max(1, KEPT_BYTES_MAX - len(content)))
        except zlib.error as problem:
            raise Malformed(f"its gzip is damaged: {problem}") from None
        if not unpacker.eof:
            raise Malformed(f"its gzip is cut off, or over {KEPT_BYTES_MAX / 1e6:.3g} MB")
        packed = unpacker.unused_data.lstrip(b"\0")
    return content


def read_kept(path: Path) -> bytes:
    """Returns the content of a file that a program writes: a regular file of at most
    `KEPT_BYTES_MAX`. Raises Malformed if it is larger or `opened_kept` refuses it; OSError if it
    cannot be read.
    """
    with opened_kept(path) as file:
        return _whole(file, KEPT_BYTES_MAX)


def _whole(file: BufferedReader, bytes_max: int) -> bytes:
    content = file.read(bytes_max + 1)
    if len(content) > bytes_max:
        raise Malformed(f"it is over {bytes_max / 1e6:.3g} MB")
    return content


def opened_kept(path: Path) -> BufferedReader:
    """Opens a regular file for reading, without blocking and without following a link. Raises
    Malformed if it is a link, a folder, a pipe, a socket or a device; OSError if it cannot be
    opened.
    """
    try:
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as problem:
        if problem.errno in (errno.ELOOP, errno.ENXIO):  # link or socket
            raise Malformed("it is not a regular file") from None
        raise
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise Malformed("it is not a regular file")
    return os.fdopen(number, "rb")


def encoding(content: bytes) -> str:
    """Detects the encoding of a program's text output from its byte order mark (BOM), or from
    UTF-16's zeros between the first letters; otherwise UTF-8.

    >>> encoding(b"time,power_w"), encoding("{".encode("utf-16")), encoding(b"{\\0\\n\\0")
    ('utf-8', 'utf-16', 'utf-16-le')
    """
    marked = next((name for mark, name in _MARKS if content.startswith(mark)), None)
    zeros = "".join("0" if byte == 0 else "x" for byte in content[:4])
    return marked or {"x0x0": "utf-16-le", "0x0x": "utf-16-be"}.get(zeros, "utf-8")


def text(content: bytes, *, errors: str = "replace") -> str:
    """Decodes text that a program wrote in any of these encodings. Line ends become LF, and zeros
    that pad the file are removed. `errors`: treatment of undecodable bytes, as in
    `bytes.decode`.

    >>> text(b"\\xef\\xbb\\xbfa\\r\\nb\\xe4\\0\\0")
    'a\\nb\ufffd'
    """
    decoded = content.decode(encoding(content), errors)
    return decoded.strip("\0").replace("\r\n", "\n").replace("\r", "\n")


def is_utf8(name: str) -> bool:
    """True if a file name is valid UTF-8, as results and other programs require.

    >>> is_utf8("k\u00fchl"), is_utf8("k\\udcfchl")
    (True, False)
    """
    return not any("\ud800" <= letter <= "\udfff" for letter in name)


def printable(text: str) -> str:
    """Makes a string safe to show in results, messages and a terminal: bytes of names that are not
    UTF-8, and characters that would control a terminal or change the text direction, are escaped
    as in a Python string.

    >>> printable("disk 1"), printable("a\\nb\\udcff")
    ('disk 1', 'a\\\\nb\\\\xff')
    """
    if text.isprintable():
        return text
    return "".join(
        letter
        if unicodedata.category(letter) not in HIDDEN
        else f"\\x{ord(letter) - 0xDC00:02x}"
        if "\udc80" <= letter <= "\udcff"
        else letter.encode("unicode_escape").decode()
        for letter in text
    )


def toml(content: bytes | str) -> dict[str, Any]:
    """Parses a TOML document.

    Raises
    ------
    Malformed
        If it is not TOML or exceeds the limits.

    >>> toml("[nand]\\nread_us = { value = 60 }")
    {'nand': {'read_us': {'value': 60}}}
    >>> toml("a" + ".a" * 100 + " = 1")
    Traceback (most recent call last):
    ...
    drivebay.common.documents.Malformed: a key has more than 64 parts
    """
    import tomllib  # here and below, as some programs read one kind only

    try:
        written = content if isinstance(content, str) else text(content, errors="strict")
        # Checked before parsing: tomllib's memory grows with the square of the parts of a key.
        for name in _DOTTED.finditer(_STRING.sub("s", written)):
            if name[0].count(".") >= DEPTH_MAX:
                raise Malformed(f"a key has more than {DEPTH_MAX} parts")
        table: dict[str, Any] = limited(tomllib.loads(written))
        return table
    except RecursionError:
        raise _too_deep() from None
    except ValueError as problem:
        raise _as_malformed(problem) from None


def beside(module: str, name: str) -> dict[str, Any]:
    """Reads a TOML document in the folder of a module (`__file__`)."""
    return toml(read(Path(module).with_name(name)))


def from_json(content: bytes | str, *, int_bits: int = 64) -> Any:
    """Parses a JSON document. NaN, infinities and 1e999, which JSON does not have, are refused.
    Raises Malformed if it is not JSON or exceeds the limits. `int_bits`: size of the largest
    integers; NVMe's counters have 128 bits.

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


def xml(content: str) -> Element:
    """Parses an XML document without entities of its own, at most `DEPTH_MAX` deep. Raises
    Malformed.

    >>> xml("<a><b>1</b></a>").findtext("b")
    '1'
    """
    if "<!DOCTYPE" in content or "<!ENTITY" in content:
        raise Malformed("it defines entities")
    from xml.etree import ElementTree

    parser: Any = ElementTree.XMLPullParser(("start", "end"))
    depth, root = 0, None
    try:
        parser.feed(content)
        parser.close()
        for event, node in parser.read_events():
            depth += 1 if event == "start" else -1
            root = node if root is None else root
            if depth > DEPTH_MAX:
                raise _too_deep()
    except ElementTree.ParseError as problem:
        raise Malformed(f"it is no XML: {problem}") from None
    assert isinstance(root, ElementTree.Element), "a document has a root"
    return root


def csv_rows(lines: Iterable[str]) -> Iterator[list[str]]:
    """Yields the rows of a CSV file; a row that cannot be parsed or is too long is empty."""
    import csv

    for line in lines:
        try:
            yield next(csv.reader([line] if len(line) <= LINE_BYTES_MAX else []), [])
        except csv.Error:
            yield []


def limited(document: Any, *, int_bits: int = 64, finite: bool = False) -> Any:
    """Returns the document if it is within the limits; iterative, since its depth is not known yet.
    Raises Malformed if it exceeds them.
    """
    left = [(document, 0)]
    while left:
        node, depth = left.pop()
        if depth > DEPTH_MAX:
            raise _too_deep()
        if isinstance(node, dict):
            left += ((part, depth + 1) for pair in node.items() for part in pair)
        elif isinstance(node, list):
            left += ((item, depth + 1) for item in node)
        elif isinstance(node, str):
            if "\0" in node:
                raise Malformed("a string contains a NUL character")
            node.encode()  # raises for an unpaired surrogate
        elif isinstance(node, int) and node.bit_length() > int_bits:
            raise Malformed(f"an integer has more than {int_bits} bits")
        elif finite and isinstance(node, float) and not math.isfinite(node):
            raise Malformed("a number is beyond 1.8e308")
    return document


def _no_constant(name: str) -> float:
    raise Malformed(f"{name} is not a number in JSON")


def _too_deep() -> Malformed:
    return Malformed(f"it is nested more than {DEPTH_MAX} deep")


def _as_malformed(problem: ValueError) -> Malformed:
    message = " ".join(str(problem).split())
    return Malformed(message if len(message) <= 200 else f"{message[:200]}...")
