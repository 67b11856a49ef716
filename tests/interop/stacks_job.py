"""Runs in the guest of test_storage_stacks.py: builds storage stacks, and asks drivebay for each of
their devices to overwrite it, with every permission that a user can give.

Each line of the file that it is given is JSON: the case, the device, the answers, and how many
sectors were written to any disk meanwhile. The host's files are there, read-only.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from drivebay.cli.entry import run as drivebay
from drivebay.targets.safety import blockdev

OUT = Path(sys.argv[1]) if __name__ == "__main__" else Path()
SIZE_MIB = 1024
SECTORS = SIZE_MIB * 2048
DRIVE = "sm951-nvme-256"
SERVES = b"Ctrl-C ends"
COMPLETE = ("dm-linear", "nbd", "a disk alone")
"""Cases in which all verbs are tried; the others share their refusals, and an emulated guest takes
seconds for each."""
LVM = (
    "devices{use_devicesfile=0 obtain_device_list_from_udev=0} backup{backup=0 archive=0} "
    "activation{udev_sync=0 udev_rules=0 monitoring=0} global{use_lvmpolld=0 event_activation=0}"
)


def say(**line: Any) -> None:
    """One line for the host."""
    with OUT.open("a") as file:
        file.write(json.dumps(line) + "\n")


def run(*command: str, given: str | None = None) -> str:
    """A command that must succeed; its output."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, input=given)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


def answer(*arguments: str) -> str:
    """What `drivebay` says, after its exit code; `serves` if it serves."""
    with tempfile.TemporaryFile("w+") as said:
        child = os.fork()
        if child == 0:
            os.dup2(said.fileno(), 1)
            os.dup2(said.fileno(), 2)
            try:
                code = drivebay(list(arguments))
            except BaseException:
                traceback.print_exc()
                code = 99
            os._exit(code)
        while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
            if SERVES in os.pread(said.fileno(), 10**6, 0):
                os.kill(child, signal.SIGTERM)
                os.waitpid(child, 0)
                return "serves"
            time.sleep(0.05)
        said.seek(0)
        lines = said.read().splitlines()
        error = [line for line in lines if line.startswith("error:")] or lines[-1:] or [""]
        return f"{os.waitstatus_to_exitcode(ended[1])} {error[0]}"


def written() -> dict[str, int]:
    """Sectors that were written to each disk."""
    disks = Path("/sys/class/block").iterdir()
    return {disk.name: int((disk / "stat").read_text().split()[6]) for disk in disks}


def try_all(case: str, role: str, *devices: str) -> None:
    """Has drivebay test, check and serve each device, and says what came of it."""
    for path in devices:
        device = os.path.realpath(path)
        serial = next(
            (one.serial for one in blockdev.list_devices(look_inside=False) if one.path == device),
            "",
        )
        word = serial or Path(device).name
        allowed = ("--destroy-data", word, "--overwrite-signature", "--yes")
        suite = ("--suite", "quick", "--quick", "--only", "random-write", "--out", "/tmp/result")
        began, before = time.monotonic(), written()
        answers = {"check-trim": answer("check-trim", device, *allowed)}
        if case in COMPLETE:
            answers["review"] = answer("review", device, *suite, *allowed)
            answers["serve"] = answer(
                *("serve", DRIVE, "--capacity", "1G", "--data", device, "--foreign-data"),
                *("--nbd", "unix:/tmp/n", "--pace", "none"),
            )
        after = written()
        more = {name: after[name] - count for name, count in before.items() if name in after}
        changed = {name: count for name, count in more.items() if count}
        spent = round(time.monotonic() - began, 1)
        say(case=case, role=role, device=device, answers=answers, written=changed, spent_s=spent)


@contextlib.contextmanager
def mapped(name: str, table: str) -> Iterator[str]:
    """A device-mapper device of this table."""
    run("dmsetup", "create", name, "--table", table)
    try:
        yield f"/dev/mapper/{name}"
    finally:
        run("dmsetup", "remove", "--retry", name)


