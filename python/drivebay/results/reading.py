"""Reads a result folder into frozen data; tables are read on request.

An interrupted review loads, with its missing steps listed. A finished step with invalid files
(`results.checking`) is an error: figures are never computed from damaged data.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from drivebay.common.errors import EnvironmentProblem, UserError
from drivebay.definitions.suites import Suite, Test, Workload
from drivebay.results import checking
from drivebay.results.manifest import STEPS, StepEntry, Tool, read_manifest
from drivebay.results.records import SCHEMAS, PhaseResult

# Limit for keeping checked tables of a result until its phases are requested; tables beyond it
# are read again.
KEPT_BYTES_MAX = 2**25


@dataclass(frozen=True)
class Step:
    """One test of a result. Its figures exist only if `done`."""

    test: Test
    state: Literal["pending", "done", "failed"]
    error: str | None
    seed: int
    folder: Path
    _entry: StepEntry = field(repr=False)
    _document: Mapping[str, Any] = field(repr=False)
    _tables: dict[str, pa.Table] = field(repr=False)

    @property
    def id(self) -> str:
        """The test's id."""
        return self.test.id

    @property
    def title(self) -> str:
        """The test's title."""
        return self.test.title

    @property
    def done(self) -> bool:
        """True if the test ran to its end."""
        return self.state == "done"

    def phases(self) -> list[PhaseResult]:
        """Phases of the test as the target returned them, without the target's own files; the
        first one has the test's conditions.
        """
        document = self._finished()
        tables = {name: self.table(name) for name in SCHEMAS}
        self._tables.clear()
        results: list[PhaseResult] = []
        for phase in document["phases"]:
            own: dict[str, Any] = {
                name: None if table is None else _rows(table, phase["label"]).drop_columns("phase")
                for name, table in tables.items()
            }
            own["workload"] = Workload.model_validate(phase["workload"])
            own["conditions"] = {} if results else self.conditions()
            results.append(PhaseResult(**{**phase, **own}))
        return results

    def table(self, name: str, phase: str | None = None) -> Any:
        """A table of `checking.SCHEMAS`, with `phase` as its first column; only one phase's rows
        if `phase` is its label. None if the target had none: a real drive has no "stages", a
        virtual one no "telemetry".
        """
        document = self._finished()
        if not self.has(name):
            return None
        table = self._tables.get(name)
        try:
            if table is None:
                table = checking.table(self.folder.parent.parent, self._entry, name, document)
        except checking.Damage as damage:
            raise _damaged(self.folder.parent.parent, damage) from None
        return table if phase is None else _rows(table, phase)

    def conditions(self) -> dict[str, Any]:
        """Conditions under which the test ran on a real drive: the keys "host", "drive",
        "telemetry", "smart", "interruptions" and "warnings", as far as they are known; and
        "trim", the result of a TRIM validation. Empty for other tests.
        """
        return dict(self._finished().get("conditions", {}))

    def has(self, table: str) -> bool:
        """True if the result has this table of `checking.SCHEMAS`."""
        return f"{STEPS}/{self.id}/{table}.parquet" in self._entry.files

    def _finished(self) -> Mapping[str, Any]:
        if not self.done:
            raise ValueError(f"test '{self.id}' has not been run: its state is {self.state}")
        return self._document


def _rows(table: pa.Table, phase: str) -> pa.Table:
    return table.filter(pc.field("phase") == phase)


@dataclass(frozen=True)
class Result:
    """Result of a review; `target` is the manifest's block of that name."""

    folder: Path
    tool: Tool
    suite: Suite
    quick: bool
    seed: int
    target: dict[str, Any]
    host: dict[str, Any]
    steps: tuple[Step, ...]

    @property
    def done(self) -> tuple[Step, ...]:
        """Steps that have figures."""
        return tuple(step for step in self.steps if step.done)

    @property
    def missing(self) -> tuple[Step, ...]:
        """Steps without figures: not run yet, or failed."""
        return tuple(step for step in self.steps if not step.done)

    @property
    def simulated(self) -> bool:
        """True for a virtual drive: simulated and measured figures are never mixed unlabelled."""
        return bool(self.target["kind"] == "virtual")

    def step(self, step_id: str) -> Step:
        """Returns the step with this id.

        Raises
        ------
        KeyError
            If the suite has no such test.
        """
        for step in self.steps:
            if step.id == step_id:
                return step
        raise KeyError(step_id)


def load(folder: Path | str) -> Result:
    """Loads a result folder and checks every file of its finished tests (`results.checking`).

    Raises
    ------
    UserError
        If it is not a result.
    EnvironmentProblem
        If it is damaged: names the file and the field, and how to run its test again.
    """
    folder = Path(folder)
    content = read_manifest(folder)
    steps = []
    kept = 0
    for test, entry in zip(content.suite.tests, content.steps, strict=True):
        document: dict[str, Any] = {}
        tables: dict[str, pa.Table] = {}
        try:
            if entry.state == "done":
                document, tables = checking.step(folder, entry, test)
        except checking.Damage as damage:
            raise _damaged(folder, damage) from None
        kept += sum(table.nbytes for table in tables.values())
        steps.append(
            Step(
                test=test,
                state=entry.state,
                error=entry.error,
                seed=entry.seed,
                folder=folder / STEPS / entry.id,
                _entry=entry,
                _document=document,
                _tables=tables if kept <= KEPT_BYTES_MAX else {},
            )
        )
    seconds = sum(
        phase["duration_s"] for step in steps for phase in step._document.get("phases", ())
    )
    if seconds > checking.SECONDS_MAX:
        raise EnvironmentProblem(
            f"result {folder} is damaged: its phases ran for {seconds / 86_400:,.0f} days",
            "restore it from a copy",
        )
    alike = ("tool", "suite", "quick", "seed", "target", "host")
    shared = {name: getattr(content, name) for name in alike}
    return Result(folder=folder, steps=tuple(steps), **shared)


def load_finished(folder: Path) -> Result:
    """Loads a result as `load` does; a result without a finished test is a UserError too."""
    result = load(folder)
    if not result.done:
        raise UserError(
            f"{folder} has no finished test, so there is nothing to report",
            f"go on with: drivebay review --resume {shlex.quote(str(folder))}",
        )
    return result


def _damaged(folder: Path, damage: checking.Damage) -> EnvironmentProblem:
    return EnvironmentProblem(
        f"result {folder} is damaged: {damage}",
        f"run that test again with: drivebay review --resume {shlex.quote(str(folder))}",
    )
