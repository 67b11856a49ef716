"""Known durability bugs of programs of package registries: found before their fix, not after it,
and no false alarm in sound databases. Needs the registries, root and loop devices, or is skipped.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbd_server
import pytest

KNOWN = Path(__file__).resolve().parents[2] / "examples" / "crash" / "known"
sys.path.append(str(KNOWN))
ROWS = importlib.import_module("rows")
TOOLS: dict[str, tuple[str, ...]] = {
    "py": (),
    "js": ("node", "npm"),
    "go": ("go",),
    "rs": ("cargo",),
}

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


def _run(*words: str, folder: Path) -> None:
    command = [sys.executable, str(KNOWN / "run.py"), "--keep", str(folder), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("row", (*ROWS.ROWS, *ROWS.SOUND), ids=lambda row: row.name)
def test_a_known_bug_is_found_before_its_fix_only(row: Any, tmp_path: Path) -> None:
    tools = ["nbdfuse", "fusermount3", "mkfs.ext4", *TOOLS[row.script.rpartition(".")[2]]]
    if row.name == "postgresql":
        tools += ["psql", "pg_isready"]
    if lacking := nbd_server.missing(*tools):
        pytest.skip(lacking)
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    _run(row.name, folder=tmp_path)


def test_a_known_bug_is_found_without_root(tmp_path: Path) -> None:
    if lacking := nbd_server.missing("linux.uml", "qemu-storage-daemon", "debugfs"):
        pytest.skip(lacking)
    _run("--unprivileged", "turso-normal", folder=tmp_path)
