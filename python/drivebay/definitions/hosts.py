"""Hosts that drives are tested in, from hosts/*.toml or a user's file.

A host is the computer around the drive: driver and protocol cost per command, interrupts,
processors, slot, limits. A drive's profile names the host of its reviews (`drive.host`), whose
values become its `[host]`; the core checks them along with the drive.
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
    """Loads the `[host]` table of a host by its name, or from a user's file (a path ending in
    .toml). Raises UserError if there is no such host, or the file does not describe one;
    EnvironmentProblem if the file cannot be read.

    >>> load("spdk")["nvme"]["driver"]["value"]
    'SPDK, polled'
    """
    document = CATALOG.load(name_or_path)
    host = document.pop("host", None)
    if not isinstance(host, dict) or document:
        content = f"'{next(iter(document))}'" if document else "no [host]"
        raise UserError(
            f"host {name_or_path} has {content}; must have the section [host] and nothing else",
            "compare with one of the catalog, for example hosts/windows-8.1-z97.toml",
        )
    return host
