"""Modified profiles: differences of a virtual drive from its catalog entry.

A modified drive is not the one that was reviewed: its figures are labelled with its changes and are
not compared with published ones. The changes follow from a result's profile: it has its variants
("heatsink") along with its values, and a value set by the user has "what-if" as its source, with
the user's text if one setting changed several values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drivebay.definitions import leaves

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
        for name, changed in (variants.items() if isinstance(variants, Mapping) else ())
        if isinstance(changed, Mapping) and _in_force(profile, changed)
    ]
    given = [
        str(leaf["source"]).partition(": ")[2] or f"{path} = {leaf['value']}"
        for path, leaf in leaves.every(profile)
        if str(leaf.get("source", "")).startswith(WHAT_IF)
    ]
    host = [f"host = {name}"] if (name := _other_host(profile)) else []
    return tuple(dict.fromkeys([*host, *named, *given]))


def _other_host(profile: Mapping[str, Any]) -> str:
    """Name of the host, if it is not the one of the drive's reviews."""
    usual, host = profile.get("drive", {}).get("host"), profile.get("host", {}).get("name")
    return str(host) if usual is not None and host != usual else ""


def _in_force(profile: Mapping[str, Any], variant: Mapping[str, Any]) -> bool:
    """True if every value of a variant equals the profile's."""
    wanted = {path: leaf["value"] for path, leaf in leaves.every(variant)}
    actual = {path: leaf["value"] for path, leaf in leaves.every(profile)}
    return bool(wanted) and all(actual.get(path) == value for path, value in wanted.items())
