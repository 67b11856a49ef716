"""Origin of a result: this tool's version and commit, and the machine that it ran on.

Nothing here differs between two runs on the same machine and checkout; times of day are excluded.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from drivebay.common import programs

_PACKAGE = Path(__file__).resolve().parents[1]
_CHECKOUT = _PACKAGE.parents[1]


def tool_version() -> str:
    """The installed version, or "0+unknown" if the package is not installed."""
    try:
        return metadata.version("drivebay")
    except metadata.PackageNotFoundError:
        return "0+unknown"


def version_line() -> str:
    """Output of `drivebay --version`: the version, and the commit where it is known."""
    commit = git_commit()
    return f"drivebay {tool_version()}" + (f" ({commit})" if commit else "")


@functools.cache
def git_commit() -> str | None:
    """Commit of the running checkout or of the one that the package was built from (file
    `_commit`), with "+changes" if the sources differ from it; None if neither is known.
    """
    if not ((_CHECKOUT / ".git").exists() and (_CHECKOUT / "pyproject.toml").exists()):
        try:
            return (_PACKAGE / "_commit").read_text().strip() or None
        except OSError:
            return None
    commit = _git("rev-parse", "HEAD")
    if not commit:
        return None
    changes = _git("status", "--porcelain", "--", "python", "crates", "drives", "suites")
    return f"{commit}+changes" if changes else commit


def _git(*arguments: str) -> str | None:
    try:
        done = programs.ask(["git", "-C", str(_CHECKOUT), *arguments], timeout_s=20)
    except programs.NoAnswer:
        return None
    return done.stdout.decode(errors="replace").strip() if done.returncode == 0 else None


def build() -> dict[str, Any]:
    """Identity of the code that computes figures in this process: version, commit, and the first 16
    digits of the SHA-256 of the compiled core and of all Python sources. Two builds that differ
    anywhere differ here, even by uncommitted changes or by the compiler. Stored as a manifest's
    `tool` block and a sweep's `build`.
    """
    core, python = _digests()
    return {"version": tool_version(), "git_commit": git_commit(), "core": core, "python": python}


@functools.cache
def _digests() -> tuple[str, str]:
    return _digest(_PACKAGE.glob("_core*.so")), _digest(_PACKAGE.rglob("*.py"))


def _digest(files: Iterable[Path]) -> str:
    whole = hashlib.sha256()
    for path in sorted(files):
        whole.update(hashlib.sha256(path.read_bytes()).digest())
    return whole.hexdigest()[:16]


def build_line(build: Mapping[str, Any]) -> str:
    """One-line description of a build.

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
    """The manifest's `host` block: facts about the machine.

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
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() in ("model name", "Model", "cpu model"):
                return value.strip()
    return platform.processor() or platform.machine()
