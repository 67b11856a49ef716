"""The doctor: finds which tools and resources for drivebay this machine has, and how to get the
rest.

It only reads and changes nothing. This package must not know how its findings are shown.
"""

from drivebay.targets.doctor import basics
from drivebay.targets.doctor.basics import GROUPS, Finding, State

__all__ = ["GROUPS", "Finding", "State", "everything"]


def everything() -> list[Finding]:
    """Returns all findings, by group. Takes some seconds at most, and changes nothing."""
    found = list(basics.look())
    try:
        from drivebay.targets.doctor.drives import CHECKS as real
    except ImportError:  # a package is broken; the basic checks report it
        pass
    else:
        found += basics.look(real)
    return sorted(found, key=lambda one: GROUPS.index(one.group))
