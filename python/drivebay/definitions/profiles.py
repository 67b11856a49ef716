"""The catalog: profiles of virtual drives, from drives/*.toml or a user's file.

A profile is data: every number is `{ value, source }`, units stand last in each name. What is
allowed is checked by the core, in one place. This room must not know how a drive runs.

Families: a profile may name another drive of the catalog as its `base`, and then has only what
differs: single values and whole lists replace the base's, `without` names what it lacks. A loaded
profile is whole; so is what results keep.
"""

from __future__ import annotations

import copy
import difflib
import functools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from drivebay import _core
from drivebay.common import data, documents
from drivebay.common.errors import EnvironmentProblem, UserError


@dataclass(frozen=True)
class Profile:
    """A checked profile of a virtual drive.

    `raw` is the profile as written, with all changes applied; treat it as read-only.
    """

    raw: Mapping[str, Any]

    @cached_property
    def core(self) -> _core.Profile:
        """The profile resolved by the core; raises UserError naming the field that is wrong."""
        return _core.Profile(self.json())

    @property
    def name(self) -> str:
        """The drive's name in the catalog."""
        return str(self.raw["drive"]["name"])

    @property
    def title(self) -> str:
        """The drive's name in words."""
        return str(self.raw["drive"]["title"])

    @property
    def capacity_bytes(self) -> int:
        """User capacity."""
        return self.core.capacity_bytes

    @property
    def memory_bytes(self) -> int:
        """What a drive of this profile takes for its maps."""
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
    def variants(self) -> tuple[str, ...]:
        """Names of the profile's own sets of changes, such as "heatsink"."""
        return tuple(self.raw.get("variants", {}))

    def resolved(self) -> dict[str, Any]:
        """A copy of the whole profile: leaves are {"value", "source"}, JSON values only."""
        return copy.deepcopy(dict(self.raw))

    def json(self) -> str:
        """The profile as the core reads it; the same text for the same profile."""
        return json.dumps(self.raw, sort_keys=True)


def names() -> tuple[str, ...]:
    """Names of the catalog's drives, sorted.

    >>> "sm951-ahci-512" in names()
    True
    """
    return tuple(sorted(path.stem for path in data.path("drives").glob("*.toml")))


def load(name_or_path: str | Path) -> Profile:
    """A drive of the catalog, or a profile of the user's (a path ending in .toml).

    Raises
    ------
    UserError
        If the name is unknown, or a profile has an unknown key, a value out of range, no source.
    EnvironmentProblem
        If the file cannot be read.

    >>> load("sm951-ahci-512").capacity_bytes
    512110190592
    """
    if isinstance(name_or_path, Path) or str(name_or_path).endswith(".toml"):
        return _read(Path(name_or_path))
    if name_or_path not in names():
        raise UserError(
            f"drive '{name_or_path}' is not in the catalog",
            _closest(name_or_path, names()) or "list the catalog: drivebay drives",
        )
    return _read(data.path("drives") / f"{name_or_path}.toml")


def from_resolved(raw: Mapping[str, Any]) -> Profile:
    """The profile that `resolved()` gave, as a manifest keeps it."""
    return _checked(dict(raw), where="profile")


def from_document(document: Mapping[str, Any], *, where: str) -> Profile:
    """The profile that a TOML file with this content would be; it may have a `base`.

    Raises
    ------
    UserError
        As `load`; `where` says in the message what it is.
    """
    return _checked(_whole(copy.deepcopy(dict(document)), where=where), where=where)


def _read(path: Path) -> Profile:
    try:
        raw = documents.toml(documents.read(path))
    except FileNotFoundError:
        raise UserError(
            f"profile {path} does not exist", "list the catalog: drivebay drives"
        ) from None
    except ValueError as e:
        raise UserError(
            f"profile {path} is not TOML: {e}",
            "compare with a profile of the catalog, for example drives/sm951-ahci-512.toml",
        ) from None
    except OSError as e:
        raise EnvironmentProblem(
            f"profile {path} cannot be read: {e.strerror}", f"ls -l {path}"
        ) from None
    return _checked(_whole(raw, where=str(path)), where=str(path))


def _whole(raw: dict[str, Any], *, where: str, members: tuple[str, ...] = ()) -> dict[str, Any]:
    """The profile with what it has from its base, and its base from its own."""
    base, without = raw.pop("base", None), raw.pop("without", [])
    if base is None:
        return raw
    if base not in names() or base in members:
        raise UserError(
            f"{where}: base '{base}' is {'its own' if base in members else 'not in the catalog'}",
            _closest(str(base), names()) or "list the catalog: drivebay drives",
        )
    own = copy.deepcopy(_of_catalog(base))
    whole = _whole(own, where=base, members=(*members, base))
    for dotted in without if isinstance(without, list) else [without]:
        *path, last = str(dotted).split(".")
        section: Any = whole
        for key in path:
            section = section.get(key, {})
        if last not in section:
            raise UserError(
                f"{where}: without '{dotted}': the base {base} has no such section or value",
                "names are section.key, as in the profile",
            )
        del section[last]
    _lay_over(whole, raw)
    return whole


@functools.cache
def _of_catalog(name: str) -> dict[str, Any]:
    """The catalog's file as it is, read once: several drives have the same base."""
    return documents.toml(documents.read(data.path("drives") / f"{name}.toml"))


def _lay_over(base: dict[str, Any], over: Mapping[str, Any]) -> None:
    """Replaces what `over` has in `base`, section by section; a leaf goes with its source."""
    for key, value in over.items():
        old = base.get(key)
        if isinstance(old, dict) and isinstance(value, dict) and "value" not in value:
            _lay_over(old, value)
        else:
            base[key] = value


def _checked(raw: dict[str, Any], *, where: str) -> Profile:
    try:
        profile = Profile(raw)
        profile.core  # noqa: B018  # resolved now, so that what is wrong is said here
        return profile
    except TypeError as e:  # TOML's dates and times
        raise UserError(f"{where}: {e}", "write dates as text, in quotes") from None
    except UserError as problem:
        raise UserError(f"{where}: {problem.message}", problem.hint) from None


def _closest(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {close[0]}?" if close else ""
