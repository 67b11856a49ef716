"""The catalog: profiles of virtual drives, from drives/*.toml or a user's file.

A profile is data: every number is `{ value, source }`, and names end with their unit. The core
checks all values, in one place. This package must not know how a drive runs.

`[intervals]` is the only section that the core does not see: the uncertainty that a calibration
left.

A profile may name another drive of the catalog as its `base`, or `classes` with defaults; then it
contains only the differences. A profile names the host of its reviews, whose values become its
`[host]`. Loaded profiles, and those that results store, are complete.
"""

from __future__ import annotations

import copy
import functools
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from drivebay import _core
from drivebay.common.errors import UserError, named
from drivebay.definitions import hosts, policies
from drivebay.definitions.families import Catalog, lay_over

Intervals = dict[str, dict[str, tuple[float, str]]]
# Keys of a profile that do not affect figures.
UNUSED = ("source", "note", "identify")
CATALOG = Catalog("drives", "drive", "drivebay drives", "sm951-ahci-512")


@dataclass(frozen=True)
class Profile:
    """A checked profile of a virtual drive.

    `raw` is the profile as written, with all changes applied; treat it as read-only.
    """

    raw: Mapping[str, Any]

    @cached_property
    def core(self) -> _core.Profile:
        """The profile resolved by the core; raises UserError with the name of a wrong field."""
        policy = policies.of_profile(self.raw)
        return _core.Profile(self.json(), None if policy is None else policy.core)

    def __getstate__(self) -> dict[str, Any]:
        return {"raw": self.raw}  # the core's part is rebuilt after unpickling

    @property
    def name(self) -> str:
        """The drive's name in the catalog."""
        return str(self.raw["drive"]["name"])

    @property
    def title(self) -> str:
        """The drive's full name; a stand-in is marked as such."""
        return f"{self.raw['drive']['title']}{' (stand-in)' if self.stand_in else ''}"

    @property
    def stand_in(self) -> str | None:
        """Reason why too little is known of the drive, so that this profile is only a stand-in.

        >>> load("sm951-ahci-512").stand_in is None
        True
        """
        why = self.raw["drive"].get("stand_in")
        return None if why is None else str(why)

    @property
    def capacity_bytes(self) -> int:
        """User capacity."""
        return self.core.capacity_bytes

    @property
    def flash_bytes(self) -> int:
        """Physical capacity without bad superblocks."""
        return flash_bytes(self.raw)

    @property
    def superblock_bytes(self) -> float:
        """Data of a superblock with all bits per cell; NaN for media without erases."""
        nand = self.raw["nand"]
        if nand.get("in_place", {}).get("value"):
            return math.nan
        superblocks: int = nand["blocks_per_plane"]["value"] - nand["bad_superblocks"]["value"]
        return self.flash_bytes / superblocks

    @property
    def memory_bytes(self) -> int:
        """Memory that a drive of this profile takes for its maps."""
        return self.core.memory_bytes

    @property
    def interface(self) -> str:
        """Protocol and link in words, for example "AHCI, PCIe 3.0 x4" or "SATA 6 Gb/s"."""
        link = self.raw["link"]
        protocol = self.raw["host_interface"]["protocol"]["value"]
        generation, lanes = link["generation"]["value"], link["lanes"]["value"]
        if protocol == "sata":
            return f"SATA {('1.5', '3', '6')[generation - 1]} Gb/s"
        return f"{protocol.upper() if protocol == 'ahci' else 'NVMe'}, PCIe {generation}.0 x{lanes}"

    @property
    def drive_class(self) -> str:
        """Class of the drive: "SATA", "PCIe, AHCI" or "NVMe"; "data center" for drives that lose
        nothing in a power cut: those with power-loss protection, and media written in place.
        """
        protected = self.raw.get("write_buffer", {}).get("power_loss_protection", {}).get("value")
        if protected or self.raw["nand"].get("in_place", {}).get("value"):
            return "data center"
        protocol = self.raw["host_interface"]["protocol"]["value"]
        return {"sata": "SATA", "ahci": "PCIe, AHCI"}.get(protocol, "NVMe")

    @property
    def media(self) -> str:
        """Kind of its media and place of its map, for example "TLC" or "QLC, no DRAM"."""
        nand = self.raw["nand"]
        if nand.get("in_place", {}).get("value"):
            return "written in place"
        cells = ("SLC", "MLC", "TLC", "QLC")[len(nand["program_us"]["value"]) - 1]
        return cells + (", no DRAM" if "map_cache" in self.raw else "")

    @property
    def intervals(self) -> Intervals:
        """Uncertainty of its figures from its parameters, if `drivebay calibrate` made the
        profile: by test and figure, the standard deviation divided by the figure, and its
        unit.
        """
        uncertainty: Intervals = self.raw.get("intervals", {})
        return uncertainty

    @property
    def host(self) -> str:
        """Name of the host that the drive is tested in."""
        return str(self.raw["host"]["name"])

    @property
    def variants(self) -> tuple[str, ...]:
        """Names of the profile's own sets of changes, such as "heatsink"."""
        return tuple(self.raw.get("variants", {}))

    def resolved(self) -> dict[str, Any]:
        """A copy of the whole profile: leaves are {"value", "source"}, JSON values only."""
        return copy.deepcopy(dict(self.raw))

    def json(self) -> str:
        """The profile as the core reads it; equal drives give equal text."""
        model = {key: value for key, value in self.raw.items() if key != "intervals"}
        return json.dumps(model, sort_keys=True)

    def in_host(self, name_or_path: str | Path) -> Profile:
        """The drive in another host: one of the catalog or a user's file.

        Raises
        ------
        UserError
            If there is no such host, or it has no driver for this drive.

        >>> load("sm951-nvme-512").in_host("spdk").host
        'spdk'
        """
        raw = self.resolved() | {"host": hosts.load(name_or_path)}
        return _checked(raw, where=f"{self.name} in host {name_or_path}")


