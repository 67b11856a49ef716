"""Kernel facts of a block device or of the storage under a file: names, sizes, settings.

Sources: Linux's sysfs ABI and proc(5). A loop device has no serial number: its backing file's full
path is used instead, as that file would be overwritten. Sizes, scheduler, cache and file system are
recorded because they mostly explain figures that do not match elsewhere (KDiskMark issues 107, 136,
137).

Leaves out: RAID levels and devices below device-mapper; a file's drive is the one that its file
system names.
"""

from __future__ import annotations

import contextlib
import re
from typing import Any

from drivebay.targets.safety import in_use
from drivebay.targets.safety.in_use import read


def model(name: str) -> str:
    """Returns the model that the drive reports; a partition has the model of its disk."""
    folder = in_use.SYS_BLOCK / in_use.whole_disk(name)
    if read(folder / "loop/backing_file"):
        return "loop device"
    vendor, product = read(folder / "device/vendor"), read(folder / "device/model")
    product = product or read(folder / "device/name")
    if product and vendor and not vendor.startswith("0x") and vendor != "ATA":
        return f"{vendor} {product}"
    return product


def serial(name: str) -> str:
    """Returns the serial number; for a loop its backing file. Runs of spaces count as one."""
    folder = in_use.SYS_BLOCK / in_use.whole_disk(name)
    if backing := read(folder / "loop/backing_file"):
        return backing
    text = read(folder / "device/serial") or read(folder / "serial")
    if not text:
        # SCSI and SATA: VPD page 80h; four bytes of header, then the number
        with contextlib.suppress(OSError):
            page = (folder / "device/vpd_pg80").read_bytes()
            text = page[4 : 4 + int.from_bytes(page[2:4], "big")].decode(errors="replace")
    return " ".join(text.replace("\0", " ").split())


def other_paths(name: str) -> list[str]:
    """Returns other devices with this one's world-wide name: second paths to the same drive.

    Namespaces of one NVMe drive share its serial number, but not this name.
    """
    own = world_wide_name(name)
    others = [one for one in in_use.disks() if one != name] if own else []
    return [one for one in others if world_wide_name(one) == own]


def world_wide_name(name: str) -> str:
    """Returns the identifier that is unique to the namespace or disk; "" where the kernel shows
    none.
    """
    folder = in_use.SYS_BLOCK / name
    return read(folder / "wwid") or read(folder / "device/wwid")


def interface(name: str) -> str:
    """Returns the device's attachment as text: "NVMe, 8.0 GT/s PCIe x4", "SATA", "loop"."""
    folder = in_use.SYS_BLOCK / in_use.whole_disk(name)
    if read(folder / "loop/backing_file"):
        return "loop"
    where = str(folder.resolve())
    if "/nvme" in where:
        # With the kernel's multipath the device belongs to a subsystem, which has controllers.
        for pci in (folder / "device/device", *sorted(folder.glob("device/nvme*/device"))):
            speed, width = read(pci / "current_link_speed"), read(pci / "current_link_width")
            if speed and width:
                return f"NVMe, {speed} x{width}"
        return "NVMe"
    for part, words in (("/usb", "USB"), ("/ata", "SATA"), ("/mmc", "MMC"), ("/virtio", "virtio")):
        if part in where:
            return words
    if "/virtual/" in where:
        return "virtual"
    return "SCSI" if (folder / "device/vpd_pg80").exists() else "unknown"


def block_facts(device: int) -> dict[str, Any]:
    """Returns facts of the block device with this number; {} if there is none (tmpfs, network)."""
    name = in_use.name_of(device)
    if name is None:
        return {}
    whole = in_use.SYS_BLOCK / in_use.whole_disk(name)
    queue, loop = whole / "queue", whole / "loop"
    facts = {
        "interface": interface(name),
        "logical_block_bytes": _whole_number(read(queue / "logical_block_size")),
        "physical_block_bytes": _whole_number(read(queue / "physical_block_size")),
        "rotational": read(queue / "rotational") == "1",
        "scheduler": chosen(read(queue / "scheduler")),
        "write_cache": read(queue / "write_cache") or None,
        "discard_max_bytes": _whole_number(read(queue / "discard_max_bytes")),
        "device_mapper": read(in_use.SYS_BLOCK / name / "dm/uuid").partition("-")[0] or None,
        "firmware": read(whole / "device/firmware_rev") or read(whole / "device/rev") or None,
    }
    if loop.exists():  # a loop that uses the page cache measures memory along with its drive
        facts["backing_file"] = read(loop / "backing_file")
        facts["backing_file_past_page_cache"] = read(loop / "dio") == "1"
    return facts


def mount_facts(path: str) -> dict[str, Any]:
    """File system, mount point and mount options of the file at this path, links resolved."""
    best = in_use.Mount("", "", "", "unknown", "", "")
    for one in in_use.mounts():
        inside = path == one.point or path.startswith(one.point.rstrip("/") + "/")
        if inside and len(one.point) >= len(best.point):  # a later line hides an earlier one
            best = one
    options = dict.fromkeys([*best.options.split(","), *best.own_options.split(",")])
    return {"filesystem": best.kind, "mount_point": best.point, "mount_options": ",".join(options)}


def chosen(text: str) -> str | None:
    """Returns the active setting in a text like "none [mq-deadline] kyber"."""
    found = re.search(r"\[(\S+)\]", text)
    return found[1] if found else text or None


def _whole_number(text: str) -> int | None:
    return int(text) if text.isdigit() else None
