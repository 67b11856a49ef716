"""What a fit found: the profile, its parameters and figures, and whether they came out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from drivebay.definitions.profiles import Profile
from drivebay.lab.calibrate.experiment import Experiment
from drivebay.lab.calibrate.identifiability import Identifiability
from drivebay.lab.calibrate.observations import Observation


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

    `error_percent` is None where the drive has no such figure; 0 where a bound holds.
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
    experiment: Experiment,
    observation: Observation,
    before: float | None,
    after: float | None,
    *,
    held_out: bool,
) -> Compared:
    """The figure beside its observation, and whether it is within its bound."""

    def percent(value: float | None) -> float | None:
        return None if value is None else float(100 * np.expm1(observation.error(value)))

    error, one = percent(after), observation
    ok = error is not None and abs(error) <= experiment.bound_percent(one, held_out=held_out)
    figure = (one.name, one.test, one.label, one.unit, one.value)
    return Compared(*figure, before, after, percent(before), error, held_out, ok)


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
