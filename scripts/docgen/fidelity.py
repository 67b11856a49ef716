"""Pages of `make fidelity`: errors of the drives, row by row, and sensitivities of the figures.

Sources: published/computed/, published/remarks.toml and, for the journal of calibrations,
docs/journals/trials.jsonl.xz. scripts/fidelity.py uses this module to write the parts of
docs/fidelity.md between marks; the other pages are made while the site is built.
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
from drivebay.analysis import fidelity, likeness
from drivebay.common import data
from drivebay.definitions import profiles as catalog
from drivebay.lab.fit.linear import EDGE
from drivebay.lab.validate import table
from drivebay.lab.validate.plan import Row, load_plan

SET_BY = 0.9
"""Share of a figure's uncertainty above which one parameter is said to set it."""
NOTABLE = 0.005
"""Smallest effect of a range on a figure that is listed."""
LISTED = 4
TRIALS = Path(__file__).resolve().parent.parent.parent / "docs" / "journals" / "trials.jsonl.xz"
ROWS_PAGE = "reference/fidelity-rows.md"
SENSITIVITY_PAGE = "reference/sensitivity.md"
TRIALS_PAGE = "reference/trials.md"
COMPUTED = (ROWS_PAGE, SENSITIVITY_PAGE)
"""Pages that show a note when the results they are computed from are stale."""
ANSWERS = {
    "mechanism": "the model gives both",
    "followed": "one is followed",
    "explained": "both can be true",
    "open": "**open**",
}
"""Text for the outcome of a contradiction, by its key in remarks.toml."""

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
    tried = (
        "This page is a journal of all calibrations, in the order of writing: which rows were "
        "considered, the results, and the values that were kept. Its figures were right on their "
        "day; [the fidelity page](../fidelity.md) has the present ones. Decision "
        "[0033](../adr/0033-what-no-drive-used.md) lists keys that profiles no longer have."
    )
    return {
        ROWS_PAGE: page("Published rows and what the drives reproduce", about, rows),
        SENSITIVITY_PAGE: page("What moves which figure", moved, sensitivity(validation, kept)),
        TRIALS_PAGE: page("Calibrations: what was tried", tried, _trials()),
    }


@cache
def trials() -> tuple[Mapping[str, Any], ...]:
    """Journal of calibrations: date, title, rows and keys named in it, and its text."""
    lines = lzma.decompress(TRIALS.read_bytes()).decode().splitlines()
    return tuple(map(json.loads, lines))


def _trials() -> str:
    return "\n".join(
        f"{'#' * trial['level']} {trial['title']}\n\n*{trial['date']}*\n\n{trial['text']}\n"
        for trial in trials()
    )


def score(validation: Document, kept: Document) -> str:
    """Head of docs/fidelity.md."""
    summary = validation["summary"]
    if not kept.get("rows"):
        return "Not computed yet: `make fidelity`.\n"
    refits = _refitted(kept)
    apart = sorted(abs(refit["linear"] - refit["real"]) for refit in refits)
    shift = sorted(abs(refit["real"] - refit["fitted"]) for refit in refits)
    linear = (
        f" In {len(refits)} real refits a figure moves by {_log_percent(shift[len(shift) // 2])} "
        f"in the median without its row; the linear formula differs from them by "
        f"{_log_percent(apart[len(apart) // 2])} in the median, {_log_percent(apart[-1])} at most."
    )
    return f"**{_predicted(summary)}** {_classes(summary)}{linear if refits else ''}\n"


def modern(validation: Document) -> str:
    """Summary of today's drives."""
    head = validation["unscored"]["summary"]
    some = [row for row in validation["rows"] if not row["scored"]]
    return (
        f"{_predicted(head)} {_classes(head)} Of all {len(some)} rows "
        f"{sum(row['ok'] for row in some)} are within their bounds.\n"
    )


def _predicted(summary: Document) -> str:
    return (
        f"{summary['n_predicted']} predicted numbers: median error "
        f"{_percent(summary['median_abs_loo_error_pct'])}, nine in ten under "
        f"{_percent(summary['p90_abs_loo_error_pct'])}, {_share(summary['within_share'])} within "
        "their bounds."
    )


def _classes(summary: Document) -> str:
    return (
        f"Of {summary['n_words']} predicted words and ranks {summary['n_words_hold']} hold. "
        f"{summary['n_fitted']} rows are fitted, {summary['n_in_profile']} of them values of the "
        f"profiles; {summary['n_contradicted']} are contradicted by another publication."
    )


