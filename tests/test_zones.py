"""Zones from Python: what-ifs, loads by zone, what is in each."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

import drivebay
from drivebay import Array, Drive, Workload
from drivebay.cli.entry import run
from drivebay.common.errors import UserError


def small() -> Drive:
    return drivebay.drive("pm9a3-960").scaled(1 / 128).with_("zns=4")


def test_any_drive_of_flash_takes_zones() -> None:
    for name in ("pm9a3-960", "sn770-1tb", "980-pro-1tb", "970-evo-plus-250gb"):
        drive = drivebay.drive(name).scaled(1 / 16).with_("zns=14:2")
        zones = drive.device().zones()
        assert len(zones) > 20 and {zone.state for zone in zones} == {"empty"}, name
        assert drive.with_("zns=none").device().zones() == []


def test_loads_by_zone_fill_zones_in_turns() -> None:
    device = small().device()
    zone = device.capacity_bytes // len(device.zones())
    run = device.run(Workload(pattern="sequential", zones=4, queue_depth=4, bytes=zone // 2))
    assert [one.written_bytes for one in device.zones()[:5]] == [zone // 8] * 4 + [0]
    assert [one.state for one in device.zones()[:5]] == ["implicitly open"] * 4 + ["empty"]
    assert run.ios == zone // 2 // 4096
    device.run(
        Workload(pattern="sequential", zones=1, zone_op="append", queue_depth=8, bytes=2 * zone)
    )
    assert [one.state for one in device.zones()[:2]] == ["full"] * 2
    resets = device.run(
        Workload(
            pattern="sequential",
            zones=1,
            zone_op="reset",
            zone_fill_percent=0,
            queue_depth=1,
            ios=2,
        )
    )
    assert resets.ios == 2 and resets.write_latency.mean_us > 1_700
    assert [one.state for one in device.zones()[:3]] == ["empty", "empty", "implicitly open"]
    finishes = device.run(
        Workload(
            pattern="sequential",
            zones=1,
            zone_op="finish",
            zone_fill_percent=25,
            queue_depth=1,
            ios=1,
            span_start_bytes=2 * zone,
            span_bytes=zone,
        )
    )
    assert finishes.ios == 1 and device.zones()[2].state == "full"
    assert device.counters().copied_pages == 0
    cases: tuple[tuple[Literal["open", "close"], str], ...] = (
        ("open", "explicitly open"),
        ("close", "closed"),
    )
    for op, left in cases:
        load = Workload(
            pattern="sequential", zones=1, zone_op=op, zone_fill_percent=0, queue_depth=1, ios=3
        )
        asked = device.run(load)
        assert asked.ios == 3 and 5 < asked.write_latency.mean_us < 50
        assert device.zones()[0].state == left
        assert "empty" in {one.state for one in device.zones()}


@pytest.mark.parametrize(
    ("words", "said", "hint"),
    [
        ("zns=many", "must be a number of active zones", "zns=14"),
        ("zns", "a value is missing", "zns=14"),
        ("zns=65", "1 to 64", "zns=14"),
        ("zns=4:0", "must be a number of active zones", "zns=14:4"),
        ("service_cv=nan", "must be a number from 0 to 1", "service_cv=0.3"),
    ],
)
def test_zones_that_cannot_be_are_refused(words: str, said: str, hint: str) -> None:
    with pytest.raises(UserError) as refused:
        drivebay.drive("pm9a3-960").with_(words)
    assert said in refused.value.message and hint in refused.value.hint


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"zones": 5, "queue_depth": 1}, "zones: 5 is not allowed; must be at most zns.active, 4"),
        (
            {"zones": 2, "queue_depth": 3},
            "queue_depth: 3 is not allowed; must be at most zones",
        ),
        ({"zones": 1, "queue_depth": 1, "block_bytes": 512}, "block_bytes: 512 is not allowed"),
        ({"zones": 1, "queue_depth": 1, "handle": 3}, "handle: 3 is not allowed; must be below 1"),
        ({"zone_op": "append"}, "zone_op: 'append' is not allowed; must be write without zones"),
        (
            {"zones": 1, "zone_op": "open", "queue_depth": 1},
            "zone_fill_percent: 100 is not allowed; must be .* 0 for opens and closes",
        ),
    ],
)
def test_loads_that_cannot_be_are_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        small().device().run(Workload(pattern="sequential", **fields))


def test_a_load_by_zone_needs_zones_and_random_writes_none() -> None:
    plain = drivebay.drive("pm9a3-960").scaled(1 / 128).device()
    with pytest.raises(UserError, match="zones: 1 is not allowed; must be 0 for a drive without"):
        plain.run(Workload(pattern="sequential", zones=1, queue_depth=1))
    with pytest.raises(UserError, match="zones: 0 is not allowed; must be 1 or more for writes"):
        small().device().run(Workload(ios=10))


def test_a_load_that_is_not_by_zone_writes_empty_zones_once_or_is_refused_before_it_runs(
    tmp_path: Path,
) -> None:
    device = small().device()
    load = Workload(pattern="sequential", block_bytes=131072, queue_depth=8)
    said = "zones: 0 is not allowed; must be 1 or more for writes to a drive with zones"
    for wrong in (
        {"duration_s": 1.0},
        {"bytes": 2 * device.capacity_bytes},
        {"bytes": 10**9, "span_start_bytes": 131072},
        {"bytes": 10**6, "read_percent": 50},
    ):
        with pytest.raises(UserError, match=said):
            device.run(load.model_copy(update=wrong))
    assert device.counters().commands == 0, "nothing ran"
    device.run(load.model_copy(update={"bytes": device.capacity_bytes}))
    assert {zone.state for zone in device.zones()} == {"full"}
    for again in (
        device.fill,
        lambda: device.run_jobs({"fill": load.model_copy(update={"bytes": 10**6})}),
    ):
        with pytest.raises(UserError, match=said):
            again()
    part: dict[str, Any] = {"zones": 1, "queue_depth": 1, "zone_fill_percent": 25}
    with pytest.raises(
        UserError, match="zone_fill_percent: 25 is not allowed; must be 100 for more"
    ):
        device.run(Workload(pattern="sequential", bytes=10**9, **part))


def test_writes_to_random_write_areas_come_at_any_depth_and_are_programmed_once() -> None:
    drive = drivebay.drive("pm9a3-960").scaled(1 / 128).with_("zns=4:1:1024/16")
    device = drive.device()
    zone = device.capacity_bytes // len(device.zones())
    load = Workload(
        pattern="sequential", zones=2, zone_op="zrwa", queue_depth=16, block_bytes=16384
    )
    run = device.run(load.model_copy(update={"bytes": 3 * zone}))
    assert run.ios == 3 * zone // 16384
    assert [one.state for one in device.zones()[:2]] == ["full"] * 2
    used = device.counters()
    assert used.placed_pages <= used.host_pages, "what is in the areas is not programmed yet"
    with pytest.raises(UserError, match="zone_op: 'zrwa' is not allowed; must be zrwa only"):
        small().device().run(load.model_copy(update={"bytes": zone}))
    with pytest.raises(UserError, match="power_loss_protection"):
        drivebay.drive("980-pro-1tb").with_("zns=4:1:1024/16").device()


def test_drives_with_zones_are_no_array() -> None:
    with pytest.raises(UserError, match="zones must be written sequentially"):
        Array([small().device() for _ in range(2)], "1")


def test_a_power_cut_keeps_what_a_protected_drive_has_acknowledged() -> None:
    device = small().device()
    device.run(Workload(pattern="sequential", zones=2, queue_depth=2, ios=100))
    assert device.power_cut().lost_bytes == 0
    assert [(one.state, one.written_bytes) for one in device.zones()[:2]] == [
        ("closed", 50 * 4096)
    ] * 2


def test_zones_have_no_handles() -> None:
    assert small().device().placement() == []


@pytest.mark.parametrize(
    ("options", "refused"),
    [
        (["--nbd", "unix:SOCKET"], "--nbd"),
        (["--nvme-tcp", "127.0.0.1:0", "--record", "record"], "--record"),
    ],
)
def test_what_carries_no_zones_refuses_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], refused: str
) -> None:
    options = [one.replace("SOCKET", str(tmp_path / "socket")) for one in options]
    assert run(["serve", "zn540-1tb", *options, "--memory", "4GiB"]) == 2
    said = capsys.readouterr().err
    assert f"error: zn540-1tb: a drive with zones cannot be served with {refused}: " in said
    assert "hint: " in said and "--set zns=none" in said
    assert not list(tmp_path.iterdir())
