"""Loop devices for tests: made, given to the test, taken away again. Needs root."""

from __future__ import annotations

import base64
import errno
import fcntl
import hashlib
import json
import os
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="loop devices need root: run this as root, e.g. sudo make test"
)
CONTROL = Path("/dev/loop-control")
SIGNATURES = json.loads((Path(__file__).parent / "data" / "signatures.json").read_text())


def run(*command: str) -> str:
    """Run a command that must succeed; its output."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (command, done.stderr)
    return done.stdout.strip()


def sparse(path: Path, size_bytes: int) -> Path:
    """An empty file of this size that takes no space."""
    with path.open("wb") as file:
        file.truncate(size_bytes)
    return path


def with_signature(path: Path, name: str) -> Path:
    """A 512 MiB file with just the sectors that make mkfs and its kin's work recognizable; they
    were recorded from the real tools."""
    sparse(path, SIGNATURES["size_bytes"])
    with path.open("r+b") as file:
        for offset, data in SIGNATURES["sectors"][name].items():
            file.seek(int(offset))
            file.write(base64.b64decode(data))
    return path


@contextmanager
def loop(path: Path, *options: str) -> Iterator[str]:
    """A loop device over the file; detached at the end. One process at a time looks for a free one:
    losetup opens what it finds for writing, and may find what another is about to test."""
    with CONTROL.open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        device = run("losetup", "--find", "--show", *options, str(path))
    try:
        yield device
    finally:
        run("losetup", "--detach", device)


def moved(device: str, path: Path) -> None:
    """Put a loop device over another file, before another test finds it free."""
    with CONTROL.open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        run("losetup", "--detach", device)
        run("losetup", device, str(path))


READ_ONLY = ("-o", "ro,noload")


@contextmanager
def mounted(device: str, folder: Path, *options: str) -> Iterator[Path]:
    """The device's file system, mounted; with READ_ONLY it writes nothing by itself."""
    folder.mkdir(exist_ok=True)
    run("mount", *options, device, str(folder))
    try:
        yield folder
    finally:
        run("umount", str(folder))


ZEROS = bytes(2**22)


def digest(path: Path) -> str:
    """A digest of a file's size, its content, and where it has none (holes); of a device's size and
    content, as devices do not tell where they have none."""
    sha = hashlib.sha256()
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
        # What was allocated, but never written, counts as data while memory has it.
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        device = stat.S_ISBLK(os.fstat(fd).st_mode)
        size = os.lseek(fd, 0, os.SEEK_END)
        at = 0
        while at < size:
            try:
                begin = at if device else os.lseek(fd, at, os.SEEK_DATA)
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
                break  # nothing but a hole up to the end
            at = size if device else os.lseek(fd, begin, os.SEEK_HOLE)
            sha.update(f"{begin} {at}".encode())
            while begin < at:
                block = os.pread(fd, min(len(ZEROS), at - begin), begin)
                # Most of a device is zeros, and to compare is many times as fast as to hash.
                sha.update(b"zeros" if block == ZEROS else block)
                begin += len(block)
    finally:
        os.close(fd)
    return f"{size} {sha.hexdigest()}"
