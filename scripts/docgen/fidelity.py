"""Pages of `make fidelity`: how close the drives come, row by row, and what moves which figure.

From published/computed/, published/remarks.toml and, for the journal of calibrations,
docs/journals/trials.jsonl.xz. The parts of docs/fidelity.md between marks are written from here by
scripts/fidelity.py; the rest is made while the site is built.
"""

from __future__ import annotations

import json
import lzma
import math
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from docgen.markdown import page
from docgen.markdown import table as tabled
from drivebay.analysis import fidelity
from drivebay.common import data
from drivebay.definitions import profiles as catalog
from drivebay.lab.fit.linear import EDGE
from drivebay.lab.validate import table
from drivebay.lab.validate.plan import Row, load_plan

SET_BY = 0.9
"""A figure is set by one parameter if that brings so much of what its ranges leave open."""
NOTABLE = 0.005
"""A range that moves a figure by less is not listed."""
LISTED = 4
TRIALS = Path(__file__).resolve().parent.parent.parent / "docs" / "journals" / "trials.jsonl.xz"
ROWS_PAGE = "reference/fidelity-rows.md"
SENSITIVITY_PAGE = "reference/sensitivity.md"
TRIALS_PAGE = "reference/trials.md"
COMPUTED = (ROWS_PAGE, SENSITIVITY_PAGE)
"""Pages that say when what they are computed from is stale."""
ANSWERS = {
    "mechanism": "the model gives both",
    "followed": "one is followed",
    "explained": "both can be true",
    "open": "**open**",
}
"""What became of a contradiction: as remarks.toml says it, and as the page does."""

Document = Mapping[str, Any]


def pages() -> dict[str, str]:
    """The pages by their path in docs/."""
    validation, kept = fidelity.recorded(), fidelity.kept()
    rows = f"{_scores(validation, kept)}\n{_rows(validation)}"
    about = (
        "This page is for readers who check single figures. It compares every published row with "
        "the model's figure, from `published/computed/` ([how they are "
        "computed](../fidelity.md#how-it-is-computed)). `make fidelity` computes them again."
    )
    moved = (
        "This page is for readers who want to know which parameters a figure depends on. For each "
        "figure it lists the parameters that move it most, and by how much, when a parameter goes "
        "from one end of its range to the other. The profile or host states each range next to the "
        "value. **Set by** names a parameter that alone causes nine tenths of the variance that "
        "all ranges together cause: if that parameter is a guess, the figure is a guess "
        "([how](../fidelity.md#how-it-is-computed))."
    )
    what = (
        "This page is a journal of all calibrations, in the order of writing: which rows were "
        "considered, the results, and the values that were kept. Its figures were right on their "
        "day; [the fidelity page](../fidelity.md) has the present ones. Decision "
        "[0033](../adr/0033-what-no-drive-used.md) lists keys that profiles no longer have."
    )
    return {
        ROWS_PAGE: page("Published rows and what the drives reproduce", about, rows),
        SENSITIVITY_PAGE: page("What moves which figure", moved, sensitivity(validation, kept)),
        TRIALS_PAGE: page("Calibrations: what was tried", what, _trials()),
    }


@cache
def trials() -> tuple[Mapping[str, Any], ...]:
    """The journal of calibrations: date, title, rows and keys that it names, and its text."""
    lines = lzma.decompress(TRIALS.read_bytes()).decode().splitlines()
    return tuple(map(json.loads, lines))


def _trials() -> str:
    return "\n".join(
        f"{'#' * one['level']} {one['title']}\n\n*{one['date']}*\n\n{one['text']}\n"
        for one in trials()
    )


def score(validation: Document, kept: Document) -> str:
    """The head of docs/fidelity.md."""
    found = validation["summary"]
    if not kept.get("rows"):
        return "Not computed yet: `make fidelity`.\n"
    refits = _refitted(kept)
    apart = sorted(abs(one["linear"] - one["real"]) for one in refits)
    shift = sorted(abs(one["real"] - one["fitted"]) for one in refits)
    linear = (
        f" In {len(refits)} real refits a figure moves by {_log_percent(shift[len(shift) // 2])} "
        f"in the median without its row; the linear formula differs from them by "
        f"{_log_percent(apart[len(apart) // 2])} in the median, {_log_percent(apart[-1])} at most."
    )
    return (
        f"**{found['n_predicted']} figures that the model was not calibrated on: median error "
        f"{_percent(found['median_abs_loo_error_pct'])}, nine in ten under "
        f"{_percent(found['p90_abs_loo_error_pct'])} (of {found['n_numbers']} with a printed "
        f"number), {100 * (found['within_share'] or 0):.0f} % within their bounds.** "
        f"Parameters' 90 % intervals hold {100 * (found['coverage_90'] or 0):.0f} % of the "
        f"published values. The model was fitted to {found['n_fitted']} other figures; "
        f"{found['n_in_profile']} more are in its profiles.{linear if refits else ''}\n"
    )


