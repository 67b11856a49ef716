"""fio's JSON from other runs made into a result folder, which report and Bench take like others.

Each file becomes a test, each of its jobs a phase. The original lies in the step's folder raw/.
Nothing is made up: without logs there are no seconds, so no spread and no course over time; what is
known only roughly is told as a warning.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from drivebay.common import documents, provenance
from drivebay.common.errors import UserError
from drivebay.definitions import mistakes
from drivebay.definitions.suites import Phase, Suite, Test
from drivebay.lab.fio_import import logs as fio_logs
from drivebay.lab.fio_import.jobs import Job, jobs_of, options_in_words, size_of, workload_of
from drivebay.results import Folder, Manifest, StepEntry
from drivebay.results.manifest import Tool
from drivebay.results.records import SERIES_SCHEMA, PhaseResult
from drivebay.targets.fio.figures import Part, Unreadable

AGAIN = "write it again with: fio --output-format=json+ --output=FILE JOB.fio"
_DOCUMENT = re.compile(r"^\{", re.MULTILINE)
"""Where a document of fio may begin: a brace in a warning is none."""
DIGITS_MAX = 1000
INT_BITS = 4 * DIGITS_MAX
"""Of numbers that are not read; those that are read have limits of their own, and names."""
WITHOUT_LOGS = "no logs were found: nothing is known of single seconds"


def import_fio(
    files: Sequence[Path], out: Path, *, drive: str | None = None, time_scale: float = 1.0
) -> Path:
    """Makes a result folder of fio's JSON files and returns its path.

    Parameters
    ----------
    files : outputs of fio with --output-format=json or json+; text around the JSON is skipped, of
        several documents in one (--status-interval) the last counts.
    drive : what the drive is called; by default what the first job ran on.
    time_scale : seconds of the drive's clock in one of fio's, as it was served.

    Raises
    ------
    UserError
        If a file holds no fio JSON, is cut off, or has no job that moved data; or `out` is taken.
    EnvironmentProblem
        If `out` cannot be written.
    """
    if not files:
        raise UserError("no files given", "drivebay import fio FILE... --out DIR")
    made = []
    taken: set[str] = set()
    for path in files:
        document = _document(path)
        try:
            jobs = jobs_of(Part(document), time_scale=time_scale)
            if not jobs:
                raise UserError(f"{path}: no job of it moved any data", AGAIN)
            made.append((_one(path, document, jobs, taken), document, jobs, path))
        except Unreadable as problem:
            raise UserError(f"{path} cannot be imported: {problem}", AGAIN) from None
        except ValidationError as problem:
            error = mistakes.first(problem)
            field = f"{path} cannot be imported: {mistakes.dotted(error['loc'])}"
            raise mistakes.told(error, field, of="a load", hint=AGAIN) from None
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
        host={"imported_from": [str(path.name) for *_, path in made], "time_scale": time_scale},
        steps=tuple(StepEntry(id=test.id, title=test.title, seed=0) for test in suite.tests),
    )
    with Folder.create(out, manifest) as folder:
        for (test, phases), *_ in made:
            folder.write_step(test.id, phases)
        folder.log("finished")
    return out


def _document(path: Path) -> dict[str, Any]:
    """The last JSON document in the file that fio wrote."""
    try:
        content = documents.read(path, bytes_max=documents.KEPT_BYTES_MAX)
    except OSError as problem:
        raise UserError(f"{path} cannot be read: {problem.strerror}", AGAIN) from None
    except ValueError as problem:
        raise UserError(f"{path} is no JSON of fio: {problem}", AGAIN) from None
    text = content.decode("utf-8", errors="replace")
    cut_off = '"fio version"' in text
    what = "is cut off: its JSON does not end" if cut_off else "holds no JSON of fio"
    decoder, at = json.JSONDecoder(parse_int=_whole), 0
    found: dict[str, Any] | None = None
    while (begin := _DOCUMENT.search(text, at)) is not None:
        at = begin.end()
        try:
            value, at = decoder.raw_decode(text, begin.start())
            if isinstance(value, dict) and "fio version" in value:
                found = documents.limited(value, int_bits=INT_BITS)
        except (documents.Malformed, UnicodeError) as problem:
            what = f"cannot be imported: {problem}"
        except RecursionError:
            what = "cannot be imported: it is nested too deep"
        except ValueError:
            continue
    if found is None:
        raise UserError(f"{path} {what}", AGAIN)
    return found


def _whole(digits: str) -> int | float:
    """A whole number; one that Python would not convert is infinite, and is told by its field."""
    return int(digits) if len(digits) <= DIGITS_MAX else math.inf


def _one(
    path: Path, document: dict[str, Any], jobs: list[Job], taken: set[str]
) -> tuple[Test, list[PhaseResult]]:
    """The file as a test, and its phases."""
    labels: set[str] = set()
    phases = []
    thread = 1
    for job in jobs:
        label = _fresh(_slug(job.name), labels)
        phases.append(_phase(job, label, thread, path))
        thread += max(1, job.threads)
    warnings = sorted({warning for job in jobs for warning in job.warnings})
    together = {job.group for job in jobs}
    if len(together) < len(jobs):
        warnings.append("some of the jobs ran at the same time (without stonewall)")
    first = phases[0]
    first.conditions.update({"warnings": warnings})
    first.artefacts[path.name] = path.read_bytes()
    version = Part(document).text("fio version")
    test = Test(
        id=_fresh(_slug(path.stem), taken),
        title=path.stem[:100],
        page="imported",
        kind="loads",
        method="Imported; the options were: "
        + "; ".join(f"{job.name}: {options_in_words(job.options)}" for job in jobs),
        source=f"{path.name}, written by {version}",
        phases=tuple(Phase(label=one.label, workload=one.workload) for one in phases),
    )
    return test, phases


def _phase(job: Job, label: str, thread: int, path: Path) -> PhaseResult:
    workload = workload_of(job)
    seconds = fio_logs.series(job, thread, path.parent)
    if seconds is None:
        job.warnings.add(WITHOUT_LOGS)
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
        series=SERIES_SCHEMA.empty_table() if seconds is None else seconds,
        histogram=job.histogram(),
        metrics={} if mean is None else {"latency_ns_mean": mean},
    )


def _target(document: dict[str, Any], jobs: list[Job], drive: str | None) -> dict[str, Any]:
    """The manifest's block: what was under test, as far as fio says."""
    options = jobs[0].options
    path = options.get("filename") or options.get("directory") or jobs[0].name
    time = document.get("time")
    sizes = [size_of(job.options.get("size", "")) or 0 for job in jobs]
    return {
        "kind": "block" if path.startswith("/dev/") else "file",
        "name": drive or Path(path).name,
        "drive": path,
        "model": drive or Path(path).name,
        "capacity_bytes": max(sizes),
        "imported": {
            "program": document["fio version"],
            "time": time if isinstance(time, str) else None,
        },
    }


def _slug(name: str) -> str:
    """A name as an id.

    >>> _slug("4k_randread QD1")
    '4k-randread-qd1'
    """
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:50] or "job"


def _fresh(name: str, taken: set[str]) -> str:
    """The name, with a number if it is taken; taken from now on."""
    found, number = name, 1
    while found in taken:
        number += 1
        found = f"{name}-{number}"
    taken.add(found)
    return found
