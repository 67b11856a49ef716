"""Parser of fio's JSON+ output: counts, one-second series and latency histograms.

Sources: fio's own output, recorded with 3.25, 3.33, 3.39 and 3.41 (tests/data/fio); the bins are
those of fio's stat.h: 64 linear steps in every power of two, exact below 128 ns.

Method for the seconds: fio is asked for its cumulative figures at every full second of the job (see
process), so a second is the difference of two exact counts. The timing error of the request (1 ms
as a rule) is corrected by interpolating the cumulative counts, which keeps their sum exact. fio's
own logs are not used: averaged ones drop the last second and shift the others, and complete ones
cost too much.

Leaves out: fio's percentiles (taken from merged histograms later), slat and clat (the latency here
is fio's "lat", from the submission to the completion as the host sees it).
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from drivebay.common.errors import EnvironmentProblem
from drivebay.definitions.suites import Stable
from drivebay.results.records import histogram, one_second_series
from drivebay.targets.fio.figures import JOBS_MAX, RUNTIME_MS_MAX, Part, Unreadable

OLDEST = (3, 25)
NEWEST = (3, 41)
# An answer this much before a round's end serves as the round's end, as for a second.
EARLY_ROUND_MS = 50
# fio answers within a few ms; if no I/O completes, it answers at the next completion.
STALL_MS = 250

Document = dict[str, Any]
Direction = Literal["read", "write"]
DIRECTIONS: tuple[Direction, ...] = ("read", "write")


def parse_version(text: str) -> tuple[int, int]:
    """Parses the version in the output of `fio --version`. Raises EnvironmentProblem if the text is
    not a version of fio, or if drivebay cannot read that version's output.

    >>> parse_version("fio-3.39-14-gd9f1")
    (3, 39)
    """
    found = re.match(r"fio-(\d+)\.(\d+)", text.strip())
    if found is None:
        raise EnvironmentProblem(
            f"fio calls itself {text.strip()[:60]!r}, which is no version of fio", "apt install fio"
        )
    version = int(found[1]), int(found[2])
    if version < OLDEST or version[0] != OLDEST[0]:
        raise EnvironmentProblem(
            f"fio {version[0]}.{version[1]} is not known; its output can be read from "
            f"{OLDEST[0]}.{OLDEST[1]} on, up to the last version {OLDEST[0]}",
            f"install fio {NEWEST[0]}.{NEWEST[1]} or another one in that range",
        )
    return version


def documents(lines: Iterable[str]) -> Iterator[Document]:
    """Yields the JSON documents in fio's output, one after the other, without the text between
    them.

    >>> list(documents(["fio: terminating on signal 15\\n", "{\\n", '"jobs" : []\\n', "}\\n"]))
    [{'jobs': []}]
    """
    held: list[str] = []
    for line in lines:
        if line.startswith("{"):
            held = []
        elif not held:
            continue
        held.append(line)
        if line.rstrip().endswith("}") and line.startswith(("{", "}")):
            try:
                document = json.loads("".join(held))
            except (ValueError, RecursionError):
                continue
            held = []
            if isinstance(document, dict):
                yield document


def bin_bounds(middle_ns: int) -> tuple[int, int]:
    """Low (inclusive) and high (exclusive) end of the bin that fio names by its middle.

    >>> bin_bounds(100), bin_bounds(129), bin_bounds(2_932_736)
    ((100, 101), (128, 130), (2916352, 2949120))
    """
    if middle_ns < 128:
        return middle_ns, middle_ns + 1
    step_bits = middle_ns.bit_length() - 7
    low = middle_ns >> step_bits << step_bits
    return low, low + (1 << step_bits)


@dataclass(frozen=True)
class Side:
    """One direction's cumulative figures: completed I/Os, their bytes and latency."""

    ios: int
    bytes: int
    latency_ns_sum: float
    latency_ns_max: int
    bins: Mapping[int, int]


def side(document: Document, direction: Direction, job: int = 0) -> Side:
    """Returns one direction of one of the document's jobs, by its place in the job file. Raises
    EnvironmentProblem if a figure is missing, as in the output of an unknown version, or
    impossible.
    """
    with _read(document):
        part = _job(document, job).of(direction)
        latency = part.of("lat_ns")
        ios = latency.count("N")
        bins = {int(key): count for key, count in latency.counts("bins") if count}
        mean = latency.number("mean")
        return Side(ios, part.count("io_bytes"), mean * ios, latency.count("max"), bins)


def flushes(document: Document, job: int = 0) -> tuple[int, float]:
    """Number of flushes of a job in the document, and the sum of their latencies in nanoseconds."""
    with _read(document):
        latency = _job(document, job).of("sync").of("lat_ns")
        count = latency.count("N", 0)
        return count, latency.number("mean", 0) * count


