"""Table of `drivebay validate`: JSON for scripts and for storage, text for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from drivebay.analysis import fidelity
from drivebay.definitions import profiles as catalog
from drivebay.lab.validate import score
from drivebay.lab.validate.score import Scored
from drivebay.lab.validate.verdicts import Validation

RELATIONS = {"approx": "about ", "lt": "under ", "gt": "over "}
HEAD = (
    "row", "drive", "figure", "published", "reproduced", "error", "leverage", "left out",
    "90 %", "",
)  # fmt: skip
MODERN = "Drives of today, not part of the score above"


def as_json(validation: Validation) -> dict[str, Any]:
    """Rows, summary and rows that are not covered; numbers have six digits, so that the document
    can be stored.
    """
    every = score.scored(validation)
    rows = [row for row in every if row.row.scored]
    others = [row for row in every if not row.row.scored]
    fitted = replace(validation, verdicts=tuple(row.verdict for row in rows))
    median = fitted.median_abs_error_pct
    return {
        "rows": [_row(row) for row in every],
        "summary": {
            **_summary(rows),
            "n": len(rows),
            "ok": fitted.ok,
            "median_abs_error_pct": None if median is None else round(median, 3),
            "stale": fidelity.stale(),
        },
        "drives": _by_drive(rows),
        "unscored": {"summary": _summary(others), "drives": _by_drive(others)},
        "not_covered": [
            {"id": row.published.id, "why": row.not_covered, "scored": row.scored}
            for row in validation.not_covered
        ],
    }


def figures_of(document: dict[str, Any]) -> dict[str, float | str]:
    """Reproduced figures of a document's rows by id, in the units of `Verdict.reproduced`."""
    return {
        row["id"]: mine if isinstance(mine, str) else mine / _factor(row["unit"])
        for row in document.get("rows", ())
        for mine in [row["reproduced"]]
    }


def _factor(printed_unit: str) -> float:
    return 1e-3 if printed_unit == "GB/s" else 1.0


def _by_drive(rows: Sequence[Scored]) -> dict[str, Any]:
    return {name: _summary(some) for name, some in score.by_drive(rows).items()}


def _summary(rows: Sequence[Scored]) -> dict[str, Any]:
    return {
        key: round(value, 4) if isinstance(value, float) else value
        for key, value in score.summary(rows).items()
    }


def _row(scored: Scored) -> dict[str, Any]:
    verdict, published = scored.verdict, scored.row.published
    mine, error = verdict.reproduced, verdict.error_percent
    factor = _factor(published.printed_unit)
    value = None if published.value is None else published.value * factor
    left_out = scored.left_out_percent

    def ends(pair: Iterable[float] | None) -> list[float] | None:
        return None if pair is None else [_digits(end * factor) for end in pair]

    return {
        **{key: getattr(published, key) for key in ("id", "drive", "test", "condition")},
        "differs": scored.row.differs,
        **{key: getattr(published, key) for key in ("host", "metric", "relation")},
        "published": published.text if value is None else _digits(value),
        "bounds": ends(scored.row.bounds),
        "reproduced": mine if isinstance(mine, str) else _digits(float(mine) * factor),
        "unit": published.printed_unit,
        "error_pct": None if error is None else round(error, 2),
        "ok": bool(verdict.ok),
        "leverage": None if scored.leverage is None else round(scored.leverage, 5),
        "loo_error_pct": None if left_out is None else round(left_out, 2),
        "loo_ok": scored.left_out_ok if scored.left_out is not None else None,
        "interval": ends(scored.interval),
        "within": scored.within,
        "scored": scored.row.scored,
        "class": scored.class_of,
        "calibrated_on": scored.row.calibrated_on or scored.row.catalog,
        "kind": verdict.kind,
        "source": published.publication,
        "off": None if scored.off is None else round(scored.off, 5),
    }


def _digits(value: float) -> float:
    return float(f"{value:.6g}")


def lines(document: dict[str, Any], *, scored: bool, of_class: str) -> list[tuple[str, ...]]:
    """Rows of `HEAD` for a terminal, of one class, for scored drives or the others."""
    return [
        (
            row["id"], named(row["drive"]), f"{row['test']}, {row['metric']}", printed(row),
            number(row["reproduced"], row["unit"]), percent(row["error_pct"]),
            "" if row["leverage"] is None else f"{row['leverage']:.2f}",
            percent(row["loo_error_pct"]), between(row), "" if row["ok"] else "off",
        )
        for row in document["rows"]
        if row["scored"] == scored and row["class"] == of_class
    ]  # fmt: skip


def headline(name: str, scores: dict[str, Any]) -> str:
    """One line: the score of a drive or of all."""
    rest = (
        f"{scores['n_words_hold']} of {scores['n_words']} words and ranks hold; "
        f"{scores['n_fitted']} fitted ({scores['n_in_profile']} in the profiles), "
        f"{scores['n_contradicted']} contradicted"
    )
    if not scores["n_predicted"]:
        return f"{name}: no number predicted; {rest}"
    median, most = scores["median_abs_loo_error_pct"], scores["p90_abs_loo_error_pct"]
    return (
        f"{name}: {scores['n_predicted']} number{'s' * (scores['n_predicted'] > 1)} predicted, "
        f"median error {median:.1f} %, nine in ten under {most:.0f} %, "
        f"{100 * scores['within_share']:.0f} % within their bounds; {rest}"
    )


def named(drive: str) -> str:
    """Name of a drive in the tables; a stand-in is marked as such."""
    known = drive in catalog.names() and catalog.load(drive).stand_in
    return f"{drive} (stand-in)" if known else drive


def printed(row: dict[str, Any]) -> str:
    """Formats a published figure as it was printed."""
    return RELATIONS.get(row["relation"], "") + number(row["published"], row["unit"])


def number(value: float | str, unit: str) -> str:
    """Formats a figure with its unit, to four digits."""
    if isinstance(value, str):
        return value
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{text} {unit.partition(' (')[0]}".strip()


def percent(value: float | None) -> str:
    """Formats an error with its sign; empty if there is none."""
    return "" if value is None else f"{value:+.1f} %"


def between(row: dict[str, Any]) -> str:
    """Formats the interval, marked if it does not contain the published value."""
    if row["interval"] is None:
        return "" if row["off"] is None else fidelity.NO_ROW
    low, high = (number(end, "") for end in row["interval"])
    return f"{low} to {high}{'' if row['within'] else ' (not in it)'}"