def held() -> str:
    """Sentence on what an interval is, and how often it held."""
    some, judged = map(sum, zip(*map(fidelity.covered, likeness.KINDS), strict=True))
    return (
        f"A 90 % interval is where a new source should find the figure. For {some} of {judged} "
        f"published numbers ({100 * some / judged:.0f} %) the interval computed without their "
        "source held ([by kind](concepts/intervals.md)).\n"
    )


def intervals() -> str:
    """Table of the intervals by kind, and how often they held."""
    rows = []
    for kind in likeness.KINDS:
        some = [row for row in fidelity.offsets() if row["kind"] == kind]
        ends = fidelity.around(1.0, kind)
        within, judged = fidelity.covered(kind)
        width = fidelity.NO_ROW if ends is None else f"x {ends[0]:.2f} to x {ends[1]:.2f}"
        cells = (kind, str(len(some)), str(len({row["source"] for row in some})), width)
        rows.append((*cells, f"{within} of {judged}" if judged else ""))
    head = ("kind of figure", "rows", "sources", "90 % interval, times the figure", "held")
    return tabled(head, rows).rstrip() + "\n"


def limits_page(rows: Mapping[str, dict[str, Any]]) -> str:
    """List of the limits, with the newest run's figures."""
    return "".join(
        f"- {re.sub(r'{(S[0-9]+)}', lambda m: described(rows[m[1]]), text)}\n" for text in limits()
    )


def written(text: str, validation: Document, kept: Document) -> str:
    """Returns the text of docs/fidelity.md with new content between its marks."""
    rows = {row["id"]: row for row in validation["rows"]}
    parts = {
        "score": score(validation, kept),
        "held": held(),
        "modern": modern(validation),
        "limits": limits_page(rows),
    }
    for name, part in parts.items():
        text = between(text, name, part)
    return text


def between(text: str, name: str, part: str) -> str:
    """Returns the text of a page with new content between the marks of a part."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"
    before, mark, rest = text.partition(begin)
    assert mark, f"the page lacks {begin.strip()}"
    return before + begin + "\n" + part + "\n" + end + rest.partition(end)[2]


def limits() -> tuple[str, ...]:
    """Known wrong results, with rows in braces."""
    return tuple(entry["text"] for entry in _remarks()["limit"])


def contradictions() -> tuple[Mapping[str, Any], ...]:
    """Contradictions between sources of today's drives: drive, sources, rows, answer, why."""
    return tuple(_remarks()["contradiction"])


def named(texts: Sequence[str]) -> set[str]:
    """Ids of the rows that texts name in braces."""
    return {name for text in texts for name in re.findall(r"{(S[0-9]+)}", text)}


def _remarks() -> dict[str, Any]:
    return tomllib.loads((data.path("published") / "remarks.toml").read_text(encoding="utf-8"))


def described(row: dict[str, Any]) -> str:
    """A row as reproduced and published: "118.8 MB/s (published about 40 MB/s, S104)"."""
    return f"{_reproduced(row)} (published {table.printed(row)}, {row['id']})"


def _reproduced(row: dict[str, Any]) -> str:
    return table.number(row["reproduced"], row["unit"])


def _contradictions(rows: Mapping[str, dict[str, Any]]) -> str:
    head = ("drive", "sources", "published and reproduced", "answer", "reason")
    return tabled(
        head,
        (
            (
                entry["drive"],
                entry["sources"],
                "; ".join(
                    f"{n} {table.printed(rows[n])}: {_reproduced(rows[n])}" for n in entry["rows"]
                ),
                ANSWERS[entry["answer"]],
                entry["why"],
            )
            for entry in contradictions()
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
            head,
            (_refit(refit, rows[refit["id"]], kept["rows"][refit["id"]]["log"])
             for refit in refits)
        )]  # fmt: skip
    return "\n".join(out)


def _refitted(kept: Document) -> list[Document]:
    return [refit for refit in kept["refits"] if refit["real"] is not None]


def _refit(refit: Document, row: Document, log: bool) -> list[str]:
    factor = 1e-3 if row["unit"] == "GB/s" else 1.0
    values = ((math.exp(refit[key]) if log else refit[key]) for key in ("fitted", "linear", "real"))
    moved = (f"{path} {z:+.1f}" for path, z in refit.get("moved", {}).items())
    shown = [table.number(factor * value, row["unit"]) for value in values]
    return [refit["id"], f"{refit['leverage']:.2f}", *shown, ", ".join(moved)]


