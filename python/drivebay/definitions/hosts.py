"""The hosts that drives are tested in, from hosts/*.toml or a user's file.

A host is the computer around the drive: driver and protocol cost per command, interrupts,
processors, slot, limits. A drive's profile names that of its reviews (`drive.host`) and has the
host's values as its `[host]`; what is allowed is checked by the core with the drive.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from drivebay.common.errors import UserError
from drivebay.definitions.families import Catalog

CATALOG = Catalog("hosts", "host", "drivebay hosts", "windows-8.1-z97")


def names() -> tuple[str, ...]:
    """Names of the hosts, sorted.

    >>> "spdk" in names()
    True
    """
    return CATALOG.names()


def load(name_or_path: str | Path) -> dict[str, Any]:
    """The `[host]` table of a host by its name, or of a user's file (a path ending in .toml).
    Raises UserError if there is no such host, or the file is none; EnvironmentProblem if the file
    cannot be read.

    >>> load("spdk")["nvme"]["driver"]["value"]
    'SPDK, polled'
    """
    document = CATALOG.load(name_or_path)
    host = document.pop("host", None)
    if not isinstance(host, dict) or document:
        what = f"'{next(iter(document))}'" if document else "no [host]"
        raise UserError(
            f"host {name_or_path} has {what}; must have the section [host] and nothing else",
            "compare with one of the catalog, for example hosts/windows-8.1-z97.toml",
        )
    return host
