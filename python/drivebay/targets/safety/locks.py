"""Locks between reviews on one machine: drives that share a bottleneck are tested one at a time.

Sources: sysfs device paths, in which every PCI bridge, controller, USB hub and port multiplier that
a drive is attached to is a folder. Two drives share a bottleneck if their paths share a folder.
Each bottleneck has a lock file (flock(2)) that a running review holds: the kernel releases it
however the review ends, and it works between processes and users, without a server.

Leaves out: bottlenecks missing in sysfs: root ports of one chipset share its link to the processor,
and virtual disks share their host's. Effect: such drives may disturb one another; run their reviews
one after the other where that matters.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from drivebay.common import documents
from drivebay.common.errors import EnvironmentProblem
from drivebay.targets.safety.in_use import SYS_BLOCK, drive_below, lock, read

DIRECTORY_VARIABLE = "DRIVEBAY_LOCK_DIR"
LOOK_EVERY_S = 0.5
HOLDER_BYTES = 8192
_PCI = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]")


@dataclass(frozen=True)
class Bottleneck:
    """A device through which several drives may be attached; `name` is that of its lock file."""

    name: str
    description: str


def bottlenecks_of(drive: str) -> list[Bottleneck]:
    """Returns all bottlenecks of the disk with this kernel name, from the far end to the disk."""
    if backing := read(SYS_BLOCK / drive / "loop/backing_file"):
        with contextlib.suppress(OSError):
            if (below := drive_below(os.stat(backing).st_dev)) is not None:
                return bottlenecks_of(below)
    folder = (SYS_BLOCK / drive).resolve()
    *bridges, controller = [name for name in folder.parts if _PCI.fullmatch(name)] or [""]
    hubs = [name for name in folder.parts if re.fullmatch(r"usb\d+|\d+-\d+(\.\d+)*", name)]
    return [
        *(Bottleneck(f"pci-{name}", f"PCIe bridge {name}") for name in bridges),
        *([Bottleneck(f"pci-{controller}", f"controller {controller}")] if controller else []),
        *(Bottleneck(f"usb-{name}", f"USB hub or port {name}") for name in hubs),
        Bottleneck(f"disk-{folder.name}", f"disk {folder.name}"),
    ]


@contextlib.contextmanager
def drive_lock(
    drive: str | None, who: str, waiting: Callable[[str], None], *, no_wait: bool = False
) -> Iterator[float]:
    """Hold the locks of all bottlenecks of the drive; yields the seconds waited for them.

    `who` is shown to reviews that wait. `waiting` is called twice a second with the reason, and may
    raise to give up. Without a drive (none is known below a file system) there is no lock. Raises
    EnvironmentProblem with `no_wait`, if it would have to wait.
    """
    begun, held = time.monotonic(), []
    try:
        for one in sorted(bottlenecks_of(drive) if drive else [], key=lambda one: one.name):
            fd = _opened(one)
            if fd is None:
                continue
            held.append(fd)
            while not lock(fd):
                by = f"{_holder(fd)}, which also uses {one.description}"
                if no_wait:
                    raise EnvironmentProblem(
                        f"{who} would have to wait for {by}",
                        "wait until it ends, or leave out --no-wait: drivebay then waits",
                    )
                waiting(f"waiting for {by}")
                time.sleep(LOOK_EVERY_S)
            with contextlib.suppress(OSError):
                os.ftruncate(fd, 0)
                os.pwrite(fd, json.dumps({"pid": os.getpid(), "who": who}).encode(), 0)
        yield time.monotonic() - begun
    finally:
        for fd in held:
            os.close(fd)


def _opened(bottleneck: Bottleneck) -> int | None:
    """Opens the lock file; None where it cannot be created, as then no other review has one."""
    path = _directory() / f"drivebay-{bottleneck.name}.lock"
    # First without O_CREAT: fs.protected_regular forbids it for other users' files in a shared
    # folder.
    for flags in (os.O_RDWR, os.O_RDWR | os.O_CREAT):
        with contextlib.suppress(OSError):
            fd = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
            if not _is_lock_file(fd):
                os.close(fd)
                continue
            with contextlib.suppress(OSError):
                os.fchmod(fd, 0o666)
            return fd
    return None


def _is_lock_file(fd: int) -> bool:
    """True if the lock file is ours: any user may have put a link to another file into the shared
    folder.
    """
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1 or status.st_size > HOLDER_BYTES:
        return False
    return status.st_size == 0 or os.pread(fd, 1, 0) == b"{"


def _directory() -> Path:
    if chosen := os.environ.get(DIRECTORY_VARIABLE):
        return Path(chosen)
    usual = Path("/run/lock")
    return usual if os.access(usual, os.W_OK) else Path("/tmp")


def _holder(fd: int) -> str:
    try:
        said = documents.from_json(os.pread(fd, HOLDER_BYTES, 0))
        return f"the review of {said['who']} (pid {said['pid']})"
    except (OSError, ValueError, KeyError, TypeError):
        return "another review"
