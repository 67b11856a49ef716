"""A result folder as a experiment: its tests on the drive that is fitted, and their figures.

Tests are run in short forms where the folder shows that these tell the same (`shorten`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from drivebay.analysis import Measured, review
from drivebay.common.errors import UserError
from drivebay.definitions.profiles import Profile
from drivebay.definitions.suites import Test
from drivebay.lab.calibrate.experiment import (
    KINDS_OF_PHASES,
    Experiment,
    Figures,
    Job,
    Observation,
    figures_of,
    scale_of,
)
from drivebay.lab.calibrate.parameters import Parameter, with_values
from drivebay.lab.calibrate.shorten import shortened
from drivebay.results import load

USUAL_KINDS = KINDS_OF_PHASES | {"consistency", "thermal"}
"""Kinds of tests that are fitted to unless the user says which; traces are long, and better kept as
predictions."""
WITHIN_PERCENT = 3.0
"""A figure is recovered if it comes within this of what was given."""
HELD_OUT_PERCENT = 10.0
"""A held-out figure is predicted if it comes within this."""


class FolderExperiment(Experiment):
    """Tests of one drive, the fitted one; an observation is named TEST/KEY."""

    def profile(
        self, job: Job, parameters: Sequence[Parameter], values: Sequence[float]
    ) -> Profile:
        """The fitted drive with these values."""
        return with_values(self.base, parameters, values)

    def moves(self, job: Job, parameter: Parameter) -> bool:
        """Whether the parameter changes the job: always, as every run is of the fitted drive."""
        return True

    def jobs_of(self, observation: Observation) -> tuple[Job, ...]:
        """The one test that the observation is a figure of."""
        return (Job("", observation.test),)

    def keep(self, job: Job, found: Measured) -> Figures:
        """All that a fit may observation at."""
        return {key: figure.value for key, figure in figures_of(found).items()}

    def read(self, observation: Observation, done: Mapping[Job, Figures]) -> float | None:
        """Its test's figure."""
        return done[Job("", observation.test)].get(observation.name.partition("/")[2])

    def bound_percent(self, observation: Observation, *, held_out: bool) -> float:
        """3 %, or 10 % of a test that was held out."""
        return HELD_OUT_PERCENT if held_out else WITHIN_PERCENT


def folder_experiment(
    folder: Path, base: Profile, only: Sequence[str], hold_out: Sequence[str], seed: int
) -> FolderExperiment:
    """What a result folder gives to observation at.

    Raises
    ------
    UserError
        If a test is unknown or has not been run, if nothing can be fitted to, or if the folder's
        drive is not of the base's size.
    """
    result = load(folder)
    tests = review(result).tests
    known = [step.id for step in result.steps]
    for option, names in (("--only", only), ("--hold-out", hold_out)):
        for name in names:
            if name not in known:
                raise UserError(
                    f"{option} {name}: the result has no such test; it has {', '.join(known)}",
                    f"{option} {known[0]}",
                )
            if name not in tests:
                raise UserError(
                    f"{option} {name}: this test of {folder} has not been run",
                    f"drivebay review --resume {folder}",
                )
    if both := sorted(set(only) & set(hold_out)):
        raise UserError(
            f"--hold-out {both[0]}: it is named with --only, too", "hold out a test, or fit to it"
        )
    used = [
        name
        for name, found in tests.items()
        if name not in hold_out and (name in only if only else found.test.kind in USUAL_KINDS)
    ]
    fitted: dict[Job, Test] = {}
    full: dict[Job, Test] = {}
    observations: list[Observation] = []
    whole: list[Observation] = []
    for name in used:
        all_of_it = _observations(tests[name])
        if not all_of_it:
            continue
        short, told = shortened(tests[name])
        fitted[Job("", name)], full[Job("", name)] = short, tests[name].test
        for observation in all_of_it:
            key = observation.name.partition("/")[2]
            if told is None or key in told:
                observations.append(
                    observation if told is None else replace(observation, value=told[key])
                )
        whole += all_of_it
    if not observations:
        missing = f"; not run: {', '.join(step.id for step in result.missing)}" * bool(
            result.missing
        )
        raise UserError(
            f"{folder} has no figure to fit to{missing}",
            f"drivebay review --resume {folder}" if result.missing else "--only TEST names a test",
        )
    held_out = [observation for name in hold_out for observation in _observations(tests[name])]
    full |= {Job("", name): tests[name].test for name in hold_out}
    notes = []
    if result.quick:
        notes.append(
            f"{folder.name} is a quick review: it shows neither steady state nor heat, so values "
            "on which only those depend cannot be fitted to it"
        )
    if result.missing:
        notes.append(f"not run in {folder.name}: {', '.join(step.id for step in result.missing)}")
    if left := [name for name in tests if name not in used and name not in hold_out]:
        notes.append(
            f"left out: {', '.join(left)} (--only TEST fits to it, --hold-out TEST predicts it)"
        )
    _same_size(result.target, base)
    drive = str(result.target.get("name") or result.target.get("model"))
    kind = "virtual drive" if result.simulated else "drive"
    length = ", quick" if result.quick else ""
    words = f"a review of the {kind} {drive} ({result.suite.name}{length})"
    return FolderExperiment(
        base,
        fitted,
        full,
        tuple(observations),
        tuple(whole),
        tuple(held_out),
        words,
        tuple(notes),
        seed,
    )


def _same_size(target: Mapping[str, Any], base: Profile) -> None:
    capacity = int(target.get("capacity_bytes") or 0)
    if capacity and abs(capacity / base.capacity_bytes - 1) > 0.01:
        sectors = capacity // 4096 * 8
        raise UserError(
            f"the drive in the result has {capacity:,} bytes, {base.name} has "
            f"{base.capacity_bytes:,}",
            f"begin from a profile of its size: drive.capacity_sectors = {sectors} and "
            "nand.blocks_per_plane to go with it",
        )


def _observations(found: Measured) -> list[Observation]:
    """Every figure of a test that has a value."""
    name = found.test.id
    return [
        Observation(
            f"{name}/{key}", name, figure.label, figure.unit, figure.value, scale_of(figure)
        )
        for key, figure in figures_of(found).items()
        if figure.value is not None and figure.value > 0
    ]
