"""The command `check-trim`: one validation on one real drive, and its answer."""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict

import typer

from drivebay.cli.show import table
from drivebay.common.errors import EXIT_CHECK_FAILED, EnvironmentProblem
from drivebay.targets.fio import trim
from drivebay.targets.safety import target_device
from drivebay.targets.safety.target_device import ExclusiveHandle, OverwritePermission
from drivebay.targets.trim_verdict import Validation

SEED = 20150224


def check_trim(drive: str, serial: str | None, overwrite_signature: bool, *, as_json: bool) -> None:
    """Validate, print, and exit with 1 if TRIM does not do what it should."""
    permission = OverwritePermission(serial, overwrite_signature)
    found = target_device.find(drive)
    target_device.check(found, permission=permission, will_write=False)
    with contextlib.closing(ExclusiveHandle(found, permission=permission)) as handle:
        try:
            result = trim.validate(handle, seed=SEED)
        except OSError as problem:
            raise EnvironmentProblem(
                f"{drive}: TRIM cannot be validated: {problem.strerror}",
                "look for the cause with: dmesg | tail",
            ) from None
    good = result.verdict == "works" and result.neighbours_intact and result.as_claimed is not False
    if as_json:
        verdict = {"verdict": result.verdict, "as_claimed": result.as_claimed}
        print(json.dumps({"drive": found.identity(), **verdict, **asdict(result)}, indent=1))
    else:
        table(("TRIM", result.verdict), _rows(result))
    if not good:
        raise typer.Exit(EXIT_CHECK_FAILED)


def _rows(result: Validation) -> list[tuple[str, str]]:
    claims = result.claims
    said = claims.reads_after or ("deterministic" if claims.deterministic else "nothing")
    rows = [("the drive claims", f"reads give {said} ({claims.source})")]
    if not result.offered:
        return [*rows, ("why", result.why_not)]
    words = {True: "yes", False: "no", None: "nothing is claimed"}
    return [
        *rows,
        ("discarded", f"{result.blocks} blocks of 4 KiB"),
        ("old data left", f"{result.old_blocks} blocks"),
        ("reads give", str(result.reads_after)),
        ("the same each time", words[result.deterministic]),
        ("neighbours intact", words[result.neighbours_intact]),
        ("as claimed", words[result.as_claimed]),
    ]
