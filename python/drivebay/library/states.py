"""Files of a saved device state: the state of the core, and the drive that it belongs to.

The second file has the name of the first with .json appended. Only files that `Device.save` wrote
are replaced.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from drivebay._core import VirtualDrive
from drivebay.common import documents
from drivebay.common.errors import UserError
from drivebay.common.files import refuse_foreign, system_errors

STATE_BEGINS, ABOUT_BEGINS = b"dbstate\n", b'{"profile": {'
"""First bytes of the two files."""


def beside(path: str | Path) -> Path:
    """Path of the second file."""
    return Path(f"{path}.json")


def write(path: str | Path, core: VirtualDrive, about: Mapping[str, Any]) -> None:
    """Writes both files. Raises UserError if one exists and is no state of a drive;
    EnvironmentProblem if they cannot be written."""
    for file, begins in ((Path(path), STATE_BEGINS), (beside(path), ABOUT_BEGINS)):
        refuse_foreign(file, begins, "a saved state", within=len(begins))
    core.save(path)
    with system_errors(f"{beside(path)} cannot be written", "ls -ld its folder"):
        beside(path).write_text(json.dumps(about), encoding="utf-8")


@contextmanager
def reading(path: str | Path) -> Iterator[Any]:
    """Yields the document of the second file. Raises UserError if it is missing, or if it or its
    use in the block shows that it is damaged; EnvironmentProblem if it cannot be read."""
    about = beside(path)
    with system_errors(f"{about} cannot be read", f"ls -l {about}"):
        try:
            yield documents.from_json(documents.read(about))
        except FileNotFoundError:
            raise UserError(
                f"{about} is missing: it says which drive {path} is a state of",
                "Device.save writes both; keep them together",
            ) from None
        except (ValueError, KeyError, TypeError):
            raise UserError(
                f"{about} is not what Device.save writes", "save the device again"
            ) from None
