"""The keys that reviewers rank drives by: from any suite and any import, missing where unknown."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import made_result
import pytest
from test_bench import called

from drivebay import report, results
from drivebay.analysis import review
from drivebay.analysis.rank_keys import TABLE, drive_bytes, rank_keys
from drivebay.lab.imports import import_files

GIB = 2**30


def keys_of(folder: Path) -> dict[str, Any]:
    """The keys of a result folder."""
    return rank_keys(review(results.load(folder)))


def job(name: str, rw: str, block: int, depth: int, iops: float, s: float, **more: str) -> Any:
    """A job of fio's JSON that ran alone at this rate."""
    ios = int(iops * s)
    side: dict[str, float] = {"io_bytes": ios * block, "total_ios": ios, "runtime": int(1000 * s)}
    side |= {"iops": iops, "bw_bytes": int(iops * block), "short_ios": 0, "drop_ios": 0}
    times = {"min": 1000, "max": 10**9, "mean": depth / iops * 1e9, "stddev": 0.0, "N": ios}
    none = dict.fromkeys(side, 0) | {"lat_ns": dict.fromkeys(times, 0)}
    full = side | {"lat_ns": times, "clat_ns": times, "slat_ns": dict.fromkeys(times, 0)}
    reads = rw.endswith("read")
    options = {"name": name, "filename": "/dev/nvme1n1", "rw": rw, "bs": str(block)}
    options |= {"iodepth": str(depth), "ioengine": "libaio", "direct": "1", **more}
    return {
        "jobname": name,
        "error": 0,
        "job options": options,
        "read": full if reads else none,
        "write": none if reads else full,
        "trim": none,
        "job_runtime": int(1000 * s),
    }


def imported(
    tmp_path: Path, jobs: list[Any], drive: str = "ACME 1TB", *, alone: bool = True
) -> Path:
    """A result folder of fio's JSON with these jobs, one after the other or all at once."""
    for group, one in enumerate(jobs):
        one["groupid"] = group if alone else 0
    path = tmp_path / "fio.json"
    document = {"fio version": "fio-3.36", "global options": {}, "jobs": jobs}
    path.write_text(json.dumps(document))
    return import_files("fio", [path], tmp_path / "imported", drive=drive)


def ladder(*rates: float) -> list[Any]:
    """Random reads at depths 1, 4, 16, ... at these rates."""
    return [job(f"read{4**at}", "randread", 4096, 4**at, rate, 30) for at, rate in enumerate(rates)]


def test_the_suite_for_it_gives_every_key_and_no_other_is_listed(tmp_path: Path) -> None:
    found = keys_of(made_result.make(tmp_path / "made", suite="ranking"))
    assert {bar["key"] for bar in TABLE["bars"]} >= found.keys() >= {"qd1", "depth", "durable"}
    bars = {bar["key"] for bar in TABLE["bars"]}
    assert len(bars) == 6 and all(bar["better"] in ("higher", "lower") for bar in TABLE["bars"])


def test_an_older_suite_has_the_keys_that_it_has_the_loads_for(tmp_path: Path) -> None:
    only = ("random-read", "random-write")
    folder = made_result.make(tmp_path / "made", only=only)
    found, tests = keys_of(folder), review(results.load(folder)).tests
    single = [tests[name].steps[0].iops for name in only]
    assert found["qd1"][0] == pytest.approx(math.sqrt(math.prod(single)))
    assert found["qd1"][1] == "4 KiB random read, QD 1 and 4 KiB random write, QD 1"
    assert not found.keys() & {"fill", "durable"}


def test_the_depth_is_the_lowest_with_95_percent_of_the_peak(tmp_path: Path) -> None:
    found = keys_of(imported(tmp_path, ladder(10e3, 40e3, 96e3, 100e3)))
    assert found["depth"] == (16, "fio, read16", "")
    assert found["depth_latency"][0] == pytest.approx(16 / 96e3 * 1e6, rel=0.01)
    assert "depth_per_watt" not in found, "no power is known"


