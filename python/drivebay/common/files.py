"""Writing files without overwriting others, names for them, and errors of the operating system."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from drivebay.common.errors import DrivebayError, EnvironmentProblem, UserError


@contextlib.contextmanager
def system_errors(
    what: str, hint: str, kind: type[DrivebayError] = EnvironmentProblem
) -> Iterator[None]:
    """Converts an OSError raised inside to `kind`; the message is `what` and the system's
    reason.
    """
    try:
        yield
    except OSError as problem:
        raise kind(f"{what}: {problem.strerror or problem}", hint) from None


def refuse_foreign(path: Path, mark: bytes, kind: str, *, within: int = 4096) -> None:
    """Raises UserError if something is at the path that is neither an empty file nor one of this
    kind, whose first `within` bytes contain the mark; EnvironmentProblem if it cannot be read.
    """
    with system_errors(f"{path} cannot be read", f"ls -l {path}"):
        foreign = not path.is_file() and os.path.lexists(path)
        if path.is_file():
            with path.open("rb") as file:
                begin = file.read(within)
            foreign = bool(begin) and mark not in begin
    if foreign:
        raise UserError(f"{path} exists and is not {kind}: it is not overwritten", "name another")


def refuse_existing(path: Path | None, option: str) -> None:
    """Raises UserError if something is at the path that an option names, even a broken link."""
    if path is not None and os.path.lexists(path):
        raise UserError(f"{option}: {path} exists already", "choose another name")


def write_new(path: Path, text: str) -> None:
    """Writes a new file, and creates missing folders on its path. Raises UserError if the file
    exists; EnvironmentProblem if it cannot be written.
    """
    with system_errors(f"{path} cannot be written", "ls -ld its folder"):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            raise UserError(
                f"{path} exists already", "choose another path, or remove the file"
            ) from None


def unique(name: str, taken: set[str]) -> str:
    """Adds to `taken` a name that is not in it, numbered if need be, and returns it."""
    own, number = name, 1
    while own in taken:
        number += 1
        own = f"{name}-{number}"
    taken.add(own)
    return own
