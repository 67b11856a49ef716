"""Result folders from figures of other programs, which report, Bench and `query` take like others.

A reader of another program's output makes an `ImportedFile` per file, `Foreign` writes the folder:
each file is a test, and lies in the test's folder raw/. What the program does not report stays
missing. Rates without counts are metrics ("mb_per_s", "iops"): they replace the rates that analysis
computes from counts, as "latency_ns_mean" and "latency_us_p99" replace those of a histogram.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from drivebay.common import documents, provenance
from drivebay.common.documents import printable
from drivebay.common.errors import UserError
from drivebay.common.files import unique
from drivebay.definitions.suites import Phase, Suite, Test, Workload
from drivebay.results.manifest import Manifest, StepEntry, Tool
from drivebay.results.records import HISTOGRAM_SCHEMA, SERIES_SCHEMA, TOTALS, PhaseResult
from drivebay.results.writing import Folder

# Names of unknown fields in a test's title, by `Workload.unknown`.
UNKNOWN = {"pattern": "pattern", "queue_depth": "queue depth"}


@dataclass(frozen=True)
class ImportedFile:
    """A file of another program, with the figures that were read from it.

    `phases` have no artefacts and conditions of their own; their labels are names, which become
    ids. `version` names the program and its version, `device` what it ran on ("/dev/sda", "C:").
    `capacity_bytes` is 0 and `time` None where the file does not report them.
    """

    path: Path
    version: str
    method: str
    phases: Sequence[PhaseResult]
    warnings: Sequence[str] = ()
    device: str = ""
    capacity_bytes: int = 0
    time: str | None = None


@dataclass(frozen=True)
class Foreign:
    """Results of one program: `name` is the importer's, `program` the program's name, `form` the
    kind of its output ("JSON"). `drive` is the name of the drive; by default the device of the
    first file. `time_scale`: seconds of the drive's clock per second of the program's, in which
    the phases are already.
    """

    name: str
    program: str
    form: str
    files: Sequence[ImportedFile]
    drive: str | None = None
    time_scale: float = 1.0

    def write(self, out: Path) -> Path:
        """Writes the result folder and returns its path.

        Raises
        ------
        UserError
            If `out` exists, or its name is not UTF-8.
        EnvironmentProblem
            If it cannot be written; then nothing is left of it.
        """
        if not documents.is_utf8(str(out.absolute())):
            raise UserError(f"{printable(str(out))}: its name is not UTF-8", "choose another --out")
        ids: set[str] = set()
        tests = [_test(file, unique(_slug(printable(file.path.stem)), ids)) for file in self.files]
        suite = Suite(
            name=f"{self.name}-import",
            title=f"Imported from {self.program}",
            description=f"Runs of {self.program} that somebody made by hand or by a script, "
            f"imported from its {self.form}. How the drive was prepared before them is not known.",
            source=f"{self.program}'s {self.form} output",
            tests=tuple(test for test, _ in tests),
        )
        first = self.files[0]
        device = printable(first.device)
        name = printable(self.drive or Path(device).name or device)
        manifest = Manifest(
            tool=Tool(**provenance.build()),
            suite=suite,
            quick=False,
            seed=0,
            target={
                "kind": "block" if device.startswith("/dev/") else "file",
                "name": name,
                "drive": device,
                "model": name,
                "capacity_bytes": max(file.capacity_bytes for file in self.files),
                "imported": {
                    "program": printable(first.version),
                    "time": None if first.time is None else printable(first.time),
                },
            },
            host={
                "imported_from": [printable(file.path.name) for file in self.files],
                "time_scale": self.time_scale,
            },
            steps=tuple(StepEntry(id=test.id, title=test.title, seed=0) for test, _ in tests),
        )
        steps = {test.id: phases for test, phases in tests}
        with Folder.create(out, manifest, steps) as folder:
            folder.log("finished")
        return out


def rates_only(
    label: str,
    workload: Workload,
    *,
    mb_per_s: float,
    iops: float | None = None,
    latency_us: float | None = None,
) -> PhaseResult:
    """A phase of which only rates are known, and perhaps the mean latency: all counts are 0. By
    default the I/Os per second are those of the workload's blocks."""
    iops = mb_per_s * 1e6 / workload.block_bytes if iops is None else iops
    metrics = {"mb_per_s": mb_per_s, "iops": iops}
    metrics |= {} if latency_us is None else {"latency_ns_mean": 1000 * latency_us}
    none: dict[str, Any] = dict.fromkeys(TOTALS, 0)
    return PhaseResult(
        label,
        workload,
        0.0 if "duration_s" in workload.unknown else workload.duration_s,
        **none,
        series=SERIES_SCHEMA.empty_table(),
        histogram=HISTOGRAM_SCHEMA.empty_table(),
        metrics=metrics,
    )


def _test(file: ImportedFile, test_id: str) -> tuple[Test, list[PhaseResult]]:
    """The test and the phases that a file becomes."""
    labels: set[str] = set()
    phases = [replace(phase, label=unique(_slug(phase.label), labels)) for phase in file.phases]
    name, stem = printable(file.path.name), printable(file.path.stem)
    phases[0].conditions.update({"warnings": list(file.warnings)})
    phases[0].artefacts[name] = file.path.read_bytes()
    unknown = {field for phase in phases for field in phase.workload.unknown}
    missing = " and ".join(words for field, words in UNKNOWN.items() if field in unknown)
    test = Test(
        id=test_id,
        title=f"{stem[:70]} ({missing} not known)" if missing else stem[:100],
        page="imported",
        kind="loads",
        method=printable(file.method),
        source=f"{name}, written by {printable(file.version)}",
        phases=tuple(Phase(label=phase.label, workload=phase.workload) for phase in phases),
    )
    return test, phases


def _slug(name: str) -> str:
    """Converts a name to an id.

    >>> _slug("4k_randread QD1")
    '4k-randread-qd1'
    """
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:50].strip("-") or "job"
