"""Profiles as TOML text: sections of values with their sources, in their original order."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

BARE = re.compile(r"[A-Za-z0-9_-]+")


def toml_lines(raw: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[str]:
    """Yields the lines of a section: its values first, then its subsections."""
    inner = [(k, v) for k, v in raw.items() if not _is_value(v)]
    for key, value in raw.items():
        if _is_value(value):
            yield f"{_key(key)} = {_value(value)}"
    for key, value in inner:
        below = (*path, _key(key))
        if isinstance(value, list):
            for table in value:
                yield from ("", f"[[{'.'.join(below)}]]")
                yield from toml_lines(table, below)
        else:
            if any(map(_is_value, value.values())):
                yield from ("", f"[{'.'.join(below)}]")
            yield from toml_lines(value, below)


def _is_value(node: Any) -> bool:
    """True for a leaf with its source or a bare value; false for a section or a list of
    sections.
    """
    if isinstance(node, Mapping):
        return "value" in node
    return not (isinstance(node, list) and node and isinstance(node[0], Mapping))


def _key(key: str) -> str:
    return key if BARE.fullmatch(key) else json.dumps(key, ensure_ascii=False)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{_key(key)} = {_value(inner)}" for key, inner in value.items())
        return f"{{ {pairs} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return json.dumps(value, ensure_ascii=False)
