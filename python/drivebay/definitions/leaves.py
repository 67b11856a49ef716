"""Values of a profile, its leaves `{ value = ..., source = ... }`, by their dotted paths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def at(raw: Any, dotted: str) -> Any:
    """Returns the node at a path like `thermal.throttle.0.on_c`; None if there is none."""
    node = raw
    for key in dotted.split("."):
        if isinstance(node, list):
            node = node[int(key)] if key.isdecimal() and int(key) < len(node) else None
        else:
            node = node.get(key) if isinstance(node, Mapping) else None
    return node


def every(raw: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields every leaf with its path, except those of variants."""

    def below(node: Any, path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        if isinstance(node, Mapping) and "value" in node:
            yield path, node
        elif isinstance(node, Mapping | list):
            for key, inner in node.items() if isinstance(node, Mapping) else enumerate(node):
                yield from below(inner, f"{path}.{key}" if path else str(key))

    yield from below({key: part for key, part in raw.items() if key != "variants"}, "")
