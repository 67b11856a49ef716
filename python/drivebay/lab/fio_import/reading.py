"""The last JSON document in fio's output; what is refused is said as it was seen.

Sources: fio's json.c and stat.c (3.33 to 3.42). Figures are read elsewhere (targets.fio.figures).
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

from drivebay.common import documents
from drivebay.common.errors import UserError

AGAIN = "write it again with: fio --output-format=json+ --output=FILE JOB.fio"
DIGITS_MAX = 1000
INT_BITS = 4 * DIGITS_MAX
"""Of numbers that are not read; those that are read have limits of their own, and names."""
_DOCUMENT = re.compile(r"^\{|\{\s*\"fio version\"", re.MULTILINE)
"""Where a document of fio may begin: a brace in a warning is none."""
_OBJECT = re.compile(r"\{\s*(\"|\Z)")
_LITERALS = ("true", "false", "null", "-")


def last_document(path: Path) -> dict[str, Any]:
    """The last JSON document in the file that fio wrote; text around the documents is skipped.
    Raises UserError if there is none, or what follows the last whole one is a damaged one or one
    that is cut off."""
    shown = documents.printable(str(path))
    try:
        content = documents.read(path, bytes_max=documents.KEPT_BYTES_MAX)
    except OSError as problem:
        raise UserError(f"{shown} cannot be read: {problem.strerror}", AGAIN) from None
    except ValueError as problem:
        raise UserError(f"{shown} is no JSON of fio: {problem}", AGAIN) from None
    text = documents.text(content)
    decoder, at = json.JSONDecoder(parse_int=_whole), 0
    found, broken = None, ""
    while (begin := _DOCUMENT.search(text, at)) is not None:
        at = begin.end()
        try:
            value, at = decoder.raw_decode(text, begin.start())
            documents.limited(value, int_bits=INT_BITS)
        except (ValueError, RecursionError) as problem:
            if _OBJECT.match(text, begin.start()):
                broken = broken or _seen(text, problem)
            continue
        if isinstance(value, dict) and "fio version" in value:
            found, broken = value, ""
    if broken:
        raise UserError(f"{shown} {broken}", AGAIN)
    if found is None:
        raise UserError(f"{shown} holds no JSON of fio", AGAIN)
    return found


def _seen(text: str, problem: Exception) -> str:
    """What is wrong with a document, in words."""
    if not isinstance(problem, json.JSONDecodeError):
        words = "it is nested too deep" if isinstance(problem, RecursionError) else str(problem)
        return f"is damaged: {words}"
    rest = text[problem.pos :].strip()
    if problem.msg.startswith("Unterminated") or any(one.startswith(rest) for one in _LITERALS):
        return "is cut off: its JSON does not end"
    return f"is damaged: {problem.msg} in line {problem.lineno}"


def _whole(digits: str) -> int | float:
    """A whole number; one that Python would not convert is infinite, and is told by its field."""
    return int(digits) if len(digits) <= DIGITS_MAX else math.inf
