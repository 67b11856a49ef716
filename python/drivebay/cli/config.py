"""`drivebay.toml`: a user's defaults for options, from the working folder or the user's own folder.

Keys are options without dashes. Top-level keys apply to every command that has the option; a table
with a command's name applies to that command. The working folder's file overrides the file in
`$XDG_CONFIG_HOME/drivebay` (default: `~/.config/drivebay`) key by key. The command line overrides
both.

A working folder may come from other people. So the file may only set options that choose what is
run and shown, and no option that names output files, loads code, opens an address, changes a drive
or gives consent.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from drivebay.common import documents
from drivebay.common.errors import UserError, did_you_mean

NAME = "drivebay.toml"
# Options that the file may set, with their types.
OPTIONS: dict[str, type] = {
    "all": bool,
    "host": str,
    "jobs": int,
    "no-competitors": bool,
    "no-intervals": bool,
    "quick": bool,
    "quiet": bool,
    "seed": int,
    "suite": str,
}
TYPES = {bool: "true or false", int: "a whole number", str: "a string"}


class Defaults(dict[str, Any]):
    """Values for a command's parameters, read at the first lookup and so not for `--help`.

    The first lookup raises UserError if a file cannot be read or sets an option that it may not.
    `verb` is the command's name, `verbs` are the names of all commands. `names` maps each option of
    the command, without dashes, to its parameter."""

    def __init__(self, verb: str, verbs: Collection[str], names: Mapping[str, str]) -> None:
        super().__init__()
        self._verb, self._verbs, self._names = verb, verbs, names
        self.sources: dict[str, str] | None = None
        """File of each value; None before the first lookup."""

    def get(self, name: str, default: Any = None) -> Any:
        if self.sources is None:
            self.sources = {}
            for path in _places():
                if path.is_file():
                    self._take(path, self.sources)
        return super().get(name, default)

    def _take(self, path: Path, sources: dict[str, str]) -> None:
        table = _read(path)
        own = {name: table.pop(name) for name in list(table) if isinstance(table[name], dict)}
        for name, part in own.items():
            _must_be_known(path, name, self._verbs, "a command")
            _check(path, part, f"{name}.")
        _check(path, table, "")
        mine = own.get(self._verb, {})
        if foreign := sorted(set(mine) - set(self._names)):
            raise UserError(
                f"{path}: {self._verb}.{foreign[0]}: drivebay {self._verb} has no such option",
                f"see: drivebay {self._verb} --help",
            )
        for option, value in {**table, **mine}.items():
            if option in self._names:
                self[self._names[option]] = value
                sources[self._names[option]] = str(path)


def _places() -> tuple[Path, Path]:
    """Paths of the user's file and of the working folder's file, which overrides it."""
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return home / "drivebay" / NAME, Path(NAME)


def _read(path: Path) -> dict[str, Any]:
    try:
        return documents.toml(documents.read(path))
    except OSError as problem:
        reason = problem.strerror
    except ValueError as problem:
        reason = f"not valid TOML: {problem}"
    raise UserError(f"{path}: {reason}", 'an option is a line: suite = "quick"')


def _check(path: Path, table: dict[str, Any], prefix: str) -> None:
    for key, value in table.items():
        _must_be_known(path, key, OPTIONS, "an option that the file may set", prefix)
        if type(value) is not OPTIONS[key]:
            raise UserError(
                f"{path}: {prefix}{key}: {value!r} is not allowed; must be {TYPES[OPTIONS[key]]}",
                f"correct or delete the line in {path}",
            )


def _must_be_known(
    path: Path, name: str, known: Collection[str], what: str, prefix: str = ""
) -> None:
    if name not in known:
        raise UserError(
            f"{path}: '{prefix}{name}' is not {what}: {', '.join(sorted(known))}",
            f"{did_you_mean(name, sorted(known))}delete it, or give it on the command line",
        )
