"""The drive that is compared with another simulator: it answers as arithmetic says, and the other's
files say the same drive."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

import drivebay

PEERS = Path(__file__).resolve().parent.parent / "examples" / "peers"


@pytest.fixture(scope="module")
def mqsim() -> dict[str, Any]:
    """What the script defines."""
    return runpy.run_path(str(PEERS / "mqsim.py"))


def test_one_read_takes_flash_and_channel_and_little_more(mqsim: dict[str, Any]) -> None:
    drive = drivebay.drive(mqsim["DRIVE"])
    found = mqsim["by_drivebay"](drive, mqsim["LOADS"][0], 1000)
    arithmetic = drive.value("nand.read_us") + 4096 / drive.value("nand.channel_mb_per_s")
    assert arithmetic < found.latency_us < arithmetic + 3


def test_its_files_are_the_same_drive(mqsim: dict[str, Any]) -> None:
    drive = drivebay.drive(mqsim["DRIVE"])
    told = {one.tag: one.text for one in mqsim["device"](drive, mqsim["LOADS"][2]).iter()}
    pages = 1
    for key in (
        *("Flash_Channel_Count", "Chip_No_Per_Channel", "Die_No_Per_Chip", "Plane_No_Per_Die"),
        *("Block_No_Per_Plane", "Page_No_Per_Block", "Page_Capacity"),
    ):
        pages *= int(told[key] or 0)
    user = pages * (1 - float(told["Overprovisioning_Ratio"] or 0))
    assert user == pytest.approx(drive.capacity_bytes, rel=1e-5)
