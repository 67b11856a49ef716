"""Known durability bugs of programs of package registries: found before their fix, not after it,
and no false alarm in sound databases. Needs the registries, root and loop devices, or is skipped.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nbd_server
import pytest

KNOWN = Path(__file__).resolve().parents[2] / "examples" / "crash" / "known"
sys.path.insert(0, str(KNOWN))
from rows import ROWS, SOUND, Row  # noqa: E402

TOOLS = {"py": (), "js": ("node", "npm"), "go": ("go",), "rs": ("cargo",)}

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


@pytest.mark.parametrize("row", (*ROWS, *SOUND), ids=lambda row: row.name)
def test_a_known_bug_is_found_before_its_fix_only(row: Row, tmp_path: Path) -> None:
    tools = ("nbdfuse", "fusermount3", "mkfs.ext4", *TOOLS[row.script.rpartition(".")[2]])
    if row.name == "postgresql":
        tools += ("psql", "pg_isready")
    if lacking := nbd_server.missing(*tools):
        pytest.skip(lacking)
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    words = [sys.executable, str(KNOWN / "run.py"), "--keep", str(tmp_path), row.name]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