def runtime_ms(document: Document, job: int = 0) -> int:
    """Milliseconds since a job began; fio adds up the run times of threads that it reports
    together.
    """
    with _read(document):
        of = _job(document, job)
        threads = max(1, of.of("job options", {}).setting("numjobs", 1, most=JOBS_MAX))
        return of.count("job_runtime", most=threads * RUNTIME_MS_MAX) // threads


def has_begun(document: Document, jobs: int = 1) -> bool:
    """True if each of the jobs has completed an I/O. Before that, fio's clock of a job is not
    reliable: it is reset when the job's thread begins.
    """
    return all(
        any(side(document, direction, job).ios for direction in DIRECTIONS) for job in range(jobs)
    )


def job_error(document: Document) -> int:
    """Returns the errno with which a job failed; 0 if none failed."""
    with _read(document):
        return next(filter(None, (job.count("error", 0) for job in Part(document).each("jobs"))), 0)


def checked_total(document: Document, job: int = 0) -> dict[Direction, Side]:
    """Returns both directions of a job in the last document, after checking that they add up.
    Raises EnvironmentProblem if the bins do not sum to the I/Os, or fio's two counts of them
    differ.
    """
    total = {direction: side(document, direction, job) for direction in DIRECTIONS}
    for direction, figures in total.items():
        with _read(document):
            issued = _job(document, job).of(direction).count("total_ios")
        in_bins = sum(figures.bins.values())
        if not issued == figures.ios == in_bins:
            raise _unreadable(
                document,
                f"{direction}: {issued} I/Os, {figures.ios} latencies, {in_bins} in bins differ",
            )
    return total


def _job(document: Document, job: int) -> Part:
    jobs = Part(document).each("jobs")
    if job >= len(jobs):
        raise Unreadable(f"jobs[{job}] is missing")
    return jobs[job]


@contextlib.contextmanager
def _read(document: Document) -> Iterator[None]:
    """Turns an unreadable figure into an error that names the version of fio."""
    try:
        yield
    except Unreadable as problem:
        raise _unreadable(document, str(problem)) from None


def _unreadable(document: Document, detail: str) -> EnvironmentProblem:
    version = document.get("fio version", "fio of unknown version")
    return EnvironmentProblem(
        f"the output of {version} cannot be read: {detail}",
        f"use a fio between {OLDEST[0]}.{OLDEST[1]} and {NEWEST[0]}.{NEWEST[1]}: fio --version",
    )


@dataclass(frozen=True)
class Point:
    """Cumulative counts `ms` milliseconds after the job's start.

    `latency_ns_max` is that of the interval since the point before, 0 without I/O: exact where
    it is the highest of the whole job so far, else the upper end of its bin (at most 1.6 % too
    high).
    """

    ms: int
    reads: int
    writes: int
    latency_ns_sum: float
    latency_ns_max: int