def wipe(*disks: str) -> None:
    """Where stacks keep their superblocks, zeros: both ends, and btrfs' first copy at 64 MiB."""
    for disk in disks:
        with open(disk, "r+b") as file:
            for at_mib in (0, 64, SIZE_MIB - 4):
                file.seek(at_mib << 20)
                file.write(bytes(4 << 20))
            file.flush()
            os.fsync(file.fileno())


def device_mapper(a: str, b: str) -> None:
    tables = {
        "linear": f"0 {SECTORS} linear {a} 0",
        "flakey": f"0 {SECTORS} flakey {a} 0 1 1",
        "snapshot": f"0 {SECTORS} snapshot {a} {b} P 8",
        "multipath": f"0 {SECTORS} multipath 0 0 1 1 round-robin 0 1 1 {a} 100",
        "crypt": f"0 {SECTORS} crypt aes-xts-plain64 {'00' * 64} 0 {a} 0",
        "delay": f"0 {SECTORS} delay {a} 0 1",
    }
    for name, table in tables.items():
        with mapped(name, table) as upper:
            below = (a, b) if name == "snapshot" else (a,)
            try_all(f"dm-{name}", "upper", upper)
            try_all(f"dm-{name}", "lower", *below)
    with mapped("error", f"0 {SECTORS} error") as upper:
        try_all("dm-error", "upper", upper)
    run("sfdisk", "-q", a, given="label: gpt\nsize=100MiB\nsize=100MiB\n")
    part = next(one for one in (f"{a}p2", f"{a}2") if os.path.exists(one))
    with mapped("part", f"0 204800 linear {part} 0") as upper:
        try_all("dm-linear of a partition", "upper", upper)
        try_all("dm-linear of a partition", "lower", a, part)
    wipe(a)
    run("blockdev", "--rereadpt", a)


def md(a: str, b: str) -> None:
    for level, version in (("1", "1.2"), ("0", "1.0"), ("1", "0.90")):
        case = f"MD {level}, metadata {version}"
        run("mdadm", "--create", "/dev/md9", f"--level={level}", "--raid-devices=2",
            f"--metadata={version}", "--run", "--force",
            *(("--assume-clean",) if level == "1" else ()), a, b)  # fmt: skip
        try_all(case, "upper", "/dev/md9")
        try_all(case, "lower", a, b)
        run("mdadm", "--stop", "/dev/md9")
        try_all(f"{case}, stopped", "lower", a, b)
        run("mdadm", "--zero-superblock", a, b)


def lvm(a: str, b: str) -> None:
    def tool(*words: str) -> None:
        run("lvm", words[0], "--config", LVM, "-y", *words[1:])

    tool("pvcreate", a, b)
    try_all("LVM, a PV alone", "lower", a)
    tool("vgcreate", "g", a, b)
    tool("lvcreate", "-Zn", "-Wn", "-n", "v", "-L", "200M", "g", a)
    try_all("LVM", "upper", "/dev/mapper/g-v")
    try_all("LVM", "lower", a, b)
    tool("lvcreate", "-Zn", "-T", "-L", "200M", "g/pool")
    tool("lvcreate", "-Wn", "-V", "300M", "-T", "g/pool", "-n", "thin")
    try_all("LVM, thin", "upper", "/dev/mapper/g-thin", "/dev/mapper/g-pool_tdata")
    tool("vgchange", "-an", "g")
    try_all("LVM, inactive", "lower", a, b)
    tool("vgremove", "-ff", "g")


def luks(a: str, b: str) -> None:
    fast = ("--batch-mode", "--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000")
    for case, more in (("LUKS2", ()), ("LUKS2, detached header", ("--header", "/tmp/header"))):
        run("cryptsetup", "luksFormat", "--type", "luks2", *fast, *more, a, "-", given="secret")
        if not more:
            try_all(f"{case}, closed", "lower", a)
        run("cryptsetup", "open", *more, "--key-file", "-", a, "safe", given="secret")
        try_all(case, "upper", "/dev/mapper/safe")
        try_all(case, "lower", a)
        run("cryptsetup", "close", "safe")
        wipe(a)
    run("integritysetup", "format", "--batch-mode", "--no-wipe", a)
    try_all("dm-integrity, closed", "lower", a)
    run("integritysetup", "open", a, "sound")
    try_all("dm-integrity", "upper", "/dev/mapper/sound")
    try_all("dm-integrity", "lower", a)
    run("integritysetup", "close", "sound")
    wipe(a)


