"""The generated parts of docs/fidelity.md and docs/sensitivity.md, from what is kept."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from drivebay.definitions import profiles as catalog
from drivebay.lab.fidelity.posterior import EDGE
from drivebay.lab.validate import table
from drivebay.lab.validate.plan import Row, load_plan

SET_BY = 0.9
"""A figure is set by one parameter if that brings so much of what its ranges leave open."""
NOTABLE = 0.005
"""A range that moves a figure by less is not listed."""
LISTED = 4

Document = Mapping[str, Any]


def score(validation: Document, kept: Document) -> str:
    """The head of docs/fidelity.md: per drive and over all."""
    found = validation["summary"]
    if not kept.get("rows"):
        return "Not computed yet: `make fidelity`.\n"
    out = [
        f"**{found['n_predicted']} figures that the model was not told: median error "
        f"{_percent(found['median_abs_loo_error_pct'])}, nine in ten under "
        f"{_percent(found['p90_abs_loo_error_pct'])} (of {found['n_numbers']} with a printed "
        f"number), {100 * (found['within_share'] or 0):.0f} % within their bounds.** "
        f"Their 90 % intervals hold {100 * (found['coverage_90'] or 0):.0f} % of the published "
        f"values. It was fitted to {found['n_fitted']} others; {found['n_told']} more are "
        "in its profiles.",
        "",
        *_drives(validation["drives"]),
    ]
    refits = [one for one in kept["refits"] if one["real"] is not None]
    if refits:
        apart = sorted(abs(one["linear"] - one["real"]) for one in refits)
        shift = sorted(abs(one["real"] - one["fitted"]) for one in refits)
        told = any("moved" in one for one in refits)  # results of an older computation do not say
        more = " moved most, in standard deviations of the range |" if told else ""
        out += [
            "",
            f"The linear formula beside {len(refits)} real refits: without its row a figure "
            f"moves by {_log_percent(shift[len(shift) // 2])} in the median, and the two differ by "
            f"{_log_percent(apart[len(apart) // 2])} in the median, "
            f"{_log_percent(apart[-1])} at most.",
            "",
            f"| row | leverage | with the row | without, linear | without, run |{more}",
            f"|---|---|---|---|---|{'---|' * told}",
        ]
        rows = {row["id"]: row for row in validation["rows"]}
        for one in refits:
            row = rows[one["id"]]
            log = kept["rows"][one["id"]]["log"]
            out.append(
                f"| {one['id']} | {one['leverage']:.2f} | "
                + " | ".join(
                    table.number(_factored(row, math.exp(value) if log else value), row["unit"])
                    for value in (one["fitted"], one["linear"], one["real"])
                )
                + " |"
                + (_moved(one) if told else "")
            )
    return "\n".join(out) + "\n"


def _moved(refit: Document) -> str:
    changes = (f"{path} {z:+.1f}" for path, z in refit.get("moved", {}).items())
    return f" {', '.join(changes)} |"


def _factored(row: Document, value: float) -> float:
    return value * (1e-3 if row["unit"] == "GB/s" else 1.0)


def modern(validation: Document) -> str:
    """Of docs/fidelity.md: today's drives, per drive and row by row."""
    found = validation["unscored"]
    head = found["summary"]
    out = [
        f"{head['n_predicted']} figures that the model was not told, median error "
        f"{_percent(head['median_abs_loo_error_pct'])}, "
        f"nine in ten under {_percent(head['p90_abs_loo_error_pct'])} "
        f"(of {head['n_numbers']} with a printed number), "
        f"{_share(head['within_share'])} within their bounds. {head['n_contradicted']} of them "
        "contradict another published figure; of the others "
        f"{_share(head['within_of_others'])} are within. The profiles were fitted to "
        f"{head['n_fitted']} others, {head['n_told']} more are in them.",
        "",
        *_drives(found["drives"]),
        "",
    ]
    some = [row for row in validation["rows"] if not row["scored"]]
    computed = {row["drive"] for row in some if row["leverage"] is not None}
    if without := sorted({row["drive"] for row in some} - computed):
        out += [
            f"Of these no leverage was computed: {', '.join(without)}. Their rows count as they "
            "are, but for those that were read off or in view.",
            "",
        ]
    return "\n".join(out) + _tables(validation, some, scored=False)


