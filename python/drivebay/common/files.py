"""Files that must not take the place of others, and what the system says of files."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from drivebay.common.errors import DrivebayError, EnvironmentProblem, UserError


@contextlib.contextmanager
def system_errors(
    what: str, hint: str, kind: type[DrivebayError] = EnvironmentProblem
) -> Iterator[None]:
    """Inside, what the system refuses is told as: `what`, and why."""
    try:
        yield
    except OSError as problem:
        raise kind(f"{what}: {problem.strerror or problem}", hint) from None


def write_new(path: Path, text: str) -> None:
    """Writes a file that does not exist yet, and the folders in which it lies. Raises UserError if
    it exists; EnvironmentProblem if it cannot be written."""
    with system_errors(f"{path} cannot be written", "ls -ld its folder"):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            raise UserError(f"{path} exists already", "give another path, or remove it") from None
