"""How much memory this machine can still give: /proc/meminfo, and the control group's limit.

Source: Linux, Documentation/filesystems/proc.rst (MemAvailable) and admin-guide/cgroup-v2.rst.
Left out: limits of control groups further up, which a container does not see.
"""

from __future__ import annotations

from pathlib import Path

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
