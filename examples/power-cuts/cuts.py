"""Cuts the power of a served drive, again and again, under a program that commits records.

Each round the drive is attached (nbdfuse, a loop device), its file system mounted, and all records
that were acknowledged before are looked for. Then the program commits until the power fails at a
random moment, while a second writer keeps the drive's buffer full of data that nobody flushes. A
record that was acknowledged and is not there ends the run with exit code 1.

Needs Linux, root, FUSE, loop devices, and `drivebay`, `nbdfuse` (libnbd), `fusermount3` on PATH.
Standard library only, so that the scripts can be copied into another project.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import mmap
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path

SCRATCH_BYTES = 4 << 20
FILE_SYSTEMS = {
    "ext4": (["mkfs.ext4", "-q", "-F"], ["e2fsck", "-f", "-n"]),
    "xfs": (["mkfs.xfs", "-q", "-f"], ["xfs_repair", "-n"]),
}
"""What makes a file system, and what checks it without writing."""
WAIT_S = 60.0
MORE_CUTS = 20
"""A cut right after a flush finds nothing to take: so many more, at most, until one has."""


class Lost(Exception):
    """Something that was acknowledged is gone, or what is there is damaged."""


class Failed(SystemExit):
    """A command that failed; ends the script with its message."""


class Program(ABC):
    """What runs on the drive: it commits records 1, 2, 3, ... and can count them."""

    def __init__(self, asked: argparse.Namespace) -> None:
        self.fsync: bool = not asked.no_fsync

    @abstractmethod
    def create(self, folder: Path) -> None:
        """Makes what is needed on an empty file system."""

    @abstractmethod
    def count(self, folder: Path) -> int:
        """How many records are there; raises `Lost` if one is missing or damaged."""

    @abstractmethod
    def commit(self, folder: Path, last: int, begun: Callable[[], None]) -> int:
        """Commits records behind `last` until that fails, calls `begun` after the first; the last
        that was acknowledged."""


def command(*words: str | Path, check: bool = True) -> str:
    """Runs a command; its output."""
    done = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, check=False
    )
    if check and done.returncode != 0:
        raise Failed(f"error: {words[0]}: {(done.stderr or done.stdout).strip()}")
    return done.stdout.strip()


def wait_for(ready: Callable[[], bool], what: str) -> None:
    """Waits until it is so; a machine under load may take its time."""
    end = time.monotonic() + WAIT_S
    while not ready():
        if time.monotonic() > end:
            raise SystemExit(f"error: {what} within {WAIT_S:.0f} s")
        time.sleep(0.02)


def loop_device(file: Path) -> str:
    """A loop device over a file. One process at a time looks for a free one, as far as the others
    do likewise; another one may still take it first."""
    end = time.monotonic() + WAIT_S
    while True:
        with open("/dev/loop-control", "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            found = subprocess.run(
                ["losetup", "--find", "--show", str(file)],
                capture_output=True,
                text=True,
                check=False,
            )
        if found.returncode == 0:
            return found.stdout.strip()
        if "busy" not in found.stderr or time.monotonic() > end:
            raise SystemExit(f"error: {found.stderr.strip()}")
        time.sleep(0.1)


class Bay:
    """A served drive, and the folder in which it is mounted."""

    def __init__(self, folder: Path, asked: argparse.Namespace) -> None:
        self.folder, self.kind = folder, asked.filesystem
        self.control = folder / "control.sock"
        words = ["drivebay", "serve", asked.drive, "--nbd", f"unix:{folder / 'nbd.sock'}"]
        words += ["--control", f"unix:{self.control}", "--loss", asked.loss, "--pace", asked.pace]
        for change in asked.set:
            words += ["--set", change]
        log = folder / "server.log"
        with log.open("w") as file:
            self.server = subprocess.Popen(words, stdout=file, stderr=file)
        wait_for(lambda: self.control.exists() or self.server.poll() is not None, "no server")
        if self.server.poll() is not None:
            raise SystemExit(log.read_text().strip())

    def cut(self) -> int:
        """Cuts the power; how many bytes that were not flushed are lost."""
        said = command("drivebay", "ctl", self.control, "power-cut", "--json")
        return int(json.loads(said)["lost_bytes"])

    @contextlib.contextmanager
    def disk(self) -> Iterator[str]:
        """The drive as a block device."""
        there, ready = self.folder / "bytes", self.folder / "nbdfuse.pid"
        there.mkdir(exist_ok=True)
        uri = f"nbd+unix:///?socket={self.folder / 'nbd.sock'}"
        quiet = subprocess.DEVNULL
        fuse = subprocess.Popen(["nbdfuse", "-P", ready, there / "drive", uri], stderr=quiet)
        try:
            wait_for(lambda: ready.exists() or fuse.poll() is not None, "nbdfuse did not start")
            device = loop_device(there / "drive")
            try:
                yield device
            finally:
                command("losetup", "--detach", device, check=False)
        finally:
            command("fusermount3", "-u", "-z", there, check=False)
            fuse.terminate()
            fuse.wait()
            ready.unlink(missing_ok=True)

    @contextlib.contextmanager
    def mounted(self, device: str) -> Iterator[Path]:
        """The drive's file system."""
        here = self.folder / "mounted"
        here.mkdir(exist_ok=True)
        command("mount", "-t", self.kind, device, here)
        try:
            yield here
        finally:
            # A program that has just been killed may hold it for a moment.
            wait_for(lambda: _unmounted(here), f"{here} stays mounted")

    def end(self) -> None:
        self.server.send_signal(signal.SIGTERM)
        self.server.wait()


