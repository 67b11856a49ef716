"""What a fit found, as JSON values for scripts and as rows for people."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import numpy as np

from drivebay.lab.calibrate.calibration import Calibration

PARAMETER_HEAD = ("parameter", "before", "calibrated", "±", "range", "left open")
FIGURE_HEAD = ("test", "figure", "observed", "before", "after", "error", "")


def as_json(found: Calibration) -> dict[str, Any]:
    """The parameters, figures and identifiability; numbers to six digits."""
    content: dict[str, Any] = _rounded(
        {
            **{key: getattr(found, key) for key in ("data", "seed", "recovered", "predicted")},
            "out": None if found.out is None else str(found.out),
            "profile": found.profile.name,
            "parameters": [asdict(one) for one in found.parameters],
            "figures": [asdict(one) for one in found.figures],
            "identifiability": asdict(found.identifiability),
            "notes": found.notes,
        }
    )
    return content


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_rounded(one) for one in value]
    if isinstance(value, float | np.floating):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value


def parameter_rows(found: Calibration) -> list[tuple[str, ...]]:
    """One row per parameter, as `PARAMETER_HEAD` says."""
    return [
        (
            one.name,
            f"{one.before:.5g}",
            f"{one.value:.5g}",
            "" if one.sd is None else f"{one.sd:.2g}",
            f"{one.low:g} to {one.high:g}",
            "all" if one.open_share is None else f"{100 * min(1.0, one.open_share):.0f} %",
        )
        for one in found.parameters
    ]


def figure_rows(found: Calibration) -> list[tuple[str, ...]]:
    """One row per figure, those of held-out tests last, as `FIGURE_HEAD` says."""
    return [
        (
            one.test,
            one.label,
            *(_number(value, one.unit) for value in (one.observed, one.before, one.after)),
            "" if one.error_percent is None else f"{one.error_percent:+.2f} %",
            ", ".join(["held out"] * one.held_out + ["off"] * (not one.ok)),
        )
        for one in found.figures
    ]


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return "none"
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{text} {unit}".strip()