def _drives(found: Document) -> list[str]:
    return [
        "| drive | predicted | median error | within bounds | in the 90 % interval | fitted "
        "| told |",
        "|---|---|---|---|---|---|---|",
        *(
            f"| {table.named(name)} | {one['n_predicted']} "
            f"| {_percent(one['median_abs_loo_error_pct'])} | "
            f"{_share(one['within_share'])} | {_share(one['coverage_90'])} | {one['n_fitted']} | "
            f"{one['n_told']} |"
            for name, one in found.items()
        ),
    ]


def rows(validation: Document) -> str:
    """The table of docs/fidelity.md: what is predicted first."""
    return _tables(validation, [row for row in validation["rows"] if row["scored"]], scored=True)


def _tables(validation: Document, some: Sequence[dict[str, Any]], *, scored: bool) -> str:
    known = {row.published.id: row for row in load_plan().rows}
    out: list[str] = []
    for title, predicted in (("Predicted", True), ("Fitted, or told", False)):
        out += [
            f"### {title}{'' if scored else ' of today'}",
            "",
            "| | drive | test | host | figure | published | reproduced | error | leverage | "
            "error without the row | 90 % interval without it | |",
            "|---|---|---|---|---|---|---|---|---|---|---|---|",
        ]
        out += [
            _row(row, known[row["id"]].conflict)
            for row in some
            if table.is_predicted(row) == predicted
        ]
        out.append("")
    return "\n".join(out + _notes(validation, known, scored=scored)) + "\n"


def _notes(validation: Document, known: Mapping[str, Row], *, scored: bool) -> list[str]:
    """Conditions, ranges, conflicts, and what is not covered."""
    noted = [
        (row["id"], "; ".join(text for text in (
            f"condition: {known[row['id']].differs}" if known[row["id"]].differs else "",
            f"{_ends(row)}: {known[row['id']].reason}" if known[row["id"]].reason else "",
            f"the profile was written with it, {known[row['id']].told}"
            if known[row["id"]].told else "",
            known[row["id"]].conflict, known[row["id"]].note) if text))
        for row in validation["rows"] if row["scored"] == scored
    ]  # fmt: skip
    out = ["Conditions that differ, ranges for words, conflicts:", ""]
    out += [f"- {name}: {text}" for name, text in noted if text]
    out += ["", "Not covered:", ""]
    return out + [
        f"- {row['id']}: {row['why']}"
        for row in validation["not_covered"]
        if row["scored"] == scored
    ]


def _row(row: dict[str, Any], conflict: str) -> str:
    condition = f", {row['condition']}" if row["condition"] else ""
    changed = " (differs)" if row["differs"] else ""
    return _cells(
        row["id"], table.named(row["drive"]), row["test"] + condition + changed, row["host"],
        row["metric"], table.said(row), table.number(row["reproduced"], row["unit"]),
        table.percent(row["error_pct"]),
        "" if row["leverage"] is None else f"{row['leverage']:.2f}",
        table.percent(row["loo_error_pct"]), table.between(row), _verdict(row, conflict),
    )  # fmt: skip


def _verdict(row: dict[str, Any], conflict: str) -> str:
    return "" if row["ok"] else "**conflict**" if conflict else "**off**"


