"""Interruptions of a review according to log.jsonl: which test was cut short, when, and why.

The log is not authoritative: a power cut may take its last lines. The host's boot id distinguishes
a reboot from a killed process. Only real drives' results quote the log, as it holds times of day.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from drivebay.common import documents

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str | None:
    """This boot's random id; None if the kernel does not provide it."""
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return None


def interruptions(log: Path, step_id: str) -> list[dict[str, Any]]:
    """Runs of a test that began and did not finish, oldest first.

    Returns
    -------
    list of {"began": time of day, "ended": reason, "host_rebooted": bool}; `ended` is "stopped",
    "failed: ..." or "killed": the process or the whole host ended without a log entry.
    """
    cut_short: list[dict[str, Any]] = []
    boot: str | None = None
    open_since: dict[str, Any] | None = None
    for event in _events(log):
        name = event.get("event")
        if name in ("created", "resumed"):
            rebooted = boot is not None and event.get("boot_id") not in (None, boot)
            boot = event.get("boot_id") or boot
            if open_since is not None:
                cut_short.append({**open_since, "ended": "killed", "host_rebooted": rebooted})
                open_since = None
        elif event.get("step") != step_id:
            continue
        elif name == "step_started":
            open_since = {"began": str(event.get("time"))}
        elif open_since is not None:
            if name != "step_done":
                ended = "stopped" if name == "step_cancelled" else f"failed: {event.get('error')}"
                cut_short.append({**open_since, "ended": ended, "host_rebooted": False})
            open_since = None
    return cut_short


def _events(log: Path) -> list[dict[str, Any]]:
    """Readable lines of the log; a kill may have cut one off."""
    events = []
    try:
        content = documents.read_kept(log)
    except (OSError, ValueError):
        return []
    for line in content.splitlines():
        try:
            event = documents.from_json(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            events.append(event)
    return events
