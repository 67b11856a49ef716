"""What the drive said of its health over each test: SMART before and after, real or virtual.

Rows are tests, in the order in which they ran; a column that no test has a figure for is left out.
Leaves out: attributes that only one maker numbers; they are in the result.
"""

from __future__ import annotations

from collections.abc import Callable

from drivebay.common import units
from drivebay.report.markup import Child
from drivebay.report.parts import table
from drivebay.report.words import number
from drivebay.results import Result

GREW: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("written_bytes", "Written", units.si_bytes),
    ("read_bytes", "Read", units.si_bytes),
    ("controller_busy_min", "Busy", lambda minutes: units.duration(60 * minutes)),
    ("throttle_s", "Throttled", units.duration),
    ("media_errors", "Media errors", number),
)
AFTER: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("temperature_c", "Temperature", lambda celsius: f"{number(celsius)} °C"),
    ("percentage_used", "Used", lambda percent: f"{number(percent)} %"),
    ("available_spare_percent", "Spare", lambda percent: f"{number(percent)} %"),
    ("waf", "Write amplification", number),
)
"""Names of figures in SMART, as `targets.smart` calls them; what grew, and what there is after."""


def health_of(result: Result) -> list[Child]:
    """A table for the page of one review; nothing if no test has SMART."""
    found = {step.id: step.conditions().get("smart", {}) for step in result.done}
    found = {test: smart for test, smart in found.items() if "after" in smart}
    grew = [c for c in GREW if any(c[0] in smart["after"] for smart in found.values())]
    after = [c for c in AFTER if any(c[0] in smart["after"] for smart in found.values())]
    if not grew and not after:
        return []
    rows: list[list[Child]] = []
    for test, smart in found.items():
        row: list[Child] = [test]
        for name, _, words in grew:
            there = name in smart["before"] and name in smart["after"]
            row.append(words(smart["grew"].get(name, 0.0)) if there else "-")
        for name, _, words in after:
            row.append(words(smart["after"][name]) if name in smart["after"] else "-")
        rows.append(row)
    heads = ["Test", *(f"{title}" for _, title, _ in grew), *(f"{t} after" for _, t, _ in after)]
    caption = "Health of the drive (SMART): during each test, and after it"
    return [table(heads, rows, caption=caption, kind="data many")]
