"""fio's output, read: recorded with 3.25, 3.33, 3.39 and 3.41 (tests/data/fio/record.py).

The oracle of the seconds is fio's own log of every I/O of the same run, which shares nothing with
the figures that it prints when asked.
"""

from __future__ import annotations

import copy
import math
from pathlib import Path

import numpy as np
import pytest

from drivebay.common.errors import EnvironmentProblem
from drivebay.definitions.suites import Stable
from drivebay.results.records import HISTOGRAM_SCHEMA, SERIES_SCHEMA
from drivebay.targets.fio.parse import (
    Document,
    Recorder,
    bin_bounds,
    checked_total,
    documents,
    job_error,
    parse_version,
    runtime_ms,
    side,
)

DATA = Path(__file__).parent / "data" / "fio"
VERSIONS = ("3.25", "3.33", "3.39", "3.41")


def recorded(version: str, name: str) -> list[Document]:
    with (DATA / f"{version}-{name}.json").open() as lines:
        return list(documents(lines))


def recorder_of(found: list[Document]) -> Recorder:
    """As fio_run feeds it: every answer asked for at the nearest second, then the end."""
    recorder = Recorder()
    for document in found[:-1]:
        if side(document, "read").ios:
            recorder.add(document, asked_ms=round(runtime_ms(document), -3) or None)
    recorder.finish(found[-1])
    return recorder


def logged(version: str) -> list[tuple[int, int, int]]:
    """Every I/O as ms after the start, latency in ns, 0 for a read and 1 for a write."""
    lines = (DATA / f"{version}-log.csv").read_text().splitlines()
    return [(int(ms), int(ns), int(way)) for ms, ns, way in (line.split(",") for line in lines)]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["answers", "stopped", "status"])
def test_counts_bins_and_seconds_add_up(version: str, name: str) -> None:
    found = recorded(version, name)
    recorder = recorder_of(found)
    series, histogram = recorder.series(), recorder.histogram()
    assert series.schema == SERIES_SCHEMA
    assert histogram.schema == HISTOGRAM_SCHEMA
    job = found[-1]["jobs"][0]
    counts = histogram.to_pylist()
    for direction in ("read", "write"):
        ios = job[direction]["total_ios"]
        assert ios > 50
        assert sum(row["count"] for row in counts if row["direction"] == direction) == ios
        assert sum(series[f"{direction}s"].to_pylist()) == ios
        assert sum(series[f"{direction}_bytes"].to_pylist()) == job[direction]["io_bytes"]
        assert job[direction]["io_bytes"] == ios * 4096
    assert series["second"].to_pylist() == list(range(len(series)))
    assert recorder.duration_ms == job["job_runtime"]
    assert len(series) == {"answers": 5, "status": 5, "stopped": 2}[name]


@pytest.mark.parametrize("version", VERSIONS)
def test_seconds_agree_with_the_log_of_every_io(version: str) -> None:
    rows = recorder_of(recorded(version, "answers")).series().to_pylist()
    log = logged(version)
    assert sum(row["reads"] + row["writes"] for row in rows) == len(log)
    for row in rows:
        begin, end = row["second"] * 1000, row["second"] * 1000 + 1000
        if row["second"] == len(rows) - 1:
            end += 100  # what was in flight at the end
        # Answers came up to 30 ms late; at 210 and 90 I/Os per second that is at most 7 I/Os.
        inside = [io for io in log if begin <= io[0] < end]
        surely = [ns for ms, ns, _ in log if begin + 30 <= ms < end - 30]
        perhaps = [ns for ms, ns, _ in log if begin - 30 <= ms < end + 30]
        assert row["reads"] == pytest.approx(sum(way == 0 for *_, way in inside), abs=7)
        assert row["writes"] == pytest.approx(sum(way == 1 for *_, way in inside), abs=7)
        mean = sum(ns for _, ns, _ in inside) / len(inside)
        assert row["latency_ns_mean"] == pytest.approx(mean, rel=0.05)
        assert max(surely) <= row["latency_ns_max"] <= max(perhaps) * 65 / 64


@pytest.mark.parametrize("version", VERSIONS)
def test_histogram_is_that_of_the_log(version: str) -> None:
    histogram = recorder_of(recorded(version, "answers")).histogram().to_pylist()
    log = logged(version)
    for way, direction in enumerate(("read", "write")):
        latencies = np.array([ns for _, ns, of in log if of == way])
        bins = [row for row in histogram if row["direction"] == direction]
        for row in bins:
            within = (latencies >= row["low_ns"]) & (latencies < row["high_ns"])
            assert row["count"] == int(within.sum())
            assert row["high_ns"] - row["low_ns"] <= max(1, 0.016 * row["low_ns"])
        assert sum(row["count"] for row in bins) == len(latencies)


