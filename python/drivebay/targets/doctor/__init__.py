"""The doctor: what this machine has of what drivebay can use, and how to get the rest.

It looks and changes nothing. This room must not know how its findings are shown.
"""

from drivebay.targets.doctor.basics import GROUPS, Finding, State, everything

__all__ = ["GROUPS", "Finding", "State", "everything"]
