"""Conditions under which a drive's tests ran: validity warnings, interruptions, telemetry.

Everything comes from the result's steps; a virtual drive has only warnings about a policy plug-in
that had no effect.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from drivebay.results import Result

PHASE = re.compile(r"^[\w-]+: ")
NUMBER = re.compile(r"(\d[\d,]*(?:\.\d+)?)(?: ([KMGT])B)?")


@dataclass(frozen=True)
class ValidityWarning:
    """A sentence that casts doubt on figures, and the tests that it concerns."""

    sentence: str
    test_ids: tuple[str, ...]


@dataclass(frozen=True)
class Conditions:
    """Conditions of a whole review; for a virtual drive every field but the warnings is empty.

    `interruptions` maps a test to the number of its interrupted runs; `absent` a source of
    telemetry to the reason for its absence; `missed_seconds` is the sum over all tests.
    """

    warnings: tuple[ValidityWarning, ...]
    interruptions: dict[str, int]
    absent: dict[str, str]
    read: tuple[str, ...]
    seconds: int
    missed_seconds: int
    link: dict[str, Any] | None
    host: dict[str, Any]

    def worst_of_each_kind(self) -> list[tuple[ValidityWarning, int]]:
        """Groups warnings that differ only in their numbers and phases; returns the one with the
        largest number of each group, and the number of further tests in the group.
        """
        kinds: dict[str, list[ValidityWarning]] = defaultdict(list)
        for warning in self.warnings:
            kinds[NUMBER.sub("", PHASE.sub("", warning.sentence))].append(warning)
        worst_ones = []
        for alike in kinds.values():
            worst = max(alike, key=_first_number)
            tests = {name for warning in alike for name in warning.test_ids} - {*worst.test_ids}
            worst_ones.append((worst, len(tests)))
        return worst_ones


def _first_number(warning: ValidityWarning) -> float:
    number = NUMBER.search(PHASE.sub("", warning.sentence))
    times = 1000 ** (1 + "KMGT".index(number[2])) if number and number[2] else 1
    return float(number[1].replace(",", "")) * times if number else 0.0


def conditions(result: Result) -> Conditions:
    """Conditions of all finished tests together; if a condition changes between tests, the last
    one.
    """
    tests: dict[str, list[str]] = defaultdict(list)
    interruptions: dict[str, int] = {}
    absent: dict[str, str] = {}
    read: dict[str, None] = {}
    seconds = missed = 0
    link: dict[str, Any] | None = None
    host: dict[str, Any] = {}
    for step in result.done:
        recorded = step.conditions()
        for sentence in recorded.get("warnings", []):
            tests[sentence].append(step.id)
        if cut_short := recorded.get("interruptions"):
            interruptions[step.id] = len(cut_short)
        telemetry = recorded.get("telemetry", {})
        absent |= {source["source"]: source["why"] for source in telemetry.get("absent", [])}
        read |= dict.fromkeys(telemetry.get("read", []))
        seconds += telemetry.get("seconds", 0)
        missed += telemetry.get("missed_seconds", 0)
        link = recorded.get("link") or link
        host = recorded.get("host") or host
    warnings = tuple(ValidityWarning(sentence, tuple(ids)) for sentence, ids in tests.items())
    return Conditions(warnings, interruptions, absent, tuple(read), seconds, missed, link, host)
