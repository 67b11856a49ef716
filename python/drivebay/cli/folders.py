"""Result folders as arguments, of which some may be unreadable."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from drivebay import results
from drivebay.cli.output import say
from drivebay.common.errors import DrivebayError


def warn_skipped(problem: DrivebayError) -> None:
    """Warns that a bad folder is skipped; the others are shown."""
    say(f"warning: skipped: {problem.message}")


def must_exist(folders: Sequence[Path]) -> None:
    """Raises UserError for the first folder that does not exist."""
    for folder in folders:
        if not folder.exists():
            results.read_manifest(folder)


def shown(folders: Sequence[Path], least: int = 1) -> list[results.Result]:
    """Loads the results of the folders, and skips unreadable ones with a warning.

    Raises DrivebayError for the first unreadable folder if fewer than `least` results remain, and
    for a folder that does not exist."""
    must_exist(folders)
    loaded, problems = [], []
    for folder in folders:
        try:
            loaded.append(results.load_finished(folder))
        except DrivebayError as problem:
            problems.append(problem)
    if problems and len(loaded) < least:
        raise problems[0]
    for failure in problems:
        warn_skipped(failure)
    return loaded


def names(loaded: Sequence[results.Result]) -> list[str]:
    """Names of the results: their titles if these differ, else their folders."""
    titles = [str(result.target.get("title") or result.target["name"]) for result in loaded]
    are_unique = len(set(titles)) == len(titles)
    return titles if are_unique else [result.folder.resolve().name for result in loaded]
