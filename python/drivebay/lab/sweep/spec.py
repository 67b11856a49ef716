"""User's definition of a sweep: drives, tests, parameters, a design, seeds; TOML, checked.

Sources: designs as in Santner, Williams, Notz, The Design and Analysis of Computer Experiments (2nd
ed. 2018, ch. 5): full grids, random points, Latin hypercubes (McKay, Beckman, Conover 1979). Leaves
out: fractional designs and sequential ones, which choose points by earlier results.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, ValidationError, model_validator

from drivebay.analysis.replicates import FEWEST, Precision
from drivebay.common import documents
from drivebay.common.errors import UserError, did_you_mean
from drivebay.common.files import system_errors
from drivebay.common.seeds import SEED_MAX
from drivebay.definitions import mistakes, suites
from drivebay.definitions.suites import Prepare, Workload
from drivebay.definitions.suites.model import Id
from drivebay.definitions.suites.parts import Data

PARAMETERS_MAX = 20
POINTS_MAX = 100_000
RUNS_MAX = 1_000_000
# Bound of a load that ends after an amount of data, or when its rate is stable.
LONGEST_S = 86_400
EXAMPLE = "docs/concepts/sweeps.md has examples to copy"
# Columns that every part has; no parameter may have these names.
RESERVED = frozenset(
    {"run", "drive", "suite", "test", "seed", "wall_s", "cpu_s", "peak_memory_bytes", "host"}
    | {"build"}
)

Scalar = bool | int | float | str
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
Seed = Annotated[int, Field(ge=0, le=SEED_MAX)]


def _until(text: str) -> str:
    Precision.parse(text)
    return text


class Parameter(Data):
    """A varied parameter: a what-if of the drive, or a field of the load.

    `change` is a change as for `drivebay review --set`, with {} in place of the value; without {}
    it is applied or not, and its values are false and true. It may be omitted if the name is itself
    a value of the profile. `load` names a field of the phases' workload. The values are listed, or
    lie between `low` and `high`, evenly or (`scale = "log"`) evenly in their logarithm; `whole`
    rounds them.
    """

    name: Name
    change: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    load: Annotated[str, Field(min_length=1, max_length=40)] | None = None
    values: Annotated[tuple[Scalar, ...], Field(min_length=1, max_length=1000)] | None = None
    low: float | None = None
    high: float | None = None
    scale: Literal["linear", "log"] = "linear"
    whole: bool = False

    @model_validator(mode="after")
    def _is_whole(self) -> Parameter:
        if self.name in RESERVED:
            raise ValueError(f"name: '{self.name}' is a column of every sweep; choose another")
        if self.change is not None and self.load is not None:
            raise ValueError("'change' and 'load' are both given; one of them is allowed")
        if self.load is not None and self.load not in Workload.model_fields:
            meant = did_you_mean(self.load, Workload.model_fields)
            raise ValueError(
                f"load: '{self.load}' is not a field of a workload; {meant}".rstrip("; ")
            )
        ranged = self.low is not None and self.high is not None
        if (self.values is not None) == ranged or (self.low is None) != (self.high is None):
            raise ValueError("give either 'values' or both 'low' and 'high'")
        if self.low is not None and self.high is not None and self.low >= self.high:
            raise ValueError(f"low: {self.low:g} must be less than high: {self.high:g}")
        if self.scale == "log" and (self.low is None or self.low <= 0):
            raise ValueError("scale = \"log\" needs 'low', more than 0")
        if self.values is not None and len(set(map(repr, self.values))) < len(self.values):
            raise ValueError("values: one is given twice; they must differ")
        if self.values is not None and len({_kind(value) for value in self.values}) > 1:
            raise ValueError("values: must all be numbers, all strings, or true and false")
        if self.is_flag and not (self.values and all(type(value) is bool for value in self.values)):
            raise ValueError(
                f"change: '{self.change}' has no {{}} for a value, so values must be [false, true]"
            )
        return self

    @property
    def is_flag(self) -> bool:
        """True if its change is applied or not, without a value."""
        return self.change is not None and "{}" not in self.change

    def word(self, value: Scalar) -> str | None:
        """The what-if for a value; None if nothing changes.

        >>> Parameter(name="spare", change="unused={}%", values=(0, 7)).word(7)
        'unused=7%'
        >>> Parameter(name="cooled", change="heatsink", values=(False, True)).word(False)
        """
        if self.load is not None:
            return None
        if self.is_flag:
            return self.change if value else None
        text = json.dumps(value) if not isinstance(value, str) else value
        return (self.change or f"{self.name}={{}}").replace("{}", text)


def _kind(value: Scalar) -> str:
    return {bool: "bool", str: "text"}.get(type(value), "number")


class Design(Data):
    """Points of the parameters to run: all combinations of their values ("grid"), or so many
    `points`, drawn at random or as a Latin hypercube.
    """

    kind: Literal["grid", "random", "latin-hypercube"] = "grid"
    points: Annotated[int, Field(ge=1, le=POINTS_MAX)] | None = None

    @model_validator(mode="after")
    def _points_fit(self) -> Design:
        if (self.kind == "grid") == (self.points is not None):
            raise ValueError("a grid has no 'points'; a random one and a Latin hypercube need them")
        return self


class FleetDrive(Data):
    """A real drive, anywhere in the cluster: a block device by its serial number, or a file.

    `destroy_data` is the serial number once more, typed, as consent to lose everything on it.
    """

    serial: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    destroy_data: str | None = None
    overwrite_signature: bool = False
    file: Annotated[str, Field(min_length=1, max_length=1000)] | None = None

    @model_validator(mode="after")
    def _has_consent(self) -> FleetDrive:
        if (self.serial is None) == (self.file is None):
            raise ValueError("give either 'serial' or 'file'")
        if self.file is not None and (self.destroy_data or self.overwrite_signature):
            raise ValueError("'destroy_data' and 'overwrite_signature' have no meaning for a file")
        if self.file is not None and not self.file.startswith("/"):
            raise ValueError(f"file: '{self.file}' must be an absolute path on the drive's host")
        if self.serial is not None and self.destroy_data != self.serial:
            raise ValueError(
                "destroy_data must be the serial number once more, as consent to lose all data "
                f"on the drive {self.serial}"
            )
        return self

    @property
    def id(self) -> str:
        """Id that its worker announces: the serial number, or the file's path."""
        return str(self.serial or self.file)


