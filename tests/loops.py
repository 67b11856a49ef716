"""Loop devices for tests: made, given to the test, taken away again. Needs root."""

from __future__ import annotations

import base64
import errno
import fcntl
import hashlib
import json
import os
import stat
import struct
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
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
def no_loop_taken() -> Iterator[None]:
    """Other tests take no free loop device meanwhile. losetup opens what it finds for writing, and
    may find what another test is about to look at."""
    with CONTROL.open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def loop(path: Path, *options: str) -> Iterator[str]:
    """A loop device over the file; detached at the end."""
    with no_loop_taken():
        device = run("losetup", "--find", "--show", *options, str(path))
    try:
        yield device
    finally:
        run("losetup", "--detach", device)


def moved(device: str, path: Path) -> None:
    """Put a loop device over another file, before another test finds it free."""
    with no_loop_taken():
        run("losetup", "--detach", device)
        run("losetup", device, str(path))


READ_ONLY = ("-o", "ro,noload")


@contextmanager
def mounted(device: str, folder: Path, *options: str) -> Iterator[Path]:
    """The device's file system, mounted; with READ_ONLY it writes nothing by itself."""
    folder.mkdir(exist_ok=True)
    with _mounts(fcntl.LOCK_SH):
        run("mount", *options, device, str(folder))
        try:
            yield folder
        finally:
            run("umount", str(folder))


def no_mounts() -> AbstractContextManager[None]:
    """No test has anything mounted meanwhile. A mount namespace that is made begins with all mounts
    there are, and while it lives holds their devices, whoever unmounts them here."""
    return _mounts(fcntl.LOCK_EX)


@contextmanager
def _mounts(how: int) -> Iterator[None]:
    folder = os.open(Path(__file__).parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, how)
        yield
    finally:
        os.close(folder)


ZEROS = bytes(2**22)
LOOP_GET_STATUS64 = 0x4C05


def _behind(fd: int) -> Path | None:
    """The file over which a loop device, or that of a partition, lies, if its name still is its."""
    number = os.fstat(fd).st_rdev
    here = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve()
    folder = here if (here / "loop").is_dir() else here.parent
    try:
        file = Path((folder / "loop/backing_file").read_text().removesuffix("\n"))
        found = file.stat()
        device, inode = struct.unpack_from("QQ", fcntl.ioctl(fd, LOOP_GET_STATUS64, bytes(232)))
    except OSError:
        return None
    return file if (found.st_dev, found.st_ino) == (device, inode) else None


def content(path: Path) -> str:
    """A digest of the bytes of a file or device, not of where a file's holes are. Those of a loop
    device are read where they lie, past its holes, once all that was written to it is there."""
    sha = hashlib.sha256()
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
        device = stat.S_ISBLK(os.fstat(fd).st_mode)
        if device and (behind := _behind(fd)):
            return content(behind)
        size = os.lseek(fd, 0, os.SEEK_END)
        at = 0
        while at < size:
            try:
                at = at if device else os.lseek(fd, at, os.SEEK_DATA)
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
                break  # nothing but a hole up to the end
            at -= at % len(ZEROS)
            block = os.pread(fd, len(ZEROS), at)
            # To compare is many times as fast as to hash.
            if block != ZEROS[: len(block)]:
                sha.update(f"{at}".encode() + block)
            at += len(ZEROS)
    finally:
        os.close(fd)
    return f"{size} {sha.hexdigest()}"


def digest(path: Path) -> str:
    """A digest of a file's size, its content, and where it has none (holes); of a device's content,
    as it does not tell where it has none."""
    if stat.S_ISBLK(path.stat().st_mode):
        return content(path)
    sha = hashlib.sha256()
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
        # What was allocated, but never written, counts as data while memory has it.
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        size = os.lseek(fd, 0, os.SEEK_END)
        at = 0
        while at < size:
            try:
                begin = os.lseek(fd, at, os.SEEK_DATA)
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
                break
            at = os.lseek(fd, begin, os.SEEK_HOLE)
            sha.update(f"{begin} {at}".encode())
        sha.update(content(path).encode())
    finally:
        os.close(fd)
    return f"{size} {sha.hexdigest()}"