def bcache(a: str, b: str) -> None:
    run("make-bcache", "-C", b)
    run("make-bcache", "-B", a)
    try_all("bcache, not registered", "lower", a, b)
    for disk in (b, a):
        Path("/sys/fs/bcache/register").write_text(disk)
    time.sleep(1)
    caches = [one.name for one in Path("/sys/fs/bcache").iterdir() if one.name.count("-") == 4]
    (Path("/sys/class/block") / Path(a).name / "bcache/attach").write_text(caches[0])
    time.sleep(1)
    try_all("bcache", "upper", "/dev/bcache0")
    try_all("bcache", "lower", a, b)
    Path("/sys/block/bcache0/bcache/stop").write_text("1")
    (Path("/sys/fs/bcache") / caches[0] / "stop").write_text("1")
    time.sleep(3)
    try_all("bcache, stopped", "lower", a, b)


def loops(a: str, b: str) -> None:
    device = run("losetup", "-f", "--show", a).strip()
    try_all("a loop over a disk", "upper", device)
    try_all("a loop over a disk", "lower", a)
    run("losetup", "-d", device)


@contextlib.contextmanager
def served(*arguments: str) -> Iterator[None]:
    """A served drive, while it is attached to this kernel."""
    command = [sys.executable, "-m", "drivebay", "serve", DRIVE, "--capacity", "2G"]
    with subprocess.Popen(
        [*command, "--pace", "none", *arguments], stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stderr is not None
        for line in server.stderr:
            if line.startswith("Ctrl-C"):
                break
        try:
            yield
        finally:
            server.terminate()


def network(a: str, b: str) -> None:
    with served("--data", "/tmp/nbd.img", "--nbd", "unix:/tmp/nbd"):
        run("nbd-client", "-unix", "/tmp/nbd", "/dev/nbd0")
        try_all("nbd", "upper", "/dev/nbd0")
        try_all("nbd", "backing file", "/tmp/nbd.img")
        run("nbd-client", "-d", "/dev/nbd0")
    with served("--data", "/tmp/ublk.img", "--ublk"):
        try_all("ublk", "upper", "/dev/ublkb0")
        try_all("ublk", "backing file", "/tmp/ublk.img")


def btrfs(a: str, b: str) -> None:
    run("mkfs.btrfs", "-q", "-f", "-d", "raid1", "-m", "raid1", a, b)
    try_all("btrfs of two disks", "lower", a, b)
    os.makedirs("/tmp/m", exist_ok=True)
    run("btrfs", "device", "scan")
    run("mount", "-t", "btrfs", a, "/tmp/m")
    try_all("btrfs of two disks, mounted", "lower", a, b)
    run("umount", "/tmp/m")


def plain(a: str, b: str) -> None:
    """What is left of all of this is a disk that may be tested."""
    try_all("a disk alone", "plain", b)


def main() -> None:
    """Build, ask, take away."""
    os.environ["DM_DISABLE_UDEV"] = "1"
    disks = {one.serial: one.path for one in blockdev.list_devices(look_inside=False)}
    a, b = disks["PLAIN1"], disks["PLAIN2"]
    for verb in ("review", "check-trim", "serve"):  # children share what these import
        drivebay(
            [verb, *([DRIVE, "--nbd", "unix:/no/n", "--data"] if verb == "serve" else []), "/"]
        )
    steps: Sequence[Callable[[str, str], None]] = (
        device_mapper, md, lvm, luks, bcache, loops, network, btrfs, plain,
    )  # fmt: skip
    wanted = sys.argv[2:]
    for step in steps:
        if wanted and step.__name__ not in wanted:
            continue
        try:
            wipe(a, b)
            step(a, b)
        except Exception:
            say(failed=step.__name__, trace=traceback.format_exc())


if __name__ == "__main__":
    main()
