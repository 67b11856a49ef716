"""The runner of known durability bugs: a planted bug is found, the same program without it passes,
and each outcome is judged by the row.
"""

from __future__ import annotations

import importlib
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

KNOWN = Path(__file__).resolve().parents[1] / "examples" / "crash" / "known"
BARE = """
import os, subprocess, sys
at = sys.argv.index("--")
disk = next(word for word in sys.argv[1:at] if word.startswith("/"))
sys.exit(subprocess.call(sys.argv[at + 1 :], env={**os.environ, "DISK": disk}))
"""
"""Stands in for mounted.py: no file system, the program writes to the drive."""
PROGRAM = """
import os, sys
disk = os.open(os.environ["DISK"], os.O_RDWR)
if sys.argv[2] == "work":
    for number in (1, 2):
        os.pwrite(disk, bytes([number]) * 4096, number * 4096)
        if sys.argv[1] == "right":
            os.fsync(disk)
        print("mark", number, flush=True)
        sys.stdin.readline()
else:
    mark = os.environ["DRIVEBAY_MARK"]
    promised = int(mark) if mark.isdigit() else 0
    for number in range(1, promised + 1):
        if os.pread(disk, 4096, number * 4096) != bytes([number]) * 4096:
            sys.exit(f"record {number} of {promised} is gone")
"""


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The runner as a module."""
    monkeypatch.syspath_prepend(str(KNOWN))
    return importlib.import_module("run")


def _row(known: ModuleType, **more: Any) -> Any:
    return known.Row(
        name="planted", program="", package="", versions=("bug", "right"), script="x.py", **more
    )


@pytest.mark.skipif(not shutil.which("nbdfuse"), reason="not installed: nbdfuse")
@pytest.mark.parametrize("version", ["bug", "right"])
def test_a_planted_bug_is_found_and_its_fix_passes(
    version: str, known: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bare.py").write_text(BARE)
    (tmp_path / "program.py").write_text(PROGRAM)
    monkeypatch.setattr(known, "MOUNTED", tmp_path / "bare.py")
    program = [sys.executable, "-IS", str(tmp_path / "program.py"), version]
    found = known.repeated(_row(known), program, tmp_path, 30, 2, True)
    assert found.states > 3 and bool(found.failed) == (version == "bug")
    assert version == "right" or "is gone" in found.said


@pytest.mark.parametrize(
    ("failed", "code"), [({"bug": 2}, 0), ({}, 1), ({"bug": 2, "right": 1}, 1)]
)
def test_a_row_is_good_if_the_bug_is_found_and_the_fix_passes(
    failed: dict[str, int],
    code: int,
    known: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def repeated(_row: Any, program: list[str], *_more: object) -> Any:
        return known.Found(9, failed.get(program[0], 0), "said", 1.0)

    monkeypatch.setattr(known, "ROWS", (_row(known),))
    monkeypatch.setattr(known, "installed", lambda _row, version: [version])
    monkeypatch.setattr(known, "repeated", repeated)
    monkeypatch.setattr(sys, "argv", ["run.py", "--keep", str(tmp_path), "planted"])
    assert known.main() == code


def test_every_row_has_its_script_and_a_name_of_its_own(known: ModuleType) -> None:
    rows = (*known.ROWS, *known.SOUND)
    assert len({row.name for row in rows}) == len(rows)
    assert all((KNOWN / row.script).exists() for row in rows)
    assert all(len(row.versions) == 2 for row in known.ROWS)
    page = KNOWN.parents[2] / "docs" / "concepts" / "known-bugs.md"
    text = page.read_text(encoding="utf-8")
    assert all(f"| `{row.name}`, " in text for row in rows)
