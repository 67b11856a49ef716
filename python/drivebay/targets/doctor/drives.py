"""Checks for reviews of real drives, recordings and replays; virtual drives need none of these.

fio's faults by version are listed in docs/concepts/real-drives.md.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
from pathlib import Path

from drivebay.common import programs
from drivebay.common.errors import EnvironmentProblem
from drivebay.targets.doctor import basics
from drivebay.targets.doctor.basics import REAL, TRACES, Answer, Check, missing, ok, program
from drivebay.targets.fio.parse import NEWEST, parse_version
from drivebay.targets.safety import blockdev, libblkid
from drivebay.targets.safety.in_use import read
from drivebay.targets.safety.protections import NO_PERMISSION
from drivebay.targets.telemetry import host, sensors

TRACEFS = (Path("/sys/kernel/tracing"), Path("/sys/kernel/debug/tracing"))
DRIVE_SENSORS = ("nvme", "drivetemp")
_SYS_IO_URING_SETUP = 425  # the same number on every architecture


def _path() -> Answer:
    if os.geteuid() != 0:
        return ok("not looked at, as you are not root")
    if loose := list(programs.loose_folders(os.environ.get("PATH", ""))):
        return Answer("note", "; ".join(loose), "take them out of root's PATH")
    return ok("only root can write there")


def _libblkid() -> Answer:
    try:
        libblkid.load()
    except libblkid.ProbeError as problem:
        return missing(str(problem), "apt install libblkid1")
    return ok("loads")


def _fio() -> Answer:
    if (path := shutil.which("fio")) is None:
        return missing("not installed", "apt install fio")
    words = basics.said(path, "--version")
    try:
        number = parse_version(words)
    except EnvironmentProblem as problem:
        return missing(problem.message, problem.hint)
    faults = []
    if number < (3, 36):
        faults.append("timed replay of traces is wrong before 3.36 (drivebay has its own)")
    if number < (3, 39):
        faults.append("randseed is ignored before 3.39 without randrepeat=0 (always given)")
    if number > NEWEST:
        faults.append(f"newer than {NEWEST[0]}.{NEWEST[1]}, the newest whose output was tried")
    return Answer("note", words, "known faults: " + "; ".join(faults)) if faults else ok(words)


def _io_uring() -> Answer:
    """Sets up a smallest ring."""
    libc = ctypes.CDLL(None, use_errno=True)
    parameters = ctypes.create_string_buffer(120)  # struct io_uring_params, all zero
    ring = libc.syscall(_SYS_IO_URING_SETUP, 1, parameters)
    if ring >= 0:
        os.close(ring)
        return ok("allowed")
    failure = ctypes.get_errno()
    get = "sysctl kernel.io_uring_disabled=0"
    if failure == errno.ENOSYS:
        get = "a kernel with CONFIG_IO_URING"
    return missing(os.strerror(failure), f"{get}; in a container: its seccomp rules")


def _sensors() -> Answer:
    names = {read(folder / "name") for folder in sensors.HWMON.glob("hwmon*")}
    if found := sorted(names & set(DRIVE_SENSORS)):
        return ok(f"hwmon: {', '.join(found)}")
    get = "modprobe drivetemp (SATA); NVMe drives need a kernel with CONFIG_NVME_HWMON"
    if not basics.kernel_module("drivetemp"):
        get = "this kernel has no module drivetemp; SMART still gives temperatures, to root"
    return missing("no drive's in hwmon", get)


def _devices() -> Answer:
    devices = blockdev.list_devices()
    if not devices:
        return Answer("note", "none here", "files can be reviewed: drivebay review ./disk.img")
    refused = sum(NO_PERMISSION in device.blockers for device in devices)
    free = sum(not device.blockers for device in devices)
    if refused and os.geteuid() != 0:
        found = f"{len(devices)}, of which {refused} may not be opened by you"
        return missing(found, "sudo .venv/bin/drivebay ...")
    found = f"{len(devices)}, of which {free} may be tested"
    return ok(found) if free else Answer("note", found, "what forbids it: drivebay drives")


def _environment() -> Answer:
    """Checks for properties of this machine that distort figures of real drives."""
    facts = host.facts()
    found = [
        f"{what} ({facts[key]})"
        for key, what in (("virtual_machine", "a virtual machine"), ("container", "a container"))
        if facts[key]
    ]
    advice = "each result lists what affects its figures as validity warnings"
    if facts["cpu_governor"] not in (None, "performance"):
        found.append(f"CPU governor {facts['cpu_governor']}")
        advice += "; governor: cpupower frequency-set -g performance"
    return Answer("note", ", ".join(found), advice) if found else ok("nothing that bends figures")


def _tracefs() -> Answer:
    for folder in TRACEFS:
        try:
            if (folder / "events/block/block_rq_issue").is_dir():
                return ok(str(folder))
        except PermissionError:
            break
    if os.geteuid() != 0:
        return missing("needs root", "sudo")
    get = "mount -t tracefs nodev /sys/kernel/tracing (CONFIG_BLK_DEV_IO_TRACE in the kernel)"
    return missing("no block events", get)


_NVME = "SMART, Format and Sanitize of NVMe drives"
_SATA = "SMART of SATA drives"
_BLKID = "finding file systems and partition tables before anything is overwritten"
CHECKS = (
    Check(REAL, "fio", "tests of files and block devices", _fio),
    Check(REAL, "io_uring", "replay on real drives; fio's best engine (else libaio)", _io_uring),
    Check(REAL, "nvme-cli", _NVME, program("nvme", "nvme-cli", "version")),
    Check(REAL, "smartctl", _SATA, program("smartctl", "smartmontools", "--version")),
    Check(REAL, "hdparm", "ATA secure erase, TRIM claims", program("hdparm", "hdparm", "-V")),
    Check(REAL, "PATH", "programs that are run as root for a real drive", _path),
    Check(REAL, "libblkid", _BLKID, _libblkid),
    Check(REAL, "drive sensors", "temperature of real drives each second", _sensors),
    Check(REAL, "block devices", "reviews of block devices", _devices),
    Check(REAL, "environment", "figures of real drives that mean the drive", _environment),
    Check(TRACES, "tracefs", "drivebay trace record", _tracefs),
)
