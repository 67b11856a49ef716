"""Suites: the tests of a review as data, from suites/*.toml or a user's file.

This package must not know how a target runs a test, nor which figures are computed from its
results.
"""

from drivebay.definitions.suites.load_fields import LoadFields
from drivebay.definitions.suites.loader import load, names, spoken
from drivebay.definitions.suites.loads import shares_of, writes_of, zone_words
from drivebay.definitions.suites.model import (
    Phase,
    Prepare,
    Quick,
    Replay,
    Stable,
    Suite,
    Test,
    Trim,
    Workload,
)
from drivebay.definitions.suites.parts import Content, Rounds, Score, Steady

__all__ = [
    "Content",
    "LoadFields",
    "Phase",
    "Prepare",
    "Quick",
    "Replay",
    "Rounds",
    "Score",
    "Stable",
    "Steady",
    "Suite",
    "Test",
    "Trim",
    "Workload",
    "load",
    "names",
    "shares_of",
    "spoken",
    "writes_of",
    "zone_words",
]
