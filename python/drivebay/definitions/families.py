"""TOML catalogs whose files may contain only the differences from another file, their `base`.

Single values and whole lists replace the base's; `without` lists entries that the base has and this
file lacks. Loaded documents are complete. This module must not know what the values mean.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drivebay.common import data, documents
from drivebay.common.errors import UserError, did_you_mean
from drivebay.common.files import system_errors


@dataclass(frozen=True)
class Catalog:
    """One of the project's folders of TOML files: drives, ailments or hosts.

    `kind`: what one file describes, `listed`: the command that lists them, `example`: name of one
    of them.
    """

    folder: str
    kind: str
    listed: str
    example: str

    def names(self) -> tuple[str, ...]:
        """Names of the entries, sorted."""
        return tuple(sorted(path.stem for path in data.path(self.folder).glob("*.toml")))

    def load(self, name_or_path: str | Path) -> dict[str, Any]:
        """Loads the complete document of an entry, by its name in any letter case or from a
        user's file (a path ending in .toml). Raises UserError if the name is unknown, or the
        file is not TOML; EnvironmentProblem if the file cannot be read.
        """
        if isinstance(name_or_path, Path) or str(name_or_path).endswith(".toml"):
            path = Path(name_or_path)
            return self.whole(self.read(path), where=str(path))
        name = str(name_or_path).lower()
        self._known(name, f"{self.kind} '{name_or_path}' is not in the catalog")
        return self._entry(name, ())

    def whole(
        self, raw: dict[str, Any], *, where: str, members: tuple[str, ...] = ()
    ) -> dict[str, Any]:
        """Completes a document with the values of its base, which in turn is completed from its
        own base.
        """
        base, without = raw.pop("base", None), raw.pop("without", [])
        if base is None:
            return raw
        state = "its own" if base in members else "not in the catalog"
        self._known(base if base not in members else "", f"{where}: base '{base}' is {state}")
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
        """Reads the document of a file without its base."""
        with system_errors(f"{self.kind} {path} cannot be read", f"ls -l {path}"):
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


@functools.cache
def _own(catalog: Catalog, name: str) -> dict[str, Any]:
    """Reads an entry's file without its base; cached, since several entries share a base."""
    return catalog.read(data.path(catalog.folder) / f"{name}.toml")


def lay_over(base: dict[str, Any], over: Mapping[str, Any]) -> None:
    """Replaces values of `base` by those of `over`, section by section; a leaf includes its
    source.
    """
    for key, value in over.items():
        old = base.get(key)
        if isinstance(old, dict) and isinstance(value, dict) and "value" not in value:
            lay_over(old, value)
        else:
            base[key] = value
