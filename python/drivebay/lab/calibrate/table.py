"""What a fit found, as JSON for scripts and as rows for people."""

from __future__ import annotations

import math
from typing import Any

from drivebay.lab.calibrate.calibration import Calibration, Compared, Estimate


def as_json(found: Calibration) -> dict[str, Any]:
    """Parameters, figures and what is known; numbers to six digits."""
    known = found.identifiability
    return {
        "out": None if found.out is None else str(found.out),
        "profile": found.profile.name,
        "fitted_to": found.data,
        "seed": found.seed,
        "recovered": found.recovered,
        "predicted": found.predicted,
        "parameters": [
            {
                "name": one.name,
                "before": _digits(one.before),
                "value": _digits(one.value),
                "range": [one.low, one.high],
                "sd": _digits(one.sd),
                "open_percent": _percent(one.open_share),
            }
            for one in found.parameters
        ],
        "figures": [
            {
                "name": one.name,
                "test": one.test,
                "label": one.label,
                "unit": one.unit,
                "observed": _digits(one.observed),
                "before": _digits(one.before),
                "after": _digits(one.after),
                "error_pct": _digits(one.error_percent),
                "held_out": one.held_out,
                "ok": one.ok,
            }
            for one in found.figures
        ],
        "identifiability": {
            "parameters": list(known.parameters),
            "figures": list(known.figures),
            "sensitivity_pct_per_pct": [[_digits(x) for x in row] for row in known.sensitivity],
            "singular_values": [_digits(x) for x in known.singular_values],
            "correlation": [[round(float(x), 4) for x in row] for row in known.correlation],
            "determined": known.determined,
            "sentences": list(known.sentences),
        },
        "notes": list(found.notes),
    }


PARAMETER_HEAD = ("parameter", "before", "calibrated", "±", "range", "left open")


def parameter_rows(found: Calibration) -> list[tuple[str, ...]]:
    """One row per parameter, as `PARAMETER_HEAD` says."""
    return [_parameter(one) for one in found.parameters]


def _parameter(one: Estimate) -> tuple[str, ...]:
    return (
        one.name,
        f"{one.before:.5g}",
        f"{one.value:.5g}",
        "" if one.sd is None else f"{one.sd:.2g}",
        f"{one.low:g} to {one.high:g}",
        "all" if one.open_share is None else f"{100 * min(1.0, one.open_share):.0f} %",
    )


FIGURE_HEAD = ("test", "figure", "observed", "before", "after", "error", "")


def figure_rows(found: Calibration) -> list[tuple[str, ...]]:
    """One row per figure, those of held-out tests last, as `FIGURE_HEAD` says."""
    return [_figure(one) for one in found.figures]


def _figure(one: Compared) -> tuple[str, ...]:
    error = "" if one.error_percent is None else f"{one.error_percent:+.2f} %"
    held = "held out" if one.held_out else ""
    return (
        one.test,
        one.label,
        _number(one.observed, one.unit),
        _number(one.before, one.unit),
        _number(one.after, one.unit),
        error,
        ", ".join(part for part in (held, "" if one.ok else "off") if part),
    )


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return "none"
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{text} {unit}".strip()


def _digits(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(f"{value:.6g}")


def _percent(share: float | None) -> float | None:
    return None if share is None else round(100 * min(1.0, share), 2)
