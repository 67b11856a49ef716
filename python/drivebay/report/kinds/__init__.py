"""The kinds of tests and how each is shown; whatever is not named here has the generic page.

To add a kind: a module beside this one that makes a `Kind`, and a line in `KINDS`.
"""

from __future__ import annotations

from drivebay.report.kinds import (
    ageing,
    consistency,
    generic,
    ladder,
    loads,
    mixed,
    rounds,
    saturation,
    sizes,
    thermal,
    trace,
    trim_check,
    trim_write,
)
from drivebay.report.kinds.base import BarOf, Kind

__all__ = ["KINDS", "BarOf", "Kind", "of"]

KINDS: dict[str, Kind] = {
    "ageing": ageing.KIND,
    "compression": loads.COMPRESSION,
    "consistency": consistency.KIND,
    "ladder": ladder.KIND,
    "ladders": loads.LADDERS,
    "loads": loads.LOADS,
    "mixed": mixed.KIND,
    "rounds": rounds.KIND,
    "saturation": saturation.KIND,
    "sizes": sizes.KIND,
    "thermal": thermal.KIND,
    "trace": trace.KIND,
    "trim-check": trim_check.KIND,
    "trim-write": trim_write.KIND,
}


def of(kind: str) -> Kind:
    """How tests of this kind are shown."""
    return KINDS.get(kind, generic.KIND)