class Fleet(Data):
    """Real drives to be reviewed, each as one task on its host."""

    drives: Annotated[tuple[FleetDrive, ...], Field(min_length=1)]


class Spec(Data):
    """Content of a sweep's file. `drives` are names of the catalog or paths of profiles, `set`
    changes for all runs; `suite` and `tests` select what is run, or `workload` after
    `prepare`. `seeds` is a list, or a number, counted from 1; with `until` ("1% at 95%", or
    "iops 1% at 95%") it is the maximum: a point gets no further runs of a test once the
    figure, or each main one, has this precision. With a `fleet` the drives are real ones, and
    reviewed.
    """

    model_config = ConfigDict(populate_by_name=True)

    schema_version: Literal[1] = 1
    name: Id
    title: Annotated[str, Field(min_length=1, max_length=120)] | None = None
    drives: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    changes: Annotated[tuple[str, ...], Field(alias="set")] = ()
    suite: str | None = None
    tests: tuple[str, ...] = ()
    quick: bool = False
    workload: Workload | None = None
    prepare: tuple[Prepare, ...] = (Prepare(kind="fill"),)
    parameters: Annotated[tuple[Parameter, ...], Field(max_length=PARAMETERS_MAX)] = ()
    design: Design = Design()
    seeds: (
        Annotated[int, Field(ge=1, le=10_000)]
        | Annotated[tuple[Seed, ...], Field(min_length=1, max_length=10_000)]
    ) = 1
    until: Annotated[str, AfterValidator(_until)] | None = None
    fleet: Fleet | None = None

    @model_validator(mode="after")
    def _is_whole(self) -> Spec:
        if (self.fleet is not None) == bool(self.drives):
            raise ValueError("give either 'drives' or a [fleet]")
        if (self.suite is None) == (self.workload is None):
            raise ValueError("give either 'suite' or a [workload]")
        if self.workload is not None and (self.tests or self.quick):
            raise ValueError("'tests' and 'quick' have a meaning with 'suite' only")
        if self.fleet is not None and (self.parameters or self.changes):
            raise ValueError("a fleet's drives are real and cannot be changed: no parameters")
        if self.fleet is not None and len(self.seed_list) > 1:
            raise ValueError("seeds: a fleet's drives are reviewed once, with one seed")
        if self.fleet is not None and self.workload is not None:
            raise ValueError("a fleet runs a 'suite', not a [workload]")
        names = [parameter.name for parameter in self.parameters]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"two parameters have the name '{twice[0]}'; names must differ")
        if self.design.kind == "grid":
            for parameter in self.parameters:
                if parameter.values is None:
                    raise ValueError(f"parameter '{parameter.name}': a grid needs 'values'")
        if self.until is not None and len(self.seed_list) < FEWEST:
            raise ValueError(f"'until' needs at least {FEWEST} seeds, the fewest that are run")
        if len(set(self.seed_list)) < len(self.seed_list):
            raise ValueError("seeds: one is given twice; they must differ")
        return self

    @property
    def seed_list(self) -> tuple[int, ...]:
        """The seeds as a list."""
        return tuple(range(1, self.seeds + 1)) if isinstance(self.seeds, int) else self.seeds


