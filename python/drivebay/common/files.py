"""Files that must not take the place of others."""

from __future__ import annotations

from pathlib import Path

from drivebay.common.errors import EnvironmentProblem, UserError


def write_new(path: Path, text: str) -> None:
    """Writes a file that does not exist yet, and the folders in which it lies. Raises UserError if
    it exists; EnvironmentProblem if it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UserError(f"{path} exists already", "give another path, or remove it") from None
    except OSError as error:
        raise EnvironmentProblem(
            f"{path} cannot be written: {error.strerror}", "ls -ld its folder"
        ) from None