def _drives(drives: Document) -> str:
    head = ("drive", "predicted", "median error", "within bounds", "in the 90 % interval",
            "words that hold", "fitted", "of these in the profile", "contradicted")  # fmt: skip
    return tabled(
        head,
        (
            (
                table.named(name), str(scores["n_predicted"]),
                _percent(scores["median_abs_loo_error_pct"]), _share(scores["within_share"]),
                _share(scores["coverage_90"]), f"{scores['n_words_hold']} of {scores['n_words']}",
                *(str(scores[f"n_{key}"]) for key in ("fitted", "in_profile", "contradicted")),
            )
            for name, scores in drives.items()
        ),
    )  # fmt: skip


def _rows(validation: Document) -> str:
    """Every row: predicted rows first, those of the scored drives before today's."""
    known = {row.published.id: row for row in load_plan().rows}
    head = ("", "drive", "test", "host", "figure", "published", "reproduced", "error", "leverage",
            "error without the row", "90 % interval by other sources", "")  # fmt: skip
    out: list[str] = []
    for of_today in (False, True):
        some = [row for row in validation["rows"] if row["scored"] != of_today]
        for name in fidelity.CLASSES:
            out.append(f"## {name.capitalize()}{', drives of today' if of_today else ''}\n")
            out.append(tabled(head, (
                _row(row, known[row["id"]].conflict) for row in some if row["class"] == name
            )))  # fmt: skip
    rows = {row["id"]: row for row in validation["rows"]}
    out += ["## Contradictions between sources\n", _contradictions(rows)]
    return "\n".join(out + _notes(validation, known)) + "\n"


def _notes(validation: Document, known: Mapping[str, Row]) -> list[str]:
    """Conditions, ranges, conflicts, and what is not covered."""
    out = ["## Different conditions, ranges for words, conflicts", ""]
    for row in validation["rows"]:
        known_row = known[row["id"]]
        low, high = row["bounds"] or (0, 0)
        ends = f"{table.number(low, '')} to {table.number(high, row['unit'])}"
        parts = (
            known_row.differs and f"condition: {known_row.differs}",
            known_row.reason and f"{ends}: {known_row.reason}",
            known_row.calibrated_on
            and f"the profile was calibrated on it, {known_row.calibrated_on}",
            known_row.conflict,
            known_row.note,
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
        row["metric"], table.printed(row), table.number(row["reproduced"], row["unit"]),
        table.percent(row["error_pct"]),
        "" if row["leverage"] is None else f"{row['leverage']:.2f}",
        table.percent(row["loo_error_pct"]), table.between(row),
        "" if row["ok"] else "**conflict**" if conflict else "**off**",
    )  # fmt: skip
    return [cell.replace("|", "/") for cell in cells]


def sensitivity(validation: Document, kept: Document) -> str:
    """Body of the page of sensitivities."""
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
        over = {int(j): change * 2 * EDGE for j, change in changes.items()}
        largest = sorted(over, key=lambda j: -abs(over[j]))
        total = sum(effect**2 for effect in over.values())
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
    nothing = [parameter for parameter in parameters if parameter["moves"] is False]
    stuck = [parameter for parameter in parameters if parameter["moves"] == "stuck"]
    by_row = {int(j) for changes in kept["derivatives"].values() for j in changes}
    figures_only = [
        parameter
        for j, parameter in enumerate(parameters)
        if parameter["moves"] is True and j not in by_row
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
    """Name of a parameter, with its drive if that is not the row's first."""
    owners = {owner.partition("+")[0] for owner in parameter["drives"]}
    own_drive = next((drive for drive in drives if drive in owners), None)
    name = str(parameter["name"])
    return name if own_drive in (None, drives[0]) else f"{name} of {own_drive}"


def _known_from(parameter: Document) -> str:
    """Describes what supports a parameter's value besides the figure."""
    if parameter["read_off"]:
        return ", read off a publication"
    return ", a guess" if parameter["source"].startswith("guess") else ""


def _names(parameters: Iterable[Document]) -> list[str]:
    drives_by_name: dict[str, list[str]] = {}
    for parameter in parameters:
        drives_by_name.setdefault(parameter["name"], []).extend(parameter["drives"])
    return [
        f"- {name}: {', '.join(sorted(set(drives)))}"
        for name, drives in sorted(drives_by_name.items())
    ]


def _change(value: float, log: bool) -> str:
    """Formats the change of a figure; a logarithm as a percentage, from a factor of two on as a
    factor.

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
