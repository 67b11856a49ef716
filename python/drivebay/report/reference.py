"""What figures rest on: the drive's specification, its health, the conditions of its tests.

Everything that a target says of itself is text, whatever it contains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from drivebay import analysis
from drivebay.analysis.published import specification, statement
from drivebay.common import units
from drivebay.report.markup import Child, Html, cited, details, el, linked, table
from drivebay.report.runs import Entry
from drivebay.report.text import number
from drivebay.results import Result

LEAF = {"value", "source", "range", "unit", "note"}
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


def specifications(all_entries: Sequence[Entry]) -> Html:
    """What the maker prints, what the target says of itself, and a virtual drive's parameters."""
    body: list[Child] = []
    for entry in all_entries:
        if len(all_entries) > 1:
            body.append(el("h3", entry.name))
        body += _printed(entry)
        target = dict(entry.review.result.target)
        profile = target.pop("profile", None)
        for name in ("kind", "drive", "title"):
            target.pop(name, None)
        own: list[list[Child]] = [[label(path), words] for path, words, _ in flat(target)]
        body.append(
            table(["", ""], own, caption="As the target reports itself", kind="data narrow")
        )
        if isinstance(profile, dict):
            rows = list(flat(profile))
            guesses = sum(source.startswith("guess") for _, _, source in rows)
            sourced = sum(bool(source) for _, _, source in rows)
            parameters: list[list[Child]] = [
                [name, words, _source(source)] for name, words, source in rows
            ]
            body.append(
                details(
                    f"The virtual drive's parameters: {len(rows)}, of which "
                    f"{sourced - guesses} are sourced, {guesses} are guesses fitted to figures and "
                    f"{len(rows) - sourced} are names",
                    table(["Parameter", "Value", "Source"], parameters),
                )
            )
    return el("section", el("h2", "Specification"), body, id="specification", class_="page")


def _printed(entry: Entry) -> list[Html]:
    """The published specification, one table per publication."""
    tables: dict[str, list[list[Child]]] = {}
    for row in specification(entry.review.drive) if entry.review.drive else ():
        name = f"{row.metric[:1].upper()}{row.metric[1:]}"
        tables.setdefault(row.source, []).append([name, statement(row), row.condition])
    return [
        table(["", "", ""], rows, caption=["Published: ", cited(source)], kind="data narrow")
        for source, rows in tables.items()
    ]


def label(path: str) -> str:
    """A key of an identity as words; the unit is said with the value.

    >>> label("capacity_bytes"), label("nvme.firmware_rev")
    ('Capacity', 'Nvme firmware rev')
    """
    words = path.removesuffix("_bytes").replace("_", " ").replace(".", " ")
    words = words[:1].upper() + words[1:]
    return words.replace("Cpu ", "CPU ") if len(words) > 2 else words.upper()


def _source(source: str) -> Child:
    if not source.startswith("guess"):
        return linked(source)
    why = source.removeprefix("guess").lstrip(": ")
    return [el("span", "guess", class_="chip guess"), linked(why)]


def flat(value: Any, path: str = "") -> Iterator[tuple[str, str, str]]:
    """(path, value, source) of every leaf of a nested table, whatever its depth.

    >>> list(flat({"link": {"lanes": {"value": 4, "source": "AnandTech"}}, "a_bytes": 4096}))
    [('link.lanes', '4', 'AnandTech'), ('a_bytes', '4,096 bytes (4.1 KB)', '')]
    """
    if isinstance(value, dict) and "value" in value and set(value) <= LEAF:
        words = _leaf(path, value["value"]) + (f" {value['unit']}" if value.get("unit") else "")
        if isinstance(value.get("range"), list):
            words += f" (plausible: {' to '.join(_leaf('', end) for end in value['range'])})"
        yield path, words, str(value.get("source") or "")
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from flat(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and any(isinstance(one, dict | list) for one in value):
        for place, inner in enumerate(value):
            yield from flat(inner, f"{path}[{place}]")
    elif value is not None:
        yield path, _leaf(path, value), ""


def _leaf(path: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(_leaf("", one) for one in value)
    if isinstance(value, int):
        size = path.endswith("_bytes") and value >= 1000
        return f"{value:,}" + (f" bytes ({units.si_bytes(value)})" if size else "")
    return f"{value:g}" if isinstance(value, float) else str(value)


def health(result: Result) -> list[Child]:
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


def conditions(result: Result) -> list[Child]:
    """Blocks for the page of one review; of a virtual drive only warnings."""
    if not result.done:
        return []
    found = analysis.conditions(result)
    body: list[Child] = []
    if found.warnings:
        body.append(el("h3", "Validity warnings"))
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
    for name, words, _ in flat(found.host):
        rows.append([label(name), words])
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
