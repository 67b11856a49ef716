"""The last JSON document in fio's output, and the values in it: read, or refused in words.

Sources: fio's json.c and stat.c (3.33 to 3.42). What is refused is said as it was seen: which
figure, where it stands, what it may be.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drivebay.common import documents
from drivebay.common.errors import UserError

AGAIN = "write it again with: fio --output-format=json+ --output=FILE JOB.fio"
FIGURE_MAX = 2**56
"""The largest count, size or time that is believed; guess: 72 PB, or 2 years in nanoseconds."""
_DOCUMENT = re.compile(r"^\{|\{\s*\"fio version\"", re.MULTILINE)
"""Where a document of fio may begin: a brace in a warning is none."""
_OBJECT = re.compile(r"\{\s*\"")
_LITERALS = ("true", "false", "null", "-")


def last_document(path: Path) -> dict[str, Any]:
    """The last JSON document in the file that fio wrote; text around the documents is skipped.

    Raises
    ------
    UserError
        If there is none, or what follows the last whole one is a damaged one or one that is cut
        off.
    """
    shown = documents.printable(str(path))
    try:
        content = documents.read(path, bytes_max=documents.KEPT_BYTES_MAX)
    except OSError as problem:
        raise UserError(f"{shown} cannot be read: {problem.strerror}", AGAIN) from None
    except ValueError as problem:
        raise UserError(f"{shown} is no JSON of fio: {problem}", AGAIN) from None
    text = documents.text(content)
    decoder, at = json.JSONDecoder(), 0
    found, broken = None, ""
    while (begin := _DOCUMENT.search(text, at)) is not None:
        at = begin.end()
        try:
            value, at = decoder.raw_decode(text, begin.start())
            documents.limited(value)
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


def table(within: Mapping[str, Any], key: str, where: str) -> Mapping[str, Any]:
    """A table of the document; empty if it is not there."""
    found = within.get(key)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise _refused(f"{where}{key}", found, "a table")
    return found


def figure(within: Mapping[str, Any], key: str, where: str, default: float | None = None) -> float:
    """A figure of the document: finite, from 0 to `FIGURE_MAX`; without a default it must be there.

    >>> figure({"runtime": 3001}, "runtime", "a.json: jobs[0].read.")
    3001
    """
    found = within.get(key, default)
    if found is None:
        raise UserError(f"{where}{key} is missing", AGAIN)
    if isinstance(found, int | float) and not isinstance(found, bool) and 0 <= found <= FIGURE_MAX:
        return found
    raise _refused(f"{where}{key}", found, f"a number from 0 to {FIGURE_MAX:,}")


def words(within: Mapping[str, Any], key: str, where: str) -> str:
    """A text of the document, on one line; empty if it is not there."""
    found = within.get(key) or ""
    if not isinstance(found, str):
        raise _refused(f"{where}{key}", found, "a text")
    return documents.printable(found)


def _refused(place: str, found: object, allowed: str) -> UserError:
    given = documents.printable(repr(found)[:40])
    return UserError(f"{place}: {given} is not allowed; must be {allowed}", AGAIN)
