"""Conditions for resuming a review: the drive, suite, seed and tool must be the same.

A result is one drive under one suite by one tool. The version of drivebay must be equal. For a
virtual drive, whose figures come from the code, the commit and the digests of core and Python
sources must be equal too; for a real drive they may differ, with a warning, so that a day of
measuring is not lost to a commit. Its machine may differ with a warning for the same reason.
Results that predate the digests have none. A device's path may differ: Linux renames devices at
boot, and the serial number decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from drivebay.common import provenance
from drivebay.common.errors import UserError
from drivebay.definitions.suites import Suite
from drivebay.results import Manifest
from drivebay.results.manifest import Tool
from drivebay.targets.base import Target

# Keys that the user sets, and may set anew.
GIVEN_KEYS = frozenset({"drive", "path", "overwrite_signature", "power", "purge"})
# Settings of a drive that a reboot may change.
SETTING_KEYS = frozenset(
    {"interface", "scheduler", "write_cache", "mount_point", "mount_options", "discard_max_bytes"}
)


def target_block(target: Target, drive: str) -> dict[str, Any]:
    """The manifest's `target` block."""
    return {
        **target.identity(),
        "kind": target.kind,
        "name": target.name,
        "capacity_bytes": target.capacity_bytes,
        "drive": drive or target.name,
    }


def must_be_same(
    made: Manifest, *, suite: Suite, seed: int, quick: bool, target: dict[str, Any]
) -> tuple[str, ...]:
    """Compares a folder's manifest with the review that is about to run; returns warnings.

    Raises
    ------
    UserError
        On the first difference that would mix two reviews in one result.
    """
    plain = "a resumed review takes everything from its folder: drivebay review --resume DIR"
    anew = "start a new review, without --resume"
    if made.seed != seed:
        raise UserError(f"the review was started with seed {made.seed}, not {seed}", plain)
    if made.quick != quick:
        form = "the shortened form (--quick)" if made.quick else "full length"
        raise UserError(f"the review was started at {form}", plain)
    if made.suite != suite:
        raise UserError(f"the review was started with another suite, '{made.suite.name}'", plain)
    warnings: list[str] = []
    for where, before, now in _differences(made.target, target):
        if where in GIVEN_KEYS:
            continue
        difference = f"{where} was {before}, is {now}"
        if target["kind"] == "virtual" or where.rpartition(".")[2] not in SETTING_KEYS:
            raise UserError(
                f"the drive is not the one that the review was started on: {difference}",
                f"attach that drive, or {anew}",
            )
        warnings.append(f"a setting of the drive has changed: {difference}")
    return (*warnings, *_compare_tools(made, target["kind"], anew))


def _compare_tools(made: Manifest, kind: str, anew: str) -> tuple[str, ...]:
    tool = provenance.build()
    if made.tool.version != tool["version"]:
        raise UserError(
            f"the review was started by drivebay {made.tool.version}; this is {tool['version']}",
            f"use drivebay {made.tool.version} to go on, or {anew}",
        )
    warnings = []
    if (difference := _difference(made.tool, tool)) is not None:
        description, remedy = difference
        if kind == "virtual":
            raise UserError(
                f"the review was started by drivebay's {description}",
                f"{remedy} to go on, or {anew}",
            )
        warnings.append(f"the review was started by drivebay's {description}")
    if kind != "virtual":
        warnings += [
            f"the machine has changed: {key} was {made.host.get(key)}, is {value}"
            for key, value in provenance.host().items()
            if made.host.get(key) != value
        ]
    return tuple(warnings)


def _difference(made: Tool, now: dict[str, Any]) -> tuple[str, str] | None:
    """Describes how this build differs from the one that made a result, and the remedy; None if it
    does not.

    >>> now = {"git_commit": None, "core": "1f2e3d4c5b6a7988", "python": "8877665544332211"}
    >>> _difference(Tool(version="0.2.0", git_commit=None), now)
    >>> made = Tool(version="0.2.0", **{**now, "core": "0123456789abcdef"})
    >>> _difference(made, now)[0]
    'compiled core 0123456789abcdef; this is 1f2e3d4c5b6a7988'
    """
    if made.git_commit != now["git_commit"]:
        commits = f"commit {_short(made.git_commit)}; this is {_short(now['git_commit'])}"
        return commits, "check that commit out"
    for key, name in (("core", "compiled core"), ("python", "Python sources")):
        if (before := getattr(made, key)) not in (None, now[key]):
            return f"{name} {before}; this is {now[key]}", "bring that build back"
    return None


def _short(commit: str | None) -> str:
    """Short form of a commit; "+changes" is kept."""
    if commit is None:
        return "unknown"
    name, plus, changes = commit.partition("+")
    return name[:12] + plus + changes


def _differences(before: Any, now: Any, where: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yields differing values, each named by its path in nested tables: "profile.nand.dies"."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in sorted({*before, *now}):
            inner = f"{where}.{key}" if where else key
            yield from _differences(before.get(key), now.get(key), inner)
    elif before != now:
        yield where, before, now