@dataclass
class Recorder:
    """Collects fio's documents of one job and keeps a small summary of each.

    `job` is its place in the job file. `zero_s` is when the job's clock began, on this process's
    monotonic clock.
    """

    job: int = 0
    points: list[Point] = field(default_factory=lambda: [Point(0, 0, 0, 0.0, 0)])
    total: dict[Direction, Side] = field(default_factory=dict)
    flushes: int = 0
    flush_ns_sum: float = 0.0
    latest_bytes: int = 0
    zero_s: float = 0.0
    latest_bytes_per_s: float = 0.0
    _seen: dict[Direction, Side] = field(default_factory=dict)

    def add(self, document: Document, *, asked_ms: int | None = None) -> None:
        """Adds a document; `asked_ms` is the end of the second for which it was requested.

        A late answer indicates a stall: nothing completed since the request.
        """
        now = {direction: side(document, direction, self.job) for direction in DIRECTIONS}
        ms = runtime_ms(document, self.job)
        done = now["read"].bytes + now["write"].bytes
        seconds = max(1, ms - self.duration_ms) / 1000
        self.latest_bytes_per_s = (done - self.latest_bytes) / seconds
        self.latest_bytes = done
        if asked_ms is not None and ms - asked_ms > STALL_MS:
            self._append(asked_ms, now)
        self._append(ms, now)

    def finish(self, document: Document) -> None:
        """Adds the last document: from now on `total` holds the exact figures."""
        self.total = checked_total(document, self.job)
        self.flushes, self.flush_ns_sum = flushes(document, self.job)
        self._append(max(1, runtime_ms(document, self.job)), self.total)

    @property
    def latest_written_bytes(self) -> int:
        """Bytes that were written until the last answer."""
        return self._seen["write"].bytes if self._seen else 0

    @property
    def duration_ms(self) -> int:
        """The job's length so far."""
        return self.points[-1].ms

    def _append(self, ms: int, now: dict[Direction, Side]) -> None:
        highest = max(self._highest_new(direction, now[direction]) for direction in DIRECTIONS)
        if ms <= self.points[-1].ms and len(self.points) > 1:
            highest = max(highest, self.points.pop().latency_ns_max)
        self._seen = now
        self.points.append(
            Point(
                max(ms, self.points[-1].ms + 1),
                now["read"].ios,
                now["write"].ios,
                now["read"].latency_ns_sum + now["write"].latency_ns_sum,
                highest,
            )
        )

    def _highest_new(self, direction: Direction, now: Side) -> int:
        before = self._seen.get(direction, Side(0, 0, 0.0, 0, {}))
        if now.latency_ns_max > before.latency_ns_max:
            return now.latency_ns_max
        grown = [key for key, count in now.bins.items() if count > before.bins.get(key, 0)]
        return min(bin_bounds(max(grown))[1] - 1, now.latency_ns_max) if grown else 0

    def is_stable(self, rule: Stable) -> bool:
        """True if the rule holds for the last full seconds; requires blocks of one size."""
        full = (self.duration_ms + 50) // 1000
        if full < max(rule.min_s, rule.window_s):
            return False
        ends = self._ends()
        done = np.rint(self._until(ends, "reads")) + np.rint(self._until(ends, "writes"))
        rates = np.diff(done)[:full]
        window = rates[-rule.window_s :]
        mean = float(window.mean())
        return mean > 0 and float(window.max() - window.min()) <= mean * rule.within_percent / 100

    def rates_per_round(self, round_s: float) -> list[float]:
        """I/Os per second of each complete round so far."""
        rounds = int((self.duration_ms + EARLY_ROUND_MS) / 1000 / round_s)
        ends = np.arange(rounds + 1, dtype=np.float64) * round_s * 1000
        done = self._until(ends, "reads") + self._until(ends, "writes")
        rates: list[float] = (np.diff(done) / round_s).tolist()
        return rates

    def _ends(self) -> npt.NDArray[np.float64]:
        """Returns 0, then the ends of the seconds in ms. The rest after the last full second is a
        separate row from half a second on; a shorter rest (I/Os in flight at the end) belongs to
        the row before.
        """
        rows = max(1, (self.duration_ms + 500) // 1000)
        return np.array([*range(0, rows * 1000, 1000), self.duration_ms], dtype=np.float64)

    def _until(self, ends: npt.NDArray[np.float64], of: str) -> npt.NDArray[np.float64]:
        """Interpolates a cumulative figure at these times, between the two points around each."""
        at = np.array([point.ms for point in self.points], dtype=np.float64)
        values = np.array([getattr(point, of) for point in self.points], dtype=np.float64)
        inner: npt.NDArray[np.float64] = np.interp(ends, at, values)
        return inner

    def series(self) -> pa.Table:
        """Returns the one-second series; the sums over its rows are the exact totals."""
        ends = self._ends()
        columns: dict[str, npt.NDArray[np.int64]] = {}
        for direction in DIRECTIONS:
            total, until = self.total[direction], np.rint(self._until(ends, f"{direction}s"))
            # All I/Os have one size, so the bytes follow the counts.
            size = total.bytes / total.ios if total.ios else 0.0
            columns[f"{direction}s"] = np.diff(until).astype(np.int64)
            columns[f"{direction}_bytes"] = np.diff(np.rint(until * size)).astype(np.int64)
        highest = np.zeros(len(ends) - 1, dtype=np.int64)
        for before, point in pairwise(self.points):
            row = int(np.searchsorted(ends[1:], (before.ms + point.ms) // 2))
            row = min(row, len(highest) - 1)
            highest[row] = max(highest[row], point.latency_ns_max)
        ios = columns["reads"] + columns["writes"]
        # An interval longer than a second, on a machine that stalled, covers more than one row.
        for row in np.flatnonzero((ios > 0) & (highest == 0)).tolist():
            within = [
                point.latency_ns_max
                for before, point in pairwise(self.points)
                if before.ms < ends[row + 1] and point.ms > ends[row]
            ]
            highest[row] = max(within, default=0)
        latency = np.diff(self._until(ends, "latency_ns_sum"))
        return one_second_series(
            **columns, latency_ns_mean=latency / np.maximum(ios, 1), latency_ns_max=highest
        )

    def histogram(self) -> pa.Table:
        """Returns exact counts per direction and bin, in rising order."""
        rows = []
        for direction in DIRECTIONS:
            total = self.total[direction]
            for middle, count in sorted(total.bins.items()):
                low, high = bin_bounds(middle)
                if middle == max(total.bins):  # fio's last bin holds everything above 17 s
                    high = max(high, total.latency_ns_max + 1)
                rows.append((direction, low, high, count))
        return histogram(rows)
