"""Runs in the guest of test_guest_protections.py: what Linux builds on drives, in drivebay's words.

Only the standard library is there. Each line it prints begins with JOB and is JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, "/project")

from drivebay.targets.safety import blockdev, erase, purge, target_device
from drivebay.targets.safety.handle import ExclusiveHandle

NAMESPACE, PLAIN, OTHER = (f"/dev/{name}" for name in ("nvme0n1", "nvme1n1", "nvme2n1"))
SECTORS = 65536


def say(what: str, **more: Any) -> None:
    """One line for the host."""
    print("JOB " + json.dumps({"what": what, **more}), flush=True)


def run(*command: str) -> str:
    """A command that must succeed; its output."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


def blockers(path: str) -> tuple[str, ...]:
    """What forbids testing the device."""
    return blockdev.inspect(path).blockers


def named() -> dict[str, str]:
    """Path of each drive by its serial number: Linux numbers them as they answer."""
    return {one.serial: one.path for one in blockdev.list_devices(look_inside=False)}


def device_mapper(plain: str) -> None:
    run("dmsetup", "create", "t", "--table", f"0 {SECTORS} linear {plain} 0")
    mapped = os.path.realpath("/dev/mapper/t")
    if not os.path.exists(mapped):
        mapped = "/dev/dm-0"
    say("dm", below=blockers(plain), itself=blockers(mapped))
    run("dmsetup", "remove", "t")
    say("dm gone", below=blockers(plain))


def md(plain: str, other: str) -> None:
    run("mdadm", "--create", "/dev/md0", "--level=1", "--raid-devices=2", "--metadata=1.2",
        "--assume-clean", "--run", plain, other)  # fmt: skip
    say("md", below=blockers(plain), other=blockers(other), itself=blockers("/dev/md0"))
    run("mdadm", "--stop", "/dev/md0")
    say("md stopped", below=blockers(plain), other=blockers(other))
    run("mdadm", "--zero-superblock", plain, other)
    say("md gone", below=blockers(plain), other=blockers(other))


def target(other: str) -> None:
    Path("/sys/kernel/config").mkdir(exist_ok=True)
    run("/bin/busybox", "mount", "-t", "configfs", "config", "/sys/kernel/config")
    namespace = Path("/sys/kernel/config/nvmet/subsystems/lab/namespaces/1")
    namespace.parent.parent.mkdir()
    namespace.mkdir()
    (namespace / "device_path").write_text(other)
    (namespace / "enable").write_text("1")
    say("exported", blockers=blockers(other))
    (namespace / "enable").write_text("0")
    namespace.rmdir()
    namespace.parent.parent.rmdir()
    say("not exported", blockers=blockers(other))


def namespaces(path: str) -> None:
    """The drive has a second namespace, which is not attached: Sanitize would erase it."""
    before = json.loads(run("nvme", "id-ns", path, "--output-format=json"))
    device = blockdev.inspect(path)
    offered = [{"method": one.name, "reason": one.refused} for one in erase.erase_methods(device)]
    handle = ExclusiveHandle(
        target_device.find(path), permission=target_device.OverwritePermission(device.serial)
    )
    record = purge.purge(handle, own_erases=True, seed=1, step=lambda _: None)
    handle.close()
    after = json.loads(run("nvme", "id-ns", path, "--output-format=json"))
    kept = {key: (before[key], after[key]) for key in ("flbas", "dps", "nsze")}
    say("namespaces", offered=offered, record=record, kept=kept)


def main() -> None:
    """Build, ask, take away."""
    paths = named()
    say("drives", paths=paths)
    steps: tuple[Callable[[], None], ...] = (
        lambda: device_mapper(paths["PLAIN1"]),
        lambda: md(paths["PLAIN1"], paths["PLAIN2"]),
        lambda: target(paths["PLAIN2"]),
        lambda: namespaces(paths["SUBSYS1"]),
    )
    for step in steps:
        try:
            step()
        except Exception:
            say("failed", trace=traceback.format_exc())


if __name__ == "__main__":
    try:
        main()
    except BaseException:
        say("failed", trace=traceback.format_exc())
