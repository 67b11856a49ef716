"""What reviews of real drives, recordings and replays need of this machine.

fio's faults by version are those that docs/concepts/real-drives.md lists.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from drivebay.common import programs
from drivebay.common.errors import EnvironmentProblem
from drivebay.targets.doctor.basics import REAL, TRACES, Finding, kernel_module, program, said
from drivebay.targets.fio.parse import NEWEST, OLDEST, parse_version
from drivebay.targets.safety import blockdev, libblkid
from drivebay.targets.safety.protections import NO_PERMISSION
from drivebay.targets.telemetry import host

HWMON = Path("/sys/class/hwmon")
TRACEFS = (Path("/sys/kernel/tracing"), Path("/sys/kernel/debug/tracing"))
DRIVE_SENSORS = ("nvme", "drivetemp")
_SYS_IO_URING_SETUP = 425  # the same number on every architecture


def look() -> Iterator[Finding]:
    """The findings; nothing here is basic, as virtual drives need none of it."""
    yield _fio()
    yield _io_uring()
    yield program(
        REAL, "nvme-cli", "SMART, Format and Sanitize of NVMe drives",
        "apt install nvme-cli", "version", called="nvme",
    )  # fmt: skip
    yield program(
        REAL, "smartctl", "SMART of SATA drives", "apt install smartmontools", "--version"
    )
    yield program(REAL, "hdparm", "ATA secure erase, TRIM claims", "apt install hdparm", "-V")
    yield _path()
    yield _libblkid()
    yield _sensors()
    yield _devices()
    yield _environment()
    yield _tracefs()


def _path() -> Finding:
    needed_for = "programs that are run as root for a real drive"
    if os.geteuid() != 0:
        return Finding(REAL, "PATH", "ok", "not looked at, as you are not root", needed_for)
    if loose := list(programs.loose_folders(os.environ.get("PATH", ""))):
        get = "take them out of root's PATH"
        return Finding(REAL, "PATH", "note", "; ".join(loose), needed_for, get)
    return Finding(REAL, "PATH", "ok", "only root can write there", needed_for)


def _libblkid() -> Finding:
    needed_for = "finding file systems and partition tables before anything is overwritten"
    try:
        libblkid.load()
    except libblkid.ProbeError as problem:
        return Finding(
            REAL, "libblkid", "missing", str(problem), needed_for, "apt install libblkid1"
        )
    return Finding(REAL, "libblkid", "ok", "loads", needed_for)


def _fio() -> Finding:
    needed_for = "tests of files and block devices"
    path = shutil.which("fio")
    if path is None:
        return Finding(REAL, "fio", "missing", "not installed", needed_for, "apt install fio")
    words = said(path, "--version") or ""
    try:
        number = parse_version(words)
    except EnvironmentProblem as problem:
        return Finding(REAL, "fio", "missing", problem.message, needed_for, problem.hint)
    faults = []
    if number < (3, 36):
        faults.append("timed replay of traces is wrong before 3.36 (drivebay has its own)")
    if number < (3, 39):
        faults.append("randseed is ignored before 3.39 without randrepeat=0 (always given)")
    if number > NEWEST:
        faults.append(f"newer than {NEWEST[0]}.{NEWEST[1]}, the newest whose output was tried")
    assert number >= OLDEST, "parse_version refuses older ones"
    state, advice = ("note", "known faults: " + "; ".join(faults)) if faults else ("ok", "")
    return Finding(REAL, "fio", state, words, needed_for, advice)  # type: ignore[arg-type]


def _io_uring() -> Finding:
    needed_for = "replay on real drives; fio's best engine (else libaio)"
    failure = _io_uring_error()
    if failure == 0:
        return Finding(REAL, "io_uring", "ok", "allowed", needed_for)
    get = "sysctl kernel.io_uring_disabled=0; in a container: its seccomp rules"
    if failure == errno.ENOSYS:
        get = "a kernel with CONFIG_IO_URING; in a container: its seccomp rules"
    return Finding(REAL, "io_uring", "missing", os.strerror(failure), needed_for, get)


def _io_uring_error() -> int:
    """The error number of setting up a smallest ring, 0 if it works."""
    libc = ctypes.CDLL(None, use_errno=True)
    parameters = ctypes.create_string_buffer(120)  # struct io_uring_params, all zero
    ring = libc.syscall(_SYS_IO_URING_SETUP, 1, parameters)
    if ring < 0:
        return ctypes.get_errno()
    os.close(ring)
    return 0


def _sensors() -> Finding:
    needed_for = "temperature of real drives each second"
    names = {_read(folder / "name") for folder in HWMON.glob("hwmon*")}
    found = sorted(names & set(DRIVE_SENSORS))
    if found:
        return Finding(REAL, "drive sensors", "ok", f"hwmon: {', '.join(found)}", needed_for)
    get = "modprobe drivetemp (SATA); NVMe drives need a kernel with CONFIG_NVME_HWMON"
    if not kernel_module("drivetemp"):
        get = "this kernel has no module drivetemp; SMART still gives temperatures, to root"
    return Finding(REAL, "drive sensors", "missing", "no drive's in hwmon", needed_for, get)


def _devices() -> Finding:
    needed_for = "reviews of block devices"
    devices = blockdev.list_devices()
    if not devices:
        advice = "files can be reviewed: drivebay review ./disk.img"
        return Finding(REAL, "block devices", "note", "none here", needed_for, advice)
    refused = sum(NO_PERMISSION in device.blockers for device in devices)
    free = sum(not device.blockers for device in devices)
    found = f"{len(devices)}, of which {free} may be tested"
    if refused and os.geteuid() != 0:
        found = f"{len(devices)}, of which {refused} may not be opened by you"
        return Finding(
            REAL, "block devices", "missing", found, needed_for, "sudo .venv/bin/drivebay ..."
        )
    if free == 0:
        return Finding(
            REAL, "block devices", "note", found, needed_for, "what forbids it: drivebay drives"
        )
    return Finding(REAL, "block devices", "ok", found, needed_for)


def _environment() -> Finding:
    """What bends figures of real drives on this machine, if anything."""
    needed_for = "figures of real drives that mean the drive"
    facts = host.facts()
    found = []
    if facts["virtual_machine"]:
        found.append(f"a virtual machine ({facts['virtual_machine']})")
    if facts["container"]:
        found.append(f"a container ({facts['container']})")
    if facts["cpu_governor"] not in (None, "performance"):
        found.append(f"CPU governor {facts['cpu_governor']}")
    if not found:
        return Finding(REAL, "environment", "ok", "nothing that bends figures", needed_for)
    advice = "each result lists what affects its figures as validity warnings"
    if "CPU governor" in found[-1]:
        advice += "; governor: cpupower frequency-set -g performance"
    return Finding(REAL, "environment", "note", ", ".join(found), needed_for, advice)


def _tracefs() -> Finding:
    needed_for = "drivebay trace record"
    event = "events/block/block_rq_issue"
    for folder in TRACEFS:
        try:
            if (folder / event).is_dir():
                return Finding(TRACES, "tracefs", "ok", str(folder), needed_for)
        except PermissionError:
            break
    if os.geteuid() != 0:
        return Finding(TRACES, "tracefs", "missing", "needs root", needed_for, "sudo")
    get = "mount -t tracefs nodev /sys/kernel/tracing (CONFIG_BLK_DEV_IO_TRACE in the kernel)"
    return Finding(TRACES, "tracefs", "missing", "no block events", needed_for, get)


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
