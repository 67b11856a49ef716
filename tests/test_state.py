"""A virtual drive's state from Python: copied, saved, restored; files that are wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drivebay import _core
from drivebay.common.errors import UserError
from drivebay.definitions import profiles as catalog
from drivebay.definitions.modifications import changed

PROFILE = changed(
    catalog.load("sm951-ahci-512"),
    ["nand.blocks_per_plane=64", "drive.capacity_sectors=56000000", "gc.idle.free_mb=1000"],
)
SMALL = PROFILE.core


def load(drive: _core.VirtualDrive, seed: int, seconds: float = 1.0) -> dict[str, Any]:
    """What random writes and some reads give, all over the drive."""
    workload = _core.Workload(
        pattern="random",
        read_percent=20,
        block_bytes=4096,
        queue_depth=32,
        span_start_bytes=0,
        span_bytes=drive.capacity_bytes // 4096 * 4096,
        stop={"duration_s": seconds},
    )
    return fields(drive.run(workload, seed))


def fields(result: Any) -> dict[str, Any]:
    """A result of the core as a dict."""
    named = {name: getattr(result, name) for name in dir(result) if not name.startswith("_")}
    return {
        name: fields(value) if isinstance(value, _core.Histogram) else value
        for name, value in named.items()
    }


def prepared() -> _core.VirtualDrive:
    drive = _core.VirtualDrive(SMALL, 1)
    load(drive, 1, 3.0)
    drive.rest(2)
    return drive


def same(a: Any, b: Any) -> bool:
    """Whether two results are equal, bit for bit."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return bool(np.array_equal(a, b))


def test_copies_and_restored_drives_go_on_as_prepared_anew(tmp_path: Path) -> None:
    anew = prepared()
    source = prepared()
    source.save(tmp_path / "state")
    copy = source.copy()
    other = _core.VirtualDrive(SMALL, 9)
    load(other, 9)
    other.copy_from(source)
    restored = _core.VirtualDrive(SMALL, 7)
    restored.restore(SMALL, tmp_path / "state")
    expected, health = load(anew, 5), anew.health()
    assert health.temperature_c > 25 and expected["start_ns"] >= 5e9
    for drive in (source, copy, other, restored):
        assert same(load(drive, 5), expected)
        assert drive.health() == health and drive.counters() == anew.counters()
    assert [path.name for path in tmp_path.iterdir()] == ["state"], "nothing is left beside it"


def test_a_drive_copied_from_itself_stays_and_from_another_takes_its_profile() -> None:
    drive = prepared()
    drive.copy_from(drive)
    other = _core.VirtualDrive(catalog.load("sm951-nvme-256").core, 1)
    other.copy_from(drive)
    assert other.capacity_bytes == drive.capacity_bytes
    assert same(load(other, 2), load(drive, 2))


def test_wrong_files_are_refused_with_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "state"
    prepared().save(path)
    good = path.read_bytes()
    drive = _core.VirtualDrive(SMALL, 1)

    def refusal(profile: _core.Profile = SMALL) -> str:
        drive.reset(SMALL, 1)
        with pytest.raises(UserError) as caught:
            drive.restore(profile, path)
        message, hint = caught.value.message, caught.value.hint
        assert len(message.splitlines()) == 1 and len(hint.splitlines()) == 1
        return message

    for at in (28, len(good) // 2, len(good) - 1):
        path.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        assert "damaged" in refusal()
    path.write_bytes(good[:-1])
    assert "damaged" in refusal()
    for foreign in (b"", b"garbage", b"x" * 1000):
        path.write_bytes(foreign)
        assert "not a saved state" in refusal()
    path.write_bytes(good[:8] + b"\xff\0\0\0" + good[12:])
    assert "version 255" in refusal()
    path.write_bytes(good)
    assert "another profile" in refusal(catalog.load("sm951-nvme-256").core)
    path.unlink()
    assert "No such file" in refusal()
    drive.reset(SMALL, 1)
    with pytest.raises(UserError, match="cannot save"):
        drive.save(tmp_path / "nowhere" / "state")
