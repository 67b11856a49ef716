"""btrfs on two served drives repairs what one of them cannot read any more, once and for all."""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import nbd_server
import pytest
from loops import loop, run
from nbd_server import Served, served
from waiting import wait_until

MIB = 1 << 20
PROGRAMS = ("nbdfuse", "nbdinfo", "fusermount3", "losetup", "mkfs.btrfs", "btrfs", "mount")


def _missing() -> str:
    if lacking := nbd_server.missing(*PROGRAMS):
        return lacking
    if os.geteuid() != 0 or not Path("/dev/fuse").exists():
        return "mounting needs root, and /dev/fuse"
    known = Path("/proc/filesystems").read_text(encoding="utf-8").split()
    return "" if "btrfs" in known else "the kernel has no btrfs (modprobe btrfs)"


pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(bool(_missing()), reason=_missing() or "-"),
]


@contextlib.contextmanager
def _disk(drive: Served) -> Iterator[str]:
    """A served drive as a block device; nothing of it is in the kernel's caches."""
    folder = drive.socket.parent
    bytes_there, ready = folder / "bytes", folder / "nbdfuse.pid"
    bytes_there.mkdir(exist_ok=True)
    fuse = subprocess.Popen(
        ["nbdfuse", "-P", str(ready), str(bytes_there / "drive"), drive.uri],
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: ready.exists() or fuse.poll() is not None)
        with loop(bytes_there / "drive") as device:
            yield device
    finally:
        run("fusermount3", "-u", "-z", str(bytes_there))
        fuse.terminate()
        fuse.wait()
        ready.unlink(missing_ok=True)


@contextlib.contextmanager
def _mounted(here: Path, drives: Sequence[Served], *make: str) -> Iterator[None]:
    """The drives' file system; `make` is the command that makes it before."""
    here.mkdir(exist_ok=True)
    with contextlib.ExitStack() as disks:
        devices = [disks.enter_context(_disk(drive)) for drive in drives]
        if make:
            run(*make, *devices)
        run("btrfs", "device", "scan", *devices)
        run("mount", "-t", "btrfs", devices[0], str(here))
        try:
            yield
        finally:
            run("umount", str(here))
            run("btrfs", "device", "scan", "--forget", *devices)


def _scrub(here: Path) -> dict[str, int]:
    """What a scrub has found, by name."""
    done = subprocess.run(
        ["btrfs", "scrub", "start", "-B", "-R", str(here)],
        capture_output=True,
        text=True,
        check=False,
    )
    lines = (line.split(":") for line in done.stdout.splitlines() if "_errors:" in line)
    return {name.strip(): int(value) for name, value in lines}


def _data_from(drive: Served) -> int:
    """Where the one long run of data begins, bytes."""
    extents = json.loads(run("nbdinfo", "--map", "--json", drive.uri))
    data = (one for one in extents if one["type"] == 0 and int(one["length"]) > 30 * MIB)
    return int(next(data)["offset"])


def test_a_scrub_repairs_what_cannot_be_read(tmp_path: Path) -> None:
    here, written = tmp_path / "here", random.Random(1).randbytes(64 * MIB)
    with contextlib.ExitStack() as servers:
        drives = []
        for name in ("a", "b"):
            (tmp_path / name).mkdir()
            options = ("--pace", "none")
            one = servers.enter_context(served(tmp_path / name, *options, drive="sm951-ahci-128"))
            drives.append(one)
        with _mounted(here, drives, "mkfs.btrfs", "-q", "-K", "-d", "raid1", "-m", "raid1"):
            (here / "file").write_bytes(written)
        lba = (_data_from(drives[0]) + 16 * MIB) // 512
        fault = {"kind": "read-error", "lba": lba, "sectors": 2048}
        assert drives[0].say("fault " + json.dumps(fault)) == {"faults": 1}
        with _mounted(here, drives):
            found = _scrub(here)
            assert found["read_errors"] == found["corrected_errors"] == 256
            assert found["uncorrectable_errors"] == 0
        with _mounted(here, drives):
            assert not any(_scrub(here).values())
            assert (here / "file").read_bytes() == written
