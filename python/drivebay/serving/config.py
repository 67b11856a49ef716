"""A server as a file: what `drivebay serve --config` reads, TOML.

The keys are the options of `drivebay serve`; paths count from the file's folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drivebay.common import documents
from drivebay.common.errors import UserError, did_you_mean

EXAMPLE = '[drive.db], profile = "sm951-nvme-256"'

TEXTS = {"nbd", "nvme-tcp", "set", "namespace"}
SWITCHES = ("read-only", "ublk", "foreign-data")
PATHS = {"tls-cert", "tls-key", "data", "from", "state", "vfio-user", "faults"}
SERVER = ("nbd", "nvme-tcp", "control", "metrics", "tls-cert", "tls-key", "memory", "drive")
CHOICES: Mapping[str, tuple[str, ...]] = {
    "host-durability": ("flush", "none"),
    "precondition": ("new", "filled", "steady"),
    "pace": ("sleep", "hybrid", "spin", "none"),
    "loss": ("all", "random", "unflushed"),
}
DRIVE = (
    *("profile", "set", "host", "capacity", "seed", "read-only", "namespace", "vfio-user"),
    *(
        "ublk",
        "data",
        "foreign-data",
        "host-durability",
        "from",
        "state",
        "precondition",
        "pace",
        "time-scale",
    ),
    *("power-cut", "after-cut", "loss", "faults", "serial", "nqn", "eui64"),
)


@dataclass(frozen=True)
class Config:
    """A server: its own options, and those of each drive by its name.

    Keys have underscores, as the options' parameters.
    """

    server: Mapping[str, Any]
    drives: Mapping[str, Mapping[str, Any]]


def toml(path: Path, option: str, example: str) -> dict[str, Any]:
    """The table in a file that an option names.

    Raises
    ------
    UserError
        If it is no regular file, cannot be read, or is not TOML. A pipe is not waited for.
    """
    try:
        if path.exists() and not path.is_file():
            raise UserError(f"{option}: {path} is not a regular file", f"a file with: {example}")
        return documents.toml(documents.read(path))
    except ValueError as problem:
        raise UserError(f"{option}: {path} is not TOML: {problem}", example) from None
    except OSError as problem:
        raise UserError(
            f"{option}: {path} cannot be read: {problem.strerror}", f"ls -l {path}"
        ) from None


def read(path: Path) -> Config:
    """The server that a file describes.

    Raises
    ------
    UserError
        If it cannot be read, or a key or a value is not possible.
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
    given: Mapping[str, Any], known: tuple[str, ...], folder: Path, where: str
) -> dict[str, Any]:
    found = {}
    for key, value in given.items():
        if key not in known:
            hint = did_you_mean(key, known) + f"known are {', '.join(known)}"
            raise UserError(f"{where}: {key} is no option", hint)
        found[key.replace("-", "_")] = _value(key, value, folder, f"{where}: {key}")
    return found


def _value(key: str, value: Any, folder: Path, where: str) -> Any:
    match value:
        case list() if key in TEXTS and all(isinstance(one, str) for one in value):
            return value
        case str() if key in TEXTS:
            return [value]
        case str() if key in PATHS:
            return folder / value
        case str() if key in ("profile", "host") and value.endswith(".toml"):
            return str(folder / value)
        case str() if key in CHOICES:
            if value not in CHOICES[key]:
                raise UserError(f"{where}: {value}", f"one of {', '.join(CHOICES[key])}")
            return value
        case bool() if key in SWITCHES:
            return value
        case int() if key == "seed" and not isinstance(value, bool) and value >= 0:
            return value
        case int() | float() if key == "time-scale" and not isinstance(value, bool):
            return f"{value!r}"
        case str() if key not in (*SWITCHES, "seed"):
            return value
    kinds = {**dict.fromkeys(SWITCHES, "true or false"), "seed": "a whole number"}
    kind = kinds.get(key, "a text, or a list of texts" if key in TEXTS else "a text")
    raise UserError(f"{where}: {value!r:.50} is not {kind}", f"--help of serve describes {key}")
