"""This machine's block devices, and the protections that forbid overwriting each of them.

Sources: Linux's sysfs ABI. A device may be tested only if no protection forbids it and its serial
number was typed. A partition table, a file system or other data that nobody uses may be overwritten
with `--overwrite-signature`; a member of something larger (LVM, MD, ZFS, LUKS, swap) never.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, replace

from drivebay.common.errors import EnvironmentProblem, UserError
from drivebay.common.files import system_errors
from drivebay.targets.safety import contents, in_use, protections, storage
from drivebay.targets.safety.in_use import read
from drivebay.targets.safety.libblkid import SECTOR_BYTES, Signature
from drivebay.targets.safety.protections import NO_PERMISSION, Examined


@dataclass(frozen=True)
class Device:
    """A block device in its present state.

    `blockers` are the reasons, in words, why it may never be tested; `signatures` are the data that
    `--overwrite-signature` allows to be overwritten: partition tables, file systems, other data.
    Both are empty if nothing forbids a test. `serial`, `model` and `wwid` are "" where the device
    has none. `sequence` is the kernel's number of this attachment: another disk, or the same one
    plugged in again, has a different number.
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

    @property
    def lasting_name(self) -> str:
        """Name that identifies the drive wherever it is attached."""
        return f"{self.serial} {self.model} {self.wwid} {self.capacity_bytes}"

    def is_same_drive(self, other: Device) -> bool:
        """True if it is the same drive, even under another kernel name."""
        return all(
            getattr(self, what) == getattr(other, what)
            for what in ("serial", "model", "wwid", "capacity_bytes")
        )


def list_devices(*, look_inside: bool = True) -> list[Device]:
    """Returns the whole block devices of this machine, sorted by path; nothing is written.

    Without `look_inside` no device is opened, and no signatures are searched for.

    Empty loop, RAM and network block devices are left out. Without root, a device that cannot be
    examined has this as a blocker.
    """
    devices = []
    for name in in_use.disks():
        folder = in_use.SYS_BLOCK / name
        if read(folder / "size") == "0" and not (folder / "device").exists():
            continue
        try:
            path = f"/dev/{name.replace('!', '/')}"
            devices.append(inspect(path, held=not look_inside, look_inside=look_inside))
        except (UserError, EnvironmentProblem):  # gone, or without a node in /dev
            continue
    return devices


def paths_of(serial: str, *, model: str) -> list[str]:
    """Returns the current paths of the devices with this serial number and model."""
    return [
        device.path
        for device in list_devices(look_inside=False)
        if serial and (device.serial, device.model) == (serial, model)
    ]


def inspect(
    path: str, *, held: bool = False, look_inside: bool = True, look_for_data: bool = False
) -> Device:
    """Examine one block device now. Raises UserError if the path is not a block device or cannot be
    resolved. `held`: we have it open exclusively ourselves: do not try that again, nor look for
    writers. `look_inside`: also look for signatures; not after our first write: random data may
    look like one. `look_for_data`: also look for data without a signature, which takes some
    seconds.
    """
    real = os.path.realpath(path)
    with system_errors(path, "see the block devices with: drivebay drives", UserError):
        status = os.stat(real)
    if not stat.S_ISBLK(status.st_mode):
        raise UserError(f"{path} is no block device", "see them with: drivebay drives")
    if (name := in_use.name_of(status.st_rdev)) is None:
        raise UserError(
            f"{path}: the kernel has no such device", "see the block devices with: drivebay drives"
        )
    capacity = int(read(in_use.SYS_BLOCK / name / "size") or 0) * SECTOR_BYTES
    look_inside = look_inside and capacity > 0 and (held or os.access(real, os.R_OK))
    found = contents.of(real, capacity, name) if look_inside else contents.NOT_LOOKED_AT
    if look_inside and look_for_data and not found.releasable:
        found = replace(found, data=contents.data_on_device(real, capacity))
    examined = Examined(real, status, name, capacity, held, found)
    return Device(
        path=real,
        name=name,
        number=status.st_rdev,
        model=storage.model(name),
        serial=storage.serial(name),
        capacity_bytes=capacity,
        interface=storage.interface(name),
        sequence=in_use.attachment(status.st_rdev),
        wwid=storage.world_wide_name(name),
        blockers=protections.blockers(examined),
        signatures=protections.signatures(examined),
    )


def signatures_on(device: Device) -> tuple[Signature, ...]:
    """Returns every signature on the device and in its partitions, with its place."""
    found = contents.of(device.path, device.capacity_bytes, device.name)
    return tuple(one for _, area in found.areas for one in area.signatures)


def refuse_unless_free(
    device: Device, destroy_data: str | None, *, overwrite_signature: bool = False
) -> None:
    """Let a device pass if no protection forbids it and its serial number was named.

    `overwrite_signature` also lets partition tables, file systems and other data that nobody uses
    pass. Raises UserError in every other case, with all reasons.
    """
    if device.blockers:
        raise protections.refusal(device.path, device.blockers, _hint(device))
    if device.signatures and not overwrite_signature:
        hint = "choose another device; if you need nothing that is on this one, add: "
        raise protections.refusal(device.path, device.signatures, f"{hint}--overwrite-signature")
    what = f"{device.path} ({device.model or 'unknown model'})"
    if destroy_data is None:
        raise UserError(
            f"everything on {what} would be destroyed, and its serial number was not given",
            "look the serial number up with: drivebay drives; then add: --destroy-data SERIAL",
        )
    if destroy_data != device.serial:
        raise UserError(
            f"--destroy-data names {destroy_data!r}, but the serial number of {what} is "
            f"{device.serial!r}",
            "make sure that this is the drive you mean: drivebay drives",
        )


def _hint(device: Device) -> str:
    first = device.blockers[0]
    if point := protections.mounted_at(first):
        return f"choose another device, or if nothing on it is needed begin with: umount '{point}'"
    if device.blockers == (NO_PERMISSION,):
        return "run it as root: sudo drivebay review ..."
    if "may be the device that" in first:
        return (
            "if that entry is out of date, remove it; if it is not, attach its device; or if "
            f"nothing on {device.path} is needed: wipefs --all {device.path}"
        )
    if first.startswith("bears "):
        return (
            "choose another device, or make sure that nothing on it is needed and remove that "
            f"yourself: wipefs --all {device.path}"
        )
    return "choose another device; what forbids each is shown by: drivebay drives"
