"""Runs in the guest of nvme_guest.py: drivebay's own code on an emulated NVMe drive.

Only the standard library is there. Each line it prints begins with JOB and is JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from dataclasses import asdict
from typing import Any

sys.path.insert(0, "/project")

from drivebay.common.errors import DrivebayError
from drivebay.targets.safety import blockdev, purge, target_device
from drivebay.targets.safety.handle import ExclusiveHandle
from drivebay.targets.telemetry import sensors, smart

DEVICE = "/dev/nvme0n1"


def say(what: str, **more: Any) -> None:
    """One line for the host."""
    print("JOB " + json.dumps({"what": what, **more}), flush=True)


def main() -> None:
    """Look, refuse, purge, verify."""
    device = blockdev.inspect(DEVICE)
    say("device", **asdict(device))
    fd = os.open(DEVICE, os.O_RDONLY)
    begun = time.monotonic()
    for _ in range(10):
        page = sensors.nvme_smart_log(fd)
    asked_ms = (time.monotonic() - begun) * 100
    os.close(fd)
    reading = smart.read("nvme0n1")
    say(
        "smart",
        ioctl=sensors.decode_smart_log(page),
        asked_ms=asked_ms,
        tool=reading if isinstance(reading, str) else asdict(reading) | {"raw": ""},
    )
    found, absent = sensors.of_drive("nvme0n1")
    values = [sensor.read() for sensor in found]
    say("sensors", values=values, absent=[one.source for one in absent])
    with open(DEVICE, "r+b") as disk:
        for place in range(0, device.capacity_bytes, 2**24):
            disk.seek(place)
            disk.write(b"old data" * 512)
    try:
        blockdev.refuse_unless_free(blockdev.inspect(DEVICE), "another serial")
    except DrivebayError as problem:
        say("refused", message=problem.message)
    handle = ExclusiveHandle(
        target_device.find(DEVICE),
        permission=target_device.OverwritePermission(device.serial, True),
    )
    record = purge.purge(handle, own_erases=True, seed=1, step=lambda _: None)
    handle.close()
    with open(DEVICE, "rb") as disk:
        left = 0
        while block := disk.read(2**20):
            left += block != bytes(len(block))
    say("purged", record=record, mebibytes_left=left, serial=blockdev.inspect(DEVICE).serial)


if __name__ == "__main__":
    try:
        main()
    except BaseException:
        say("failed", trace=traceback.format_exc())
