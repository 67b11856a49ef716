"""fio's logs in the folder of its JSON (write_iops_log, write_lat_log), as one row per second.

Sources: fio's HOWTO, "Log File Formats", iolog.c and stat.c: time in ms, value, direction, block
size, and more columns from version to version; averaged with log_avg_msec, each direction in
windows of its own. Of I/Os fio drops the last window. Time that a log does not cover gets the rest
of the JSON's exact counts, so that a job's seconds add up to its totals. A window of latencies is
weighted by the I/Os that completed in it. With log_window_value (before 3.37: log_max_value) a
window has its highest latency, or both; with log_unix_epoch times count from 1970, and begin here
with the first window. Logs of another run under the same name are recognized by their counts, and
not used. Leaves out: logs of every single I/O (no log_avg_msec), and logs of windows longer than a
second.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from drivebay.common import documents
from drivebay.common.documents import printable
from drivebay.lab.fio_import.jobs import DIRECTIONS, NANOSECONDS_SINCE, Job
from drivebay.results.records import SERIES_SCHEMA
from drivebay.targets.fio.figures import RUNTIME_MS_MAX, is_possible

WINDOW_MS_MAX = 1000
# Largest relative difference between the mean latencies of logs and JSON that needs no warning.
MEANS_WITHIN = 0.02
# Range of a log's I/Os divided by those of the JSON in the same time; guess: a run is this even.
LEAST, MOST = 0.8, 1.05
# Smallest share of a job's I/Os that its whole log has, and how much faster than the log's
# fastest window it may have run in time without a window; guesses.
NEARLY_ALL, FASTER = 0.95, 2.0
# Content of windows of latencies, by log_window_value; without the option, their means.
MAXIMA = {"1": "max", "max": "max", "maximum": "max", "both": "both"}
Floats = npt.NDArray[np.float64]


# Windows of one direction in one thread's log: their ends in ms, values and maxima, after a 0.
Windows = npt.NDArray[np.float64]
Course = dict[str, Windows]


def _with_idle_time(windows: Windows, window_ms: float) -> Windows:
    """These windows, with time that no window covers as time without I/Os, and not as late ones."""
    filled = [windows[0]]
    for row in windows[1:]:
        if row[0] - filled[-1][0] > 1.5 * window_ms:
            filled.append(np.array([row[0] - window_ms, 0.0, 0.0]))
        filled.append(row)
    return np.array(filled)


def _total(windows: Windows) -> Floats:
    """Integral of a rate per second: the amount until each end."""
    return np.cumsum(windows[:, 1] * np.diff(windows[:, 0], prepend=0.0) / 1000)


def series(job: Job, beside: Path) -> pa.Table | str:
    """The job's seconds from its logs in the JSON's folder, or the reason why there are none."""
    window_ms = job.setting("log_avg_msec", 0, most=RUNTIME_MS_MAX) or 0
    if not paths(job, "iops", beside):
        return "no logs were found"
    if not window_ms:
        return "the logs have every single I/O (no log_avg_msec), which is not read"
    if window_ms * job.time_scale > WINDOW_MS_MAX:
        return "the logs have windows longer than a second"
    if job.duration_s < 1:
        return "the job ran for less than a second"
    rates, latencies = (_courses(job, kind, beside, window_ms) for kind in ("iops", "lat"))
    if not rates:
        return "its logs are empty"
    edges = np.arange(math.ceil(job.duration_s) + 1) * 1000 / job.time_scale
    counts = _counts(job, rates, edges)
    if counts is None:
        rates = [
            {way: _with_idle_time(windows, window_ms) for way, windows in course.items()}
            for course in rates
        ]
        counts = _counts(job, rates, edges)
    if counts is None:
        return "its logs are of another run, as they count other I/Os"
    n = len(edges) - 1
    mean, highest = _latency(job, rates, latencies, edges)
    ios = {way: np.diff(np.rint(np.cumsum(counts[way])), prepend=0) for way in DIRECTIONS}
    size = {direction: side.bytes / max(1, side.ios) for direction, side in job.sides.items()}
    columns = {
        "second": np.arange(n),
        "reads": ios["read"].astype(np.int64),
        "writes": ios["write"].astype(np.int64),
        "read_bytes": np.rint(ios["read"] * size["read"]).astype(np.int64),
        "write_bytes": np.rint(ios["write"] * size["write"]).astype(np.int64),
        "latency_ns_mean": pa.array(mean, pa.float64(), mask=np.isnan(mean)),
        "latency_ns_max": pa.array(highest.astype(np.int64), pa.int64(), mask=highest == 0),
    }
    rows = {field.name: columns.get(field.name, pa.nulls(n, field.type)) for field in SERIES_SCHEMA}
    return pa.table(rows, schema=SERIES_SCHEMA)


def _counts(job: Job, rates: Sequence[Course], edges: Floats) -> dict[str, Floats] | None:
    """I/Os of each second and direction; None if they differ from those that the JSON counts."""
    counts = {}
    for direction, side in job.sides.items():
        counted, covered = np.zeros(len(edges) - 1), np.zeros(len(edges) - 1)
        for windows in (course[direction] for course in rates):
            counted += np.diff(np.interp(edges, windows[:, 0], _total(windows)))
            covered += np.diff(np.minimum(edges, windows[-1, 0])) / 1000 * job.time_scale
        covered /= len(rates)
        expected = side.ios * min(1.0, float(covered.sum()) / job.duration_s)
        highest = sum(course[direction][:, 1].max() for course in rates) / job.time_scale
        left = FASTER * highest * max(0.0, job.duration_s - float(covered.sum()))
        least = max(expected * LEAST, side.ios * NEARLY_ALL - left)
        if not least <= counted.sum() <= side.ios * MOST + 1:
            return None
        _make_whole(counted, covered, side.ios, job.duration_s)
        counts[direction] = counted
    return counts


def paths(job: Job, kind: str, beside: Path) -> list[Path]:
    """The logs of all of the job's threads, or none if one is missing."""
    prefix = job.options.get(f"write_{kind}_log") or job.name
    if job.options.get("per_job_logs") == "0":
        names = [f"{prefix}_{kind}.log"]
    else:
        numbers = range(job.first_thread, job.first_thread + job.threads)
        names = [f"{prefix}_{kind}.{number}.log" for number in numbers]
    paths = [beside / Path(name).name for name in names]
    return paths if all(path.is_file() for path in paths) else []


