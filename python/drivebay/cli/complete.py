"""What a shell offers for DRIVE, --suite and TEST: names that are known here, with their titles.

Files are the shell's own business: where no name fits it offers them. Called at each press of Tab,
so nothing here is slow, and what fails offers nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from drivebay.common import data, documents

SUITE = "anandtech-2015"


def drives(incomplete: str) -> list[tuple[str, str]]:
    """The catalog's drives; their titles are read without loading profiles."""
    return [
        (path.stem, str(_toml(path).get("drive", {}).get("title", "")))
        for path in sorted(data.path("drives").glob("*.toml"))
        if path.stem.startswith(incomplete)
    ]


def hosts(incomplete: str) -> list[tuple[str, str]]:
    """The hosts that come with drivebay."""
    return [
        (path.stem, str(_toml(path).get("host", {}).get("title", "")))
        for path in sorted(data.path("hosts").glob("*.toml"))
        if path.stem.startswith(incomplete)
    ]


def suites(incomplete: str) -> list[tuple[str, str]]:
    """The suites that come with drivebay."""
    return [
        (path.stem, str(_toml(path).get("title", "")))
        for path in sorted(data.path("suites").glob("*.toml"))
        if path.stem.startswith(incomplete)
    ]


def tests(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """The tests of the suite that the line names, also of a user's own."""
    suite = str(ctx.params.get("suite") or SUITE)
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


def _toml(path: Path) -> dict[str, Any]:
    """A file's table; an empty one if it cannot be read."""
    try:
        return documents.toml(documents.read(path))
    except (OSError, ValueError):
        return {}