def _unmounted(folder: Path) -> bool:
    """Unmounts; whether it is. Its own entry cannot be read while its drive is away."""
    command("umount", folder, check=False)
    return str(folder) not in Path("/proc/self/mounts").read_text().split()


@contextlib.contextmanager
def unflushed_writes(file: Path) -> Iterator[None]:
    """Meanwhile somebody overwrites a file, past the page cache and without ever a flush."""
    block = mmap.mmap(-1, 4096)  # aligned, as O_DIRECT wants it
    over = threading.Event()

    def write(fd: int) -> None:
        rng = random.Random(1)
        with contextlib.suppress(OSError):  # ends with the power at the latest
            while not over.wait(0.002):
                block[:8] = rng.randbytes(8)
                os.pwrite(fd, block, rng.randrange(SCRATCH_BYTES // 4096) * 4096)

    try:
        fd = os.open(file, os.O_WRONLY | os.O_DIRECT)
    except OSError as problem:
        raise Lost(f"the file system is damaged: {problem}") from None
    writer = threading.Thread(target=write, args=(fd,))
    writer.start()
    try:
        yield
    finally:
        over.set()
        writer.join()
        os.close(fd)


def _rounds(program: Program, bay: Bay, cuts: int, seed: int) -> tuple[int, list[int]]:
    """Acknowledged records, and the bytes that each cut took."""
    make, check = FILE_SYSTEMS[bay.kind]
    rng = random.Random(seed)
    with bay.disk() as device:
        size = ["512M"] if bay.kind == "ext4" else ["-d", "size=512m"]
        command(*make, *([device, *size] if bay.kind == "ext4" else [*size, device]))
        with bay.mounted(device) as here:
            program.create(here)
            (here / "scratch").write_bytes(bytes(SCRATCH_BYTES))
            command("sync", "-f", here)
    acknowledged = 0
    taken: list[int] = []
    for number in range(cuts + MORE_CUTS + 1):
        with bay.disk() as device, contextlib.ExitStack() as stack:
            try:
                here = stack.enter_context(bay.mounted(device))
            except Failed as problem:
                raise Lost(f"the file system does not mount: {problem}") from None
            try:
                found = program.count(here)
            except OSError as problem:
                raise Lost(f"the file system is damaged: {problem}") from None
            if found < acknowledged:
                raise Lost(f"{acknowledged} records were acknowledged, {found} are there")
            if number >= cuts and (any(taken) or number == cuts + MORE_CUTS):
                break
            timer = threading.Timer(rng.uniform(0.01, 0.5), lambda: taken.append(bay.cut()))
            with unflushed_writes(here / "scratch"):
                acknowledged = program.commit(here, found, timer.start)
            if timer.ident is None:
                raise Lost(f"nothing can be committed after record {found}")
            timer.join()
        if sys.stderr.isatty():
            print(f"\r{number + 1} cuts, {acknowledged} records", end="", file=sys.stderr)
    with bay.disk() as device:
        try:
            command(*check, device)
        except Failed as problem:
            raise Lost(f"the file system is damaged: {problem}") from None
    if not any(taken):
        raise SystemExit("error: no cut found anything to take; it has proved nothing")
    return acknowledged, taken


def main(program: Callable[[argparse.Namespace], Program], doc: str, filesystem: str = "") -> None:
    """The command line of an example."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--cuts", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1, help="of the moments of the cuts")
    parser.add_argument("--drive", default="sm951-ahci-512")
    parser.add_argument("--set", action="append", default=[], help="change it: ignore_flush")
    parser.add_argument("--loss", default="all", choices=["all", "random", "unflushed"])
    parser.add_argument("--pace", default="none", help="hybrid: at the drive's own speed")
    parser.add_argument("--no-fsync", action="store_true", help="the program flushes nothing")
    if filesystem:
        parser.set_defaults(filesystem=filesystem)
    else:
        parser.add_argument("--filesystem", default="ext4", choices=list(FILE_SYSTEMS))
    asked = parser.parse_args()
    lacking = [name for name in ("drivebay", "nbdfuse", "fusermount3") if not shutil.which(name)]
    if lacking or os.geteuid() != 0:
        what = f"{', '.join(lacking)} not on PATH" if lacking else "mounting needs root"
        raise SystemExit(
            f"error: {what}\nhint: apt-get install libnbd-bin fuse3; sudo -E {sys.argv[0]}"
        )
    with tempfile.TemporaryDirectory(prefix="power-cuts-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # a database runs as a user of its own
        bay = Bay(folder, asked)
        try:
            records, taken = _rounds(program(asked), bay, asked.cuts, asked.seed)
        except Lost as problem:
            print(f"LOST: {problem}")
            raise SystemExit(1) from None
        finally:
            bay.end()
    empty = sum(1 for lost in taken if not lost)
    print(
        f"{len(taken)} power cuts, {records} records acknowledged, none lost; the cuts took "
        f"{sum(taken) / 1e3:,.0f} kB that nobody had flushed ({empty} of them nothing)"
    )