def _courses(job: Job, kind: str, beside: Path, window_ms: float) -> list[Course]:
    """The windows of each thread."""
    logs = [_rows(path, job) for path in paths(job, kind, beside)]
    if kind == "lat" and (0, 0) < job.version < NANOSECONDS_SINCE:
        logs = [[(end, 1e3 * mean, 1e3 * top, way) for end, mean, top, way in log] for log in logs]
    first = min((row[0] for rows in logs for row in rows), default=0.0)
    zero = first - window_ms if first > job.runtime_ms + 2 * window_ms else 0.0
    courses = []
    for rows in logs:
        course: dict[str, list[tuple[float, float, float]]] = {}
        for end, value, highest, direction in rows:
            # Also if the rows of the next thread begin, in the same file.
            if not course or end - zero < course[direction][-1][0]:
                course = {direction: [(0.0, 0.0, 0.0)] for direction in DIRECTIONS}
                courses.append(course)
            course[direction].append((end - zero, value, highest))
    return [{way: np.array(windows) for way, windows in course.items()} for course in courses]


def _window_value(job: Job) -> str | None:
    return MAXIMA.get(job.options.get("log_window_value", ""))


def _rows(path: Path, job: Job) -> list[tuple[float, float, float, str]]:
    """End in ms, value, highest value and direction of each valid line; lines that are filled up
    with zeros are skipped, and unreadable ones with a warning.
    """
    with_both = _window_value(job) == "both"
    rows, unread = [], 0
    try:
        text = documents.text(documents.read(path, bytes_max=documents.KEPT_BYTES_MAX))
    except (OSError, ValueError):
        return []
    for cells in documents.csv_rows(text.split("\n")):
        try:
            end, value, *more = (int(cell) for cell in cells[: 4 if with_both else 3])
            highest, direction = more if with_both else (value, more[0])
        except (ValueError, IndexError):
            unread += bool("".join(cells).strip())
            continue
        if end and direction in (0, 1) and all(map(is_possible, (end, value, highest))):
            rows.append((float(end), float(value), float(highest), DIRECTIONS[direction]))
    if unread:
        job.warnings.add(f"{unread:,} lines of {printable(path.name)} cannot be read")
    return rows