def modern(validation: Document) -> str:
    """The same of today's drives."""
    head = validation["unscored"]["summary"]
    some = [row for row in validation["rows"] if not row["scored"]]
    return (
        f"{head['n_predicted']} figures that the model was not calibrated on, median error "
        f"{_percent(head['median_abs_loo_error_pct'])}, "
        f"nine in ten under {_percent(head['p90_abs_loo_error_pct'])} "
        f"(of {head['n_numbers']} with a printed number), "
        f"{_share(head['within_share'])} within their bounds. {head['n_contradicted']} of them "
        "contradict another published figure; of the others "
        f"{_share(head['within_of_others'])} are within. The profiles were fitted to "
        f"{head['n_fitted']} other figures; {head['n_in_profile']} more are in them. Of all "
        f"{len(some)} rows {sum(row['ok'] for row in some)} are within their bounds.\n"
    )


def limits_page(rows: Mapping[str, dict[str, Any]]) -> str:
    """A list of the limits, with the newest run's figures."""
    return "".join(
        f"- {re.sub(r'{(S[0-9]+)}', lambda m: said(rows[m[1]]), text)}\n" for text in limits()
    )


def written(text: str, validation: Document, kept: Document) -> str:
    """The text of docs/fidelity.md with what stands between its marks."""
    rows = {row["id"]: row for row in validation["rows"]}
    parts = {
        "score": score(validation, kept),
        "modern": modern(validation),
        "limits": limits_page(rows),
    }
    for name, part in parts.items():
        begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"
        before, found, rest = text.partition(begin)
        assert found, f"the page lacks {begin.strip()}"
        text = before + begin + "\n" + part + "\n" + end + rest.partition(end)[2]
    return text


def limits() -> tuple[str, ...]:
    """What comes out wrong, with rows in braces."""
    return tuple(entry["text"] for entry in _remarks()["limit"])


def contradictions() -> tuple[Mapping[str, Any], ...]:
    """Where sources of today's drives contradict each other: drive, sources, rows, answer, why."""
    return tuple(_remarks()["contradiction"])


def named(texts: Sequence[str]) -> set[str]:
    """The rows that texts name in braces."""
    return {name for text in texts for name in re.findall(r"{(S[0-9]+)}", text)}


def _remarks() -> dict[str, Any]:
    return tomllib.loads((data.path("published") / "remarks.toml").read_text(encoding="utf-8"))


def said(row: dict[str, Any]) -> str:
    """A row as reproduced and published: "118.8 MB/s (published about 40 MB/s, S104)"."""
    return f"{_reproduced(row)} (published {table.said(row)}, {row['id']})"


def _reproduced(row: dict[str, Any]) -> str:
    return table.number(row["reproduced"], row["unit"])


def _contradictions(rows: Mapping[str, dict[str, Any]]) -> str:
    head = ("drive", "sources", "published and reproduced", "answer", "reason")
    return tabled(
        head,
        (
            (
                one["drive"],
                one["sources"],
                "; ".join(
                    f"{n} {table.said(rows[n])}: {_reproduced(rows[n])}" for n in one["rows"]
                ),
                ANSWERS[one["answer"]],
                one["why"],
            )
            for one in contradictions()
        ),
    )


def _scores(validation: Document, kept: Document) -> str:
    """Both scores by drive, and the real refits."""
    rows = {row["id"]: row for row in validation["rows"]}
    out = ["## Scores\n\n" + _drives(validation["drives"] | validation["unscored"]["drives"])]
    if refits := _refitted(kept):
        head = ("row", "leverage", "with the row", "without, linear", "without, run",
                "largest changes, in standard deviations of the range")  # fmt: skip
        out += ["## Fits without a row\n\n" + tabled(
            head, (_refit(one, rows[one["id"]], kept["rows"][one["id"]]["log"]) for one in refits)
        )]  # fmt: skip
    return "\n".join(out)


