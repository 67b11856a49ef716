"""`drivebay drives`: what can be reviewed here."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from drivebay.cli import complete, options
from drivebay.cli.options import argument, flag, option
from drivebay.cli.output import print_json, table
from drivebay.cli.target import in_host, modified_profile
from drivebay.common import units
from drivebay.common.errors import UserError

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
  drivebay drives --ailments         what can ail a drive
  drivebay drives 980-pro-1tb --aged 80%
  drivebay drives --json"""
)
def drives(
    name: str | None = argument(
        "NAME", "Only this drive of the catalog, whole.", autocompletion=complete.drives
    ),
    aged: str | None = option(
        "SHARE", "With NAME: its health log with so much of its rated wear used, 80%."
    ),
    ailment: options.Ailment = None,
    ailments: bool = flag("--ailments", "List what can ail a drive, and what its logs say then."),
    as_json: options.Json = False,
) -> None:
    """List the catalog's drives, by class, and this machine's block devices.

    For each device it says what forbids testing it: a mounted file system, a partition table, and
    so on. Nothing is written or opened for writing.
    """
    from drivebay.definitions import profiles
    from drivebay.targets.safety import blockdev

    if ailments:
        _ailments(as_json=as_json)
        return
    if name is not None:
        ails = [*(ailment or ()), *([] if aged is None else [f"aged:{aged}"])]
        _one(modified_profile(name, in_host(None, None, ails)), as_json=as_json, sick=bool(ails))
        return
    if ailment or aged is not None:
        raise UserError(
            "drives: a sick drive is one of the catalog", "drivebay drives NAME --aged 80%"
        )
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


def _ailments(*, as_json: bool) -> None:
    """What can ail a drive."""
    from drivebay.definitions import ailments

    found = [ailments.load(name) for name in ailments.names()]
    if as_json:
        print_json({"ailments": [asdict(one) for one in found]})
        return
    for one in found:
        print(f"{one.name}: {one.title}\n  hosts see  {one.seen}\n  logs say   {one.smart}")
    print(f"{ailments.AGED}: wear that the drive begins with, of its rated cycles")
    print("drivebay review, serve and drives take it: --ailment NAME; a sweep: set ailment=NAME")


def _one(profile: Profile, *, as_json: bool, sick: bool) -> None:
    """A drive's facts and where each is from, of a sick one its health log; with `as_json` its
    whole profile."""
    from drivebay.targets.telemetry import smart

    health = smart.first_figures(profile) if sick else {}
    if as_json:
        own = {"health": health} if sick else {}
        print_json({**_told(profile), **own, "profile": profile.resolved()})
        return
    if sick:
        print(f"{profile.title}: as its health log begins")
        table(
            ("", ""), [(key.replace("_", " "), f"{value:,.10g}") for key, value in health.items()]
        )
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
