"""One finding of the doctor's, and small ways to look."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

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
