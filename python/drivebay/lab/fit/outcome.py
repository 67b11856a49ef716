"""What a fit found: the profile, its parameters and figures, and whether they came out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from drivebay.analysis.fidelity import interval
from drivebay.definitions.profiles import Profile
from drivebay.lab.fit.experiment import Experiment, Observation
from drivebay.lab.fit.linear import Identifiability


@dataclass(frozen=True)
class Estimate:
    """A parameter after the fit; values in the unit that its name ends with, of a list its mean.

    `sd` is its standard error, `open_share` what the data leave of its range (1: all of it); both
    None if no figure depends on it.
    """

    name: str
    before: float
    value: float
    low: float
    high: float
    sd: float | None
    open_share: float | None


@dataclass(frozen=True)
class Compared:
    """A figure as it was observed, before the fit and after it, each test at its full length.

    `interval` holds it with 90 %, as far as the fitted parameters are left open. `error_percent` is
    None where the drive has no such figure; 0 where a bound holds.
    """

    name: str
    test: str
    label: str
    unit: str
    observed: float
    before: float | None
    after: float | None
    error_before_percent: float | None
    error_percent: float | None
    held_out: bool
    ok: bool
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Calibration:
    """What a fit found.

    `profile` is the calibrated drive, `text` the same as the profile's file; `data` says what it
    was fitted to. `evaluations` counts those of this run, without the journal's.
    """

    profile: Profile
    text: str
    out: Path | None
    parameters: tuple[Estimate, ...]
    figures: tuple[Compared, ...]
    identifiability: Identifiability
    data: str
    notes: tuple[str, ...]
    evaluations: int
    seed: int

    @property
    def recovered(self) -> bool:
        """Whether every fitted figure came within 3 % (of published ones: within their bounds)."""
        return all(one.ok for one in self.figures if not one.held_out)

    @property
    def predicted(self) -> bool:
        """Whether every held-out figure came within 10 %."""
        return all(one.ok for one in self.figures if one.held_out)


def compared(
    observation: Observation,
    before: float | None,
    after: float | None,
    *,
    held_out: bool,
    sd: float | None = None,
) -> Compared:
    """The figure beside its observation, and whether it is within its bound.

    Parameters
    ----------
    sd : of its logarithm, from what the fit left open of the parameters.
    """

    def percent(value: float | None) -> float | None:
        return None if value is None else float(100 * np.expm1(observation.error(value)))

    error, one = percent(after), observation
    ok = error is not None and abs(error) <= one.bound_percent
    figure = (one.name, one.test, one.label, one.unit, one.value)
    ends = None if sd is None or not after or after <= 0 else interval(after, sd)
    return Compared(*figure, before, after, percent(before), error, held_out, ok, ends)


def head(experiment: Experiment, known: Identifiability, figures: Sequence[Compared]) -> str:
    """The comment above a written profile."""
    errors = {
        held: [
            abs(f.error_percent)
            for f in figures
            if f.held_out == held and f.error_percent is not None
        ]
        for held in (False, True)
    }
    lines = [f"Calibrated by drivebay to {experiment.words}, from {experiment.base.name}."]
    lines.append(f"Fitted figures: {len(errors[False])}, {_spread(errors[False])}.")
    if errors[True]:
        lines.append(f"Held-out figures: {len(errors[True])}, {_spread(errors[True])}.")
    return "\n".join([*lines, *known.sentences])


def _spread(errors: Sequence[float]) -> str:
    if not errors:
        return "none of which the drive has"
    return f"median error {np.median(errors):.2f} %, largest {max(errors):.2f} %"


PARAMETER_HEAD = ("parameter", "before", "calibrated", "±", "range", "left open")
FIGURE_HEAD = ("test", "figure", "observed", "before", "after", "90 % interval", "error", "")


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
            _interval(one.interval),
            "" if one.error_percent is None else f"{one.error_percent:+.2f} %",
            ", ".join(["held out"] * one.held_out + ["off"] * (not one.ok)),
        )
        for one in found.figures
    ]


def _interval(ends: tuple[float, float] | None) -> str:
    """Both ends; in words where none of the fitted values moves the figure."""
    if ends is None:
        return ""
    return "not moved" if ends[0] == ends[1] else " to ".join(_number(end, "") for end in ends)


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return "none"
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{text} {unit}".strip()
