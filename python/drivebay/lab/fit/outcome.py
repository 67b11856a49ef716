"""Outcome of a fit: the profile, its parameters and figures, and the agreement with the data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from drivebay.analysis.fidelity import interval
from drivebay.definitions.profiles import Profile
from drivebay.lab.fit.experiment import Experiment, Observation
from drivebay.lab.fit.linear import OPEN, Identifiability
from drivebay.lab.fit.parameters import numbers
from drivebay.lab.fit.write import PAGE_MARK, PROFILE_MARK


@dataclass(frozen=True)
class Estimate:
    """A parameter after the fit; values in the unit that its name ends with, for a list its mean.

    `sd` is its standard error, `open_share` the undetermined share of its range (1: all of it),
    `interval` contains it with 90 %; all None if no figure depends on it.
    """

    name: str
    before: float
    value: float
    low: float
    high: float
    sd: float | None
    open_share: float | None
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Compared:
    """A figure as observed, before the fit and after it, each test at its full length.

    `interval` contains it with 90 %, given the uncertainty of the fitted parameters.
    `error_percent` is None if the drive has no such figure; 0 if a bound holds.
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
    """Result of a fit.

    `profile` is the calibrated drive, `text` the content of its file; `data` describes the data
    that it was fitted to. `evaluations` counts those of this run, without the journal's.
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
        """True if every fitted figure is within 3 % (published ones: within their bounds)."""
        return all(figure.ok for figure in self.figures if not figure.held_out)

    @property
    def predicted(self) -> bool:
        """True if every held-out figure is within 10 %."""
        return all(figure.ok for figure in self.figures if figure.held_out)


def compared(
    observation: Observation,
    before: float | None,
    after: float | None,
    *,
    held_out: bool,
    sd: float | None = None,
) -> Compared:
    """Compares a figure with its observation and bound.

    Parameters
    ----------
    sd : of its logarithm, from the uncertainty of the parameters after the fit.
    """

    def percent(value: float | None) -> float | None:
        return None if value is None else float(100 * np.expm1(observation.error(value)))

    error, observed = percent(after), observation
    ok = error is not None and abs(error) <= observed.bound_percent
    figure = (observed.name, observed.test, observed.label, observed.unit, observed.value)
    ends = None if sd is None or not after or after <= 0 else interval(after, sd)
    return Compared(*figure, before, after, percent(before), error, held_out, ok, ends)


def head(experiment: Experiment, known: Identifiability, figures: Sequence[Compared]) -> str:
    """The comment above a written profile."""
    errors: dict[bool, list[float]] = {False: [], True: []}
    for figure in figures:
        if figure.error_percent is not None:
            errors[figure.held_out].append(abs(figure.error_percent))
    lines = [f"{PROFILE_MARK} {experiment.description}, from {experiment.base.name}."]
    lines.append(f"Fitted figures: {len(errors[False])}, {_spread(errors[False])}.")
    if errors[True]:
        lines.append(f"Held-out figures: {len(errors[True])}, {_spread(errors[True])}.")
    return "\n".join([*lines, *known.sentences])


def _spread(errors: Sequence[float]) -> str:
    if not errors:
        return "none of which the drive has"
    return f"median error {np.median(errors):.2f} %, largest {max(errors):.2f} %"


PARAMETER_HEAD = ("parameter", "before", "calibrated", "90 % interval", "range", "left open")
FIGURE_HEAD = ("test", "figure", "observed", "before", "after", "90 % interval", "error", "")


def as_json(calibration: Calibration) -> dict[str, Any]:
    """Converts parameters, figures and identifiability to JSON values; numbers have six digits."""
    content = {
        **{key: getattr(calibration, key) for key in ("data", "seed", "recovered", "predicted")},
        "out": None if calibration.out is None else str(calibration.out),
        "profile": calibration.profile.name,
        "parameters": [asdict(parameter) for parameter in calibration.parameters],
        "figures": [asdict(figure) for figure in calibration.figures],
        "identifiability": asdict(calibration.identifiability),
        "notes": calibration.notes,
    }
    return {key: _rounded(value) for key, value in content.items()}


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_rounded(item) for item in value]
    if isinstance(value, float | np.floating):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value


def parameter_rows(calibration: Calibration) -> list[tuple[str, ...]]:
    """One row per parameter, with the columns of `PARAMETER_HEAD`."""
    return [
        (
            parameter.name,
            f"{parameter.before:.5g}",
            f"{parameter.value:.5g}",
            "" if parameter.interval is None else "{:.4g} to {:.4g}".format(*parameter.interval),
            f"{parameter.low:g} to {parameter.high:g}",
            _share(parameter.open_share),
        )
        for parameter in calibration.parameters
    ]


def _share(value: float | None) -> str:
    return "all" if value is None else f"{100 * min(1.0, value):.0f} %"


def figure_rows(calibration: Calibration) -> list[tuple[str, ...]]:
    """One row per figure, those of held-out tests last, with the columns of `FIGURE_HEAD`."""
    return [
        (
            figure.test,
            figure.label,
            _number(figure.observed, figure.unit),
            _number(figure.before, figure.unit),
            _number(figure.after, figure.unit),
            _interval(figure.interval),
            "" if figure.error_percent is None else f"{figure.error_percent:+.2f} %",
            ", ".join(["held out"] * figure.held_out + ["off"] * (not figure.ok)),
        )
        for figure in calibration.figures
    ]


def page(calibration: Calibration) -> str:
    """Formats the fit as Markdown: values, loads held out, and what the data do not tell."""
    rows = [row for row in figure_rows(calibration) if "held out" in row[-1]]
    head = ("load", "figure", "measured", "base", "twin", "90 % interval", "error")
    parts = [
        f"# {calibration.profile.name}",
        f"Fitted to {calibration.data}. {PAGE_MARK}",
        markdown(PARAMETER_HEAD, parameter_rows(calibration)),
        "## Loads held out",
        markdown(head, [row[:-1] for row in rows]),
        score(calibration),
        "## What these loads do not tell",
        "\n".join(f"- {line}" for line in untold(calibration)),
    ]
    return "\n\n".join([*parts, *(f"Note: {note}" for note in calibration.notes)]) + "\n"


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Formats a table as Markdown."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def score(calibration: Calibration) -> str:
    """Counts held-out figures within their bounds, and inside their intervals."""
    rows = [figure for figure in calibration.figures if figure.held_out]
    inside = sum(
        figure.interval is not None and figure.interval[0] <= figure.observed <= figure.interval[1]
        for figure in rows
    )
    good = sum(figure.ok for figure in rows)
    return (
        f"{good} of {len(rows)} figures are within their bound (rates 10 %, 99th percentiles "
        f"25 %); {inside} are inside their 90 % interval."
    )


def untold(calibration: Calibration) -> list[str]:
    """Sentences about sections of the profile, and values, that the loads do not determine."""

    def sections(names: Iterable[str]) -> set[str]:
        return {name.partition(".")[0].replace("_", " ") for name in names}

    told = {p.name for p in calibration.parameters if p.open_share and p.open_share <= OPEN}
    fitted = {p.name for p in calibration.parameters}
    ranged = {path for path, leaf in numbers(calibration.profile.raw) if leaf.get("range")}
    lists = {
        "No load of yours tells about": sections(fitted) - sections(told),
        "Not fitted, as in the base": sections(ranged) - sections(fitted),
        "Open over more than half of the range": fitted - told,
    }
    return [f"{words}: {', '.join(sorted(some))}." for words, some in lists.items() if some]


def _interval(ends: tuple[float, float] | None) -> str:
    """Formats both ends; "not moved" if none of the fitted values moves the figure."""
    if ends is None:
        return ""
    return "not moved" if ends[0] == ends[1] else " to ".join(_number(end, "") for end in ends)


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return "none"
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{text} {unit}".strip()
