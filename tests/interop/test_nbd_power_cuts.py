"""SQLite on ext4 on a served drive survives power cuts: no commit that was acknowledged is lost.

The drive's bytes appear as a file by nbdfuse, a loop device makes a disk of it, and the
kernel's ext4 is mounted there: SQLite's fsync ends as NBD's flush. The plug is pulled at
random moments during commits, while a second writer keeps the drive's buffer full of data that no
flush covers; then everything is put together again, ext4 replays its journal, and all rows must be
there. Needs root, FUSE and loop devices, or is skipped. DRIVEBAY_POWER_CUTS says how many cuts for
each kind of loss; with `pytest -rP` it tells how much each run committed and lost.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import random
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbd_server
import pytest
from waiting import wait_until

CUTS = int(os.environ.get("DRIVEBAY_POWER_CUTS", "2"))
# A cut right after a flush finds nothing to lose: so many more, at most, until one has.
MORE_CUTS = 20
SCRATCH_BYTES = 4 << 20
PROGRAMS = ("nbdfuse", "fusermount3", "losetup", "mkfs.ext4", "e2fsck", "mount", "umount")


def _missing() -> str:
    if lacking := nbd_server.missing(*PROGRAMS):
        return lacking
    if os.geteuid() != 0:
        return "mounting needs root"
    if not all(Path(path).exists() for path in ("/dev/fuse", "/dev/loop-control")):
        return "no /dev/fuse or no loop devices"
    return ""


pytestmark = pytest.mark.skipif(bool(_missing()), reason=_missing() or "-")


def _run(*command: str | Path, check: bool = True) -> str:
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 or not check, f"{command}: {done.stderr}"
    return done.stdout.strip()


@contextlib.contextmanager
def _disk(drive: nbd_server.Served, folder: Path) -> Iterator[str]:
    """The drive as a block device."""
    bytes_there, ready = folder / "bytes", folder / "nbdfuse.pid"
    bytes_there.mkdir(exist_ok=True)
    fuse = subprocess.Popen(
        ["nbdfuse", "-P", str(ready), str(bytes_there / "drive"), drive.uri],
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: ready.exists() or fuse.poll() is not None)
        assert fuse.poll() is None, "nbdfuse did not start"
        device = _run("losetup", "--find", "--show", bytes_there / "drive")
        try:
            yield device
        finally:
            _run("losetup", "--detach", device, check=False)
    finally:
        _run("fusermount3", "-u", "-z", bytes_there, check=False)
        fuse.terminate()
        fuse.wait()
        ready.unlink(missing_ok=True)


@contextlib.contextmanager
def _mounted(device: str, folder: Path) -> Iterator[Path]:
    here = folder / "mounted"
    here.mkdir(exist_ok=True)
    _run("mount", "-t", "ext4", device, here)
    try:
        yield here
    finally:
        _run("umount", here, check=False)


@contextlib.contextmanager
def _unflushed_writes(file: Path) -> Iterator[None]:
    """Meanwhile somebody overwrites a file, past the page cache and without ever a flush."""
    block = mmap.mmap(-1, 4096)  # aligned, as O_DIRECT wants it
    over = threading.Event()

    def write(fd: int) -> None:
        rng = random.Random(1)
        # Ends with the power at the latest.
        with contextlib.suppress(OSError):
            # Not so often that commits have no turn.
            while not over.wait(0.002):
                block[:8] = rng.randbytes(8)
                os.pwrite(fd, block, rng.randrange(SCRATCH_BYTES // 4096) * 4096)

    fd = os.open(file, os.O_WRONLY | os.O_DIRECT)
    writer = threading.Thread(target=write, args=(fd,))
    writer.start()
    try:
        yield
    finally:
        over.set()
        writer.join()
        os.close(fd)


def _commit_until_cut(database: Path, first: int, cut: threading.Timer) -> int:
    """Commits row after row; returns the last that was acknowledged."""
    row = first
    db = sqlite3.connect(database, isolation_level=None, timeout=1)
    try:
        # With FULL the unlinking of the journal is not synced, and the last commit may be undone.
        db.execute("PRAGMA synchronous=EXTRA")
        while True:
            db.execute("INSERT INTO rows VALUES (?, ?)", (row + 1, os.urandom(200)))
            row += 1
            if row == first + 1:
                cut.start()
    except sqlite3.Error:
        return row
    finally:
        with contextlib.suppress(sqlite3.Error):
            db.close()


def _rows(database: Path) -> int:
    """The rows of a sound database, which are the first so many."""
    with contextlib.closing(sqlite3.connect(database)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        count, last = db.execute("SELECT count(*), max(number) FROM rows").fetchone()
        assert count == (last or 0)
        return int(count)


def _tell_losses(folder: Path, cuts: int, *options: str) -> list[str]:
    """What was lost of the acknowledged, cut by cut, in words; ends at the first such loss."""
    rng = random.Random(7)
    said: list[dict[str, Any]] = []
    pace = ("--pace", "none")  # the more commits there are before a cut, the better the test
    with nbd_server.served(folder, *pace, *options) as drive:
        with _disk(drive, folder) as device:
            _run("mkfs.ext4", "-q", "-F", device, "64M")
            with _mounted(device, folder) as here:
                with contextlib.closing(sqlite3.connect(here / "db")) as db:
                    db.execute("CREATE TABLE rows (number INTEGER PRIMARY KEY, filling BLOB)")
                    db.commit()
                (here / "scratch").write_bytes(bytes(SCRATCH_BYTES))
                subprocess.run(["sync", "-f", str(here)], check=True)
        acknowledged = 0
        for number in range(cuts + MORE_CUTS + 1):
            over = number >= cuts and any(cut["lost_bytes"] for cut in said)
            try:
                with _disk(drive, folder) as device, _mounted(device, folder) as here:
                    found = _rows(here / "db")
                    if found < acknowledged:
                        return [f"{acknowledged} rows were acknowledged, {found} are there"]
                    if over:
                        break
                    wait_s = rng.uniform(0.01, 0.5)
                    cut = threading.Timer(wait_s, lambda: said.append(drive.say("power-cut")))
                    with _unflushed_writes(here / "scratch"):
                        acknowledged = _commit_until_cut(here / "db", found, cut)
                    cut.join()
                    assert acknowledged > 0
            except (AssertionError, sqlite3.Error) as problem:
                return [f"after cut {number}: {problem}"]
        with _disk(drive, folder) as device:
            _run("e2fsck", "-f", "-n", device)
        assert drive.end()["power_cuts"] == len(said)
    lost = [cut["lost_bytes"] for cut in said]
    print(
        f"{len(said)} cuts, {' '.join(options)}: {acknowledged} commits; "
        f"{sum(lost) / 1e6:.1f} MB lost, by {sum(map(bool, lost))} of the cuts"
    )
    # Otherwise the cuts would have tried nothing.
    assert any(lost)
    return []


@pytest.mark.parametrize("loss", ["all", "random", "unflushed"])
def test_nothing_acknowledged_is_lost(tmp_path: Path, loss: str) -> None:
    assert _tell_losses(tmp_path, CUTS, "--loss", loss) == []


def test_a_lying_drive_is_caught(tmp_path: Path) -> None:
    assert _tell_losses(tmp_path, 5, "--set", "ignore_flush")
