"""Writing files without overwriting others, and reporting errors of the operating system."""

from __future__ import annotations

import contextlib
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
