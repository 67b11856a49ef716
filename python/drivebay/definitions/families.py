"""TOML files of a catalog that say only what differs from another one, their `base`.

Single values and whole lists replace the base's, `without` names what it lacks. What is read is
whole. This room must not know what the values mean.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drivebay.common import data, documents
from drivebay.common.errors import EnvironmentProblem, UserError, did_you_mean


@dataclass(frozen=True)
class Catalog:
    """One of the project's folders of TOML files: drives or hosts.

    `kind` is what one file is, `listed` the command that lists them, `example` the name of one.
    """

    folder: str
    kind: str
    listed: str
    example: str

    def names(self) -> tuple[str, ...]:
        """Names of the entries, sorted."""
        return tuple(sorted(path.stem for path in data.path(self.folder).glob("*.toml")))

    def load(self, name_or_path: str | Path) -> dict[str, Any]:
        """The whole document of an entry, its name in any letter case, or of a user's file (a path
        ending in .toml). Raises UserError if the name is unknown, or the file is not TOML;
        EnvironmentProblem if the file cannot be read."""
        if isinstance(name_or_path, Path) or str(name_or_path).endswith(".toml"):
            path = Path(name_or_path)
            return self.whole(self.read(path), where=str(path))
        name = str(name_or_path).lower()
        self._known(name, f"{self.kind} '{name_or_path}' is not in the catalog")
        return self._entry(name, ())

    def whole(
        self, raw: dict[str, Any], *, where: str, members: tuple[str, ...] = ()
    ) -> dict[str, Any]:
        """The document with what it has from its base, and its base from its own."""
        base, without = raw.pop("base", None), raw.pop("without", [])
        if base is None:
            return raw
        said = "its own" if base in members else "not in the catalog"
        self._known(base if base not in members else "", f"{where}: base '{base}' is {said}")
        whole = self._entry(str(base), members)
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
        lay_over(whole, raw)
        return whole

    def _entry(self, name: str, members: tuple[str, ...]) -> dict[str, Any]:
        return self.whole(copy.deepcopy(_own(self, name)), where=name, members=(*members, name))

    def _known(self, name: object, refusal: str) -> None:
        names = self.names()
        if name not in names:
            hint = did_you_mean(str(name), names)
            raise UserError(refusal, f"{hint}list the catalog: {self.listed}")

    def read(self, path: Path) -> dict[str, Any]:
        """The document of a file as it is."""
        try:
            return documents.toml(documents.read(path))
        except FileNotFoundError:
            raise UserError(
                f"{self.kind} {path} does not exist", f"list the catalog: {self.listed}"
            ) from None
        except ValueError as e:
            example = f"{self.folder}/{self.example}.toml"
            raise UserError(
                f"{self.kind} {path} is not TOML: {e}",
                f"compare with one of the catalog, for example {example}",
            ) from None
        except OSError as e:
            raise EnvironmentProblem(
                f"{self.kind} {path} cannot be read: {e.strerror}", f"ls -l {path}"
            ) from None


@functools.cache
def _own(catalog: Catalog, name: str) -> dict[str, Any]:
    """The entry's file as it is, read once: several entries have the same base."""
    return catalog.read(data.path(catalog.folder) / f"{name}.toml")


def lay_over(base: dict[str, Any], over: Mapping[str, Any]) -> None:
    """Replaces what `over` has in `base`, section by section; a leaf goes with its source."""
    for key, value in over.items():
        old = base.get(key)
        if isinstance(old, dict) and isinstance(value, dict) and "value" not in value:
            lay_over(old, value)
        else:
            base[key] = value
