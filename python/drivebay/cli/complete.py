"""What a shell offers for DRIVE, --suite and TEST: names that are known here, with their titles.

Files are the shell's own business: where no name fits it offers them. Called at each press of Tab,
so nothing here is slow, and what fails offers nothing.
"""

from __future__ import annotations

import glob
from pathlib import Path
from typing import Any

import typer

from drivebay.common import data, documents

DEFAULT_SUITE = "anandtech-2015"


def drives(incomplete: str) -> list[tuple[str, str]]:
    """The catalog's drives; their titles are read without loading profiles."""
    return _named("drives", incomplete, "drive")


def hosts(incomplete: str) -> list[tuple[str, str]]:
    """The hosts that come with drivebay."""
    return _named("hosts", incomplete, "host")


def ailments(incomplete: str) -> list[tuple[str, str]]:
    """The ailments that come with drivebay."""
    return _named("ailments", incomplete, "ailment")


def suites(incomplete: str) -> list[tuple[str, str]]:
    """The suites that come with drivebay."""
    return _named("suites", incomplete)


def tests(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """The tests of the suite that the line names, also of a user's own."""
    suite = str(ctx.params.get("suite") or DEFAULT_SUITE)
    path = Path(suite)
    if not (suite.endswith(".toml") or "/" in suite):
        path = data.path("suites") / f"{suite}.toml"
    found = _toml(path).get("tests", [])
    return [
        (str(test["id"]), str(test.get("title", "")))
        for test in found
        if str(test.get("id", "")).startswith(incomplete) and "id" in test
    ]


def tests_of_result(ctx: typer.Context, incomplete: str) -> list[str]:
    """The finished tests of the result folder that the line names."""
    folder = Path(str(ctx.params.get("folder") or ".")) / "steps"
    try:
        return sorted(p.name for p in folder.iterdir() if p.name.startswith(incomplete))
    except OSError:
        return []


def _named(folder: str, incomplete: str, table: str | None = None) -> list[tuple[str, str]]:
    """The files of a folder of data by name, with their titles (in a table of theirs)."""
    found = []
    for path in sorted(data.path(folder).glob(f"{glob.escape(incomplete)}*.toml")):
        document = _toml(path)
        document = document if table is None else document.get(table, {})
        found.append((path.stem, str(document.get("title", ""))))
    return found


def _toml(path: Path) -> dict[str, Any]:
    """A file's table; an empty one if it cannot be read."""
    try:
        return documents.toml(documents.read(path))
    except (OSError, ValueError):
        return {}
