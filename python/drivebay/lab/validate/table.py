"""The table of `drivebay validate`: JSON for scripts, text for people, Markdown for the docs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drivebay.definitions import profiles as catalog
from drivebay.lab.validate.plan import load_plan
from drivebay.lab.validate.verdicts import Validation, Verdict

RELATIONS = {
    "approx": "about ",
    "lt": "under ",
    "gt": "over ",
    "ratio_to": "",
    "eq": "",
    "range": "",
}


def as_json(validation: Validation) -> dict[str, Any]:
    """Rows, summary and what is not covered; numbers to six digits, so that it can be kept."""
    median = validation.median_abs_error_pct
    return {
        "rows": [_row(verdict) for verdict in validation.verdicts],
        "summary": {
            "n": len(validation.verdicts),
            "ok": validation.ok,
            "median_abs_error_pct": None if median is None else round(median, 3),
        },
        "not_covered": [
            {"id": row.published.id, "why": row.not_covered} for row in validation.not_covered
        ],
    }


def _row(verdict: Verdict) -> dict[str, Any]:
    row = verdict.row.published
    mine, error = verdict.reproduced, verdict.error_percent
    factor = 1e-3 if (row.unit, _printed_unit(row.id)) == ("MB/s", "GB/s") else 1.0
    value = None if row.value is None else row.value * factor
    return {
        "id": row.id,
        "drive": row.drive,
        "test": row.test,
        "host": row.host,
        "metric": row.metric,
        "relation": row.relation,
        "published": row.text if value is None else _digits(value),
        "reproduced": mine if isinstance(mine, str) else _digits(float(mine) * factor),
        "unit": _printed_unit(row.id),
        "error_pct": None if error is None else round(error, 2),
        "ok": bool(verdict.ok),
    }


def _named(drive: str) -> str:
    """The drive as the tables name it: a stand-in is called one."""
    known = drive in catalog.names() and catalog.load(drive).stand_in
    return f"{drive} (stand-in)" if known else drive


def _printed_unit(row_id: str) -> str:
    from drivebay.analysis import published

    return published.figures()[row_id].printed_unit


def _digits(value: float) -> float:
    return float(f"{value:.6g}")


def lines(validation: Validation) -> list[tuple[str, ...]]:
    """Columns for a terminal: id, drive, test, metric, published, reproduced, error, verdict."""
    notes = {row.published.id: row for row in load_plan().rows}
    found: list[tuple[str, ...]] = []
    for row in as_json(validation)["rows"]:
        known = notes[row["id"]]
        verdict = "ok" if row["ok"] else "conflict" if known.conflict else "off"
        found.append(
            (
                row["id"], _named(row["drive"]), row["test"], row["metric"], _said(row),
                _number(row["reproduced"], row["unit"]), _error(row), verdict,
            )
        )  # fmt: skip
    return found


def markdown(document: Mapping[str, Any]) -> str:
    """The table of docs/fidelity.md, from what `drivebay validate --json` printed."""
    notes = {row.published.id: row for row in load_plan().rows}
    out = [
        "| | drive | test | host | figure | published | reproduced | error | |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in document["rows"]:
        known = notes[row["id"]]
        mark = "fitted" if known.fitted else ""
        verdict = "" if row["ok"] else "**conflict**" if known.conflict else "**off**"
        condition = f", {known.published.condition}" if known.published.condition else ""
        out.append(
            "| " + " | ".join(
                _cell(text) for text in (
                    row["id"], _named(row["drive"]), row["test"] + condition, known.published.host,
                    row["metric"],
                    _said(row),
                    _number(row["reproduced"], row["unit"]), _error(row),
                    " ".join(part for part in (mark, verdict) if part),
                )
            ) + " |"
        )  # fmt: skip
    summary = document["summary"]
    out += [
        "",
        f"{summary['ok']} of {summary['n']} rows within their bounds; median of the absolute "
        f"errors {summary['median_abs_error_pct']} %.",
        "",
        "Conflicts and notes:",
        "",
    ]
    out += [
        f"- {row['id']}: {notes[row['id']].conflict or notes[row['id']].note}"
        for row in document["rows"]
        if notes[row["id"]].conflict or notes[row["id"]].note
    ]
    out += ["", "Not covered:", ""]
    out += [f"- {row['id']}: {row['why']}" for row in document["not_covered"]]
    return "\n".join(out) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "/")


def _said(row: Mapping[str, Any]) -> str:
    return RELATIONS[row["relation"]] + _number(row["published"], row["unit"])


def _number(value: float | str, unit: str) -> str:
    if isinstance(value, str):
        return value
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{text} {unit.partition(' (')[0]}".strip()


def _error(row: Mapping[str, Any]) -> str:
    return "" if row["error_pct"] is None else f"{row['error_pct']:+.1f} %"
