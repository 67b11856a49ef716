"""This machine's block devices, and what forbids overwriting each of them.

Sources: Linux's sysfs ABI; open(2) for what O_EXCL means on a block device.

The rule: a device may be tested only if nothing speaks against it. Whatever cannot be found out
(no permission, no wipefs, no serial number) speaks against it. A partition table or a file system
that nobody uses may be overwritten by a word of its own (`--overwrite-signature`); what is part of
something larger (LVM, MD, ZFS, btrfs, bcache, LUKS, swap) never. Nothing here writes.

A device is named by its serial number. A loop device has none: its backing file's full path stands
for it, as that is what would be overwritten.

Leaves out: data without any signature that nobody uses now; only the typed serial guards that.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from dataclasses import dataclass
from pathlib import Path

from drivebay.common.errors import EnvironmentProblem, UserError
from drivebay.targets.safety import in_use
from drivebay.targets.safety.in_use import SYS_BLOCK, read
from drivebay.targets.safety.signatures import signatures_of

SECTOR_BYTES = 512
NO_PERMISSION = "cannot be opened: no permission"


@dataclass(frozen=True)
class Device:
    """A block device as it is now.

    `blockers` says in words why it may not be tested, whatever the user says; `signatures` what
    `--overwrite-signature` gives up: partition tables and file systems. Both are empty if nothing
    forbids it. `serial`, `model` and `wwid` are "" where the device has none. `sequence` is the
    kernel's number of this attachment: another disk, or the same one plugged in again, has another.
    """

    path: str
    name: str
    number: int
    model: str
    serial: str
    capacity_bytes: int
    interface: str
    sequence: str
    wwid: str
    blockers: tuple[str, ...]
    signatures: tuple[str, ...] = ()

    def is_same_drive(self, other: Device) -> bool:
        """Whether it is that drive, wherever the kernel has put it since."""
        return all(
            getattr(self, what) == getattr(other, what)
            for what in ("serial", "model", "wwid", "capacity_bytes")
        )


def list_devices(*, look_inside: bool = True) -> list[Device]:
    """The whole block devices of this machine, sorted by path; nothing is written.

    Without `look_inside` no signatures are searched for, and none is opened.

    Empty loop, RAM and network block devices are left out. Without root, what cannot be looked at
    is among the blockers.
    """
    devices = []
    for name in sorted(entry.name for entry in SYS_BLOCK.iterdir()):
        folder = SYS_BLOCK / name
        hidden = read(folder / "hidden") == "1"
        empty = read(folder / "size") == "0" and not (folder / "device").exists()
        if hidden or empty or (folder / "partition").exists():
            continue
        try:
            path = f"/dev/{name.replace('!', '/')}"
            devices.append(inspect(path, held=not look_inside, look_inside=look_inside))
        except (UserError, EnvironmentProblem):  # gone, or without a node in /dev
            continue
    return devices


def paths_of(serial: str, *, model: str) -> list[str]:
    """Paths of the devices with this serial number and model, as they are now."""
    return [
        device.path
        for device in list_devices(look_inside=False)
        if serial and (device.serial, device.model) == (serial, model)
    ]


def inspect(path: str, *, held: bool = False, look_inside: bool = True) -> Device:
    """Examine one block device now.

    Parameters
    ----------
    held : we have it open exclusively ourselves: do not try that again, nor look for writers.
    look_inside : look for signatures, too; not once we have written: random data may look like one.

    Raises
    ------
    UserError
        If the path is no block device or cannot be resolved.
    """
    real = os.path.realpath(path)
    try:
        status = os.stat(real)
    except OSError as problem:
        raise UserError(
            f"{path}: {problem.strerror}", "see the block devices with: drivebay drives"
        ) from None
    if not stat.S_ISBLK(status.st_mode):
        raise UserError(f"{path} is no block device", "see them with: drivebay drives")
    number = status.st_rdev
    sysfs = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    if not sysfs.exists():
        raise UserError(
            f"{path}: the kernel has no such device", "see the block devices with: drivebay drives"
        )
    name = sysfs.resolve().name
    capacity = int(read(sysfs / "size") or 0) * SECTOR_BYTES
    blockers = _uses(name) + _properties(name, capacity)
    signatures = _partitions_in_words(name)
    if capacity > 0 and not held:
        blockers += [f"is open for writing by {who}" for who in in_use.writers(real)]
        blockers += _exclusive_open(real)
    if capacity > 0 and look_inside and NO_PERMISSION not in blockers:
        found, never = signatures_of(real, name)
        signatures += found
        blockers += never
    return Device(
        path=real,
        name=name,
        number=number,
        model=_model(name),
        serial=_serial(name),
        capacity_bytes=capacity,
        interface=interface(name),
        sequence=read(sysfs / "diskseq"),
        wwid=_world_wide(name),
        blockers=tuple(dict.fromkeys(blockers)),
        signatures=tuple(dict.fromkeys(signatures)),
    )


def _uses(name: str) -> list[str]:
    """Mounts, swap and holders of the device and of its partitions."""
    found = []
    system = in_use.system_devices()
    for part in (name, *in_use.partitions(name)):
        subject = "is" if part == name else f"has a partition, /dev/{part}, that is"
        for point in in_use.mount_points(part):
            runs = " (this system runs from it)" if point in in_use.SYSTEM_MOUNTS else ""
            found.append(f"{subject} mounted at {point}{runs}")
        if in_use.is_swap(part):
            found.append(f"{subject} used as swap")
        found += [f"{subject} part of {holder}" for holder in in_use.holders(part)]
        found += [f"{subject.removesuffix('is')}{why}" for why in system.get(part, ())]
    return found


def _partitions_in_words(name: str) -> list[str]:
    """How many partitions the kernel knows of on it."""
    count = len(in_use.partitions(name))
    return [f"has {count} partition{'s' if count > 1 else ''}"] if count else []


def _properties(name: str, capacity_bytes: int) -> list[str]:
    """What the device is: not whole, empty, read-only, without a name, not plain storage."""
    folder = SYS_BLOCK / name
    found = []
    if (folder / "partition").exists():
        found.append("is a partition, not a whole device")
    if kind := in_use.built_on_others(name):
        found.append(f"is {kind}, not a drive; test what is below it")
    if capacity_bytes == 0:
        found.append("has no medium: its size is zero")
    if read(folder / "ro") != "0":
        found.append("is read-only")
    if read(folder / "queue/zoned") not in ("none", ""):
        found.append("is a zoned device, which cannot be written at random")
    if backing := read(folder / "loop/backing_file"):
        if _is_block_device(backing):
            found.append(f"is a loop over the block device {backing}; test that one itself")
        if others := in_use.loops_over(backing, but=name):
            found.append(f"shares its backing file with {', '.join(others)}")
    elif name.startswith(("zram", "ram")):
        found.append("is memory, not a drive")
    if not _serial(name):
        found.append("has no serial number to name it by")
    elif twins := _twins(name):
        found.append(f"is the same drive as {', '.join(twins)} (a second path to it)")
    return found


def _exclusive_open(path: str) -> list[str]:
    # Another program that looks as this one does holds the device for a moment.
    for wait_s in (0.01, 0.03, 0.1, 0.0):
        try:
            os.close(os.open(path, os.O_RDONLY | os.O_EXCL | os.O_NONBLOCK | os.O_CLOEXEC))
            return []
        except PermissionError:
            return [NO_PERMISSION]
        except OSError as problem:
            if problem.errno != errno.EBUSY:
                return [f"cannot be opened: {problem.strerror}"]
        time.sleep(wait_s)
    return ["is held by the kernel or another program"]


def _model(name: str) -> str:
    folder = SYS_BLOCK / _whole(name)
    if read(folder / "loop/backing_file"):
        return "loop device"
    vendor, model = read(folder / "device/vendor"), read(folder / "device/model")
    model = model or read(folder / "device/name")
    if model and vendor and not vendor.startswith("0x") and vendor != "ATA":
        return f"{vendor} {model}"
    return model


def _serial(name: str) -> str:
    """The serial number; a loop's is its backing file. Runs of spaces count as one."""
    folder = SYS_BLOCK / _whole(name)
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


