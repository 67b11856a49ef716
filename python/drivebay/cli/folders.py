"""Result folders as arguments: what is done about one that cannot be shown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from drivebay import results
from drivebay.cli.output import say
from drivebay.common.errors import DrivebayError


def say_left_out(problem: DrivebayError) -> None:
    """One bad folder among many does not keep the others from being shown."""
    say(f"warning: left out: {problem.message}")


def must_be_there(folders: Sequence[Path]) -> None:
    """Raises UserError at the first folder that is not there: its name was mistyped."""
    for folder in folders:
        if not folder.exists():
            results.read_manifest(folder)


def shown(folders: Sequence[Path], least: int = 1) -> list[results.Result]:
    """The results of the folders; of several, one that cannot be shown is left out with a warning,
    unless fewer than `least` are left or it is not there. Raises DrivebayError: what is wrong with
    the first of too many that cannot be shown."""
    must_be_there(folders)
    found, bad = [], []
    for folder in folders:
        try:
            found.append(results.load_finished(folder))
        except DrivebayError as problem:
            bad.append(problem)
    if bad and len(found) < least:
        raise bad[0]
    for one in bad:
        say_left_out(one)
    return found
