"""Reviews side by side on one machine: drives that share a bottleneck are tested in turn.

Sources: sysfs device paths, in which every PCI bridge, controller, USB hub and port multiplier that
a drive hangs on is a folder. Two drives share a bottleneck if a part of their paths is the same.
Each part is a lock file that a running review holds, so it is free again however a review ends; it
works between processes and users, without a server.

Leaves out: what sysfs does not show: root ports of one chipset share its link to the processor, and
virtual disks share their host's. Effect: such drives may disturb one another; test them in turn by
hand where that matters.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from drivebay.targets.safety.in_use import SYS_BLOCK, drive_below, read

DIRECTORY_VARIABLE = "DRIVEBAY_LOCK_DIR"
LOOK_EVERY_S = 0.5
_PCI = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]")


@dataclass(frozen=True)
class Part:
    """Something that more than one drive may hang on; `name` is the same for all of them."""

    name: str
    words: str


def parts_of(drive: str) -> list[Part]:
    """All that the disk with this kernel name hangs on, from the far end to the disk itself."""
    folder = (SYS_BLOCK / drive).resolve()
    if backing := read(SYS_BLOCK / drive / "loop/backing_file"):
        with contextlib.suppress(OSError):
            below = drive_below(os.stat(backing).st_dev)
            if below is not None:
                return parts_of(below)
    functions = [name for name in folder.parts if _PCI.fullmatch(name)]
    parts = [Part(f"pci-{name}", f"PCIe bridge {name}") for name in functions[:-1]]
    parts += [Part(f"pci-{name}", f"controller {name}") for name in functions[-1:]]
    parts += [
        Part(f"usb-{name}", f"USB hub or port {name}")
        for name in folder.parts
        if re.fullmatch(r"usb\d+|\d+-\d+(\.\d+)*", name)
    ]
    return [*parts, Part(f"disk-{folder.name}", f"disk {folder.name}")]


def shared(drive: str, other: str) -> list[Part]:
    """What two disks both hang on; none if they can be tested side by side."""
    mine = set(parts_of(other))
    return [part for part in parts_of(drive) if part in mine]


@contextlib.contextmanager
def turn(drive: str | None, who: str, waiting: Callable[[str], None]) -> Iterator[float]:
    """Holds everything that the drive hangs on; gives the seconds that this had to be waited for.

    `who` is told to others who wait. `waiting` is called twice a second with what is waited for,
    and may raise to give up. Without a drive (nothing known below) nothing is held.
    """
    begun, held = time.monotonic(), []
    try:
        for part in sorted(parts_of(drive) if drive else [], key=lambda part: part.name):
            fd = _opened(part)
            if fd is None:
                continue
            held.append(fd)
            while not _taken(fd):
                waiting(f"waiting for {_holder(fd)}, which uses {part.words}, too")
                time.sleep(LOOK_EVERY_S)
            with contextlib.suppress(OSError):
                os.ftruncate(fd, 0)
                os.pwrite(fd, json.dumps({"pid": os.getpid(), "who": who}).encode(), 0)
        yield time.monotonic() - begun
    finally:
        for fd in held:
            os.close(fd)


def _opened(part: Part) -> int | None:
    """The part's lock file; None where none can be made, as then nobody else has one."""
    path = _directory() / f"drivebay-{part.name}.lock"
    # Without O_CREAT first: fs.protected_regular forbids that on others' files in a shared folder.
    for flags in (os.O_RDWR, os.O_RDWR | os.O_CREAT):
        with contextlib.suppress(OSError):
            fd = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
            with contextlib.suppress(OSError):
                os.fchmod(fd, 0o666)
            return fd
    return None


def _directory() -> Path:
    if chosen := os.environ.get(DIRECTORY_VARIABLE):
        return Path(chosen)
    usual = Path("/run/lock")
    return usual if os.access(usual, os.W_OK) else Path("/tmp")


def _taken(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(fd: int) -> str:
    try:
        said = json.loads(os.pread(fd, 4096, 0))
        return f"the review of {said['who']} (pid {said['pid']})"
    except (OSError, ValueError, KeyError, TypeError):
        return "another review"
