#!/usr/bin/env python3
"""Files on ext4 or XFS under power cuts: each that was synced is there, and fsck finds nothing."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import cuts

KEPT = 1000
"""Files that are kept; older ones are removed, as in a real file system."""


def contents(number: int) -> bytes:
    """What the file of this number holds: 32 B to 16 KiB."""
    return hashlib.sha256(str(number).encode()).digest() * (1 + number * 37 % 512)


class Files(cuts.Program):
    """A file each, written under another name, synced, renamed; then its folder is synced."""

    def create(self, folder: Path) -> None:
        (folder / "files").mkdir()

    def count(self, folder: Path) -> int:
        names = (path.name for path in (folder / "files").iterdir())
        last = max((int(name) for name in names if name.isdigit()), default=0)
        # Older ones may be there: nobody has synced that they were removed.
        for number in range(max(1, last - KEPT + 1), last + 1):
            path = folder / "files" / str(number)
            if not path.exists():
                raise cuts.Lost(f"file {number} is missing")
            if path.read_bytes() != contents(number):
                raise cuts.Lost(f"file {number} is damaged")
        return last

    def commit(self, folder: Path, last: int, begun: Callable[[], None]) -> int:
        first, here = last, folder / "files"
        try:
            while True:
                number = last + 1
                self._write(here, number)
                if number > KEPT:
                    (here / str(number - KEPT)).unlink(missing_ok=True)
                last = number
                if last == first + 1:
                    begun()
        except OSError:
            return last

    def _write(self, here: Path, number: int) -> None:
        part = here / f"{number}.part"
        with part.open("wb") as file:
            file.write(contents(number))
            file.flush()
            if self.fsync:
                os.fsync(file.fileno())
        part.rename(here / str(number))
        if self.fsync:
            folder = os.open(here, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)


if __name__ == "__main__":
    cuts.main(Files, __doc__ or "")
