"""`drivebay drives`: what can be reviewed here."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from drivebay.cli import options
from drivebay.cli.output import print_json, table
from drivebay.common import units

if TYPE_CHECKING:
    from drivebay.targets.safety.blockdev import Device

app = options.Verb()
_ORDER = ("SATA", "PCIe, AHCI", "NVMe", "data center")


@app.command(epilog="\b\nExamples:\n  drivebay drives\n  drivebay drives --json")
def drives(as_json: options.Json = False) -> None:
    """List the catalog's drives, by class, and this machine's block devices.

    For each device it says what forbids testing it: a mounted file system, a partition table, and
    so on. Nothing is written or opened for writing.
    """
    from drivebay.definitions import profiles
    from drivebay.targets.safety import blockdev

    catalog = [profiles.load(name) for name in profiles.names()]
    catalog.sort(key=lambda profile: _ORDER.index(profile.drive_class))
    devices = blockdev.list_devices()
    if as_json:
        keys = ("name", "title", "drive_class", "capacity_bytes", "interface", "media", "stand_in")
        virtual = [{key: getattr(profile, key) for key in keys} for profile in catalog]
        print_json({"drives": virtual, "devices": [asdict(d) for d in devices]}, default=str)
        return
    table(
        ("class", "virtual drive", "capacity", "interface", "media", "title"),
        [
            (
                "" if before is not None and before.drive_class == p.drive_class else p.drive_class,
                p.name,
                units.si_bytes(p.capacity_bytes),
                p.interface,
                p.media,
                p.title,
            )
            for before, p in zip([None, *catalog], catalog, strict=False)
        ],
    )
    for profile in catalog:
        if profile.stand_in:
            print(f"{profile.name} is a stand-in: {profile.stand_in}")
    print()
    if not devices:
        print("no block devices on this machine")
        return
    table(
        ("device", "capacity", "interface", "model", "serial", "contents that forbid a test"),
        [
            (
                str(device.path),
                units.si_bytes(device.capacity_bytes),
                device.interface or "",
                device.model or "",
                device.serial or "",
                _forbids(device),
            )
            for device in devices
        ],
    )


def _forbids(device: Device) -> str:
    found = "; ".join((*device.blockers, *device.signatures))
    if device.blockers:
        return found
    word = "review DEVICE --destroy-data SERIAL"
    return f"{found}: {word} --overwrite-signature" if found else f"free: {word}"
