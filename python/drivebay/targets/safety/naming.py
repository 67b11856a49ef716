"""How a block device is named: model, serial number, world-wide name, interface.

Source: Linux's sysfs ABI. A loop device has no serial number: its backing file's full path stands
for it, as that is what would be overwritten.
"""

from __future__ import annotations

from drivebay.targets.safety.in_use import SYS_BLOCK, read


def model(name: str) -> str:
    """The model that the drive reports; a partition has that of its disk."""
    folder = SYS_BLOCK / whole_disk(name)
    if read(folder / "loop/backing_file"):
        return "loop device"
    vendor, product = read(folder / "device/vendor"), read(folder / "device/model")
    product = product or read(folder / "device/name")
    if product and vendor and not vendor.startswith("0x") and vendor != "ATA":
        return f"{vendor} {product}"
    return product


def serial(name: str) -> str:
    """The serial number; a loop's is its backing file. Runs of spaces count as one."""
    folder = SYS_BLOCK / whole_disk(name)
    if backing := read(folder / "loop/backing_file"):
        return backing
    text = read(folder / "device/serial") or read(folder / "serial")
    if not text:
        try:  # SCSI and SATA: VPD page 80h; four bytes of header, then the number
            page = (folder / "device/vpd_pg80").read_bytes()
            text = page[4 : 4 + int.from_bytes(page[2:4], "big")].decode(errors="replace")
        except OSError:
            pass
    return " ".join(text.replace("\0", " ").split())


def twins(name: str) -> list[str]:
    """Other devices with this one's world-wide name: second paths to the same drive.

    Namespaces of one NVMe drive share its serial number, but not this name.
    """
    own = world_wide_name(name)
    if not own:
        return []
    return [
        other.name
        for other in sorted(SYS_BLOCK.iterdir())
        if other.name != name
        and not (other / "partition").exists()
        and read(other / "hidden") != "1"
        and world_wide_name(other.name) == own
    ]


def world_wide_name(name: str) -> str:
    """The identifier that no other namespace or disk has; "" where the kernel shows none."""
    folder = SYS_BLOCK / name
    return read(folder / "wwid") or read(folder / "device/wwid")


def interface(name: str) -> str:
    """How the device is attached, for people: "NVMe, 8.0 GT/s PCIe x4", "SATA", "loop"."""
    folder = SYS_BLOCK / whole_disk(name)
    if read(folder / "loop/backing_file"):
        return "loop"
    where = str(folder.resolve())
    if "/nvme" in where:
        # With the kernel's multipath the device belongs to a subsystem, and that has controllers.
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


def whole_disk(name: str) -> str:
    """The disk that a partition is on; any other device is its own."""
    folder = (SYS_BLOCK / name).resolve()
    return folder.parent.name if (folder / "partition").exists() else folder.name
