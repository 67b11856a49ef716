"""fio's terse output (--output-format=terse, --minimal), read as the JSON of the same run.

Source: `show_thread_status_terse_all` of fio's stat.c, versions 3 to 5 of the format, and fio's
HOWTO. Latencies are microseconds; version 5 has numbers of samples, and more of IOPS.

Leaves out: options, which terse output does not have: pattern and queue depth are unknown. I/Os
are the rate times the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from drivebay.common.documents import printable
from drivebay.lab.fio_import.importer import imported, phase
from drivebay.lab.fio_import.jobs import jobs_of
from drivebay.lab.fio_import.load import workload_of
from drivebay.lab.imports import named, text_of
from drivebay.results.foreign import ImportedFile
from drivebay.targets.fio.figures import Part, Unreadable

# Fields of a direction, by version of the format.
SIDE_FIELDS = {"3": 41, "4": 41, "5": 47}
WAYS = ("read", "write", "trim")
# Places of the latencies in a direction.
CLAT, LISTED, TOTAL = 8, slice(12, 32), 32


def read(path: Path, time_scale: float = 1.0) -> ImportedFile:
    """Reads the lines of all jobs. Raises Unreadable for an impossible figure."""
    ((document, _),) = documents_of(path)
    jobs = jobs_of(Part(document), time_scale=time_scale)
    for job in jobs:
        job.warnings.add("terse output has no logs: nothing is known of single seconds")
    made = [phase(job, workload_of(job)) for job in jobs]
    return imported(path, document, jobs, made)


def documents_of(path: Path) -> Iterator[tuple[dict[str, Any], bool]]:
    """The document that fio would write as JSON, and False, as it has no options."""
    lines = [line.split(";") for line in text_of(path, named("fio-terse").again).split("\n")]
    rows = [cells for cells in lines if cells[0] in SIDE_FIELDS and len(cells) > 5]
    version = rows[0][1] if rows else ""
    yield {"fio version": version, "jobs": [_job(cells) for cells in rows]}, False


def _job(cells: list[str]) -> dict[str, Any]:
    """A job as in fio's JSON."""
    length = SIDE_FIELDS[cells[0]]
    entry = {"jobname": cells[2], "groupid": _number(cells[3]), "error": _number(cells[4])}
    for number, way in enumerate(WAYS[: 2 if cells[0] == "3" else 3]):
        side = cells[5 + number * length :][:length]
        if len(side) < length:
            raise Unreadable(f"job {printable(cells[2])}: its line is cut off")
        listed = dict(text.split("%=", 1) for text in side[LISTED] if "%=" in text)
        entry[way] = {
            "io_bytes": 1024 * _number(side[0]),
            "io_kbytes": _number(side[0]),
            "bw": _number(side[1]),
            "iops": _number(side[2]),
            "runtime": _number(side[3]),
            "clat_ns": {
                "mean": 1000 * _number(side[CLAT + 2]),
                "percentile": {q: 1000 * _number(us) for q, us in listed.items() if q != "0"},
            },
            "lat_ns": {"mean": 1000 * _number(side[TOTAL + 2])},
        }
    return entry


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise Unreadable(f"{text[:40]!r} is not allowed; must be a number") from None
