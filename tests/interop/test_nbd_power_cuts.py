"""The examples of power cuts: what a program has committed survives them, and a program or a drive
that does not flush is caught.

The drive's bytes appear as a file by nbdfuse, a loop device makes a disk of it, and the kernel's
ext4 or XFS is mounted there: an fsync ends as NBD's flush. Needs root, FUSE and loop devices, or
is skipped. DRIVEBAY_POWER_CUTS says how many cuts each test has; with `pytest -rP` it tells how
much each run committed and lost.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nbd_server
import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "power-cuts"
CUTS = os.environ.get("DRIVEBAY_POWER_CUTS")
PROGRAMS = ("nbdfuse", "fusermount3", "losetup", "mkfs.ext4", "e2fsck", "mount", "umount")


def _missing(*programs: str) -> str:
    if lacking := nbd_server.missing(*programs):
        return lacking
    if os.geteuid() != 0:
        return "mounting needs root"
    if not all(Path(path).exists() for path in ("/dev/fuse", "/dev/loop-control")):
        return "no /dev/fuse or no loop devices"
    return ""


pytestmark = [
    pytest.mark.skipif(bool(_missing(*PROGRAMS)), reason=_missing(*PROGRAMS) or "-"),
    pytest.mark.timeout(3600),
]
MORE = ("mkfs.xfs", "xfs_repair", "runuser", "psql")
needs_more = pytest.mark.skipif(bool(_missing(*MORE)), reason=_missing(*MORE) or "-")


def example(name: str, cuts: str, *options: str) -> subprocess.CompletedProcess[str]:
    here = Path(sys.executable).parent
    return subprocess.run(
        [sys.executable, str(EXAMPLES / name), "--cuts", cuts, *options],
        env={**os.environ, "PATH": f"{here}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )


def _loses_nothing(name: str, cuts: str, *options: str) -> None:
    done = example(name, cuts, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout.split()
    assert int(said[0]) >= int(cuts) and "none lost" in done.stdout
    print(name, *options, done.stdout.strip())


def _is_caught(name: str, cuts: str, *options: str) -> None:
    done = example(name, cuts, *options)
    assert done.returncode == 1 and done.stdout.startswith("LOST: "), done.stdout + done.stderr


@pytest.mark.parametrize("loss", ["all", "random", "unflushed"])
def test_nothing_acknowledged_is_lost(loss: str) -> None:
    _loses_nothing("sqlite.py", CUTS or "2", "--loss", loss)


def test_a_drive_that_ignores_flushes_is_caught() -> None:
    _is_caught("sqlite.py", "10", "--set", "ignore_flush")


@needs_more
@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("sqlite.py", ("--loss", "random", "--filesystem", "xfs")),
        ("postgresql.py", ()),
        ("files.py", ()),
        ("files.py", ("--filesystem", "xfs")),
    ],
)
def test_every_example_loses_nothing(name: str, options: tuple[str, ...]) -> None:
    _loses_nothing(name, CUTS or "100", *options)


@needs_more
@pytest.mark.long
@pytest.mark.parametrize("name", ["sqlite.py", "postgresql.py", "files.py"])
def test_a_program_that_does_not_flush_is_caught(name: str) -> None:
    _is_caught(name, "5", "--no-fsync")
