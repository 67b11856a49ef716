"""The doctor: what this machine has of what drivebay can use, and how to get the rest.

It looks and changes nothing. This room must not know how its findings are shown.
"""

from drivebay.targets.doctor import basics
from drivebay.targets.doctor.basics import GROUPS, Finding, State

__all__ = ["GROUPS", "Finding", "State", "everything"]


def everything() -> list[Finding]:
    """All findings, by group. Takes some seconds at most, and changes nothing."""
    found = list(basics.look())
    try:
        from drivebay.targets.doctor.drives import CHECKS as real
    except ImportError:  # a package is broken, which the basics report
        pass
    else:
        found += basics.look(real)
    return sorted(found, key=lambda one: GROUPS.index(one.group))
