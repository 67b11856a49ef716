"""What every use needs: Python, the compiled core, the project's data, memory, room for results."""

from __future__ import annotations

import ast
import importlib
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Literal

from drivebay.common import data, units
from drivebay.common.memory import available_bytes

REAL = "Real drives"
TRACES = "Traces"

State = Literal["ok", "note", "missing"]


@dataclass(frozen=True)
class Finding:
    """What was found of one thing.

    `basic` things are needed by every use. `found` says what is there, `needed_for` what needs it,
    `get` the command or words that bring it; of a "note", what to make of it.
    """

    group: str
    name: str
    state: State
    found: str
    needed_for: str
    get: str = ""
    basic: bool = False


def said(*command: str) -> str | None:
    """The first line of what a program prints, on either stream; None if it is not here or fails
    to start within 10 s. It runs in the C locale."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            env={**os.environ, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return next((line.strip() for line in (done.stdout + done.stderr).splitlines() if line), "")


def version(text: str) -> str:
    """The version number in a line, or the line.

    >>> version("nvme version 2.3 (git 2.3)")
    '2.3'
    """
    found = re.search(r"\d+(?:\.\d+)+", text)
    return found[0] if found else text[:40]


def program(
    group: str, name: str, needed_for: str, get: str, *arguments: str, called: str = ""
) -> Finding:
    """Whether a program is on the PATH, or where an administrator's programs are."""
    path = shutil.which(called or name) or shutil.which(called or name, path="/usr/sbin:/sbin")
    if path is None:
        return Finding(group, name, "missing", "not installed", needed_for, get)
    words = version(said(path, *arguments) or "") if arguments else ""
    return Finding(group, name, "ok", words or path, needed_for)


def kernel_module(name: str) -> bool:
    """Whether the running kernel has this module: loaded, built in, or there to be loaded."""
    if Path("/sys/module", name).exists():
        return True
    folder = Path("/lib/modules", os.uname().release)
    pattern = re.compile(rf"/{re.escape(name).replace('_', '[_-]')}\.ko", re.MULTILINE)
    for listing in ("modules.dep", "modules.builtin"):
        try:
            if pattern.search((folder / listing).read_text(errors="replace")):
                return True
        except OSError:
            continue
    return False


GROUP = "Basics"
PYTHON_MIN = (3, 11)
PACKAGES = ("matplotlib", "numpy", "pyarrow", "pydantic", "resvg_py", "rich", "typer")
LARGE = "sm951-ahci-512"
SMALL = "sm951-ahci-128"
RESULT_BYTES = 20_000_000
"""Room for one review: the largest suite of the catalog's leaves 9 MB, its report included."""
REINSTALL = "make setup in the checkout, or install the package again"


def look() -> Iterator[Finding]:
    """The findings, each basic but the machine's own description."""
    yield _python()
    yield _core()
    yield _packages()
    yield _data()
    yield _machine()
    yield _memory()
    yield _room(Path.cwd())


def _basic(name: str, found: str, needed_for: str, get: str = "") -> Finding:
    """A basic thing, which is there if there is nothing to be got."""
    return Finding(GROUP, name, "missing" if get else "ok", found, needed_for, get, basic=True)


def _python() -> Finding:
    enough = sys.version_info >= PYTHON_MIN
    get = "" if enough else "apt install python3, or make setup PYTHON=/path/to/python3.11"
    return _basic("Python", platform.python_version(), "everything", get)


def _core() -> Finding:
    """The core loads, and has what this version of the Python part calls."""
    needed_for = "virtual drives, traces, replay, serve"
    try:
        core = importlib.import_module("drivebay._core")
    except ImportError as problem:
        return _basic("Rust core", f"cannot be loaded: {problem}", needed_for, REINSTALL)
    stub = resources.files("drivebay").joinpath("_core.pyi").read_text(encoding="utf-8")
    names = [
        node.name
        for node in ast.parse(stub).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_")
    ]
    lacking = [name for name in names if not hasattr(core, name)]
    if lacking:
        found = f"older than its Python part: it lacks {', '.join(lacking)}"
        return _basic("Rust core", found, needed_for, REINSTALL)
    return _basic("Rust core", "loads, and fits this version", needed_for)


def _packages() -> Finding:
    lacking = []
    for name in PACKAGES:
        try:
            importlib.import_module(name)
        except ImportError:
            lacking.append(name)
    found = f"missing or broken: {', '.join(lacking)}" if lacking else f"{len(PACKAGES)} of them"
    return _basic("Python packages", found, "everything", REINSTALL if lacking else "")


def _data() -> Finding:
    needed_for = "the catalog, the suites, published figures"
    try:
        count = len(list(data.path("drives").glob("*.toml")))
        suites = len(list(data.path("suites").glob("*.toml")))
        data.path("published")
    except FileNotFoundError as problem:
        return _basic("drivebay's data", str(problem), needed_for, REINSTALL)
    return _basic("drivebay's data", f"{count} drives, {suites} suites", needed_for)


def _machine() -> Finding:
    """The processors; no instruction beyond the architecture's own is needed."""
    usable = len(os.sched_getaffinity(0))
    found = f"{platform.machine()}, {usable} usable"
    needed_for = "tests of virtual drives side by side; serve in time"
    if usable < 2:
        advice = "with one processor, serve is late more often: see its report"
        return Finding(GROUP, "processors", "note", found, needed_for, advice)
    return Finding(GROUP, "processors", "ok", found, needed_for)


def _memory() -> Finding:
    name, free = "memory", available_bytes()
    needed_for = "a virtual drive of 512 GB"
    try:
        from drivebay.definitions import profiles as catalog

        large, small = (catalog.load(drive).memory_bytes for drive in (LARGE, SMALL))
    except Exception:  # the core or the data is broken, which other findings say
        return _basic(name, f"{units.si_bytes(free)} free", needed_for)
    found = f"{units.si_bytes(free)} free, {units.si_bytes(large)} needed"
    if free >= large:
        return _basic(name, found, needed_for)
    smaller = f"close programs, or review a smaller drive: drivebay review {SMALL}"
    if free >= small:
        return Finding(GROUP, name, "note", found, needed_for, smaller, basic=True)
    return _basic(name, found, needed_for, smaller)


def _room(folder: Path) -> Finding:
    needed_for = "result folders, here"
    free = shutil.disk_usage(folder).free
    found = f"{units.si_bytes(free)} free in {folder}"
    if not os.access(folder, os.W_OK):
        return _basic("disk space", f"{folder} is not writable", needed_for, "cd ~")
    if free < RESULT_BYTES:
        get = "free some space, or write elsewhere: drivebay review DRIVE --out DIR"
        return _basic("disk space", found, needed_for, get)
    return _basic("disk space", found, needed_for)