def _refitted(kept: Document) -> list[Document]:
    return [one for one in kept["refits"] if one["real"] is not None]


def _refit(one: Document, row: Document, log: bool) -> list[str]:
    factor = 1e-3 if row["unit"] == "GB/s" else 1.0
    values = ((math.exp(one[key]) if log else one[key]) for key in ("fitted", "linear", "real"))
    moved = (f"{path} {z:+.1f}" for path, z in one.get("moved", {}).items())
    shown = [table.number(factor * value, row["unit"]) for value in values]
    return [one["id"], f"{one['leverage']:.2f}", *shown, ", ".join(moved)]


def _drives(found: Document) -> str:
    head = ("drive", "predicted", "median error", "within bounds", "in the 90 % interval",
            "fitted", "in the profile")  # fmt: skip
    return tabled(
        head,
        (
            (
                table.named(name), str(one["n_predicted"]),
                _percent(one["median_abs_loo_error_pct"]), _share(one["within_share"]),
                _share(one["coverage_90"]), str(one["n_fitted"]), str(one["n_in_profile"]),
            )
            for name, one in found.items()
        ),
    )  # fmt: skip


def _rows(validation: Document) -> str:
    """Every row: what is predicted first, those of the scored drives before today's."""
    known = {row.published.id: row for row in load_plan().rows}
    head = ("", "drive", "test", "host", "figure", "published", "reproduced", "error", "leverage",
            "error without the row", "90 % interval without it", "")  # fmt: skip
    out: list[str] = []
    for of_today in (False, True):
        some = [row for row in validation["rows"] if row["scored"] != of_today]
        for title, predicted in (("Predicted", True), ("Fitted, or in the profile", False)):
            out.append(f"## {title}{', drives of today' if of_today else ''}\n")
            out.append(tabled(head, (
                _row(row, known[row["id"]].conflict)
                for row in some if table.is_predicted(row) == predicted
            )))  # fmt: skip
    rows = {row["id"]: row for row in validation["rows"]}
    out += ["## Contradictions between sources\n", _contradictions(rows)]
    return "\n".join(out + _notes(validation, known)) + "\n"


def _notes(validation: Document, known: Mapping[str, Row]) -> list[str]:
    """Conditions, ranges, conflicts, and what is not covered."""
    out = ["## Different conditions, ranges for words, conflicts", ""]
    for row in validation["rows"]:
        one = known[row["id"]]
        low, high = row["bounds"] or (0, 0)
        ends = f"{table.number(low, '')} to {table.number(high, row['unit'])}"
        parts = (
            one.differs and f"condition: {one.differs}",
            one.reason and f"{ends}: {one.reason}",
            one.calibrated_on and f"the profile was calibrated on it, {one.calibrated_on}",
            one.conflict,
            one.note,
        )
        if text := "; ".join(filter(None, parts)):
            out.append(f"- {row['id']}: {text}")
    out += ["", "## Not covered", ""]
    return out + [f"- {row['id']}: {row['why']}" for row in validation["not_covered"]]


def _row(row: dict[str, Any], conflict: str) -> list[str]:
    condition = f", {row['condition']}" if row["condition"] else ""
    changed = " (differs)" if row["differs"] else ""
    cells = (
        row["id"], table.named(row["drive"]), row["test"] + condition + changed, row["host"],
        row["metric"], table.said(row), table.number(row["reproduced"], row["unit"]),
        table.percent(row["error_pct"]),
        "" if row["leverage"] is None else f"{row['leverage']:.2f}",
        table.percent(row["loo_error_pct"]), table.between(row),
        "" if row["ok"] else "**conflict**" if conflict else "**off**",
    )  # fmt: skip
    return [cell.replace("|", "/") for cell in cells]


def sensitivity(validation: Document, kept: Document) -> str:
    """The body of the page of sensitivities."""
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
    out += ["No figure of any published row's test changes, bit for bit:", ""]
    out += _names(nothing)
    out += ["", "No published row changes by more than its scatter between seeds:", ""]
    out += _names(figures_only)
    if stuck:
        out += ["", "Cannot be moved, because the model accepts no other value:", ""]
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
    if parameter["read_off"]:
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
