"""The examples of power cuts: nothing acknowledged is lost, and a program or a drive
that does not flush is caught. DRIVEBAY_POWER_CUTS says how many cuts each has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nbd_server
import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "power-cuts"
CUTS = os.environ.get("DRIVEBAY_POWER_CUTS", "100")
PROGRAMS = ("nbdfuse", "fusermount3", "losetup", "mkfs.ext4", "mkfs.xfs", "runuser", "psql")

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        bool(nbd_server.missing(*PROGRAMS)) or os.geteuid() != 0,
        reason=nbd_server.missing(*PROGRAMS) or "mounting needs root",
    ),
]


def example(name: str, *options: str, cuts: str = CUTS) -> subprocess.CompletedProcess[str]:
    here = Path(sys.executable).parent
    return subprocess.run(
        [sys.executable, str(EXAMPLES / name), "--cuts", cuts, *options],
        env={**os.environ, "PATH": f"{here}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("sqlite.py", ()),
        ("sqlite.py", ("--loss", "random", "--filesystem", "xfs")),
        ("postgresql.py", ()),
        ("files.py", ()),
        ("files.py", ("--filesystem", "xfs")),
    ],
)
def test_nothing_acknowledged_is_lost(name: str, options: tuple[str, ...]) -> None:
    done = example(name, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(f"{CUTS} power cuts, ") and "none lost" in done.stdout
    print(name, *options, done.stdout.strip())


@pytest.mark.parametrize("name", ["sqlite.py", "postgresql.py", "files.py"])
def test_a_program_that_does_not_flush_is_caught(name: str) -> None:
    done = example(name, "--no-fsync", cuts="5")
    assert done.returncode == 1 and done.stdout.startswith("LOST: "), done.stdout + done.stderr


def test_a_drive_that_ignores_flushes_is_caught() -> None:
    done = example("sqlite.py", "--set", "ignore_flush", cuts="10")
    assert done.returncode == 1 and done.stdout.startswith("LOST: "), done.stdout + done.stderr
