"""What must be the same for a review to go on: drive, suite, seed and tool.

A result is one drive under one suite by one tool. The version of drivebay must be equal; a virtual
drive's commit too, as its figures come from the code; a real drive's may differ, with a warning, so
that a day of measuring is not lost to a commit. Its machine may differ with a warning for the same
reason. A device's path may differ: Linux renames devices at boot, and the serial number decides.
"""

from __future__ import annotations

from typing import Any

from drivebay.errors import UserError
from drivebay.results import Manifest, provenance
from drivebay.suites import Suite
from drivebay.targets.base import Target

PATH_KEYS = frozenset({"drive", "path"})


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
    """Compares a folder's manifest with what is about to run; returns warnings.

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
    for key in sorted(set(made.target) | set(target)):
        if key not in PATH_KEYS and (before := made.target.get(key)) != (now := target.get(key)):
            where, before, now = _first_difference(key, before, now)
            raise UserError(
                f"the drive is not the one that the review was started on: {where} was {before}, "
                f"is {now}",
                f"attach that drive, or {anew}",
            )
    return _compare_tools(made, target["kind"], anew)


def _compare_tools(made: Manifest, kind: str, anew: str) -> tuple[str, ...]:
    tool = provenance.tool()
    if made.tool.version != tool["version"]:
        raise UserError(
            f"the review was started by drivebay {made.tool.version}; this is {tool['version']}",
            f"use drivebay {made.tool.version} to go on, or {anew}",
        )
    warnings = []
    if made.tool.git_commit != tool["git_commit"]:
        difference = f"commit {_short(made.tool.git_commit)}; this is {_short(tool['git_commit'])}"
        if kind == "virtual":
            raise UserError(
                f"the review was started by drivebay's {difference}",
                f"check that commit out to go on, or {anew}",
            )
        warnings.append(f"the review was started by drivebay's {difference}")
    host = provenance.host()
    if kind != "virtual":
        warnings += [
            f"the machine has changed: {key} was {made.host.get(key)}, is {value}"
            for key, value in host.items()
            if made.host.get(key) != value
        ]
    return tuple(warnings)


def _short(commit: str | None) -> str:
    """A commit as people name it; "+changes" stays."""
    if commit is None:
        return "unknown"
    name, plus, changes = commit.partition("+")
    return name[:12] + plus + changes


def _first_difference(key: str, before: Any, now: Any) -> tuple[str, Any, Any]:
    """Goes down into nested tables, so that the error names one value and not a whole profile."""
    while isinstance(before, dict) and isinstance(now, dict):
        inner = min(k for k in {*before, *now} if before.get(k) != now.get(k))
        key, before, now = f"{key}.{inner}", before.get(inner), now.get(inner)
    return key, before, now
