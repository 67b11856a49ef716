"""Kinds of tests and their presentation; a kind that is not listed here gets the generic one.

To add a kind: a `Kind` in a module of this package, with its name, TRIM_CHECK for "trim-check".
"""

from __future__ import annotations

from drivebay.report.kinds import client, idle, loads, replay, rounds, service, trim
from drivebay.report.kinds.generic import BarOf, Kind

__all__ = ["KINDS", "BarOf", "Kind", "by_name"]

KINDS: dict[str, Kind] = {
    name.lower().replace("_", "-"): kind
    for module in (client, idle, loads, replay, rounds, service, trim)
    for name, kind in vars(module).items()
    if isinstance(kind, Kind)
}


def by_name(kind: str) -> Kind:
    """Presentation of the tests of this kind."""
    return KINDS.get(kind, Kind())
