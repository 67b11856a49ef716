"""What is known of the storage under a target: block sizes, scheduler, cache, file system, drive.

Sources: Linux's sysfs ABI and proc(5). Recorded because figures that do not match elsewhere are
mostly explained by these (KDiskMark issues 107, 136, 137).

Leaves out: RAID levels and what lies below device-mapper; a file's drive is the one that its file
system names.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from drivebay.targets.safety import naming
from drivebay.targets.safety.in_use import PROC, SYS_BLOCK, read, unescape


def block_facts(number: int) -> dict[str, Any]:
    """Facts of the block device with this device number; {} if there is none (tmpfs, network)."""
    folder = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    if not folder.exists():
        return {}
    name = folder.resolve().name
    whole = folder.resolve().parent.name if (folder / "partition").exists() else name
    queue = SYS_BLOCK / whole / "queue"
    return {
        "interface": naming.interface(name),
        "logical_block_bytes": _number(read(queue / "logical_block_size")),
        "physical_block_bytes": _number(read(queue / "physical_block_size")),
        "rotational": read(queue / "rotational") == "1",
        "scheduler": _chosen(read(queue / "scheduler")),
        "write_cache": read(queue / "write_cache") or None,
        "discard_max_bytes": _number(read(queue / "discard_max_bytes")),
        "device_mapper": read(SYS_BLOCK / name / "dm/uuid").partition("-")[0] or None,
        "firmware": _firmware(whole),
        **_loop_facts(whole),
    }


def _firmware(name: str) -> str | None:
    device = SYS_BLOCK / name / "device"
    return read(device / "firmware_rev") or read(device / "rev") or None


def _loop_facts(name: str) -> dict[str, Any]:
    """A loop that does not bypass the page cache measures memory as much as its drive."""
    folder = SYS_BLOCK / name / "loop"
    if not folder.exists():
        return {}
    return {
        "backing_file": read(folder / "backing_file"),
        "backing_file_past_page_cache": read(folder / "dio") == "1",
    }


def mount_facts(path: str) -> dict[str, Any]:
    """File system, mount point and mount options of the file at this path, links resolved."""
    best: dict[str, Any] = {"filesystem": "unknown", "mount_point": "", "mount_options": ""}
    for line in read(PROC / "self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        fields, source = before.split(), after.split()
        if len(fields) < 6 or len(source) < 3:
            continue
        point = unescape(fields[4])
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best["mount_point"]):  # a later line hides an earlier one
            options = dict.fromkeys([*fields[5].split(","), *source[2].split(",")])
            best = {
                "filesystem": source[0],
                "mount_point": point,
                "mount_options": ",".join(options),
            }
    return best


def _chosen(text: str) -> str | None:
    """The scheduler in use, of "none [mq-deadline] kyber"."""
    found = re.search(r"\[(\S+)\]", text)
    return found[1] if found else text or None


def _number(text: str) -> int | None:
    return int(text) if text.isdigit() else None
