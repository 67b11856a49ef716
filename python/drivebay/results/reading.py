"""Reads a result folder into frozen data; the tables are read when they are asked for.

A review that was interrupted loads fine and says what is missing. A finished step whose files are
not what the manifest says is an error: figures are never made from damaged data.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from drivebay.common import documents
from drivebay.common.errors import UserError
from drivebay.definitions.suites import Suite, Test, Workload
from drivebay.results import writing
from drivebay.results.manifest import Tool, read_manifest
from drivebay.results.records import PhaseResult


@dataclass(frozen=True)
class Step:
    """One test of a result. Its figures are there only if `done`."""

    test: Test
    state: Literal["pending", "done", "failed"]
    error: str | None
    seed: int
    folder: Path

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
        """Its phases as the target gave them, without the target's own files; the first one has the
        test's conditions."""
        document = documents.from_json(self._file("step.json").read_bytes())
        tables = {
            "series": self.series(),
            "histogram": self.histogram(),
            "stages": self.stages(),
            "telemetry": self.telemetry(),
        }
        conditions = document.get("conditions", {})
        found: list[PhaseResult] = []
        for phase in document["phases"]:
            phase["workload"] = Workload.model_validate(phase["workload"])
            own: dict[str, Any] = {
                name: None if table is None else _rows(table, phase["label"]).drop_columns("phase")
                for name, table in tables.items()
            }
            found.append(PhaseResult(**phase, **own, conditions={} if found else conditions))
        return found

    def series(self, phase: str | None = None) -> Any:
        """A pyarrow.Table with one row per second: `phase` and the columns of
        `results.records.SERIES_SCHEMA`; only one phase's rows if `phase` is its label."""
        return self._table("series.parquet", phase)

    def histogram(self, phase: str | None = None) -> Any:
        """A pyarrow.Table with one row per latency bin: `phase` and the columns of
        `results.records.HISTOGRAM_SCHEMA`."""
        return self._table("histogram.parquet", phase)

    def stages(self, phase: str | None = None) -> Any | None:
        """Where the time went, per second and stage (`results.records.STAGES_SCHEMA`); None for a
        real drive."""
        if not (self.folder / "stages.parquet").exists():
            return None
        return self._table("stages.parquet", phase)

    def telemetry(self, phase: str | None = None) -> Any | None:
        """What sensors of the drive and the host said (`records.TELEMETRY_SCHEMA`); None for a
        virtual drive, whose temperature and power are in the series."""
        if not (self.folder / "telemetry.parquet").exists():
            return None
        return self._table("telemetry.parquet", phase)

    def conditions(self) -> dict[str, Any]:
        """Under which conditions the test ran on a real drive: the keys "host", "drive",
        "telemetry", "smart", "interruptions" and "warnings", as far as they are known; and "trim",
        what a TRIM validation found; else {}."""
        table: dict[str, Any] = documents.from_json(self._file("step.json").read_bytes())
        return dict(table.get("conditions", {}))

    def _table(self, name: str, phase: str | None) -> Any:
        table = pq.read_table(self._file(name))
        return table if phase is None else _rows(table, phase)

    def _file(self, name: str) -> Path:
        if not self.done:
            raise ValueError(f"test '{self.id}' has not been run: its state is {self.state}")
        return self.folder / name


def _rows(table: pa.Table, phase: str) -> pa.Table:
    return table.filter(pc.field("phase") == phase)


@dataclass(frozen=True)
class Result:
    """A review's result; `target` is the manifest's block of that name."""

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
        """The steps that have figures."""
        return tuple(step for step in self.steps if step.done)

    @property
    def missing(self) -> tuple[Step, ...]:
        """The steps that have none: not run yet, or failed."""
        return tuple(step for step in self.steps if not step.done)

    @property
    def simulated(self) -> bool:
        """True for a virtual drive: simulated and measured figures are never mixed unlabelled."""
        return bool(self.target["kind"] == "virtual")

    def step(self, step_id: str) -> Step:
        """The step of that id.

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
    """Loads a result folder and checks every finished file against its checksum.

    Raises
    ------
    UserError
        If it is no result, or damaged: names the file, and how to have its step run again.
    """
    folder = Path(folder)
    content = read_manifest(folder)
    go_on = f"drivebay review --resume {shlex.quote(str(folder))}"
    for entry in content.steps:
        if entry.state == "done" and (damage := writing.find_damage(folder, entry)):
            raise UserError(
                f"result {folder} is damaged: {damage.path} {damage.what}",
                f"have that test run again with: {go_on}",
            )
    steps = tuple(
        Step(
            test=test,
            state=entry.state,
            error=entry.error,
            seed=entry.seed,
            folder=folder / writing.STEPS / entry.id,
        )
        for test, entry in zip(content.suite.tests, content.steps, strict=True)
    )
    return Result(
        folder=folder,
        tool=content.tool,
        suite=content.suite,
        quick=content.quick,
        seed=content.seed,
        target=content.target,
        host=content.host,
        steps=steps,
    )
