"""manifest.json: the request (suite, target, seed), the tool, and the progress of a review.

The manifest holds no time of day and no duration, so that two reviews of a virtual drive with one
seed have the same bytes; log.jsonl in the same folder has the times.
"""

from __future__ import annotations

import shlex
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, ValidationError, model_validator

from drivebay.common import documents
from drivebay.common.errors import EnvironmentProblem, UserError
from drivebay.common.files import system_errors
from drivebay.common.seeds import SEED_MAX
from drivebay.definitions.suites import Suite
from drivebay.definitions.suites.parts import Data
from drivebay.results import files

SCHEMA_VERSION: Literal[2] = 2
NAME = "manifest.json"
STEPS = "steps"
Seed = Annotated[int, Field(ge=0, le=SEED_MAX)]


class StepEntry(Data):
    """State of one test; `files` maps paths relative to the folder to SHA-256 checksums."""

    id: str
    title: str
    state: Literal["pending", "done", "failed"] = "pending"
    error: str | None = None
    seed: Seed
    files: dict[str, Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]] = Field({})

    @model_validator(mode="after")
    def _files_are_its_own(self) -> StepEntry:
        for name in self.files:
            path = PurePosixPath(name)
            if path.parts[:2] != (STEPS, self.id) or ".." in path.parts or str(path) != name:
                raise ValueError(f"files: {name!r} is not a file of the test")
        return self


class Tool(Data):
    """Build that made the result, from `provenance.build`. `git_commit` is None if it ran
    outside a checkout; `core` and `python`, digests of the compiled core and of the Python
    sources, are None if the result predates them or was imported.
    """

    version: str
    git_commit: str | None
    core: str | None = None
    python: str | None = None


class Open(Data):
    """Base of models that check only the named keys; other keys are accepted unchecked."""

    model_config = ConfigDict(extra="allow", strict=True)


def _is_an_interval(value: list[Any]) -> list[Any]:
    sd, unit = [*value, None, None][:2]
    if type(sd) not in (int, float) or not 0 <= sd <= 1e6 or type(unit) is not str:
        raise ValueError(f"{value} is not a standard deviation over its figure, and a unit")
    return value


Interval = Annotated[list[Any], AfterValidator(_is_an_interval)]


class _Profile(Open):
    drive: dict[str, Any] = Field({})
    host: dict[str, Any] = Field({})
    intervals: dict[str, dict[str, Interval]] = Field({})


class _Target(Open):
    kind: Literal["virtual", "file", "block"]
    name: str
    drive: str
    capacity_bytes: Annotated[int, Field(ge=0, lt=2**61)]
    title: str | None = None
    model: str | None = None
    profile: _Profile | None = None


def _is_a_target(value: dict[str, Any]) -> dict[str, Any]:
    try:
        _Target.model_validate(value)
    except ValidationError as problem:
        raise ValueError(f"target.{first_of(problem)}") from None
    return value


class Manifest(Data):
    """Content of manifest.json. `suite` is resolved: with `quick`, it is the shortened form.

    `target` has the keys "kind", "name", "capacity_bytes" and "drive" (the argument of `drivebay
    review` that selects it) and the target's whole identity.
    """

    model_config = ConfigDict(populate_by_name=True)

    schema_version: Annotated[Literal[2], Field(alias="schema")] = SCHEMA_VERSION
    tool: Tool
    suite: Suite
    quick: bool
    seed: Seed
    target: Annotated[dict[str, Any], AfterValidator(_is_a_target)]
    host: dict[str, Any]
    steps: tuple[StepEntry, ...]

    @model_validator(mode="after")
    def _steps_are_the_suites(self) -> Manifest:
        if [step.id for step in self.steps] != [test.id for test in self.suite.tests]:
            raise ValueError("the steps are not the suite's tests")
        return self

    def encoded(self) -> bytes:
        """Content of the file."""
        return files.json_bytes(self.model_dump(mode="json", by_alias=True))

    def with_step(self, step_id: str, **changes: Any) -> Manifest:
        """Returns the manifest with one step's entry changed."""
        steps = tuple(
            step.model_copy(update=changes) if step.id == step_id else step for step in self.steps
        )
        return self.model_copy(update={"steps": steps})


def read_manifest(folder: Path) -> Manifest:
    """Reads and checks a result folder's manifest.

    Raises
    ------
    UserError
        If the folder is not a result, or has another version's schema.
    EnvironmentProblem
        If it is damaged, or cannot be read.
    """
    path = folder / NAME
    restore = "restore the file from a copy, or start a new review with another --out"
    example = "give the folder that a review has written, for example: drivebay-results/NAME"
    permissions = f"check its permissions: ls -la {shlex.quote(str(folder))}"
    with system_errors(f"{path} cannot be read", permissions):
        try:
            raw = documents.read_kept(path)
            table = documents.from_json(raw)
        except (FileNotFoundError, NotADirectoryError):
            if not folder.exists():
                raise UserError(f"result folder {folder} does not exist", example) from None
            if not folder.is_dir():
                raise UserError(f"{folder} is a file, not a result folder", example) from None
            raise UserError(f"{folder} holds no result: it has no {NAME}", example) from None
        except ValueError as problem:
            raise EnvironmentProblem(
                f"{path} is damaged: it is not valid JSON: {problem}", restore
            ) from None
    version = table.get("schema") if isinstance(table, dict) else None
    if type(version) is not int or "steps" not in table:
        raise UserError(f"{path} is not a manifest of drivebay", example)
    if version != SCHEMA_VERSION:
        age = "a newer" if version > SCHEMA_VERSION else "an older"
        change = "update drivebay" if version > SCHEMA_VERSION else "use the drivebay that made it"
        raise UserError(
            f"{path} has schema {version}, made by {age} drivebay; this one reads "
            f"schema {SCHEMA_VERSION}",
            f"{change}, or start a new review",
        )
    try:
        return Manifest.model_validate_json(raw, strict=True)
    except ValidationError as problem:
        raise EnvironmentProblem(f"{path} is damaged: {first_of(problem)}", restore) from None


def first_of(problem: ValidationError) -> str:
    """Describes the first error: the path of its field, and the message."""
    first = problem.errors(include_url=False, include_context=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    message = str(first["msg"]).removeprefix("Value error, ")
    return f"{field}: {message}" if field else message
