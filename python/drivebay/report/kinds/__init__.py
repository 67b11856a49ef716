"""Kinds of tests and their presentation; a kind that is not listed here gets the generic one.

To add a kind: a `Kind` in a module of this package, and a line in `KINDS`.
"""

from __future__ import annotations

from drivebay.report.kinds import client, idle, loads, replay, rounds, service, trim
from drivebay.report.kinds.generic import BarOf, Kind

__all__ = ["KINDS", "BarOf", "Kind", "by_name"]

KINDS: dict[str, Kind] = {
    "ageing": replay.AGEING,
    "compression": loads.COMPRESSION,
    "consistency": client.CONSISTENCY,
    "efficiency": service.EFFICIENCY,
    "idle": idle.IDLE,
    "ladder": client.LADDER,
    "ladders": loads.LADDERS,
    "loads": loads.LOADS,
    "mixed": client.MIXED,
    "qos": service.QOS,
    "rounds": rounds.ROUNDS,
    "saturation": rounds.SATURATION,
    "sizes": client.SIZES,
    "thermal": client.THERMAL,
    "trace": replay.TRACE,
    "trim-check": trim.CHECK,
    "trim-write": trim.WRITE,
    "waf": service.WAF,
    "working-set": service.WORKING_SET,
}


def by_name(kind: str) -> Kind:
    """Presentation of the tests of this kind."""
    return KINDS.get(kind, Kind())
