"""TOML catalogs whose files may contain only the differences from another file, their `base`, or
from the defaults of `classes`, files in classes/ that are laid over each other in order.

Single values and whole lists replace those of base and classes; `without` lists entries that these
have and this file lacks. Loaded documents are complete. This module must not know what the values
mean.
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
    """One of the project's folders of TOML files: drives, classes, ailments or hosts.

    `kind`: what one file describes, `listed`: the command that lists them, if any, `example`: name
    of one of them.
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
        """Completes a document with the defaults of its classes, or with the values of its base,
        which in turn is completed.
        """
        base, classes = raw.pop("base", None), _listed(raw.pop("classes", []))
        without = _listed(raw.pop("without", []))
        if base is None and not classes:
            return raw
        if base is not None and classes:
            raise UserError(f"{where}: has a base and classes", "remove classes: the base has them")
        whole: dict[str, Any] = {}
        if base is not None:
            state = "its own" if base in members else "not in the catalog"
            self._known(base if base not in members else "", f"{where}: base '{base}' is {state}")
            whole = self._entry(str(base), members)
        for name in classes:
            CLASSES._known(name, f"{where}: class '{name}' is unknown")
            lay_over(whole, copy.deepcopy(_own(CLASSES, name)))
        for dotted in without:
            *path, last = str(dotted).split(".")
            section: Any = whole
            for key in path:
                section = section.get(key, {})
            if last not in section:
                raise UserError(
                    f"{where}: without '{dotted}': its base or classes have no such value",
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
            known = f"list the catalog: {self.listed}" if self.listed else f"use {', '.join(names)}"
            raise UserError(refusal, did_you_mean(str(name), names) + known)

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


CLASSES = Catalog("classes", "class", "", "nvme")


def _listed(entry: Any) -> list[Any]:
    return entry if isinstance(entry, list) else [entry]


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