def _cells(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |"


def _ends(row: Document) -> str:
    low, high = row["bounds"]
    return f"{table.number(low, '')} to {table.number(high, row['unit'])}"


def sensitivity(validation: Document, kept: Document) -> str:
    """The body of docs/sensitivity.md."""
    if not kept.get("rows"):
        return "Not computed yet: `make fidelity`.\n"
    parameters = kept["parameters"]
    known = {row.published.id: row for row in load_plan().rows}
    out = [
        "| | drive | figure | reproduced | moved most by (over the whole range) | set by |",
        "|---|---|---|---|---|---|",
    ]
    for row in validation["rows"]:
        changes = kept["derivatives"].get(row["id"], {})
        log = kept["rows"].get(row["id"], {}).get("log", True)
        if not changes or isinstance(row["reproduced"], str):
            continue
        over = {int(j): one * 2 * EDGE for j, one in changes.items()}
        largest = sorted(over, key=lambda j: -abs(over[j]))
        total = sum(one**2 for one in over.values())
        first = parameters[largest[0]]
        alone = over[largest[0]] ** 2 >= SET_BY * total and abs(over[largest[0]]) >= 0.05
        listed = [j for j in largest[:LISTED] if abs(over[j]) >= NOTABLE or not log]
        runs = [run.profile for run in known[row["id"]].needs]
        drives = [row["drive"], *runs] if row["drive"] in catalog.names() else runs
        moved = ", ".join(
            f"{_of_drive(parameters[j], drives)} {_change(over[j], log)}" for j in listed
        )
        by = f"**{_of_drive(first, drives)}**{_known_from(first)}" if alone else ""
        cells = (
            row["id"], table.named(row["drive"]), f"{row['test']}, {row['metric']}",
            table.number(row["reproduced"], row["unit"]), moved, by,
        )  # fmt: skip
        out.append("| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |")
    nothing = [one for one in parameters if one["moves"] is False]
    stuck = [one for one in parameters if one["moves"] == "stuck"]
    by_row = {int(j) for changes in kept["derivatives"].values() for j in changes}
    figures_only = [
        one for j, one in enumerate(parameters) if one["moves"] is True and j not in by_row
    ]
    out += ["", "## Parameters that move nothing", ""]
    out += ["No figure of any published row's test changes at all, bit by bit:", ""]
    out += _names(nothing)
    out += ["", "No published row changes by more than its scatter between seeds:", ""]
    out += _names(figures_only)
    if stuck:
        out += ["", "Cannot be moved, as the model takes no drive with another value:", ""]
        out += _names(stuck)
    return "\n".join(out) + "\n"


def _of_drive(parameter: Document, drives: Sequence[str]) -> str:
    """The parameter's name, with its drive where that is not the row's first."""
    owners = {one.partition("+")[0] for one in parameter["drives"]}
    found = next((drive for drive in drives if drive in owners), None)
    name = str(parameter["name"])
    return name if found in (None, drives[0]) else f"{name} of {found}"


def _known_from(parameter: Document) -> str:
    """What there is for the parameter's value but the figure, in words."""
    if parameter["told"]:
        return ", read off a publication"
    return ", a guess" if parameter["source"].startswith("guess") else ""


def _names(parameters: Iterable[Document]) -> list[str]:
    found: dict[str, list[str]] = {}
    for one in parameters:
        found.setdefault(one["name"], []).extend(one["drives"])
    return [f"- {name}: {', '.join(sorted(set(drives)))}" for name, drives in sorted(found.items())]


def _change(value: float, log: bool) -> str:
    """By how much a figure changes; of logarithms in percent, from a factor of two on as one.

    >>> _change(0.1, True), _change(1.1, True), _change(-9.0, True), _change(-0.5, False)
    ('+10.5 %', 'x3.0', 'under x0.01', '-0.5')
    """
    if not log:
        return f"{value:+.3g}"
    if abs(value) <= math.log(2):
        return f"{100 * (math.exp(value) - 1):+.1f} %"
    if abs(value) > math.log(100):
        return "over x100" if value > 0 else "under x0.01"
    return f"x{math.exp(value):.1f}" if value > 0 else f"x{math.exp(value):.2f}"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.1f} %"


def _share(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.0f} %"


def _log_percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def replaced(page: str, parts: Sequence[tuple[str, str]]) -> str:
    """The page with each part between its marks `<!-- NAME: begin -->` and `end`."""
    for name, text in parts:
        begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"
        before, found, rest = page.partition(begin)
        assert found, f"the page lacks {begin.strip()}"
        page = before + begin + "\n" + text + "\n" + end + rest.partition(end)[2]
    return page
