"""The drive that is compared with another simulator: it answers as arithmetic says, and the other's
files say the same drive."""

from __future__ import annotations

import configparser
import runpy
from pathlib import Path
from typing import Any

import pytest

import drivebay

PEERS = Path(__file__).resolve().parent.parent / "examples" / "peers"


def defined(script: str) -> dict[str, Any]:
    """What a script defines; its folder is where it finds the other."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(PEERS))
        return runpy.run_path(str(PEERS / script))


@pytest.fixture(scope="module")
def mqsim() -> dict[str, Any]:
    return defined("mqsim.py")


@pytest.fixture(scope="module")
def simplessd() -> dict[str, Any]:
    return defined("simplessd.py")


def test_one_read_takes_flash_and_channel_and_little_more(mqsim: dict[str, Any]) -> None:
    drive = drivebay.drive(mqsim["DRIVE"])
    found = defined("loads.py")["by_drivebay"](drive, mqsim["LOADS"][0], 1000)
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


def test_simplessds_files_are_the_same_drive_and_load(simplessd: dict[str, Any]) -> None:
    drive, load = drivebay.drive(simplessd["DRIVE"]), simplessd["READS"][1]
    told = configparser.ConfigParser()
    told.read_string(simplessd["device"](drive, load))
    told.read_string(simplessd["simulation"](load, 2**32, 1000))
    pages = 1
    for key in ("Channel", "Package", "Die", "Plane", "Block", "Page", "PageSize"):
        pages *= int(told["pal"][key])
    user = pages * (1 - float(told["ftl"]["OverProvisioningRatio"]))
    assert user == pytest.approx(drive.capacity_bytes, rel=1e-5)
    asked = told["generator"]
    assert (asked["readwrite"], int(asked["iodepth"])) == ("randread", load.queue_depth)
    assert int(asked["io_size"]) == 1000 * load.block_bytes


def test_the_time_of_a_simplessd_run_is_read_from_what_it_prints(simplessd: dict[str, Any]) -> None:
    printed = "*** Statistics\nTick: 9\nTime (ps): 4 - 3000000000004 (3000000000000)\n"
    assert simplessd["took_s"](printed) == 3.0
    with pytest.raises(ValueError, match="printed no time"):
        simplessd["took_s"]("No free block left")
