"""Where a result comes from: this tool's version and commit, and the machine that it ran on.

Nothing here changes between two runs on the same machine and checkout; times of day are kept out.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

_CHECKOUT = Path(__file__).resolve().parents[3]


def tool_version() -> str:
    """The installed version, or "0+unknown" where the package was never installed."""
    try:
        return metadata.version("drivebay")
    except metadata.PackageNotFoundError:
        return "0+unknown"


def version_line() -> str:
    """What `drivebay --version` prints: the version, and the commit of a checkout."""
    commit = git_commit()
    return f"drivebay {tool_version()}" + (f" ({commit})" if commit else "")


@functools.cache
def git_commit() -> str | None:
    """The commit of the checkout that runs, "+changes" where its sources differ from it; None
    outside a checkout."""
    if not ((_CHECKOUT / ".git").exists() and (_CHECKOUT / "pyproject.toml").exists()):
        return None
    commit = _git("rev-parse", "HEAD")
    if not commit:
        return None
    changes = _git("status", "--porcelain", "--", "python", "crates", "drives", "suites")
    return f"{commit}+changes" if changes else commit


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(_CHECKOUT), *arguments],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def build() -> dict[str, Any]:
    """What computes figures in this process: version, commit, and the first 16 digits of SHA-256 of
    the compiled core and of all Python sources; two builds that differ anywhere differ here, be it
    in uncommitted changes or in the compiler. A manifest's `tool` block, and a sweep's `build`."""
    core, python = _digests()
    return {"version": tool_version(), "git_commit": git_commit(), "core": core, "python": python}


@functools.cache
def _digests() -> tuple[str, str]:
    package = Path(__file__).resolve().parents[1]
    return _digest(package.glob("_core*.so")), _digest(package.rglob("*.py"))


def _digest(files: Iterable[Path]) -> str:
    whole = hashlib.sha256()
    for path in sorted(files):
        whole.update(hashlib.sha256(path.read_bytes()).digest())
    return whole.hexdigest()[:16]


def build_line(build: Mapping[str, Any]) -> str:
    """A build in words.

    >>> build_line({"version": "0.2.0", "git_commit": "4b825dc642cb6eb9a060e54b+changes",
    ...             "core": "1f2e3d4c5b6a7988", "python": "8877665544332211"})
    'drivebay 0.2.0, commit 4b825dc642cb+changes, core 1f2e3d4c5b6a7988, python 8877665544332211'
    """
    commit, plus, changes = str(build.get("git_commit") or "unknown").partition("+")
    return (
        f"drivebay {build.get('version')}, commit {commit[:12]}{plus}{changes}, "
        f"core {build.get('core')}, python {build.get('python')}"
    )


def host() -> dict[str, Any]:
    """The manifest's `host` block: what a reader must know of the machine.

    >>> sorted(host())
    ['cpu_count', 'cpu_model', 'kernel', 'machine', 'memory_bytes', 'os', 'python']
    """
    return {
        "kernel": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "os": _os_name(),
        "cpu_model": _cpu_model(),
        "cpu_count": os.cpu_count() or 1,
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "python": platform.python_version(),
    }


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "Model", "cpu model"):
            return value.strip()
    return platform.processor() or platform.machine()
