"""What the host, the slot and sleep do to a virtual drive, through the Python side."""

from __future__ import annotations

from typing import Any

import pytest

from drivebay import _core
from drivebay.definitions import profiles as catalog
from drivebay.definitions.modifications import changed


def small(*changes: str) -> _core.VirtualDrive:
    """The SM951 with NVMe firmware and a sixteenth of its flash, changed."""
    words = ["nand.blocks_per_plane=64", "drive.capacity_sectors=28000000"]
    words += ["gc.threshold_mb=50", "gc.idle.free_mb=1000", *changes]
    return _core.VirtualDrive(changed(catalog.load("sm951-nvme-256"), words).core, 1)


def run(drive: _core.VirtualDrive, **changes: Any) -> _core.RunResult:
    workload: dict[str, Any] = {
        "pattern": "sequential",
        "read_percent": 0,
        "block_bytes": 131_072,
        "queue_depth": 32,
        "span_start_bytes": 0,
        "span_bytes": 1 << 30,
        "stop": {"duration_s": 1.5},
    }
    return drive.run(_core.Workload(**workload | changes), 1)


def mb_per_s(columns: _core.RunResult) -> float:
    return float(columns.read_bytes[0] + columns.write_bytes[0]) / 1e6


def test_a_slower_slot_gives_the_slower_result() -> None:
    # One lane of PCIe 3.0; writes come in completions of 64 bytes with 20 around each.
    one_lane = small("host.slot.lanes=1")
    assert mb_per_s(run(one_lane)) == pytest.approx(984.6 * 64 / 84, rel=0.01)
    first = small("host.slot.generation=1", "host.slot.lanes=2")
    assert mb_per_s(run(first)) == pytest.approx(500 * 64 / 84, rel=0.01)


def test_the_limited_driver_holds_reads_down() -> None:
    for host, expected in (("windows-8.1-z97", 2248), ("windows-8.1-z87", 1628)):
        drive = small(f"host={host}")
        run(drive, stop={"bytes": 1 << 30})
        drive.rest(10)
        assert mb_per_s(run(drive, read_percent=100)) == pytest.approx(expected, rel=0.02)


def test_queues_are_reported_one_by_one() -> None:
    columns = run(small(), queues=4, queue_depth=8, pattern="random", block_bytes=4096)
    ios = columns.queue_ios
    assert len(ios) == 4 and ios.max() - ios.min() < 0.01 * ios.max()
    assert (columns.queue_latency_ns_sum > 0).all()
    assert (columns.power_w_peak >= columns.power_w).all()


def test_a_drive_that_sleeps_draws_less_and_says_so() -> None:
    energy = {}
    for host in ("windows-8.1-z97", "laptop"):
        drive = small(f"host={host}")
        drive.rest(3600)
        energy[host] = drive.counters().energy_j
        health = drive.health()
        assert health.power_on_s == 3600 and health.busy_s == 0
        assert health.host_writes == 0 and health.waf is None
    # 50 mW; 5 mW after the first second.
    assert energy["windows-8.1-z97"] == pytest.approx(180, rel=0.01)
    assert energy["laptop"] == pytest.approx(3600 * 0.005, rel=0.05)