def _make_whole(counts: Floats, covered: Floats, total: int, duration_s: float) -> None:
    """Assigns the I/Os that the log lacks to the time that it does not cover; without such time,
    scales the counts to the total.
    """
    length = np.minimum(1.0, np.maximum(0.0, duration_s - np.arange(len(counts))))
    open_s = np.maximum(0.0, length - covered)
    missing = total - counts.sum()
    if missing > 0 and open_s.sum() > 0.01:
        counts += missing * open_s / open_s.sum()
    elif counts.sum() > 0:
        counts *= total / counts.sum()


def _latency(
    job: Job, rates: Sequence[Course], latencies: Sequence[Course], edges: Floats
) -> tuple[Floats, Floats]:
    """Mean and highest latency of each second in ns of the drive's clock; NaN and 0 if unknown.
    Within a window its I/Os have its mean.
    """
    n = len(edges) - 1
    sums, ios, highest = np.zeros(n), np.zeros(n), np.zeros(n)
    if len(rates) != len(latencies):
        return np.full(n, np.nan), highest
    for rate, latency in zip(rates, latencies, strict=True):
        for direction in DIRECTIONS:
            (ends, values, tops), counted = latency[direction].T, rate[direction]
            last_ms = max(job.runtime_ms, ends[-1])
            # The last window of I/Os is missing: the previous rate is assumed to continue.
            left = counted[-1, 1] * max(0.0, last_ms - counted[-1, 0]) / 1000
            total = _total(counted)
            times, until = [*counted[:, 0], last_ms], [*total, total[-1] + left]
            at_ends, at_edges = (np.interp(at, times, until) for at in (ends, edges))
            moved = np.diff(at_ends, prepend=0.0)
            spent = np.cumsum(values * moved)
            sums += np.diff(np.interp(at_edges, at_ends, spent))
            ios += np.diff(np.minimum(at_edges, at_ends[-1]))
            seconds = np.searchsorted(edges, ends) - 1
            inside = (seconds >= 0) & (seconds < n)
            np.maximum.at(highest, seconds[inside], tops[inside])
    says = _window_value(job)
    mean = np.where(ios > 0, sums / np.maximum(ios, 1e-9), np.nan) * job.time_scale
    highest *= job.time_scale
    if says == "max":
        job.warnings.add("the logs have the highest latency of each window and no mean")
        return np.full(n, np.nan), highest
    _compare(job, float(sums.sum() / max(ios.sum(), 1e-9)) * job.time_scale)
    return mean, highest if says == "both" else np.zeros(n)


def _compare(job: Job, mean: float) -> None:
    """Warns if the mean latency of the logs differs from the JSON's."""
    expected = job.latency_ns_mean
    if expected is not None and mean and abs(mean - expected) > MEANS_WITHIN * expected:
        job.warnings.add(
            f"the mean latency of the logs is {mean / 1e3:,.1f} us, that of the JSON "
            f"{expected / 1e3:,.1f} us"
        )
