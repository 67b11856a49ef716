"""`drivebay drives`: what can be reviewed here."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from drivebay.cli import complete, options
from drivebay.cli.options import argument
from drivebay.cli.output import print_json, table
from drivebay.common import units

if TYPE_CHECKING:
    from drivebay.definitions.profiles import Profile
    from drivebay.targets.safety.blockdev import Device

app = options.Verb()
_ORDER = ("SATA", "PCIe, AHCI", "NVMe", "data center")
KEYS = ("name", "title", "drive_class", "capacity_bytes", "interface", "media", "stand_in")
"""What `--json` tells of a virtual drive."""


@app.command(
    epilog="""\b
Examples:
  drivebay drives
  drivebay drives 980-pro-1tb        what is known of one, with its sources
  drivebay drives --json"""
)
def drives(
    name: Annotated[
        str | None,
        argument("NAME", "Only this drive of the catalog, whole.", autocompletion=complete.drives),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """List the catalog's drives, by class, and this machine's block devices.

    For each device it says what forbids testing it: a mounted file system, a partition table, and
    so on. Nothing is written or opened for writing.
    """
    from drivebay.definitions import profiles
    from drivebay.targets.safety import blockdev

    if name is not None:
        _one(profiles.load(name), as_json=as_json)
        return
    catalog = [profiles.load(name) for name in profiles.names()]
    catalog.sort(key=lambda profile: _ORDER.index(profile.drive_class))
    devices = blockdev.list_devices()
    if as_json:
        virtual = [_told(profile) for profile in catalog]
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


def _told(profile: Profile) -> dict[str, Any]:
    return {key: getattr(profile, key) for key in KEYS}


def _one(profile: Profile, *, as_json: bool) -> None:
    """A drive's facts and where each is from; with `as_json` its whole profile."""
    if as_json:
        print_json({**_told(profile), "profile": profile.resolved()})
        return
    known, flash = profile.raw["drive"], profile.flash_bytes
    computed = "computed from the profile"
    rows = [("class", profile.drive_class, computed)]
    rows += [
        (key.replace("_", " "), str(known[key]["value"]), str(known[key]["source"]))
        for key in ("model", "controller", "flash", "form_factor", "released")
        if key in known
    ]
    spare = f"{100 * (flash / profile.capacity_bytes - 1):.1f} % of the capacity"
    rows += [
        ("capacity", units.si_bytes(profile.capacity_bytes), known["capacity_sectors"]["source"]),
        ("interface", profile.interface, profile.raw["link"]["generation"]["source"]),
        ("media", profile.media, computed),
        ("spare flash", spare, computed),
        ("tested in", str(profile.raw["host"]["title"]), f"drivebay hosts: {profile.host}"),
    ]
    print(profile.title + (f"\nstand-in: {profile.stand_in}" if profile.stand_in else ""))
    table(("", "", "source"), rows)
    if profile.variants:
        print("variants: " + ", ".join(f"--set {one}" for one in profile.variants))
    print(f"reviewed by: drivebay review {profile.name}")
    print(f"beside what was published: drivebay validate {profile.name}")


def _forbids(device: Device) -> str:
    found = "; ".join((*device.blockers, *device.signatures))
    if device.blockers:
        return found
    word = "review DEVICE --destroy-data SERIAL"
    return f"{found}: {word} --overwrite-signature" if found else f"free: {word}"
