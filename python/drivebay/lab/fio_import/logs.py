"""fio's logs beside its JSON (write_iops_log, write_lat_log), as one row for each second.

Sources: fio's HOWTO, "Log File Formats": time in ms, value, direction, block size, and more columns
from version to version; averaged with log_avg_msec, whose last window fio drops. What a log does
not cover gets what is left of the JSON's exact counts, so that a job's seconds add up to its
totals.
Logs of another run, which lie there under the same name, are told by their counts, and not used.
Leaves out: logs of every single I/O (no log_avg_msec), and logs of windows longer than a second.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from drivebay.common import documents
from drivebay.lab.fio_import.jobs import DIRECTIONS, Job
from drivebay.results.records import SERIES_SCHEMA
from drivebay.targets.fio.figures import RUNTIME_MS_MAX, is_possible

WINDOW_MS_MAX = 1000
LEAST, MOST = 0.8, 1.05
"""A log's I/Os over those that the JSON counts in the same time; guess: a run is even so far."""
Floats = npt.NDArray[np.float64]


def series(job: Job, first_thread: int, beside: Path) -> pa.Table | None:
    """The job's seconds from its logs; None where there are none that can be used.

    Parameters
    ----------
    first_thread : number of the job's first thread, from 1, as fio numbers its logs.
    beside : the folder of the JSON.
    """
    window_ms = job.time_scale * job.setting("log_avg_msec", 0, most=RUNTIME_MS_MAX)
    if not 0 < window_ms <= WINDOW_MS_MAX:
        return None
    paths = _paths(job, "iops", first_thread, beside)
    if not paths or job.duration_s < 1:
        return None
    n = max(1, int(np.ceil(job.duration_s)))
    counts = {one: np.zeros(n) for one in DIRECTIONS}
    covered = {one: np.zeros(n) for one in DIRECTIONS}
    for path in paths:
        _spread(path, job.time_scale, counts, covered)
    for direction, side in job.sides.items():
        seconds = covered[direction] / len(paths)
        expected = side.ios * min(1.0, float(seconds.sum()) / job.duration_s)
        if not expected * LEAST <= counts[direction].sum() <= side.ios * MOST + 1:
            return None
        _make_whole(counts[direction], seconds, side.ios, job.duration_s)
    latency = _latency(_paths(job, "lat", first_thread, beside), n, job.time_scale)
    ios = {one: np.diff(np.rint(np.cumsum(counts[one])), prepend=0) for one in DIRECTIONS}
    size = {one: side.bytes / max(1, side.ios) for one, side in job.sides.items()}
    columns = {
        "second": np.arange(n),
        "reads": ios["read"].astype(np.int64),
        "writes": ios["write"].astype(np.int64),
        "read_bytes": np.rint(ios["read"] * size["read"]).astype(np.int64),
        "write_bytes": np.rint(ios["write"] * size["write"]).astype(np.int64),
        "latency_ns_mean": pa.array(latency, pa.float64(), mask=np.isnan(latency)),
    }
    rows = {one.name: columns.get(one.name, pa.nulls(n, one.type)) for one in SERIES_SCHEMA}
    return pa.table(rows, schema=SERIES_SCHEMA)


def _paths(job: Job, kind: str, first: int, beside: Path) -> list[Path]:
    """The logs of all of the job's threads, or none if one is missing."""
    prefix = job.options.get(f"write_{kind}_log")
    if prefix is None:
        return []
    if job.options.get("per_job_logs", "1") == "0":
        names = [f"{prefix or job.name}_{kind}.log"]
    else:
        numbers = range(first, first + max(1, job.threads))
        names = [f"{prefix or job.name}_{kind}.{number}.log" for number in numbers]
    paths = [beside / Path(name).name for name in names]
    return paths if all(path.is_file() for path in paths) else []


def _rows(path: Path, time_scale: float) -> list[tuple[int, float, int]]:
    """Time on the drive's clock in ms, value and direction of each line that is one."""
    rows = []
    with path.open(newline="", errors="replace") as file:
        for line in documents.csv_rows(file):
            try:
                time_ms, value, direction = int(line[0]), float(line[1]), int(line[2])
            except (ValueError, IndexError):  # cut off, or no log
                continue
            if is_possible(time_ms, RUNTIME_MS_MAX) and is_possible(value):
                rows.append((round(time_scale * time_ms), value, direction))
    return rows


def _spread(
    path: Path, time_scale: float, counts: Mapping[str, Floats], covered: Mapping[str, Floats]
) -> None:
    """Adds each window's I/Os to the seconds that it lies in."""
    before = dict.fromkeys(range(len(DIRECTIONS)), 0)
    for time_ms, rate, direction in _rows(path, time_scale):
        if direction not in before:
            continue
        name, begin = DIRECTIONS[direction], before[direction]
        before[direction] = time_ms
        for second in range(begin // 1000, -(-time_ms // 1000)):
            if second >= len(counts[name]):
                break
            share = (min(time_ms, 1000 * second + 1000) - max(begin, 1000 * second)) / 1000
            counts[name][second] += rate / time_scale * share
            covered[name][second] += share


def _make_whole(counts: Floats, covered: Floats, total: int, duration_s: float) -> None:
    """Gives what the log lacks to the time that it does not cover; else scales it to the total."""
    length = np.minimum(1.0, np.maximum(0.0, duration_s - np.arange(len(counts))))
    open_s = np.maximum(0.0, length - covered)
    missing = total - counts.sum()
    if missing > 0 and open_s.sum() > 0.01:
        counts += missing * open_s / open_s.sum()
    elif counts.sum() > 0:
        counts *= total / counts.sum()


def _latency(paths: list[Path], n: int, time_scale: float) -> Floats:
    """Mean of the windows that end in each second, NaN where there is none."""
    total, number = np.zeros(n), np.zeros(n)
    for path in paths:
        for time_ms, value, _ in _rows(path, time_scale):
            second = max(0, time_ms - 1) // 1000
            if second < n:
                total[second] += value * time_scale
                number[second] += 1
    return np.where(number > 0, total / np.maximum(number, 1), np.nan)