def test_a_rate_that_still_rises_has_no_depth_but_a_bound(tmp_path: Path) -> None:
    found = keys_of(imported(tmp_path, ladder(10e3, 40e3, 90e3)))
    assert found["depth"] == (16, "fio, read16", "≥ ") and "depth_latency" not in found


def test_a_fill_counts_if_it_is_of_the_whole_drive(tmp_path: Path) -> None:
    whole = job("fill", "write", 131072, 32, 7629.4, 1000)  # 1 TB
    part = job("fill", "write", 131072, 32, 7629.4, 1000, size="32g")
    for drive, one, fits in (
        ("ACME 1TB", whole, True),
        ("ACME 2TB", whole, False),
        ("ACME", whole, False),
        ("a part of an ACME 1TB", part, False),
        ("A" + "9" * 50 + "TB", whole, False),
    ):
        (tmp_path / drive).mkdir()
        found = keys_of(imported(tmp_path / drive, [one], drive))
        assert ("fill" in found) == fits, drive
        assert not fits or found["fill"][0] == pytest.approx(1000, rel=0.01)


@pytest.mark.parametrize(
    ("seconds", "options", "known"),
    [
        (60, {"fsync": "1"}, True),
        (60, {"sync": "dsync"}, True),
        (60, {"sync": "none"}, False),
        (60, {"fsync": "32"}, False),
        (60, {}, False),
        (5, {"fsync": "1"}, False),
    ],
)
def test_durable_writes_are_flushed_one_by_one_and_sustained(
    tmp_path: Path, seconds: float, options: dict[str, str], known: bool
) -> None:
    found = keys_of(imported(tmp_path, [job("w", "randwrite", 4096, 1, 700, seconds, **options)]))
    assert ("durable" in found) == known
    assert not known or found["durable"][0] == pytest.approx(700, rel=0.01)


def test_jobs_that_share_the_drive_rank_nothing(tmp_path: Path) -> None:
    jobs = [*ladder(10e3, 40e3, 96e3, 100e3), job("w", "randwrite", 4096, 1, 2e4, 30)]
    assert keys_of(imported(tmp_path, jobs, alone=False)) == {}


def test_text_without_times_ranks_by_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / "cdm.txt"
    path.write_text(
        "CrystalDiskMark 8.0.4 x64 (C) 2007-2021 hiyohiyo\n\n[Read]\n"
        "  RND    4KiB (Q=  1, T= 1):    61.440 MB/s [  15000.0 IOPS] <    66.00 us>\n\n[Write]\n"
        "  RND    4KiB (Q=  1, T= 1):   245.760 MB/s [  60000.0 IOPS] <    16.00 us>\n"
    )
    folder = import_files("crystaldiskmark", [path], tmp_path / "out", drive="ACME 500 GB")
    assert keys_of(folder)["qd1"][0] == pytest.approx(30_000)
    assert drive_bytes(review(results.load(folder))) == 500e9


def test_the_bench_has_keys_capacity_and_form_and_leaves_unknown_ones_blank(tmp_path: Path) -> None:
    folders = [
        made_result.make(tmp_path / "virtual", only=("random-read", "random-write")),
        imported(tmp_path, ladder(10e3, 40e3, 96e3, 100e3), drive="no size"),
    ]
    site = report.write_bench(folders, tmp_path / "site").parent
    index = called(site / "data" / "index.js")
    virtual, real = index["reviews"]
    assert index["tests"][0]["key"] == TABLE["key"] == "_rank"
    assert (virtual["bytes"], virtual["form"]) == (512_110_190_592, "M.2 2280")
    assert (real["bytes"], real["form"]) == (0, "")
    assert real["values"]["_rank"].keys() == {"depth", "depth_latency"}
    value, spread, ends, text, words = real["values"]["_rank"]["depth"]
    assert (value, spread, ends, text, words) == (16, None, None, "16", "fio, read16")
