"""A drive to think about: a checked profile that can be changed, scaled, and made into a device."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drivebay.common.errors import UserError
from drivebay.definitions.modifications import changed
from drivebay.definitions.profiles import Profile, from_document, load

if TYPE_CHECKING:
    from drivebay.library.device import Device

SECTOR_ALIGN = 8  # a drive's capacity stays a whole number of 4 KiB
SCALED_WITH_FLASH = (
    "gc.threshold_mb",
    "gc.ramp_mb",
    "gc.low_mb",
    "gc.critical_mb",
    "gc.idle.free_mb",
    "slc_cache.static_mb",
    "slc_cache.dynamic_mb",
    "slc_cache.keep_mb",
    "nand.erase_us",
    "energy.erase_block_uj",
)
"""Values that are shares of the flash, and what is spent once per block: a smaller block is erased
as much more often."""


class Drive(Profile):
    """A virtual drive's profile: every number of it with its source. It never changes.

    Attributes
    ----------
    name, title
        As the profile has them.
    capacity_bytes
        What the user can write, in bytes.
    memory_bytes
        What a device of it takes on this machine, in bytes.
    raw
        The whole profile; leaves are {"value", "source"}. Treat it as read-only.

    >>> drive("sm951-ahci-512")
    <Drive sm951-ahci-512: 512.1 GB, AHCI, PCIe 3.0 x4>
    """

    def __repr__(self) -> str:
        return f"<Drive {self.name}: {self.capacity_bytes / 1e9:.1f} GB, {self.interface}>"

    def with_(self, *variants: str, **changes: Any) -> Drive:
        """A changed drive, for what-ifs.

        Parameters
        ----------
        variants
            Changes in the words of the command line's `--set`: a set of changes that the profile
            names ("heatsink"), or "link=pcie2x4".
        changes
            Values by name: `over_provisioning="25%"`, `link="pcie2x4"`, or any value of the
            profile, `ambient_c=30`. Where several sections have such a name, the section stands
            before it, `__` for the dot: `thermal__ambient_c=30`.

        Raises
        ------
        UserError
            If a name is unknown or a value is not allowed.

        >>> changed = drive("sm951-ahci-512").with_("heatsink", over_provisioning="25%")
        >>> changed.capacity_bytes
        384082640896
        >>> changed.with_(victim_policy="d-choices", choices=4).value("gc.choices")
        4
        """
        words = [*variants]
        for key, value in changes.items():
            text = value if isinstance(value, str) else json.dumps(value)
            words.append(f"{key.replace('__', '.')}={text}")
        try:
            return _drive(changed(self._plain(), words))
        except UserError as problem:
            message, hint = (
                text.replace("--set ", "with_: ") for text in (problem.message, problem.hint)
            )
            raise UserError(message, hint) from None

    def _plain(self) -> Profile:
        return Profile(self.name, self.title, self.capacity_bytes, self.memory_bytes, self.raw)

    def value(self, name: str) -> Any:
        """A single value by its dotted name, "thermal.ambient_c".

        Raises
        ------
        UserError
            If the profile has no such value.
        """
        node: Any = self.raw
        for key in name.split("."):
            node = node.get(key) if isinstance(node, Mapping) else None
        if not isinstance(node, Mapping) or "value" not in node:
            raise UserError(f"{self.name} has no value '{name}'", "names are section.key")
        return node["value"]

    def scaled(self, share: float) -> Drive:
        """A smaller drive that behaves alike, in less time: for trying things out.

        It has the same dies, channels and number of blocks, and blocks of `share` as many pages.
        Rates, latencies and write amplification stay; what fills the drive, or a part of it, takes
        `share` of the time. Heat keeps its own time, so a scaled drive is emptier when it is warm.
        Its title says that it is scaled.

        Parameters
        ----------
        share
            Of the capacity, at most 1; a block must keep a whole number of pages.

        Raises
        ------
        UserError
            If a block cannot be scaled so.

        >>> drive("sm951-ahci-512").scaled(1 / 16).capacity_bytes
        32006885376
        """
        whole = int(self.value("nand.pages_per_block"))
        exact = Fraction(share).limit_denominator(4096) if 0 < share <= 1 else Fraction(0)
        pages = whole * exact
        if pages.denominator != 1 or pages < 2:
            near = max(2, min(whole, round(pages)))
            raise UserError(
                f"scaled({share:g}) is not allowed; must be at most 1 and leave a block a whole "
                f"number of its {whole} pages, at least 2",
                f"scaled({near} / {whole})",
            )
        raw = self.resolved()
        raw["drive"]["title"] = f"{self.title}, scaled to {exact} of its flash"
        sectors = Fraction(self.value("drive.capacity_sectors")) * exact
        _note(raw["drive"]["capacity_sectors"], int(sectors) // SECTOR_ALIGN * SECTOR_ALIGN, exact)
        _note(raw["nand"]["pages_per_block"], int(pages), exact)
        for name in SCALED_WITH_FLASH:
            node: Any = raw
            for key in name.split("."):
                node = node.get(key, {})
            if node:
                _note(node, float(node["value"] * exact), exact)
        return _drive(from_document(raw, where=f"{self.name}, scaled"))

    def device(self, *, seed: int = 1) -> Device:
        """A new device of this drive: empty, at ambient temperature, with a clock at 0.

        Parameters
        ----------
        seed
            Of what the drive itself draws by chance; the same seed, the same drive.

        Raises
        ------
        EnvironmentProblem
            If the machine has no memory for it.
        """
        from drivebay.library.device import Device

        return Device(self, seed=seed)


def drive(what: str | Path | Mapping[str, Any]) -> Drive:
    """A virtual drive.

    Parameters
    ----------
    what
        A name of the catalog; the path of a profile (.toml); a profile as TOML text (of several
        lines); or one as nested dicts. A profile may have a `base` of the catalog and say only what
        differs.

    Raises
    ------
    UserError
        If there is no such drive, or a profile is not possible.
    EnvironmentProblem
        If a file cannot be read.

    >>> mine = drive('''
    ... base = "sm951-ahci-512"
    ... [drive]
    ... name = "mine"
    ... title = "With twice the write buffer"
    ... [write_buffer]
    ... size_kib = { value = 16384, source = "guess: to see what it does" }
    ... ''')
    >>> mine.value("write_buffer.size_kib")
    16384
    """
    if isinstance(what, Mapping):
        return _drive(from_document(what, where="profile"))
    if isinstance(what, str) and "\n" in what:
        try:
            document = tomllib.loads(what)
        except tomllib.TOMLDecodeError as error:
            raise UserError(f"the profile is not TOML: {error}", "compare with drives/") from None
        return _drive(from_document(document, where="profile"))
    if not isinstance(what, str | Path):
        raise UserError(f"{what!r} is no drive", 'drivebay.drive("sm951-ahci-512")')
    return _drive(load(what))


def _drive(profile: Profile) -> Drive:
    return Drive(
        profile.name, profile.title, profile.capacity_bytes, profile.memory_bytes, profile.raw
    )


def _note(leaf: dict[str, Any], value: Any, share: Fraction) -> None:
    leaf.pop("range", None)
    leaf["source"] = f"scaled to {share}, from {leaf['value']}: {leaf['source']}"
    leaf["value"] = value
