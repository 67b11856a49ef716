"""Modified profiles: differences of a virtual drive from its catalog entry.

A modified drive is not the one that was reviewed: its figures are labelled with its changes and are
not compared with published ones. The changes follow from a result's profile: it has its variants
("heatsink") along with its values, and a value set by the user has "what-if" as its source, with
the user's text if one setting changed several values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

WHAT_IF = "what-if"


def changes(target: Mapping[str, Any]) -> tuple[str, ...]:
    """The host if it is not the reviews', names of the active variants, and the values that a user
    set; empty if unchanged.

    >>> leaf = {"value": 4, "source": "what-if, given by the user"}
    >>> changes({"profile": {"thermal": {"resistance_k_per_w": leaf}}})
    ('thermal.resistance_k_per_w = 4',)
    """
    profile = target.get("profile")
    if not isinstance(profile, Mapping):
        return ()
    variants = profile.get("variants")
    named = [
        str(name)
        for name, leaves in (variants.items() if isinstance(variants, Mapping) else ())
        if isinstance(leaves, Mapping) and _in_force(profile, leaves)
    ]
    own = {key: value for key, value in profile.items() if key != "variants"}
    given = [
        str(leaf["source"]).partition(": ")[2] or f"{path} = {leaf['value']}"
        for path, leaf in _leaves(own)
        if str(leaf.get("source", "")).startswith(WHAT_IF)
    ]
    host = [f"host = {name}"] if (name := _other_host(profile)) else []
    return tuple(dict.fromkeys([*host, *named, *given]))


def _other_host(profile: Mapping[str, Any]) -> str:
    """Name of the host, if it is not the one of the drive's reviews."""
    usual, host = profile.get("drive", {}).get("host"), profile.get("host", {}).get("name")
    return str(host) if usual is not None and host != usual else ""


def _in_force(profile: Mapping[str, Any], leaves: Mapping[str, Any]) -> bool:
    """True if every value of a variant equals the profile's."""
    wanted = {path: leaf["value"] for path, leaf in _leaves(leaves)}
    actual = {path: leaf["value"] for path, leaf in _leaves(profile)}
    return bool(wanted) and all(actual.get(path) == value for path, value in wanted.items())


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(dotted path, leaf) of every {"value", ...} below; `thermal.throttle.0.on_c` for lists."""
    if isinstance(value, Mapping) and "value" in value:
        yield path, value
    elif isinstance(value, Mapping | list):
        rows = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, inner in rows:
            yield from _leaves(inner, f"{path}.{key}" if path else str(key))
