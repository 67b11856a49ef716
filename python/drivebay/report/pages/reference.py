"""Reference data: specification of the drive, its health, and the conditions of its tests.

All strings reported by a target are escaped text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from drivebay import analysis
from drivebay.analysis.published import specification, statement
from drivebay.common import units
from drivebay.report.base.markup import Child, Html, cited, details, el, linked, table
from drivebay.report.base.runs import Entry
from drivebay.report.base.text import number
from drivebay.results import Result

LEAF = {"value", "source", "range", "unit", "note"}
GREW: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("written_bytes", "Written", units.si_bytes),
    ("read_bytes", "Read", units.si_bytes),
    ("controller_busy_min", "Busy", lambda minutes: units.duration(60 * minutes)),
    ("throttle_s", "Throttled", units.duration),
    ("media_errors", "Media errors", number),
)
# Figures of SMART by their names in `targets.smart`: those that grow, and those of the state
# after a test.
AFTER: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("temperature_c", "Temperature", lambda celsius: f"{number(celsius)} °C"),
    ("percentage_used", "Used", lambda percent: f"{number(percent)} %"),
    ("available_spare_percent", "Spare", lambda percent: f"{number(percent)} %"),
    ("waf", "Write amplification", number),
)


def specifications(all_entries: Sequence[Entry]) -> Html:
    """Specification by the maker, by the target, and the parameters of a virtual drive."""
    body: list[Child] = []
    for entry in all_entries:
        if len(all_entries) > 1:
            body.append(el("h3", entry.name))
        body += _printed(entry)
        target = dict(entry.review.result.target)
        profile = target.pop("profile", None)
        for name in ("kind", "drive", "title"):
            target.pop(name, None)
        own: list[list[Child]] = [[label(path), text] for path, text, _ in flat(target)]
        body.append(table(["", ""], own, caption="Reported by the target", kind="data narrow"))
        if isinstance(profile, dict):
            rows = list(flat(profile))
            guesses = sum(source.startswith("guess") for _, _, source in rows)
            sourced = sum(bool(source) for _, _, source in rows)
            parameters: list[list[Child]] = [
                [name, text, _source(source)] for name, text, source in rows
            ]
            body.append(
                details(
                    f"Parameters of the virtual drive: {len(rows)} ({sourced - guesses} with a "
                    f"source, {guesses} guesses fitted to figures, {len(rows) - sourced} names)",
                    table(["Parameter", "Value", "Source"], parameters),
                )
            )
    return el("section", el("h2", "Specification"), body, id="specification", class_="page")


def _printed(entry: Entry) -> list[Html]:
    """Published specification, one table per publication."""
    tables: dict[str, list[list[Child]]] = {}
    for row in specification(entry.review.drive) if entry.review.drive else ():
        name = f"{row.metric[:1].upper()}{row.metric[1:]}"
        tables.setdefault(row.source, []).append([name, statement(row), row.condition])
    return [
        table(["", "", ""], rows, caption=["Published: ", cited(source)], kind="data narrow")
        for source, rows in tables.items()
    ]


def label(path: str) -> str:
    """Key of an identity as text, without the unit, which is printed with the value.

    >>> label("capacity_bytes"), label("nvme.firmware_rev")
    ('Capacity', 'Nvme firmware rev')
    """
    text = path.removesuffix("_bytes").replace("_", " ").replace(".", " ")
    text = text[:1].upper() + text[1:]
    return text.replace("Cpu ", "CPU ") if len(text) > 2 else text.upper()


def _source(source: str) -> Child:
    if not source.startswith("guess"):
        return linked(source)
    why = source.removeprefix("guess").lstrip(": ")
    return [el("span", "guess", class_="chip guess"), linked(why)]


def flat(value: Any, path: str = "") -> Iterator[tuple[str, str, str]]:
    """Yields (path, value, source) of every leaf of a nested table, at any depth.

    >>> list(flat({"link": {"lanes": {"value": 4, "source": "AnandTech"}}, "a_bytes": 4096}))
    [('link.lanes', '4', 'AnandTech'), ('a_bytes', '4,096 bytes (4.1 KB)', '')]
    """
    if isinstance(value, dict) and "value" in value and set(value) <= LEAF:
        text = _leaf(path, value["value"]) + (f" {value['unit']}" if value.get("unit") else "")
        if isinstance(value.get("range"), list):
            text += f" (plausible range: {' to '.join(_leaf('', end) for end in value['range'])})"
        yield path, text, str(value.get("source") or "")
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from flat(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        for place, inner in enumerate(value):
            yield from flat(inner, f"{path}[{place}]")
    elif value is not None:
        yield path, _leaf(path, value), ""


def _leaf(path: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(_leaf("", item) for item in value)
    if isinstance(value, int):
        size = path.endswith("_bytes") and value >= 1000
        return f"{value:,}" + (f" bytes ({units.si_bytes(value)})" if size else "")
    return f"{value:g}" if isinstance(value, float) else str(value)


def health(result: Result) -> list[Child]:
    """Table of SMART figures for one review; empty if no test has any."""
    smart_of = {step.id: step.conditions().get("smart", {}) for step in result.done}
    smart_of = {test: smart for test, smart in smart_of.items() if "after" in smart}
    grew = [c for c in GREW if any(c[0] in smart["after"] for smart in smart_of.values())]
    after = [c for c in AFTER if any(c[0] in smart["after"] for smart in smart_of.values())]
    if not grew and not after:
        return []
    rows: list[list[Child]] = []
    for test, smart in smart_of.items():
        row: list[Child] = [test]
        for name, _, text_of in grew:
            known = name in smart["before"] and name in smart["after"]
            row.append(text_of(smart["grew"].get(name, 0.0)) if known else "-")
        for name, _, text_of in after:
            row.append(text_of(smart["after"][name]) if name in smart["after"] else "-")
        rows.append(row)
    heads = ["Test", *(f"{title}" for _, title, _ in grew), *(f"{t} after" for _, t, _ in after)]
    caption = "Drive health (SMART): change during each test, state after it"
    return [table(heads, rows, caption=caption, kind="data many")]


def conditions(result: Result) -> list[Child]:
    """Test conditions of one review; for a virtual drive only warnings."""
    if not result.done:
        return []
    conditions = analysis.conditions(result)
    body: list[Child] = []
    if conditions.warnings:
        body.append(el("h3", "Validity warnings"))
        items = []
        for warning in conditions.warnings:
            some = len(warning.test_ids) < len(result.done)
            where = f" ({', '.join(warning.test_ids)})" if some else ""
            items.append(el("li", warning.sentence, where))
        body.append(el("ul", items))
    rows: list[list[Child]] = []
    for test_id, count in conditions.interruptions.items():
        times = "once" if count == 1 else f"{count} times"
        rows.append([f"Interrupted: {test_id}", f"{times}; restarted with the full preparation"])
    if conditions.link is not None:
        link = conditions.link
        rows.append(["Link", f"{link['kind']} {link['now']} (possible: {link['possible']})"])
    rows += [[label(name), text] for name, text, _ in flat(conditions.host)]
    if conditions.seconds:
        missed = conditions.missed_seconds or "none"
        rows.append(["Telemetry", f"{conditions.seconds:,} seconds, {missed} missed"])
    rows += [["Sampled every second", source] for source in conditions.read]
    rows += [[f"Not available: {source}", why] for source, why in conditions.absent.items()]
    if rows:
        body.append(table(["", ""], rows, caption="Conditions", kind="data narrow"))
    return body