def test_bins_tile_the_line() -> None:
    """Every ns is in one bin, and fio's name for the bin (its middle) leads back to it."""
    at = 0
    while at < 2_000_000:
        low, high = bin_bounds(at)
        assert low == at and high > low
        for named in {low + (high - low) // 2, high - 1, low}:
            assert bin_bounds(named) == (low, high)
        assert high - low == 1 or (high - low) / low <= 1 / 64
        at = high


def test_a_latency_over_fios_last_bin_is_within_its_bounds() -> None:
    found = copy.deepcopy(recorded("3.33", "answers"))
    latency = found[-1]["jobs"][0]["read"]["lat_ns"]
    name, count = list(latency["bins"].items())[-1]
    del latency["bins"][name]
    latency["bins"]["17112760320"] = count  # the middle of fio's last bin
    latency["max"] = 40_000_000_000
    rows = recorder_of(found).histogram().to_pylist()
    last = [row for row in rows if row["direction"] == "read"][-1]
    assert last["low_ns"] <= 17_112_760_320 < 40_000_000_000 < last["high_ns"]


@pytest.mark.parametrize("version", VERSIONS)
def test_flushes_are_counted_apart(version: str) -> None:
    found = recorded(version, "status")
    assert recorder_of(found).flushes == 0
    found[-1]["jobs"][0]["sync"] = {"total_ios": 3, "lat_ns": {"mean": 2000.5, "N": 3}}
    recorder = recorder_of(found)
    assert (recorder.flushes, recorder.flush_ns_sum) == (3, 6001.5)
    del found[-1]["jobs"][0]["sync"]
    with pytest.raises(EnvironmentProblem, match="sync"):
        recorder_of(found)


def test_text_between_the_documents_is_skipped() -> None:
    text = (DATA / "3.33-stopped.json").read_text()
    assert "fio: terminating on signal 15" in text
    assert len(recorded("3.33", "stopped")) == text.count('"fio version"')
    noise = text.replace('{\n  "fio version"', 'fio: a note\n{ half\n{\n  "fio version"')
    assert noise != text
    assert list(documents(noise.splitlines(keepends=True))) == recorded("3.33", "stopped")
    half = text[: len(text) // 2]
    whole = recorded("3.33", "stopped")[: half.count("\n}\n")]
    assert list(documents(half.splitlines(keepends=True))) == whole
    assert 0 < len(whole) < text.count('"fio version"')


def made(ms: int, writes: int, *, latency_ns: int = 1000) -> Document:
    """A document as fio prints it, for loads that cannot be recorded at will."""

    def part(ios: int) -> dict[str, object]:
        bins = {str(latency_ns): ios} if ios else {}
        latency = {"N": ios, "mean": float(latency_ns), "max": latency_ns if ios else 0}
        return {"io_bytes": ios * 4096, "total_ios": ios, "lat_ns": {**latency, "bins": bins}}

    sides = {"read": part(0), "write": part(writes), "sync": part(0)}
    job = {"job_runtime": ms, "error": 0, **sides}
    return {"fio version": "fio-3.33", "jobs": [job]}


def writes_of(recorder: Recorder) -> list[int]:
    found: list[int] = recorder.series()["writes"].to_pylist()
    return found


def test_answers_that_miss_the_second_are_interpolated() -> None:
    """A constant rate must look constant, however unevenly the answers came."""
    recorder = Recorder()
    for ms in (51, 970, 2060, 2990, 4007):
        recorder.add(made(ms, ms * 10), asked_ms=round(ms, -3) or None)
    recorder.finish(made(5000, 50_000))
    assert writes_of(recorder) == [10_000] * 5


def test_a_stall_shows_as_seconds_without_io() -> None:
    """fio answers late when nothing completes: then nothing has, since it was asked."""
    recorder = Recorder()
    recorder.add(made(1000, 500), asked_ms=1000)
    recorder.add(made(5003, 900), asked_ms=2000)
    recorder.finish(made(6000, 1400))
    assert writes_of(recorder) == [500, 400, 0, 0, 0, 500]
    rows = recorder.series().to_pylist()
    assert [row["latency_ns_mean"] for row in rows[2:5]] == [None] * 3
    assert [row["latency_ns_max"] for row in rows[2:5]] == [None] * 3


@pytest.mark.parametrize(
    ("duration_ms", "rows"),
    [(80, 1), (999, 1), (1000, 1), (1499, 1), (1500, 2), (4960, 5), (5003, 5), (5499, 5)],
)
def test_the_rest_after_the_last_full_second(duration_ms: int, rows: int) -> None:
    recorder = Recorder()
    recorder.finish(made(duration_ms, 777))
    assert len(writes_of(recorder)) == rows
    assert sum(writes_of(recorder)) == 777


def test_a_phase_without_any_io_has_a_series_and_no_histogram() -> None:
    recorder = Recorder()
    recorder.finish(made(2000, 0))
    assert writes_of(recorder) == [0, 0]
    assert recorder.series()["latency_ns_mean"].to_pylist() == [None, None]
    assert len(recorder.histogram()) == 0


def rates_are_stable(rates: list[int], rule: Stable) -> bool:
    recorder, sum_so_far = Recorder(), 0
    for second, rate in enumerate(rates, start=1):
        sum_so_far += rate
        recorder.add(made(second * 1000, sum_so_far), asked_ms=second * 1000)
    return recorder.is_stable(rule)


def test_stable_is_range_over_mean_of_the_window() -> None:
    rule = Stable(window_s=3, within_percent=10, min_s=4)
    assert rates_are_stable([900, 100, 105, 100], rule)
    assert not rates_are_stable([100, 105, 100], rule), "before min_s"
    assert not rates_are_stable([100, 100, 111, 100], rule), "11 of 103.7 is 10.6 %"
    assert rates_are_stable([100, 100, 110, 100], rule), "10 of 103.3 is 9.7 %"
    assert not rates_are_stable([0, 0, 0, 0, 0], rule), "nothing moves: not stable, but stuck"


@pytest.mark.parametrize(
    ("text", "version"),
    [("fio-3.33\n", (3, 33)), ("fio-3.25-dirty", (3, 25)), ("fio-3.99", (3, 99))],
)
def test_known_versions(text: str, version: tuple[int, int]) -> None:
    assert parse_version(text) == version


@pytest.mark.parametrize("text", ["fio-3.16", "fio-2.21", "fio-4.0", "flexible 3", ""])
def test_unknown_versions_are_refused(text: str) -> None:
    with pytest.raises(EnvironmentProblem) as caught:
        parse_version(text)
    assert caught.value.exit_code == 3
    assert "fio" in caught.value.message and "fio" in caught.value.hint


def broken(change: str) -> Document:
    document: Document = copy.deepcopy(recorded("3.33", "answers")[-1])
    read = document["jobs"][0]["read"]
    if change == "a bin is lost":
        read["lat_ns"]["bins"].popitem()
    elif change == "the bins are gone":
        del read["lat_ns"]["bins"]
    elif change == "the counts differ":
        read["total_ios"] += 1
    elif change == "latency has another name":
        read["latency"] = read.pop("lat_ns")
    elif change == "a direction is missing":
        del document["jobs"][0]["read"]
    elif change == "no job":
        document["jobs"] = []
    return document


@pytest.mark.parametrize(
    "change",
    [
        "a bin is lost",
        "the bins are gone",
        "the counts differ",
        "latency has another name",
        "a direction is missing",
        "no job",
    ],
)
def test_output_that_does_not_add_up_is_an_error_not_a_zero(change: str) -> None:
    with pytest.raises(EnvironmentProblem) as caught:
        checked_total(broken(change))
    assert "fio-3.33" in caught.value.message
    assert "\n" not in caught.value.message


def test_the_jobs_error_is_found() -> None:
    document = recorded("3.33", "answers")[-1]
    assert job_error(document) == 0
    document["jobs"][0]["error"] = 28
    assert job_error(document) == 28
    assert job_error({"fio version": "fio-3.33", "jobs": []}) == 0


def test_mean_latency_is_weighted_over_both_directions() -> None:
    found = recorded("3.41", "answers")
    rows = recorder_of(found).series().to_pylist()
    job = found[-1]["jobs"][0]
    total = sum(job[way]["lat_ns"]["mean"] * job[way]["total_ios"] for way in ("read", "write"))
    rebuilt = sum(row["latency_ns_mean"] * (row["reads"] + row["writes"]) for row in rows)
    assert math.isclose(total, rebuilt, rel_tol=0.001)
