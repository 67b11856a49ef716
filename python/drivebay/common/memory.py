"""How much memory this machine can still give: /proc/meminfo, and the control group's limit; and a
limit for this process.

Source: Linux, Documentation/filesystems/proc.rst (MemAvailable, VmData) and
admin-guide/cgroup-v2.rst; getrlimit(2) (RLIMIT_DATA, which counts VmData).
Left out: limits of control groups further up, which a container does not see.
"""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterator
from pathlib import Path

from drivebay.common.errors import EnvironmentProblem

WITHOUT_WORD = 2**62
"""Where nothing says how much there is: bytes enough for anything."""


def available_bytes(
    meminfo: Path = Path("/proc/meminfo"), group: Path = Path("/sys/fs/cgroup")
) -> int:
    """Bytes that can be had without swapping, or that the control group still gives if less.

    Very many where neither says anything. The paths are for tests.
    """
    free = WITHOUT_WORD
    try:
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                free = int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        limit = int((group / "memory.max").read_text())
        free = min(free, max(0, limit - int((group / "memory.current").read_text())))
    except (OSError, ValueError):  # no control group of its own, or "max"
        pass
    return free


@contextlib.contextmanager
def limited(whole_bytes: int, message: str, hint: str) -> Iterator[None]:
    """Inside, this process has at most so much private memory, and half of that more than now.

    Code that is mapped from files is not counted. Raises EnvironmentProblem if it needs more: these
    two lines."""
    before, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = max(whole_bytes, _data_bytes() + whole_bytes // 2)
    if before != resource.RLIM_INFINITY:
        limit = min(limit, before)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    try:
        yield
    except MemoryError:
        raise EnvironmentProblem(message, hint) from None
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (before, hard))


def _data_bytes() -> int:
    """Private memory that this process has mapped."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) * 1024
    return 0