def names() -> tuple[str, ...]:
    """Names of the catalog's drives, sorted.

    >>> "sm951-ahci-512" in names()
    True
    """
    return CATALOG.names()


def load(name_or_path: str | Path) -> Profile:
    """Loads a drive of the catalog, or a user's profile (a path ending in .toml).

    Raises
    ------
    UserError
        If the name is unknown, or a profile has an unknown key, a value out of range, no source.
    EnvironmentProblem
        If the file cannot be read.

    >>> load("sm951-ahci-512").capacity_bytes
    512110190592
    """
    where = str(name_or_path)
    if isinstance(name_or_path, str) and name_or_path in names():
        return _of_catalog(name_or_path)
    return _checked(_completed(CATALOG.load(name_or_path), where=where), where=where)


@functools.cache
def _of_catalog(name: str) -> Profile:
    """Loads a drive of the catalog; cached, as its files do not change while the program runs."""
    return _checked(_completed(CATALOG.load(name), where=name), where=name)


def values(raw: Any) -> Any:
    """Returns a profile without the keys that do not affect figures."""
    if isinstance(raw, Mapping):
        return {key: values(inner) for key, inner in raw.items() if key not in UNUSED}
    return [values(inner) for inner in raw] if isinstance(raw, list) else raw


def flash_bytes(raw: Mapping[str, Any]) -> int:
    """Physical capacity of a profile's flash without bad superblocks."""
    nand = {key: leaf["value"] for key, leaf in raw["nand"].items() if "value" in leaf}
    blocks = nand["blocks_per_plane"] - nand["bad_superblocks"]
    planes = nand["channels"] * nand["dies_per_channel"] * nand["planes"]
    return int(planes * blocks * nand["pages_per_block"] * nand["page_kib"] * 1024)


def from_resolved(raw: Mapping[str, Any]) -> Profile:
    """Makes a profile from the output of `resolved()`, as a manifest stores it."""
    return _checked(dict(raw), where="profile")


def from_document(document: Mapping[str, Any], *, where: str) -> Profile:
    """Makes a profile from the content of a TOML file, which may have a `base`.

    Raises
    ------
    UserError
        As `load`; the message begins with `where`.
    """
    whole = CATALOG.whole(copy.deepcopy(dict(document)), where=where)
    return _checked(_completed(whole, where=where), where=where)


def _completed(raw: dict[str, Any], *, where: str) -> dict[str, Any]:
    """Lays the profile over the values of the host that it names; its own `[host]` takes
    precedence. Identify data without a model number get the drive's.
    """
    drive, identify = raw.get("drive"), raw.get("identify")
    drive = drive if isinstance(drive, dict) else {}
    if isinstance(identify, dict) and "model" in drive:
        identify.setdefault("model", copy.deepcopy(drive["model"]))
    name = drive.get("host")
    if name is None:
        return raw
    with named(f"{where}: drive.host"):
        whole = {"host": hosts.load(str(name))}
    lay_over(whole, raw)
    return whole


def _checked(raw: dict[str, Any], *, where: str) -> Profile:
    with named(where):
        try:
            profile = Profile(policies.pinned(raw))
            _check_intervals(raw.get("intervals", {}))
            profile.core  # noqa: B018  # resolved now, so that errors are reported here
        except TypeError as e:  # TOML's dates and times
            raise UserError(str(e), "write dates as text, in quotes") from None
    return profile


def _check_intervals(given: Any) -> None:
    """Raises UserError unless every entry is a relative standard deviation, 0 to 10, with a
    unit.
    """

    def refused(*path: str) -> UserError:
        return UserError(
            f"{'.'.join(('intervals', *path))} is not a standard deviation with its unit",
            '"mean_iops" = [0.02, "IOPS"]',
        )

    if not isinstance(given, dict):
        raise refused()
    for test, figures in given.items():
        if not isinstance(figures, dict):
            raise refused(test)
        for key, interval in figures.items():
            match interval:
                case [float() | int() as deviation, str()] if 0 <= deviation <= 10:
                    pass
                case _:
                    raise refused(test, key)
