"""Under which conditions a drive's tests ran: validity warnings, interruptions, telemetry.

Everything comes from the result's steps; a virtual drive has none of it but warnings of a policy
plug-in that cannot have mattered.
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
    """One sentence that makes figures suspect, and the tests that it is about."""

    sentence: str
    test_ids: tuple[str, ...]


@dataclass(frozen=True)
class Conditions:
    """Of a whole review; for a virtual drive every field but the warnings is empty.

    `interruptions` maps a test to how often it was begun in vain; `absent` a source of telemetry to
    why it is not there; `missed_seconds` is over all tests.
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
        """Of warnings that differ in their numbers and phases alone the one with the largest, and
        in how many more tests there is another."""
        kinds: dict[str, list[ValidityWarning]] = defaultdict(list)
        for one in self.warnings:
            kinds[NUMBER.sub("", PHASE.sub("", one.sentence))].append(one)
        found = []
        for alike in kinds.values():
            worst = max(alike, key=_first_number)
            tests = {name for one in alike for name in one.test_ids} - {*worst.test_ids}
            found.append((worst, len(tests)))
        return found


def _first_number(warning: ValidityWarning) -> float:
    found = NUMBER.search(PHASE.sub("", warning.sentence))
    times = 1000 ** (1 + "KMGT".index(found[2])) if found and found[2] else 1
    return float(found[1].replace(",", "")) * times if found else 0.0


def conditions(result: Result) -> Conditions:
    """The conditions of all finished tests together; of what changes between them, the last."""
    tests: dict[str, list[str]] = defaultdict(list)
    interruptions: dict[str, int] = {}
    absent: dict[str, str] = {}
    read: dict[str, None] = {}
    seconds = missed = 0
    link: dict[str, Any] | None = None
    host: dict[str, Any] = {}
    for step in result.done:
        found = step.conditions()
        for sentence in found.get("warnings", []):
            tests[sentence].append(step.id)
        if cut_short := found.get("interruptions"):
            interruptions[step.id] = len(cut_short)
        telemetry = found.get("telemetry", {})
        absent |= {one["source"]: one["why"] for one in telemetry.get("absent", [])}
        read |= dict.fromkeys(telemetry.get("read", []))
        seconds += telemetry.get("seconds", 0)
        missed += telemetry.get("missed_seconds", 0)
        link = found.get("link") or link
        host = found.get("host") or host
    return Conditions(
        warnings=tuple(ValidityWarning(sentence, tuple(ids)) for sentence, ids in tests.items()),
        interruptions=interruptions,
        absent=absent,
        read=tuple(read),
        seconds=seconds,
        missed_seconds=missed,
        link=link,
        host=host,
    )
