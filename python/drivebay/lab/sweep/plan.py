"""Resolved sweep: numbered runs, each computed from its number alone.

Runs are numbered as (point, drive, test, seed), with the seed changing fastest, so that an
interrupted sweep has complete points first. The plan contains everything that a worker needs: it
reads no file of the user's. All points share their seeds, so that differences between points come
from their parameters and not from the random draw (common random numbers).
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import math
import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import ValidationError

from drivebay.common import provenance
from drivebay.common.errors import EnvironmentProblem, UserError
from drivebay.definitions import policies
from drivebay.definitions import profiles as catalog
from drivebay.definitions.modifications import changed
from drivebay.definitions.suites import Suite, Test, Workload
from drivebay.lab.sweep.spec import RUNS_MAX, Scalar, Spec, beside, tests_of
from drivebay.targets.virtual.target import VirtualTarget

# Largest number of points that are checked before the start; of more points, so many are checked,
# spread evenly.
CHECKED_MAX = 2_000


@dataclass(frozen=True)
class Point:
    """One run. `drive` and `test` are indices into the plan's lists."""

    index: int
    drive: int
    test: int
    values: Mapping[str, Scalar]
    seed: int


@dataclass(frozen=True)
class Plan:
    """A resolved sweep; `profiles` are complete, `tests` as `build` runs them; `policies` are
    the plug-ins that changes name, "name@digest" by name.
    """

    spec: Spec
    suite: str
    tests: tuple[Test, ...]
    profiles: tuple[catalog.Profile, ...]
    build: Mapping[str, Any]
    policies: Mapping[str, str]

    @property
    def runs(self) -> int:
        """Number of runs; for a fleet, number of drives."""
        if self.spec.fleet is not None:
            return len(self.spec.fleet.drives)
        return self.points * len(self.profiles) * len(self.tests) * len(self.spec.seed_list)

    @functools.cached_property
    def points(self) -> int:
        """Number of points of the parameters."""
        if self.spec.design.points is not None:
            return self.spec.design.points
        return math.prod(len(parameter.values or ()) for parameter in self.spec.parameters)

    @functools.cached_property
    def fingerprint(self) -> str:
        """Hash of everything that figures depend on, the plan and the build, as 16 hexadecimal
        digits.
        """
        return hashlib.sha256(json.dumps(self.as_json(), sort_keys=True).encode()).hexdigest()[:16]

    def as_json(self) -> dict[str, Any]:
        """The plan as JSON values; `from_json` reads it again."""
        return {
            "spec": self.spec.model_dump(mode="json", by_alias=True, exclude_unset=True),
            "suite": self.suite,
            "tests": [test.model_dump(mode="json") for test in self.tests],
            "profiles": [profile.resolved() for profile in self.profiles],
            "build": dict(self.build),
            **({"policies": dict(self.policies)} if self.policies else {}),
        }

    def point(self, index: int) -> Point:
        """The run with this number, from 0."""
        seeds = self.spec.seed_list
        rest, seed = divmod(index, len(seeds))
        rest, test = divmod(rest, len(self.tests))
        number, drive = divmod(rest, len(self.profiles))
        return Point(index, drive, test, self.values(number), seeds[seed])

    def values(self, number: int) -> dict[str, Scalar]:
        """Values of the parameters at a point of the design."""
        drawn: dict[str, Scalar] = {}
        if self.spec.design.kind == "grid":
            for parameter in reversed(self.spec.parameters):
                assert parameter.values is not None, "checked by the spec"
                number, place = divmod(number, len(parameter.values))
                drawn[parameter.name] = parameter.values[place]
            return {parameter.name: drawn[parameter.name] for parameter in self.spec.parameters}
        shares = self._shares[number].tolist()
        for share, parameter in zip(shares, self.spec.parameters, strict=True):
            if (several := parameter.values) is not None:
                place = min(int(share * len(several)), len(several) - 1)
                drawn[parameter.name] = several[place]
                continue
            assert parameter.low is not None and parameter.high is not None, "checked by the spec"
            if parameter.scale == "log":
                value = parameter.low * (parameter.high / parameter.low) ** share
            else:
                value = parameter.low + (parameter.high - parameter.low) * share
            drawn[parameter.name] = round(value) if parameter.whole else float(f"{value:.9g}")
        return drawn

    @functools.cached_property
    def _shares(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """The design in the unit cube, one row for each point; drawn from the first seed."""
        points, width = self.points, len(self.spec.parameters)
        random = np.random.default_rng([self.spec.seed_list[0], points, width])
        if self.spec.design.kind == "random":
            return random.random((points, width))
        # Equals scipy.stats.qmc, whose import takes every worker 3 s of processor time.
        places = np.tile(np.arange(points)[:, None], (1, width))
        return (random.permuted(places, axis=0) + random.random((points, width))) / points

    def profile(self, point: Point) -> catalog.Profile:
        """The drive of a run, changed by its parameters. Raises UserError if the changed drive
        is not possible.
        """
        own = self.profiles[point.drive]
        changes = tuple(
            word
            for parameter in self.spec.parameters
            if (word := parameter.word(point.values[parameter.name])) is not None
        )
        return _changed(own.json(), changes) if changes else own

    def test(self, point: Point) -> Test:
        """The test of a run, its load changed by its parameters. Raises UserError if the changed
        load is not possible.
        """
        test = self.tests[point.test]
        fields = {
            parameter.load: point.values[parameter.name]
            for parameter in self.spec.parameters
            if parameter.load is not None
        }
        if not fields:
            return test
        try:
            phases = tuple(
                phase.model_copy(
                    update={"workload": Workload(**{**phase.workload.model_dump(), **fields})}
                )
                for phase in test.phases
            )
            depths = {phase.workload.queue_depth for phase in phases}
            kept = tuple(depth for depth in test.metric_queue_depths if depth in depths)
            metric = kept or tuple(sorted(depths)) if test.metric_queue_depths else ()
            changes = {"phases": phases, "metric_queue_depths": metric, "quick": None}
            return Test(**{**dict(test), **changes})
        except ValidationError as problem:
            text = " ".join(problem.errors(include_url=False)[0]["msg"].split())
            given = ", ".join(f"{key} = {value}" for key, value in fields.items())
            raise UserError(
                f"test {test.id} with {given}: {text}", "change the parameter's values"
            ) from None

    def memory_bytes(self, point: Point) -> int:
        """Approximate memory of a run."""
        return VirtualTarget(self.profile(point)).memory_bytes

    def check(self) -> None:
        """Checks that the runs are possible, before the first one begins. Raises UserError on
        the first that is not.
        """
        if self.runs > RUNS_MAX:
            raise UserError(
                f"{self.spec.name}: {self.runs:,} runs are too many; at most {RUNS_MAX:,}",
                'use fewer values, or a Latin hypercube: [design] kind = "latin-hypercube"',
            )
        for index in self._checked():
            point = self.point(index)
            VirtualTarget(self.profile(point)).check((self.test(point),))

    def _checked(self) -> Iterator[int]:
        each = len(self.spec.seed_list)
        step = max(1, math.ceil(self.runs / each / CHECKED_MAX))
        return itertools.islice(range(0, self.runs, each), 0, None, step)

    def whole_suite(self) -> Suite:
        """The tests as one suite, for the reviews of a fleet's drives."""
        return Suite(
            name=self.suite,
            title=self.spec.title or self.spec.name,
            description=f"Tests of {self.suite}, as the sweep {self.spec.name} runs them.",
            source=f"the suite {self.suite}",
            tests=self.tests,
        )


@functools.lru_cache(maxsize=256)
def _changed(text: str, changes: tuple[str, ...]) -> catalog.Profile:
    return changed(catalog.from_resolved(json.loads(text)), changes)


def make(spec: Spec, *, where: str) -> Plan:
    """Resolves a sweep: looks up and checks drives and tests; paths among them are relative to
    the folder of the sweep's file, `where`. Raises UserError if a drive, a change or a test
    is unknown or not possible.
    """
    suite, tests = tests_of(spec, where=where)
    try:
        given = (catalog.load(beside(name, where)) for name in spec.drives)
        profiles = tuple(changed(profile, spec.changes) for profile in given)
        titles = [profile.name for profile in profiles]
        if len(set(titles)) < len(titles):
            raise UserError("drives: two have the same name", "give each drive once")
        plan = Plan(spec, suite, tests, profiles, provenance.build(), _policies(spec, tests))
        if spec.fleet is None:
            plan.check()
        return plan
    except UserError as problem:  # changes are named as on the command line
        message, hint = (text.replace("--set ", "") for text in (problem.message, problem.hint))
        raise UserError(f"{where}: {message}", hint) from None


def _policies(spec: Spec, tests: tuple[Test, ...]) -> dict[str, str]:
    """The plug-ins that the sweep's changes name."""
    varied = [part.word(value) for part in spec.parameters for value in part.values or ()]
    changes = [*spec.changes, *varied, *(word for test in tests for word in test.what_if)]
    named = {
        word.removeprefix("policy=") for word in changes if word and word.startswith("policy=")
    }
    return {name: policies.find(name).reference for name in sorted(named - {"none"})}


class OtherBuild(EnvironmentProblem):
    """A worker is another build than the one that planned the sweep, or has other plug-ins."""


@functools.lru_cache(maxsize=4)
def from_json(text: str) -> Plan:
    """Reads a plan that `as_json` made, in a worker. Raises OtherBuild if this process is
    another build than the plan's: its figures would not belong to this sweep.
    """
    raw = json.loads(text)
    if raw.get("build") != provenance.build():
        raise OtherBuild(
            f"the worker {platform.node()} is {provenance.build_line(provenance.build())}; the "
            f"sweep's is {provenance.build_line(raw.get('build', {}))}",
            "install the same build there, start the worker again, and go on with --resume",
        )
    for name, reference in raw.get("policies", {}).items():
        here = policies.find(name).reference
        if here != reference:
            raise OtherBuild(
                f"the worker {platform.node()} has policy {here}; the sweep's is {reference}",
                f"put the same file where {policies.VARIABLE} of the worker looks for it",
            )
    return Plan(
        spec=Spec.model_validate_json(json.dumps(raw["spec"])),
        suite=raw["suite"],
        tests=tuple(Test.model_validate(test) for test in raw["tests"]),
        profiles=tuple(catalog.from_resolved(profile) for profile in raw["profiles"]),
        build=raw["build"],
        policies=raw.get("policies", {}),
    )
