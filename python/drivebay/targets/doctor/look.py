"""Everything that the doctor looks at, in the order in which it tells."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec

from drivebay.targets.doctor import basics
from drivebay.targets.doctor.basics import REAL, TRACES, Finding, kernel_module, program

SERVING = "Serving"
LAB = "Sweeps, fits and queries"
GROUPS = (basics.GROUP, REAL, TRACES, SERVING, LAB)
LAB_PACKAGES = {
    "dask": "sweeps",
    "duckdb": "queries over results",
    "cmaes": "fits of profiles",
    "scipy": "fits of profiles",
}


def everything() -> list[Finding]:
    """All findings, by group. Takes some seconds at most, and changes nothing."""
    found = [*basics.look(), *_serving(), *_lab()]
    try:
        from drivebay.targets.doctor import drives
    except ImportError:  # a package is broken, which the basics have told
        pass
    else:
        found += drives.look()
    return sorted(found, key=lambda one: GROUPS.index(one.group))


def _serving() -> Iterator[Finding]:
    yield program(SERVING, "nbdinfo", "looking at a served drive", "apt install libnbd-bin", "-V")
    yield program(
        SERVING, "nbdfuse", "a served drive as a file, without the kernel's client",
        "apt install libnbd-bin", "-V",
    )  # fmt: skip
    yield program(SERVING, "qemu-img", "images of a served drive", "apt install qemu-utils", "-V")
    yield program(
        SERVING, "nbd-client", "a served drive as /dev/nbd0", "apt install nbd-client", "-V"
    )
    yield _module("nbd", "a served drive as /dev/nbd0")
    yield _module("nvme_tcp", "a served drive as /dev/nvme0n1 over TCP, with nvme-cli")
    yield _qemu()


def _module(name: str, needed_for: str) -> Finding:
    if kernel_module(name):
        return Finding(SERVING, f"module {name}", "ok", f"modprobe {name}", needed_for)
    get = "a kernel with this module, such as a distribution's own"
    return Finding(SERVING, f"module {name}", "missing", "not in this kernel", needed_for, get)


def _qemu() -> Finding:
    """Whether QEMU has the device that connects to `--vfio-user`."""
    name, needed_for = "QEMU, vfio-user-pci", "a served drive as PCIe device of a virtual machine"
    path = shutil.which("qemu-system-x86_64")
    if path is None:
        get = "a QEMU with vfio-user (11.1 was tried; not yet in Debian 12)"
        return Finding(SERVING, name, "missing", "no QEMU", needed_for, get)
    try:
        listing = subprocess.run(
            [path, "-device", "help"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=20,
            check=False,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        listing = ""
    if '"vfio-user-pci"' in listing:
        return Finding(SERVING, name, "ok", path, needed_for)
    get = "a newer QEMU (11.1 was tried); NBD works with this one: -drive file=nbd:unix:PATH"
    return Finding(SERVING, name, "missing", f"{path} lacks it", needed_for, get)


def _lab() -> Iterator[Finding]:
    for name, needed_for in LAB_PACKAGES.items():
        if find_spec(name) is None:
            get = "pip install 'drivebay[lab]', or make setup in the checkout"
            yield Finding(LAB, name, "missing", "not installed", needed_for, get)
        else:
            yield Finding(LAB, name, "ok", "installed", needed_for)
