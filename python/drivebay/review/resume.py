"""What must be the same for a review to go on: drive, suite, seed and tool.

A result is one drive under one suite by one tool. The version of drivebay must be equal; a virtual
drive's commit too, as its figures come from the code; a real drive's may differ, with a warning, so
that a day of measuring is not lost to a commit. Its machine may differ with a warning for the same
reason. A device's path may differ: Linux renames devices at boot, and the serial number decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from drivebay.common import provenance
from drivebay.common.errors import UserError
from drivebay.definitions.suites import Suite
from drivebay.results import Manifest
from drivebay.targets.base import Target

GIVEN_KEYS = frozenset({"drive", "path", "overwrite_signature", "power", "purge"})
"""What the user gave, which may be given anew."""
SETTING_KEYS = frozenset(
    {"interface", "scheduler", "write_cache", "mount_point", "mount_options", "discard_max_bytes"}
)
"""What a reboot may change although the drive is the same one."""


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
    warnings: list[str] = []
    for where, before, now in _differences(made.target, target):
        if where in GIVEN_KEYS:
            continue
        what = f"{where} was {before}, is {now}"
        if target["kind"] == "virtual" or where.rpartition(".")[2] not in SETTING_KEYS:
            raise UserError(
                f"the drive is not the one that the review was started on: {what}",
                f"attach that drive, or {anew}",
            )
        warnings.append(f"a setting of the drive has changed: {what}")
    return (*warnings, *_compare_tools(made, target["kind"], anew))


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


def _differences(before: Any, now: Any, where: str = "") -> Iterator[tuple[str, Any, Any]]:
    """What differs, named down to the one value in nested tables: "profile.nand.dies"."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in sorted({*before, *now}):
            inner = f"{where}.{key}" if where else key
            yield from _differences(before.get(key), now.get(key), inner)
    elif before != now:
        yield where, before, now
