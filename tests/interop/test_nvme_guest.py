"""Purge, SMART and identity on an NVMe drive that QEMU emulates, through Linux's own driver.

Real nvme-cli, real kernel; see nvme_guest.py for what it needs. Not run where that is absent.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nvme_guest
import pytest

SERIAL = "GUEST0001"
CAPACITY_BYTES = 128 * 2**20

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(bool(nvme_guest.missing()), reason=nvme_guest.missing() or "-"),
]


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    folder = Path(tmp_path_factory.mktemp("guest"))
    drive = nvme_guest.disk(folder / "disk.img", CAPACITY_BYTES, name="d0")
    devices = [*drive, "-device", f"nvme,drive=d0,serial={SERIAL}"]
    lines = nvme_guest.boot(folder, nvme_guest.Job("nvme_job.py", devices))
    assert "failed" not in {line["what"] for line in lines}, lines[-1]["trace"]
    return {line.pop("what"): line for line in lines}


def test_the_drive_is_named_and_free(said: dict[str, dict[str, Any]]) -> None:
    device = said["device"]
    assert (device["serial"], device["capacity_bytes"]) == (SERIAL, CAPACITY_BYTES)
    assert device["model"] == "QEMU NVMe Ctrl"
    assert device["interface"].startswith("NVMe")
    assert device["blockers"] == [] and device["signatures"] == []
    assert "--destroy-data names 'another serial'" in said["refused"]["message"]


def test_smart_by_ioctl_and_by_nvme_cli_agree(said: dict[str, dict[str, Any]]) -> None:
    smart = said["smart"]
    assert smart["tool"]["source"] == "nvme"
    by_tool, by_ioctl = smart["tool"]["figures"], smart["ioctl"]
    assert by_ioctl["drive.composite_temperature_c"] == by_tool["temperature_c"] == 50
    assert by_ioctl["drive.throttle_light_count"] == by_tool["throttle_light_count"] == 0
    merged = {key: value for one in said["sensors"]["values"] for key, value in one.items()}
    assert merged["drive.throttle_stage"] == 0
    assert "drive throttling" not in said["sensors"]["absent"]


def test_format_erases_and_is_verified(said: dict[str, dict[str, Any]]) -> None:
    purged = said["purged"]
    record = purged["record"]
    assert record["method"] == "NVMe Format (user data erase)"
    assert record["marks_gone"] == record["marks"] == 16
    assert record["reads_after"] == "zeros"
    assert purged["mebibytes_left"] == 0
    assert purged["serial"] == SERIAL
