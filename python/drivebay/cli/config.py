"""`drivebay.toml`: a user's defaults for options, from the working folder or the user's own folder.

Keys are options without their dashes; at the top they hold for every command that has the option,
in a table of a command's name for that one. The working folder's file goes before the one in
`$XDG_CONFIG_HOME/drivebay` (default: `~/.config/drivebay`), key by key; the command line goes
before both.

A working folder may come from others. So only options are taken that choose what is run and shown:
none that names what is written, loads code, opens an address, changes a drive or gives consent.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from drivebay.common import documents
from drivebay.common.errors import UserError, did_you_mean

NAME = "drivebay.toml"
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
"""What may stand in the file, and of what type."""
TYPES = {bool: "true or false", int: "a whole number", str: "a text"}


class Defaults(dict[str, Any]):
    """The values for a command's parameters, read when the first is looked up: after `--help`.
    Raises UserError at the first look if a file cannot be read, or has what it may not have.
    `verb`, `verbs`: the command's name, and those of all. `names`: the parameter of each option of
    the command, by the option without dashes."""

    def __init__(self, verb: str, verbs: Collection[str], names: Mapping[str, str]) -> None:
        super().__init__()
        self._verb, self._verbs, self._names = verb, verbs, names
        self.sources: dict[str, str] | None = None
        """The file that each value is from, once it has been looked for."""

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
    """The user's file and the working folder's, which goes before it."""
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return home / "drivebay" / NAME, Path(NAME)


def _read(path: Path) -> dict[str, Any]:
    try:
        return documents.toml(documents.read(path))
    except OSError as problem:
        words = problem.strerror
    except ValueError as problem:
        words = f"not valid TOML: {problem}"
    raise UserError(f"{path}: {words}", 'an option is a line: suite = "quick"')


def _check(path: Path, table: dict[str, Any], prefix: str) -> None:
    for key, value in table.items():
        _must_be_known(path, key, OPTIONS, "an option that it may have", prefix)
        if type(value) is not OPTIONS[key]:
            raise UserError(
                f"{path}: {prefix}{key}: {value!r} is not allowed; must be {TYPES[OPTIONS[key]]}",
                f"mend the line, or take it out of {path}",
            )


def _must_be_known(
    path: Path, name: str, known: Collection[str], what: str, prefix: str = ""
) -> None:
    if name not in known:
        raise UserError(
            f"{path}: '{prefix}{name}' is not {what}: {', '.join(sorted(known))}",
            f"{did_you_mean(name, sorted(known))}take it out, or give it on the command line",
        )
