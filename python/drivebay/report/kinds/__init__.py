"""The kinds of tests and how each is shown; whatever is not named here has the generic page.

To add a kind: a module beside this one that makes a `Kind`, and a line in `KINDS`.
"""

from __future__ import annotations

from drivebay.report.kinds import consistency, generic, ladder, thermal, trace, trim_check
from drivebay.report.kinds.base import BarOf, Kind

__all__ = ["KINDS", "BarOf", "Kind", "of"]

KINDS: dict[str, Kind] = {
    "consistency": consistency.KIND,
    "ladder": ladder.KIND,
    "thermal": thermal.KIND,
    "trace": trace.KIND,
    "trim-check": trim_check.KIND,
}


def of(kind: str) -> Kind:
    """How tests of this kind are shown."""
    return KINDS.get(kind, generic.KIND)
