"""Shell completion of DRIVE, --suite and TEST: known names with their titles.

The shell itself completes file names where no known name fits. Each press of Tab runs this code, so
it must be fast, and an error completes nothing.
"""

from __future__ import annotations

import glob
from pathlib import Path
from typing import Any

import typer

from drivebay.common import data, documents

DEFAULT_SUITE = "anandtech-2015"


def drives(incomplete: str) -> list[tuple[str, str]]:
    """Names of catalog drives; titles are read without loading the profiles."""
    return _named("drives", incomplete, "drive")


def hosts(incomplete: str) -> list[tuple[str, str]]:
    """Names of the hosts that come with drivebay."""
    return _named("hosts", incomplete, "host")


def ailments(incomplete: str) -> list[tuple[str, str]]:
    """Names of the ailments that come with drivebay."""
    return _named("ailments", incomplete, "ailment")


def suites(incomplete: str) -> list[tuple[str, str]]:
    """Names of the suites that come with drivebay."""
    return _named("suites", incomplete)


def tests(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Tests of the suite on the command line, which may be the user's own file."""
    suite = str(ctx.params.get("suite") or DEFAULT_SUITE)
    path = Path(suite)
    if not (suite.endswith(".toml") or "/" in suite):
        path = data.path("suites") / f"{suite}.toml"
    entries = _toml(path).get("tests", [])
    return [
        (str(test["id"]), str(test.get("title", "")))
        for test in entries
        if str(test.get("id", "")).startswith(incomplete) and "id" in test
    ]


def tests_of_result(ctx: typer.Context, incomplete: str) -> list[str]:
    """Finished tests of the result folder on the command line."""
    folder = Path(str(ctx.params.get("folder") or ".")) / "steps"
    try:
        return sorted(p.name for p in folder.iterdir() if p.name.startswith(incomplete))
    except OSError:
        return []


def _named(folder: str, incomplete: str, table: str | None = None) -> list[tuple[str, str]]:
    """Names of the TOML files in a data folder, with their titles (from `table` if given)."""
    names = []
    for path in sorted(data.path(folder).glob(f"{glob.escape(incomplete)}*.toml")):
        document = _toml(path)
        document = document if table is None else document.get(table, {})
        names.append((path.stem, str(document.get("title", ""))))
    return names


def _toml(path: Path) -> dict[str, Any]:
    """Contents of a TOML file; empty if it cannot be read."""
    try:
        return documents.toml(documents.read(path))
    except (OSError, ValueError):
        return {}
