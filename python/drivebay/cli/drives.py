"""`drivebay drives`: lists the drives that can be reviewed."""

from __future__ import annotations

from dataclasses import asdict
from itertools import groupby
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

_ORDER = ("SATA", "PCIe, AHCI", "NVMe", "data center")
# Fields of a virtual drive in `--json`.
KEYS = ("name", "title", "drive_class", "capacity_bytes", "interface", "media", "stand_in")


def drives(
    name: str | None = argument(autocompletion=complete.drives),
    aged: str | None = option(),
    ailment: options.Ailment = None,
    ailments: bool = flag("--ailments"),
    as_json: options.Json = False,
) -> None:
    """List the catalog's drives, by class, and this machine's block devices.

    For each device it lists what prevents a test, for example a mounted file system or a partition
    table. Nothing is written or opened for writing.

    Examples:
      drivebay drives
      drivebay drives 980-pro-1tb        facts of one drive, with sources
      drivebay drives --ailments         faults and wear that a drive can have
      drivebay drives 980-pro-1tb --aged 80%
      drivebay drives --json

    Parameters
    ----------
    name : NAME
        Show all facts of this catalog drive.
    aged : SHARE
        With NAME: show the health log after this share of the rated wear, for example 80%.
    ailments :
        List the ailments of drives, and their signs in the logs.
    """
    from drivebay.definitions import profiles
    from drivebay.targets.safety import blockdev

    if ailments:
        _list_ailments(as_json=as_json)
        return
    if name is not None:
        changes = [*(ailment or ()), *([] if aged is None else [f"aged:{aged}"])]
        _show_drive(
            modified_profile(name, in_host(None, None, changes)),
            as_json=as_json,
            sick=bool(changes),
        )
        return
    if ailment or aged is not None:
        raise UserError(
            "drives: --aged and --ailment need a catalog drive", "drivebay drives NAME --aged 80%"
        )
    catalog = [profiles.load(name) for name in profiles.names()]
    catalog.sort(key=lambda profile: _ORDER.index(profile.drive_class))
    devices = blockdev.list_devices()
    if as_json:
        virtual = [_summary(profile) for profile in catalog]
        print_json({"drives": virtual, "devices": [asdict(d) for d in devices]}, default=str)
        return
    rows: list[tuple[str, ...]] = []
    for kind, group in groupby(catalog, key=lambda profile: profile.drive_class):
        for at, p in enumerate(group):
            size = units.si_bytes(p.capacity_bytes)
            rows.append(("" if at else kind, p.name, size, p.interface, p.media, p.title))
    table(("class", "virtual drive", "capacity", "interface", "media", "title"), rows)
    print("(stand-in): little is published about the drive; drivebay drives NAME says what\n")
    if not devices:
        print("no block devices on this machine")
        return
    rows = []
    for device in devices:
        size = units.si_bytes(device.capacity_bytes)
        known = [part or "" for part in (device.interface, device.model, device.serial)]
        rows.append((str(device.path), size, *known, _forbids(device)))
    heads = ("device", "capacity", "interface", "model", "serial", "contents that forbid a test")
    table(heads, rows)


def _summary(profile: Profile) -> dict[str, Any]:
    return {key: getattr(profile, key) for key in KEYS}


def _list_ailments(*, as_json: bool) -> None:
    """Lists the ailments with their signs."""
    from drivebay.definitions import ailments

    known = [ailments.load(name) for name in ailments.names()]
    if as_json:
        print_json({"ailments": [asdict(ailment) for ailment in known]})
        return
    for ailment in known:
        print(f"{ailment.name}: {ailment.title}")
        print(f"  hosts see  {ailment.seen}\n  logs show  {ailment.smart}")
    print(f"{ailments.AGED}: initial wear, as a share of the rated cycles")
    print("use: --ailment NAME of drivebay review, serve and drives; in a sweep: set ailment=NAME")


def _show_drive(profile: Profile, *, as_json: bool, sick: bool) -> None:
    """Prints a drive's facts with their sources, or the health log of a sick drive; with `as_json`
    the whole profile."""
    from drivebay.targets.telemetry import smart

    health = smart.first_figures(profile) if sick else {}
    if as_json:
        sick_part = {"health": health} if sick else {}
        print_json({**_summary(profile), **sick_part, "profile": profile.resolved()})
        return
    if sick:
        print(f"{profile.title}: health log at the start")
        table(
            ("", ""), [(key.replace("_", " "), f"{value:,.10g}") for key, value in health.items()]
        )
        return
    facts, flash = profile.raw["drive"], profile.flash_bytes
    computed = "computed from the profile"
    rows = [("class", profile.drive_class, computed)]
    rows += [
        (key.replace("_", " "), str(facts[key]["value"]), str(facts[key]["source"]))
        for key in ("model", "controller", "flash", "form_factor", "released")
        if key in facts
    ]
    spare = f"{100 * (flash / profile.capacity_bytes - 1):.1f} % of the capacity"
    rows += [
        ("capacity", units.si_bytes(profile.capacity_bytes), facts["capacity_sectors"]["source"]),
        ("interface", profile.interface, profile.raw["link"]["generation"]["source"]),
        ("media", profile.media, computed),
        ("spare flash", spare, computed),
        ("tested in", str(profile.raw["host"]["title"]), f"drivebay hosts: {profile.host}"),
    ]
    print(profile.title + (f"\nstand-in: {profile.stand_in}" if profile.stand_in else ""))
    table(("", "", "source"), rows)
    if profile.variants:
        print("variants: " + ", ".join(f"--set {variant}" for variant in profile.variants))
    print(f"review it: drivebay review {profile.name}")
    print(f"compare with published figures: drivebay validate {profile.name}")


def _forbids(device: Device) -> str:
    contents = "; ".join((*device.blockers, *device.signatures))
    if device.blockers:
        return contents
    command = "review DEVICE --destroy-data SERIAL"
    return f"{contents}: {command} --overwrite-signature" if contents else f"free: {command}"
