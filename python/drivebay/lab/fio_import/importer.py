"""Converts fio's JSON from other runs to a result folder, which report and Bench accept like any
other.

Each file becomes a test, each of its jobs a phase. The original is stored in the step's folder
raw/. Nothing is invented: without logs there are no seconds, so no spread and no course over time;
data that is only roughly known has a warning.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from drivebay.common import documents, provenance
from drivebay.common.documents import printable
from drivebay.common.errors import UserError
from drivebay.definitions import mistakes
from drivebay.definitions.suites import Phase, Suite, Test
from drivebay.lab.fio_import import logs as fio_logs
from drivebay.lab.fio_import.jobs import Job, jobs_of
from drivebay.lab.fio_import.load import options_in_words, workload_of
from drivebay.lab.fio_import.reading import AGAIN, last_document
from drivebay.results import Folder, Manifest, StepEntry
from drivebay.results.manifest import Tool
from drivebay.results.records import SERIES_SCHEMA, PhaseResult
from drivebay.targets.fio.figures import Part, Unreadable, number_of

UNKNOWN = {"pattern": "pattern", "queue_depth": "queue depth"}
"""Names of unknown fields in a test's title, by `Workload.unknown`."""


def import_fio(
    files: Sequence[Path], out: Path, *, drive: str | None = None, time_scale: float = 1.0
) -> Path:
    """Makes a result folder from fio's JSON files and returns its path. `files`: outputs of fio
    with --output-format=json or json+; text around the JSON is skipped, and of several
    documents in one file (--status-interval) the last counts. `drive`: name of the drive; by
    default the file that the first job ran on. `time_scale`: seconds of the drive's clock per
    second of fio's, as the drive was served. Raises UserError if a file has no fio JSON, is
    damaged or cut off, has an impossible figure, or no job that moved data; or if `out`
    exists; EnvironmentProblem if `out` cannot be written.
    """
    if not files:
        raise UserError("no files were given", "drivebay import fio FILE... --out DIR")
    if not documents.is_utf8(str(out.absolute())):
        raise UserError(f"{printable(str(out))}: its name is not UTF-8", "choose another --out")
    made = []
    taken: set[str] = set()
    for path in files:
        document, where = last_document(path), printable(str(path))
        try:
            jobs = jobs_of(Part(document), time_scale=time_scale)
            if not jobs:
                raise UserError(f"{where}: none of its jobs moved any data", AGAIN)
            made.append((_converted(path, document, jobs, taken), document, jobs, path))
        except Unreadable as problem:
            raise UserError(
                f"{where} cannot be imported: {printable(str(problem))}", AGAIN
            ) from None
        except ValidationError as problem:
            error = mistakes.first(problem)
            field = f"{where} cannot be imported: {mistakes.dotted(error['loc'])}"
            raise mistakes.user_error(error, field, document="a load", hint=AGAIN) from None
    suite = Suite(
        name="fio-import",
        title="Imported from fio",
        description="Runs of fio that somebody made by hand or by a script, imported from its "
        "JSON. How the drive was prepared before them is not known.",
        source="fio's JSON output",
        tests=tuple(test for (test, _), *_ in made),
    )
    manifest = Manifest(
        tool=Tool(**provenance.build()),
        suite=suite,
        quick=False,
        seed=0,
        target=_target(made[0][1], [job for _, _, jobs, _ in made for job in jobs], drive),
        host={
            "imported_from": [printable(path.name) for *_, path in made],
            "time_scale": time_scale,
        },
        steps=tuple(StepEntry(id=test.id, title=test.title, seed=0) for test in suite.tests),
    )
    with Folder.create(out, manifest) as folder:
        for (test, phases), *_ in made:
            folder.write_step(test.id, phases)
        folder.log("finished")
    return out


def _converted(
    path: Path, document: dict[str, Any], jobs: list[Job], taken: set[str]
) -> tuple[Test, list[PhaseResult]]:
    """Converts a file to a test and its phases."""
    labels: set[str] = set()
    phases = [_phase(job, _fresh(_slug(job.name), labels), path) for job in jobs]
    warnings = sorted({warning for job in jobs for warning in job.warnings})
    together = {job.group for job in jobs}
    if len(together) < len(jobs):
        warnings.append("some of the jobs ran at the same time (without stonewall)")
    first = phases[0]
    first.conditions.update({"warnings": warnings})
    name, stem = printable(path.name), printable(path.stem)
    first.artefacts[name] = path.read_bytes()
    unknown = {field for phase in phases for field in phase.workload.unknown}
    missing = " and ".join(label for field, label in UNKNOWN.items() if field in unknown)
    test = Test(
        id=_fresh(_slug(stem), taken),
        title=f"{stem[:70]} ({missing} not known)" if missing else stem[:100],
        page="imported",
        kind="loads",
        method="Imported; the options were: "
        + "; ".join(f"{job.name}: {options_in_words(job.options)}" for job in jobs),
        source=f"{name}, written by {printable(Part(document).text('fio version'))}",
        phases=tuple(Phase(label=phase.label, workload=phase.workload) for phase in phases),
    )
    return test, phases


def _phase(job: Job, label: str, path: Path) -> PhaseResult:
    workload = workload_of(job)
    seconds = fio_logs.series(job, path.parent)
    if isinstance(seconds, str):
        job.warnings.add(f"{seconds}: nothing is known of single seconds")
    read, write = job.sides["read"], job.sides["write"]
    mean = job.latency_ns_mean
    return PhaseResult(
        label=label,
        workload=workload,
        duration_s=job.duration_s,
        reads=read.ios,
        writes=write.ios,
        read_bytes=read.bytes,
        write_bytes=write.bytes,
        series=SERIES_SCHEMA.empty_table() if isinstance(seconds, str) else seconds,
        histogram=job.histogram(),
        metrics={} if mean is None else {"latency_ns_mean": mean},
    )


def _target(document: dict[str, Any], jobs: list[Job], drive: str | None) -> dict[str, Any]:
    """The manifest's `target` block: the drive under test, as far as fio reports it."""
    options = jobs[0].options
    path = options.get("filename") or options.get("directory") or jobs[0].name
    base = number_of(options.get("kb_base", "")) or 1024
    time = document.get("time")
    sizes = [number_of(job.options.get("size", ""), kb_base=base) or 0 for job in jobs]
    name = printable(drive or Path(path).name or path)
    return {
        "kind": "block" if path.startswith("/dev/") else "file",
        "name": name,
        "drive": path,
        "model": name,
        "capacity_bytes": max(sizes),
        "imported": {
            "program": document["fio version"],
            "time": time if isinstance(time, str) else None,
        },
    }


def _slug(name: str) -> str:
    """Converts a name to an id.

    >>> _slug("4k_randread QD1")
    '4k-randread-qd1'
    """
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:50].strip("-") or "job"


def _fresh(name: str, taken: set[str]) -> str:
    """Makes the name unique by a number if it is taken, and marks it as taken."""
    unique, number = name, 1
    while unique in taken:
        number += 1
        unique = f"{name}-{number}"
    taken.add(unique)
    return unique