def load(path: Path) -> Spec:
    """Loads a sweep's file.

    Raises
    ------
    UserError
        If it cannot be read or is not a valid sweep; names file, field and value.
    """
    hint = f"give a .toml file: drivebay sweep my-sweep.toml; {EXAMPLE}"
    with system_errors(f"sweep file {path} cannot be read", hint, UserError):
        try:
            table = documents.toml(documents.read(path))
        except ValueError as problem:
            raise UserError(f"sweep file {path} is not valid TOML: {problem}", EXAMPLE) from None
    return parse(table, where=str(path))


def parse(table: dict[str, Any], *, where: str) -> Spec:
    """Makes a sweep from its TOML table; `where` names it in errors.

    Raises
    ------
    UserError
        On the first mistake.
    """
    if isinstance(load := table.get("workload"), dict):
        table = {**table, "workload": _with_end(load)}
    try:
        return Spec.model_validate_json(json.dumps(table, default=str))
    except ValidationError as problem:
        first = mistakes.first(problem)
        # Removes pydantic's names of a union's members.
        union = {"int", "float", "bool", "str"}
        parts = [p for p in first["loc"] if isinstance(p, int) or not (p in union or "[" in p)]
        field = mistakes.dotted(parts, count_from=1)
        known = [field_info.alias or name for name, field_info in Spec.model_fields.items()]
        known += [*Parameter.model_fields, *Design.model_fields, *FleetDrive.model_fields]
        where = f"{where}: {field}" if field else where
        raise mistakes.user_error(
            first, where, document="a sweep", hint=EXAMPLE, known=known
        ) from None


def _with_end(load: dict[str, Any]) -> dict[str, Any]:
    """A load with `until_stable_s` as the library has it, and without a need for `duration_s` if it
    has another end.
    """
    window = load.get("until_stable_s")
    if window is not None:
        load = {name: value for name, value in load.items() if name != "until_stable_s"}
        load["until_stable"] = {"window_s": window, "within_percent": 2.0, "min_s": window}
    ends = {"until_stable", "until_written_percent", "bytes", "once"} & load.keys()
    return {"duration_s": LONGEST_S, **load} if ends else load


def beside(name: str, where: str) -> str:
    """Resolves a drive or suite of the sweep's file `where`: a path is relative to the file's
    folder.

    >>> beside("sm951-ahci-512", "lab/a.toml"), beside("drives/mine.toml", "lab/a.toml")
    ('sm951-ahci-512', 'lab/drives/mine.toml')
    """
    return str(Path(where).parent / name) if name.endswith(".toml") else name


def tests_of(spec: Spec, *, where: str) -> tuple[str, tuple[suites.Test, ...]]:
    """The suite's name and the tests that the sweep runs; `quick` is applied, except for a fleet,
    where the review does it.

    Raises
    ------
    UserError
        If there is no such suite or test, or a test has no short form.
    """
    if spec.workload is not None:
        phase = suites.Phase(label="run", workload=spec.workload)
        method = "the workload of the sweep's file"
        test = suites.Test.alone("workload", "One workload", method, phase, spec.prepare)
        return "workload", (test,)
    suite = suites.load(beside(str(spec.suite), where))
    known = [test.id for test in suite.tests]
    for name in spec.tests:
        if name not in known:
            raise UserError(
                f"{where}: tests: suite {suite.name} has no test '{name}'; it has "
                + ", ".join(known),
                did_you_mean(name, known) + f"see: drivebay review --list --suite {suite.name}",
            )
    chosen = suite.selected(spec.tests) if spec.tests else suite
    for test in chosen.tests:
        if spec.quick and test.quick is None:
            raise UserError(
                f"{where}: quick: test {test.id} of suite {suite.name} has no short form",
                "name the tests that have one in 'tests', or leave quick out",
            )
    short = spec.quick and spec.fleet is None
    return suite.name, (chosen.shortened() if short else chosen).tests
