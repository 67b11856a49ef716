"""Under which conditions a real drive was tested: validity warnings, interruptions, sensors.

The sentences were written when the test ran; here they are shown as text, never as markup.
"""

from __future__ import annotations

from drivebay.analysis import conditions
from drivebay.report import specification
from drivebay.report.markup import Child, el
from drivebay.report.parts import table
from drivebay.results import Result


def conditions_of(result: Result) -> list[Child]:
    """Blocks for the page of one review; none for a virtual drive."""
    if result.simulated or not result.done:
        return []
    found = conditions(result)
    body: list[Child] = []
    if found.warnings:
        body.append(el("h3", "What makes these figures suspect"))
        items = [
            el("li", warning.sentence, _where(warning.test_ids, len(result.done)))
            for warning in found.warnings
        ]
        body.append(el("ul", items))
    rows: list[list[Child]] = []
    for test_id, count in found.interruptions.items():
        times = "once" if count == 1 else f"{count} times"
        rows.append([f"Cut short: {test_id}", f"{times}; begun anew, prepared as at first"])
    if found.link is not None:
        link = found.link
        rows.append(["Link", f"{link['kind']} {link['now']} (possible: {link['possible']})"])
    for name, words, _ in specification.flat(found.host):
        rows.append([specification.label(name), words])
    if found.seconds:
        missed = f"{found.missed_seconds} missed" if found.missed_seconds else "none missed"
        rows.append(["Telemetry", f"{found.seconds:,} seconds, {missed}"])
    rows += [["Read each second", source] for source in found.read]
    rows += [[f"Absent: {source}", why] for source, why in found.absent.items()]
    if rows:
        body.append(table(["", ""], rows, caption="Conditions", kind="data narrow"))
    return body


def _where(test_ids: tuple[str, ...], tests: int) -> str:
    return "" if len(test_ids) == tests else f" ({', '.join(test_ids)})"
