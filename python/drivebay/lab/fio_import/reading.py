"""Finds the last JSON document in fio's output; errors describe the text as it is in the file.

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
from drivebay.lab.imports import named, text_of

AGAIN = named("fio").again
DIGITS_MAX = 1000
# Limit for numbers that are not read; those that are read have limits and names of their own.
INT_BITS = 4 * DIGITS_MAX
# Beginning of a fio document; a brace in a warning does not match.
_DOCUMENT = re.compile(r"^\{|\{\s*\"fio version\"", re.MULTILINE)
_OBJECT = re.compile(r"\{\s*(\"|\Z)")
_LITERALS = ("true", "false", "null", "-")


def last_document(path: Path) -> dict[str, Any]:
    """Returns the last JSON document in a file that fio wrote; text around the documents is
    skipped. Raises UserError if there is none, or a damaged or incomplete one follows the
    last complete one.
    """
    shown = documents.printable(str(path))
    text = text_of(path, AGAIN, refusal="is not JSON of fio")
    decoder, at = json.JSONDecoder(parse_int=_whole), 0
    last, broken = None, ""
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
            last, broken = value, ""
    if broken:
        raise UserError(f"{shown} {broken}", AGAIN)
    if last is None:
        raise UserError(f"{shown} has no JSON of fio", AGAIN)
    return last


def _seen(text: str, problem: Exception) -> str:
    """Describes the damage of a document."""
    if not isinstance(problem, json.JSONDecodeError):
        reason = "it is nested too deep" if isinstance(problem, RecursionError) else str(problem)
        return f"is damaged: {reason}"
    rest = text[problem.pos :].strip()
    open_text = problem.msg.startswith("Unterminated")
    if open_text or any(literal.startswith(rest) for literal in _LITERALS):
        return "is cut off: its JSON does not end"
    return f"is damaged: {problem.msg} in line {problem.lineno}"


def _whole(digits: str) -> int | float:
    """Converts an integer; one too long for Python becomes infinite, and is refused later with
    its field's name.
    """
    return int(digits) if len(digits) <= DIGITS_MAX else math.inf
