"""Explain: stages add up, and the sentences say only what the numbers say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import made_result
import numpy as np
import pyarrow as pa
import pytest

from drivebay import _core, analysis, results
from drivebay.analysis import explain, stages
from drivebay.analysis.explain import Explained, Load
from drivebay.analysis.stages import StageShare
from drivebay.definitions import profiles as catalog
from drivebay.definitions.modifications import changed
from drivebay.definitions.scaling import scaled
from drivebay.results.records import STAGES_SCHEMA
from drivebay.targets.virtual.busy import busy


def load(label: str, depth: int, **us: float) -> Load:
    total = sum(us.values())
    shares = tuple(StageShare(name, 100 * mean / total, mean) for name, mean in us.items())
    return Load(label, depth, 1000, total, shares, None)


def test_shares_over_time_are_weighted_by_ios() -> None:
    table = pa.table(
        {
            "second": [0, 1, 2, 0, 1],
            "stage": ["nand", "nand", "nand", "die", "die"],
            "ns": [10_000, 90_000, 5_000, 30_000, 0],
        },
        schema=STAGES_SCHEMA,
    )
    over = stages.over_time(table, np.array([10.0, 30.0, 5.0]))
    assert over is not None and over.interval_s == 1
    assert over.mean_us["nand"].tolist() == [1.0, 3.0, 1.0]
    assert over.mean_us["die"].tolist() == [3.0, 0.0, 0.0]
    assert over.share_percent("nand").tolist() == [25.0, 100.0, 100.0]


def test_a_long_run_is_cut_into_few_intervals_and_loses_no_time() -> None:
    n = 3_600
    ns = np.arange(n) * 1000
    table = pa.table(
        {"second": np.arange(n), "stage": ["nand"] * n, "ns": ns}, schema=STAGES_SCHEMA
    )
    over = stages.over_time(table, np.full(n, 7.0))
    assert over is not None and len(over.second) <= stages.INTERVALS_MAX
    assert (over.mean_us["nand"] * over.ios).sum() * 1e3 == pytest.approx(ns.sum())
    assert stages.over_time(None, np.ones(3)) is None
    assert stages.over_time(table, np.zeros(0)) is None


def test_the_gap_between_two_drives_is_the_sum_of_its_parts() -> None:
    a = Explained("t", "T", (load("QD 1", 1, host=6.0, nand=60.0, die=1.0),), ())
    b = Explained("t", "T", (load("QD 1", 1, host=2.0, nand=58.0),), ())
    (gap,) = explain.gaps(a, b)
    assert gap.us == pytest.approx(-7.0)
    assert sum(part.us for part in gap.parts) == pytest.approx(gap.us)
    assert [part.stage for part in gap.parts] == ["host", "nand", "die"]
    (line,) = explain.compared(a, b, a_name="AHCI", b_name="NVMe")
    assert line.startswith("At QD 1 the mean latency of NVMe is 60 µs, of AHCI 67 µs")
    assert "57 % is host software and protocol (4 µs)" in line


def test_what_works_against_the_gap_is_said_and_no_share_is_over_the_whole() -> None:
    a = Explained("t", "T", (load("QD 4", 4, host=10.0, die=1.0),), ())
    b = Explained("t", "T", (load("QD 4", 4, host=2.0, die=6.0),), ())
    (line,) = explain.compared(a, b, a_name="A", b_name="B")
    assert line.endswith(
        "A spends 8 µs more on host software and protocol, but 5 µs less on waiting for the flash "
        "die."
    )
    (same,) = explain.compared(a, a, a_name="A", b_name="B")
    assert same == "At QD 4 both have the same mean latency (11 µs and 11 µs)."


def test_a_result_is_explained_and_a_real_drive_is_not(tmp_path: Path) -> None:
    ids = ("random-read", "consistency-default")
    virtual = made_result.make(tmp_path / "virtual", only=ids)
    real = made_result.make(tmp_path / "real", only=ids, target=made_result.REAL)
    found = explain.explain(analysis.review(results.load(virtual)).tests["random-read"])
    assert [one.label for one in found.loads] == [f"QD {2**n}" for n in range(6)]
    for one in found.loads:
        assert sum(s.share_percent for s in one.stages) == pytest.approx(100)
    assert found.sentences[0].startswith("At QD 1 the mean latency is ")
    none = explain.explain(analysis.review(results.load(real)).tests["random-read"])
    assert none.loads == () and none.sentences == ()


@pytest.mark.parametrize(
    ("change", "read_percent", "block_bytes", "busiest", "least"),
    [
        ([], 100, 4096, "flash_core", 0.0),
        (["nand.program_us=[5000, 5000]"], 0, 131_072, "dies", 90.0),
        (["nand.channel_mb_per_s=40"], 0, 131_072, "channels", 90.0),
    ],
)
def test_the_part_that_sets_the_rate_is_the_busiest(
    change: list[str], read_percent: int, block_bytes: int, busiest: str, least: float
) -> None:
    profile = scaled(changed(catalog.load("sm951-ahci-512"), change), 1 / 64)
    drive = _core.VirtualDrive(profile.core, 1)
    size = profile.capacity_bytes

    def run(read_percent: int, block_bytes: int, **until: Any) -> _core.RunResult:
        load = _core.Workload(
            pattern="random" if read_percent else "sequential",
            read_percent=read_percent,
            block_bytes=block_bytes,
            queue_depth=32,
            span_start_bytes=0,
            span_bytes=size,
            stop=until,
        )
        return drive.run(load, 1)

    run(0, 131_072, bytes=size)
    ran = run(read_percent, block_bytes, duration_s=2.0)
    found = busy(profile.raw, ran.before, ran.after, (ran.end_ns - ran.start_ns) / 1e9)
    top = max(found, key=lambda name: found[name])
    assert top == f"busy_{busiest}_percent" and least <= found[top] <= 101
