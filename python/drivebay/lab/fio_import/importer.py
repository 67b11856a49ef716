"""fio's JSON from other runs, read as a test with one phase per job.

Nothing is made up: without logs there are no seconds, so no spread and no course over time; what is
known only roughly is a warning.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from drivebay.common.documents import printable
from drivebay.definitions.fio_options import PASSING, lacking, number_of
from drivebay.definitions.suites import Workload
from drivebay.lab.fio_import import logs as fio_logs
from drivebay.lab.fio_import.jobs import Job, jobs_of
from drivebay.lab.fio_import.load import options_in_words, workload_of
from drivebay.lab.fio_import.reading import last_document
from drivebay.results.foreign import ImportedFile
from drivebay.results.records import SERIES_SCHEMA, PhaseResult
from drivebay.targets.fio.figures import Part

NO_SECONDS = SERIES_SCHEMA.empty_table()


def read(path: Path, time_scale: float = 1.0) -> ImportedFile:
    """Reads an output of fio with --output-format=json or json+; text around the JSON is skipped,
    of several documents in one (--status-interval) the last counts. Raises UserError if the file
    has no fio JSON, or is damaged or cut off; Unreadable for an impossible figure."""
    document = last_document(path)
    jobs = jobs_of(Part(document), time_scale=time_scale)
    return imported(path, document, jobs, [_phase(job, path) for job in jobs])


def documents_of(path: Path) -> Iterator[tuple[dict[str, Any], bool]]:
    """The document, and True, as it has all options."""
    yield last_document(path), True


def imported(
    path: Path, document: dict[str, Any], jobs: list[Job], phases: list[PhaseResult]
) -> ImportedFile:
    """The file, with what fio reports of its jobs beside their figures."""
    warnings = sorted({warning for job in jobs for warning in job.warnings})
    if len({job.group for job in jobs}) < len(jobs):
        warnings.append("some of the jobs ran at the same time (without stonewall)")
    first = next(iter(jobs), Job("", {}))
    base = number_of(first.options.get("kb_base", "")) or 1024
    sizes = (number_of(job.options.get("size", ""), kb_base=base) for job in jobs)
    time = document.get("time")
    return ImportedFile(
        path,
        version=Part(document).text("fio version"),
        method="Imported; the options were: "
        + "; ".join(f"{job.name}: {options_in_words(job.options)}" for job in jobs),
        phases=phases,
        warnings=warnings,
        device=first.options.get("filename") or first.options.get("directory") or first.name,
        capacity_bytes=max((size or 0 for size in sizes), default=0),
        time=time if isinstance(time, str) else None,
    )


def _phase(job: Job, path: Path) -> PhaseResult:
    if job.options_hold:
        passing = job.options.get("buffered") == "0" or job.options.get("ioengine") in PASSING
        job.warnings |= set(lacking({"direct": "1" if passing else "0", **job.options}))
    workload = workload_of(job)
    seconds = fio_logs.series(job, path.parent)
    if isinstance(seconds, str):
        job.warnings.add(f"{seconds}: nothing is known of single seconds")
        return phase(job, workload)
    made = phase(job, workload, seconds)
    for kind in ("iops", "lat"):
        for log in fio_logs.paths(job, kind, path.parent):
            made.artefacts[printable(log.name)] = log.read_bytes()
    return made


def phase(job: Job, workload: Workload, seconds: pa.Table = NO_SECONDS) -> PhaseResult:
    """The job's figures as a phase, with its name as the label."""
    read, write = job.sides["read"], job.sides["write"]
    return PhaseResult(
        label=job.name,
        workload=workload,
        duration_s=job.duration_s,
        reads=read.ios,
        writes=write.ios,
        read_bytes=read.bytes,
        write_bytes=write.bytes,
        series=seconds,
        histogram=job.histogram(),
        metrics=job.metrics(),
    )
