"""`drivebay check-trim`: tests TRIM on a real drive."""

from __future__ import annotations

import contextlib
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import typer

from drivebay.cli import options
from drivebay.cli import target as targets
from drivebay.cli.options import argument
from drivebay.cli.output import answer
from drivebay.common.errors import EXIT_CHECK_FAILED

if TYPE_CHECKING:
    from drivebay.targets.trim_verdict import Validation

SEED = 20150224


def check_trim(
    drive: str = argument(),
    destroy_data: options.DestroyData = None,
    overwrite_signature: options.OverwriteSignature = False,
    yes: options.Yes = False,
    as_json: options.Json = False,
) -> None:
    """Check whether TRIM works on a real drive.

    It writes a known pattern, discards a part of it, and reads it back. It reports what reads
    return (old data, zeros or other data, always the same or not), and compares that with the
    drive's claim. Exit code 1 if old data is left, neighbouring data is lost or the claim is wrong.

    Examples:
      drivebay check-trim ./disk.img
      drivebay check-trim /dev/sdX --destroy-data SERIAL --json

    Parameters
    ----------
    drive : DRIVE
        A file or block device.
    """
    from drivebay.targets.fio import trim
    from drivebay.targets.safety import target_device
    from drivebay.targets.safety.handle import ExclusiveHandle

    targets.warn_of_path()
    permission = target_device.OverwritePermission(destroy_data, overwrite_signature)
    device = target_device.find(drive)
    target_device.check(device, permission=permission, will_write=True, fills=False)
    destroys = target_device.destroys(device, permission)
    typed = targets.typed_yes(destroys, f"parts of {device.path}", yes=yes)
    permission = replace(permission, typed_yes=typed)
    with (
        contextlib.closing(ExclusiveHandle(device, permission=permission)) as handle,
        trim.drive_errors(drive, "TRIM cannot be checked"),
    ):
        result = trim.validate(handle, seed=SEED)
    verdict = {"verdict": result.verdict, "as_claimed": result.as_claimed}
    document = {"drive": device.identity(), **verdict, **asdict(result)}
    answer(document, as_json, ("TRIM", result.verdict), _rows(result))
    if result.verdict != "works" or not result.neighbours_intact or result.as_claimed is False:
        raise typer.Exit(EXIT_CHECK_FAILED)


def _rows(result: Validation) -> list[tuple[str, str]]:
    claims = result.claims
    claimed = claims.reads_after or ("deterministic" if claims.deterministic else "nothing")
    rows = [("the drive claims", f"reads return {claimed} ({claims.source})")]
    if not result.offered:
        return [*rows, ("reason", result.why_not)]
    answers = {True: "yes", False: "no", None: "no claim"}
    return [
        *rows,
        ("discarded", f"{result.blocks} blocks of 4 KiB"),
        ("old data left", f"{result.old_blocks} blocks"),
        ("reads return", str(result.reads_after)),
        ("the same each time", answers[result.deterministic]),
        ("neighbours intact", answers[result.neighbours_intact]),
        ("as claimed", answers[result.as_claimed]),
    ]
