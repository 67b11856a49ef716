"""Every power cut on real file systems: databases that are right lose no commit, planted bugs of
programs that work with files are found, and a drive that ignores flushes makes all fail.

The examples' wrapper mounts each state and checks the file system afterwards. DRIVEBAY_CRASH_STATES
says how many states each test has at most; with `pytest -rP` it tells what was covered. Needs root,
FUSE, loop devices and the file systems' tools, or is skipped.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import nbd_server
import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "crash"
STATES = os.environ.get("DRIVEBAY_CRASH_STATES", "200")
TOOLS = {
    "ext4": ("mkfs.ext4", "e2fsck"),
    "xfs": ("mkfs.xfs", "xfs_repair"),
    "btrfs": ("mkfs.btrfs", "btrfs"),
}
KINDS = {"sqlite-wal": 60, "sqlite-rollback": 60, "lmdb": 1000, "postgresql": 120, "files": 60}
"""Commits of each, which have 10,000 states or nearly."""
RIGHT = [(fs, kind) for fs in TOOLS for kind in KINDS]


def _missing(fs: str, kind: str) -> str:
    lacking = nbd_server.missing("nbdfuse", "fusermount3", "losetup", "mount", *TOOLS[fs])
    if not lacking and os.geteuid() != 0:
        return "mounting needs root"
    if not lacking and kind == "lmdb" and find_spec("lmdb") is None:
        return "not installed: lmdb of Python"
    if not lacking and kind == "postgresql":
        return nbd_server.missing("psql", "pg_isready")
    return lacking


def _crash(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*nbd_server.PROGRAM, "crash", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def _run(folder: Path, fs: str, kind: str, *more: str) -> subprocess.CompletedProcess[str]:
    """Records commits on a file system, and checks the states behind the first."""
    if lacking := _missing(fs, kind):
        pytest.skip(lacking)
    mounted = (sys.executable, str(EXAMPLES / "mounted.py"))
    database = (sys.executable, str(EXAMPLES / "database.py"))
    record = ("record", "sm951-nvme-256", "--capacity", "64MiB", "--out", "recording")
    commits = str(KINDS.get(kind, 60))
    work = (*mounted, "--make", fs, "{}", "--", *database, "work", kind, commits)
    done = _crash(*record, "--", *work, folder=folder)
    assert done.returncode == 0, done.stderr
    check = (*mounted, "{}", "--", *database, "check", kind)
    run = ("run", "recording", "--states", STATES, "--after", "1", "--timeout", "600", *more)
    done = _crash(*run, "--", *check, folder=folder)
    print(fs, kind, *more, done.stdout.strip().splitlines()[0])
    return done


pytestmark = [pytest.mark.long, pytest.mark.timeout(4 * 3600)]


@pytest.mark.parametrize(("fs", "kind"), RIGHT)
def test_no_state_loses_what_was_committed(fs: str, kind: str, tmp_path: Path) -> None:
    done = _run(tmp_path, fs, kind)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("fs", "kind"), RIGHT)
def test_a_drive_that_ignores_flushes_makes_it_fail(fs: str, kind: str, tmp_path: Path) -> None:
    done = _run(tmp_path, fs, kind, "--ignore-flush", "--states", "50")
    assert done.returncode == 1 and "which the drive ignored" in done.stdout


@pytest.mark.parametrize(
    ("kind", "said"),
    [("files-no-fsync", "the file is damaged"), ("files-no-folder-fsync", "1 were promised")],
)
def test_a_program_that_does_not_sync_is_found(kind: str, said: str, tmp_path: Path) -> None:
    done = _run(tmp_path, "ext4", kind)
    assert done.returncode == 1 and said in done.stdout
    assert "nothing that the drive was given is lost" in done.stdout
