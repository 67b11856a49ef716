"""Server configuration file: TOML for `drivebay serve --config`.

The keys are the options of `drivebay serve` (`options.py`). Paths are relative to the file's
folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drivebay.common import documents
from drivebay.common.errors import UserError, did_you_mean
from drivebay.common.files import system_errors
from drivebay.serving.options import Drive, Option, Options, options_of

EXAMPLE = '[drive.db], profile = "sm951-nvme-256"'

SERVER: Mapping[str, Option] = {one.name: one for one in options_of(Options)}
DRIVE: Mapping[str, Option] = {
    **{one.name: one for one in options_of(Drive)},
    **{
        name: Option(name.replace("-", "_"), name, kind)
        for name, kind in (
            *(("profile", str), ("set", tuple), ("host", str), ("ailment", tuple)),
            *(("capacity", str), ("seed", int), ("foreign-data", bool)),
        )
    },
}


@dataclass(frozen=True)
class Config:
    """Options of a server, and of each drive by name. Keys are fields of `Options` and `Drive`, and
    profile, set, host, ailment, capacity, seed and foreign_data.
    """

    server: Mapping[str, Any]
    drives: Mapping[str, Mapping[str, Any]]


def toml(path: Path, option: str, example: str) -> dict[str, Any]:
    """Reads the TOML file of an option. Raises UserError if it is not a regular file, unreadable or
    not TOML. Never waits for a pipe.
    """
    with system_errors(f"{option}: {path} cannot be read", f"ls -l {path}", UserError):
        if path.exists() and not path.is_file():
            raise UserError(f"{option}: {path} is not a regular file", f"a file with: {example}")
        try:
            return documents.toml(documents.read(path))
        except ValueError as problem:
            raise UserError(f"{option}: {path} is not TOML: {problem}", example) from None


def read(path: Path) -> Config:
    """Reads the server that a file describes. Raises UserError if it is unreadable, or for a bad
    key or value.
    """
    document = toml(path, "--config", EXAMPLE)
    where = f"--config: {path}"
    drives = document.pop("drive", {})
    if not isinstance(drives, dict) or not all(isinstance(one, dict) for one in drives.values()):
        raise UserError(f"{where}: drive: not a table for each drive", EXAMPLE)
    found = {}
    for name, drive in drives.items():
        found[name] = _options(drive, DRIVE, path.parent, f"{where}: drive.{name}")
        if "profile" not in found[name]:
            raise UserError(f"{where}: drive.{name} has no profile", EXAMPLE)
    return Config(_options(document, SERVER, path.parent, where), found)


def _options(
    given: Mapping[str, Any], known: Mapping[str, Option], folder: Path, where: str
) -> dict[str, Any]:
    found = {}
    for key, value in given.items():
        if key not in known:
            hint = did_you_mean(key, known) + f"known are {', '.join(known)}"
            if key in DRIVE:
                hint = "it is an option of a drive: write it in a section [drive.NAME]"
            raise UserError(f"{where}: {key} is no option", hint)
        found[known[key].field] = _value(known[key], value, folder, f"{where}: {key}")
    return found


def _value(option: Option, value: Any, folder: Path, where: str) -> Any:
    """Converts a value for its field: paths are relative to the file's folder, one string is a
    list.
    """
    kind = option.kind
    is_text = isinstance(value, str)
    if kind is tuple:
        texts = [value] if is_text else value
        if isinstance(texts, list) and all(isinstance(one, str) for one in texts):
            return option.read(texts)
    elif isinstance(kind, tuple) and is_text:
        if value not in kind:
            raise UserError(f"{where}: {value}", f"one of {', '.join(kind)}")
        return value
    elif kind is Path and is_text:
        return folder / value
    elif kind is str and is_text:
        is_path = option.name in ("profile", "host") and value.endswith(".toml")
        return str(folder / value) if is_path else value
    elif kind in (bool, int) and type(value) is kind and value >= 0:
        return value
    elif option.name == "time-scale" and type(value) in (int, float):
        return f"{value!r}"
    kinds = {bool: "true or false", int: "a whole number", tuple: "a text, or a list of texts"}
    what = "a text" if isinstance(kind, tuple) else kinds.get(kind, "a text")
    raise UserError(
        f"{where}: {value!r:.50} is not {what}", f"--help of serve describes {option.name}"
    )
