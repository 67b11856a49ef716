"""One table of checks: requirements of every use, and optional ones of serving and the lab.

Python, the compiled core, the project's data, memory, space for results; programs, kernel modules
and Python packages.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import os
import platform
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, NamedTuple

from drivebay.common import data, programs, units
from drivebay.common.memory import available_bytes

BASICS, REAL, TRACES, SERVING = "Basics", "Real drives", "Traces", "Serving"
LAB = "Sweeps, fits and queries"
GROUPS = (BASICS, REAL, TRACES, SERVING, LAB)
PYTHON_MIN = (3, 11)
PACKAGES = ("matplotlib", "numpy", "pyarrow", "pydantic", "resvg_py", "rich", "typer")
LARGE = "sm951-ahci-512"
SMALL = "sm951-ahci-128"
# Space for one review: the catalog's largest suite leaves 9 MB, including its report.
RESULT_BYTES = 20_000_000
REINSTALL = "make setup in the checkout, or install the package again"
ANSWER_S = 20.0

State = Literal["ok", "note", "missing"]


class Answer(NamedTuple):
    """Result of a check: the present state, and how to get the missing part, or advice for a
    "note".
    """

    state: State
    found: str
    get: str = ""


def ok(found: str) -> Answer:
    """Answer for a thing that is present."""
    return Answer("ok", found)


def missing(found: str, get: str) -> Answer:
    """Answer for a missing thing; `get` is the command or advice to get it."""
    return Answer("missing", found, get)


@dataclass(frozen=True)
class Finding:
    """Finding about one requirement.

    `basic` requirements are needed by every use. `found` describes the present state, `needed_for`
    the use that needs it, `get` the command or advice to get it; for a "note", the advice.
    """

    group: str
    name: str
    state: State
    found: str
    needed_for: str
    get: str = ""
    basic: bool = False


@dataclass(frozen=True)
class Check:
    """One check; all checks of the group `BASICS` except its notes are basic."""

    group: str
    name: str
    needed_for: str
    look: Callable[[], Answer]

    def finding(self) -> Finding:
        """Runs the check now."""
        state, found, get = self.look()
        basic = self.group == BASICS and self.name != "processors"
        return Finding(self.group, self.name, state, found, self.needed_for, get, basic)


def said(*command: str) -> str:
    """Returns the first line of a program's output, on either stream; "" if it is missing or does
    not end in time.
    """
    try:
        done = programs.ask(command, timeout_s=ANSWER_S)
    except programs.NoAnswer:
        return ""
    lines = (done.stdout + done.stderr).decode(errors="replace").splitlines()
    return next((line.strip() for line in lines if line), "")


def version(text: str) -> str:
    """Returns the version number in a line, or the line.

    >>> version("nvme version 2.3 (git 2.3)")
    '2.3'
    """
    found = re.search(r"\d+(?:\.\d+)+", text)
    return found[0] if found else text[:40]


def program(name: str, package: str, option: str) -> Callable[[], Answer]:
    """Returns a check for a program of this Debian package, which prints its version with this
    option.
    """

    def look() -> Answer:
        if (path := programs.find(name)) is None:
            return missing("not installed", f"apt install {package}")
        return ok(version(said(path, option)) or path)

    return look


def kernel_module(name: str) -> bool:
    """True if the running kernel has this module: loaded, built in, or available to load."""
    if Path("/sys/module", name).exists():
        return True
    folder = Path("/lib/modules", os.uname().release)
    pattern = re.compile(rf"/{re.escape(name).replace('_', '[_-]')}\.ko", re.MULTILINE)
    for listing in ("modules.dep", "modules.builtin"):
        with contextlib.suppress(OSError):
            if pattern.search((folder / listing).read_text(errors="replace")):
                return True
    return False


def _python() -> Answer:
    there = platform.python_version()
    if sys.version_info >= PYTHON_MIN:
        return ok(there)
    return missing(there, "apt install python3, or make setup PYTHON=/path/to/python3.11")


def _core() -> Answer:
    """Checks that the core loads, and has every name that this version of the Python part calls."""
    try:
        core = importlib.import_module("drivebay._core")
    except ImportError as problem:
        return missing(f"cannot be loaded: {problem}", REINSTALL)
    stub = resources.files("drivebay").joinpath("_core.pyi").read_text(encoding="utf-8")
    names = [
        node.name
        for node in ast.parse(stub).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_")
    ]
    if lacking := [name for name in names if not hasattr(core, name)]:
        return missing(f"older than its Python part: it lacks {', '.join(lacking)}", REINSTALL)
    return ok("loads, and fits this version")


def _packages() -> Answer:
    lacking = []
    for name in PACKAGES:
        try:
            importlib.import_module(name)
        except ImportError:
            lacking.append(name)
    if lacking:
        return missing(f"missing or broken: {', '.join(lacking)}", REINSTALL)
    return ok(f"{len(PACKAGES)} of them")


def _data() -> Answer:
    try:
        drives, suites = (len(list(data.path(one).glob("*.toml"))) for one in ("drives", "suites"))
        data.path("published")
    except FileNotFoundError as problem:
        return missing(str(problem), REINSTALL)
    return ok(f"{drives} drives, {suites} suites")


def _processors() -> Answer:
    """Counts processors; no instruction beyond the base architecture is needed."""
    usable = len(os.sched_getaffinity(0))
    found = f"{platform.machine()}, {usable} usable"
    if usable < 2:
        advice = "with one processor, serve is late more often: see its report"
        return Answer("note", found, advice)
    return ok(found)


def _memory() -> Answer:
    free = available_bytes()
    try:
        from drivebay.definitions import profiles as catalog

        large, small = (catalog.load(drive).memory_bytes for drive in (LARGE, SMALL))
    except Exception:  # the core or the data is broken; other findings report it
        return ok(f"{units.si_bytes(free)} free")
    found = f"{units.si_bytes(free)} free, {units.si_bytes(large)} needed"
    if free >= large:
        return ok(found)
    smaller = f"close programs, or review a smaller drive: drivebay review {SMALL}"
    return Answer("note" if free >= small else "missing", found, smaller)


def _room() -> Answer:
    folder = Path.cwd()
    free = shutil.disk_usage(folder).free
    found = f"{units.si_bytes(free)} free in {folder}"
    if not os.access(folder, os.W_OK):
        return missing(f"{folder} is not writable", "cd ~")
    if free < RESULT_BYTES:
        get = "free some space, or write elsewhere: drivebay review DRIVE --out DIR"
        return missing(found, get)
    return ok(found)


def _module(name: str) -> Answer:
    if kernel_module(name):
        return ok(f"modprobe {name}")
    return missing("not in this kernel", "a kernel with this module, such as a distribution's own")


def _qemu() -> Answer:
    """Checks that QEMU has the device that connects to `--vfio-user`."""
    if (path := shutil.which("qemu-system-x86_64")) is None:
        return missing("no QEMU", "a QEMU with vfio-user (11.1 was tried; not yet in Debian 12)")
    try:
        listing = programs.ask([path, "-device", "help"], timeout_s=ANSWER_S).stdout
    except programs.NoAnswer:
        listing = b""
    if b'"vfio-user-pci"' in listing:
        return ok(path)
    get = "a newer QEMU (11.1 was tried); NBD works with this one: -drive file=nbd:unix:PATH"
    return missing(f"{path} lacks it", get)


def _package(name: str) -> Answer:
    if find_spec(name) is not None:
        return ok("installed")
    return missing("not installed", "pip install 'drivebay[lab]', or make setup in the checkout")


_NBD_FILE = "a served drive as a file, without the kernel's client"
_NBD_DEVICE = "a served drive as /dev/nbd0"
_NVME_TCP = "a served drive as /dev/nvme0n1 over TCP, with nvme-cli"
_PCIE = "a served drive as PCIe device of a virtual machine"
CHECKS = (
    Check(BASICS, "Python", "everything", _python),
    Check(BASICS, "Rust core", "virtual drives, traces, replay, serve", _core),
    Check(BASICS, "Python packages", "everything", _packages),
    Check(BASICS, "drivebay's data", "the catalog, the suites, published figures", _data),
    Check(BASICS, "processors", "tests of virtual drives side by side; serve in time", _processors),
    Check(BASICS, "memory", "a virtual drive of 512 GB", _memory),
    Check(BASICS, "disk space", "result folders, here", _room),
    Check(SERVING, "nbdinfo", "looking at a served drive", program("nbdinfo", "libnbd-bin", "-V")),
    Check(SERVING, "nbdfuse", _NBD_FILE, program("nbdfuse", "libnbd-bin", "-V")),
    Check(SERVING, "qemu-img", "images of a served drive", program("qemu-img", "qemu-utils", "-V")),
    Check(SERVING, "nbd-client", _NBD_DEVICE, program("nbd-client", "nbd-client", "-V")),
    Check(SERVING, "module nbd", _NBD_DEVICE, partial(_module, "nbd")),
    Check(SERVING, "module nvme_tcp", _NVME_TCP, partial(_module, "nvme_tcp")),
    Check(SERVING, "QEMU, vfio-user-pci", _PCIE, _qemu),
    Check(LAB, "dask", "sweeps", partial(_package, "dask")),
    Check(LAB, "duckdb", "queries over results", partial(_package, "duckdb")),
    Check(LAB, "cmaes", "fits of profiles", partial(_package, "cmaes")),
    Check(LAB, "scipy", "fits of profiles", partial(_package, "scipy")),
)


def look(checks: Sequence[Check] = CHECKS) -> Iterator[Finding]:
    """Yields the findings, in the order of the table."""
    return (check.finding() for check in checks)
