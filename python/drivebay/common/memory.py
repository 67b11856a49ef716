"""Memory available on this machine, from /proc/meminfo and the control group's limit; and a memory
limit for this process.

Source: Linux, Documentation/filesystems/proc.rst (MemAvailable, VmData) and
admin-guide/cgroup-v2.rst; getrlimit(2) (RLIMIT_DATA, which counts VmData). Leaves out: limits of
parent control groups, which a container does not see.
"""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterator
from pathlib import Path

from drivebay.common.errors import EnvironmentProblem

# Assumed if no source reports the memory: more bytes than anything needs.
UNLIMITED_BYTES = 2**62


def available_bytes(
    meminfo: Path = Path("/proc/meminfo"), group: Path = Path("/sys/fs/cgroup")
) -> int:
    """Bytes available without swapping, or left under the control group's limit if that is less.

    `UNLIMITED_BYTES` if neither source is readable. The paths are parameters for tests.
    """
    known = own_bytes("MemAvailable", meminfo)
    free = UNLIMITED_BYTES if known is None else known
    with contextlib.suppress(OSError, ValueError):  # in no control group, or no limit ("max")
        limit = int((group / "memory.max").read_text())
        free = min(free, max(0, limit - int((group / "memory.current").read_text())))
    return free


@contextlib.contextmanager
def limited(whole_bytes: int, message: str, hint: str) -> Iterator[None]:
    """Limits this process's private memory to `whole_bytes`, or to half of that above its present
    use if that is more.

    Code mapped from files is not counted. Raises EnvironmentProblem with `message` and `hint` if
    the process needs more.
    """
    before, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = max(whole_bytes, (own_bytes("VmData") or 0) + whole_bytes // 2)
    if before != resource.RLIM_INFINITY:
        limit = min(limit, before)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    try:
        yield
    except MemoryError:
        raise EnvironmentProblem(message, hint) from None
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (before, hard))


def own_bytes(field: str, status: Path = Path("/proc/self/status")) -> int | None:
    """A size of this process, such as "VmData", or one in a similar file; None if it is missing."""
    with contextlib.suppress(OSError):
        for line in status.read_text().splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1]) * 1024
    return None