def _twins(name: str) -> list[str]:
    """Other devices with this one's world-wide name: second paths to the same drive.

    Namespaces of one NVMe drive share its serial number, but not this name.
    """
    own = _world_wide(name)
    if not own:
        return []
    return [
        other.name
        for other in sorted(SYS_BLOCK.iterdir())
        if other.name != name
        and not (other / "partition").exists()
        and read(other / "hidden") != "1"
        and _world_wide(other.name) == own
    ]


def _world_wide(name: str) -> str:
    folder = SYS_BLOCK / name
    return read(folder / "wwid") or read(folder / "device/wwid")


def interface(name: str) -> str:
    """How the device is attached, for people: "NVMe, 8.0 GT/s PCIe x4", "SATA", "loop"."""
    folder = SYS_BLOCK / _whole(name)
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


def _whole(name: str) -> str:
    """The disk that a partition is on; any other device is its own."""
    folder = (SYS_BLOCK / name).resolve()
    return folder.parent.name if (folder / "partition").exists() else folder.name


def _is_block_device(path: str) -> bool:
    try:
        return stat.S_ISBLK(os.stat(path).st_mode)
    except OSError:
        return False


def refuse_unless_free(
    device: Device, destroy_serial: str | None, *, overwrite_signature: bool = False
) -> None:
    """Let a device pass that nothing forbids overwriting and whose serial number was named.

    `overwrite_signature` lets partition tables and file systems that nobody uses pass as well.

    Raises
    ------
    UserError
        In every other case, with all that speaks against it.
    """
    if device.blockers:
        raise UserError(
            f"{device.path} may not be tested: it {'; it '.join(device.blockers)}",
            _way_out(device),
        )
    if device.signatures and not overwrite_signature:
        raise UserError(
            f"{device.path} may not be tested: it {'; it '.join(device.signatures)}",
            "choose another device, or if nothing on it is needed give that up, too: "
            "--overwrite-signature",
        )
    what = f"{device.path} ({device.model or 'unknown model'})"
    if destroy_serial is None:
        raise UserError(
            f"everything on {what} would be destroyed, and its serial number was not given",
            "look the serial number up with: drivebay drives; then add: --destroy-data SERIAL",
        )
    if destroy_serial != device.serial:
        raise UserError(
            f"--destroy-data names {destroy_serial!r}, but the serial number of {what} is "
            f"{device.serial!r}",
            "make sure that this is the drive you mean: drivebay drives",
        )


def _way_out(device: Device) -> str:
    first = device.blockers[0]
    if " mounted at " in first and "this system" not in first:
        point = first.partition(" mounted at ")[2]
        return f"choose another device, or if nothing on it is needed begin with: umount '{point}'"
    if device.blockers == (NO_PERMISSION,):
        return "run it as root: sudo drivebay review ..."
    if first.startswith("bears "):
        return (
            "choose another device, or make sure that nothing on it is needed and remove that "
            f"yourself: wipefs --all {device.path}"
        )
    return "choose another device; what forbids each is shown by: drivebay drives"
