"""Recording of a workload on a served drive."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import random
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from drivebay import serving
from drivebay.common import threads
from drivebay.common.errors import EnvironmentProblem
from drivebay.common.files import refuse_existing, system_errors
from drivebay.crash import calls

FUSE_WAIT_S = 30.0
DISK = "{}"
# sync_file_range(2): writes the data of a file back, without a flush of the drive.
WRITE_AND_WAIT = 7


def record(drive: serving.Drive, out: Path, command: Sequence[str], writeback: float = 0.0) -> int:
    """Runs a command on a served drive, records the drive's commands, and returns the exit code.

    The command finds the drive at $DRIVEBAY_NBD, a URI, and $DRIVEBAY_CONTROL, the control socket,
    which takes `mark TEXT`. $DRIVEBAY_STRACE, in front of a command, traces its system calls. {} in
    the command stands for a file with the drive's bytes, made by libnbd's nbdfuse: writes go to the
    drive at once, fsync is a flush. Raises UserError if the file exists, or an option is not
    possible; EnvironmentProblem if the command or nbdfuse is missing.
    `drive`: the served drive; without data, {} sends one request at a time. `out`: the recording, a
    new file. `command`: words, without a shell. `writeback`: times a second at which files of the
    command are written back.
    """
    refuse_existing(out, "recording")
    with tempfile.TemporaryDirectory(prefix="drivebay-crash-") as name:
        folder = Path(name)
        options = serving.Options(
            nbd=(f"unix:{folder / 'nbd.sock'}",), control=f"unix:{folder / 'control.sock'}"
        )
        uri = f"nbd+unix:///?socket={folder / 'nbd.sock'}"
        environment = {
            **os.environ,
            "DRIVEBAY_NBD": uri,
            "DRIVEBAY_CONTROL": str(folder / "control.sock"),
            "DRIVEBAY_STRACE": f"{calls.COMMAND} {shlex.quote(f'{out.absolute()}.strace')}",
        }
        words = list(command)
        with contextlib.ExitStack() as resources:
            server = serving.Server([replace(drive, record=out)], options)
            resources.enter_context(_served(server))
            if any(DISK in word for word in words):
                disk = resources.enter_context(_disk(uri, folder, drive.requests_only))
                words = [word.replace(DISK, str(disk)) for word in words]
                environment["DRIVEBAY_DISK"] = str(disk)
            with system_errors(
                f"{words[0]} cannot be started", "the command stands behind --, its program first"
            ):
                process = subprocess.Popen(words, env=environment)
            if writeback:
                call = functools.partial(_write_back, process.pid, random.Random(1))
                resources.enter_context(threads.repeated(call, every_s=1 / writeback))
            with process:
                return process.wait()


@contextlib.contextmanager
def _served(server: serving.Server) -> Iterator[None]:
    """Serves during the block; raises the error with which the server ended."""
    with ThreadPoolExecutor(1) as thread:
        serves = thread.submit(server.run)
        try:
            yield
        finally:
            server.stop()
    serves.result()


@contextlib.contextmanager
def _disk(uri: str, folder: Path, in_turn: bool) -> Iterator[Path]:
    """Provides a file with the drive's bytes. `in_turn`: True for one request at a time."""
    if not shutil.which("nbdfuse") or not shutil.which("fusermount3"):
        raise EnvironmentProblem(
            "{} in the command needs nbdfuse", "apt-get install libnbd-bin fuse3, or $DRIVEBAY_NBD"
        )
    there, ready = folder / "bytes", folder / "nbdfuse.pid"
    there.mkdir()
    words = ["nbdfuse", *["-s"] * in_turn, "-P", str(ready), str(there / "drive"), uri]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as fuse:
        try:
            end = time.monotonic() + FUSE_WAIT_S
            while not ready.exists():
                if fuse.poll() is not None or time.monotonic() > end:
                    raise EnvironmentProblem("nbdfuse does not start", "ls -l /dev/fuse")
                time.sleep(0.01)
            yield there / "drive"
        finally:
            subprocess.run(["fusermount3", "-u", "-z", str(there)], check=False)
            fuse.terminate()


def _write_back(root: int, choose: random.Random) -> None:
    """Writes half of the open files of a process and its children back, and syncs half of their
    working folders, as the kernel's write-back and another program's fsync do on a busy machine.

    Left out: processes inside of a guest system, and files that are closed.
    """
    sync_file_range, whole = ctypes.CDLL(None).sync_file_range, ctypes.c_int64(0)
    pids = [root]
    for pid in pids:
        with contextlib.suppress(OSError):
            pids += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
            for path in (Path(f"/proc/{pid}/cwd"), *Path(f"/proc/{pid}/fd").iterdir()):
                is_folder = path.is_dir()
                if choose.random() < 0.5 and (is_folder or path.is_file()):
                    file = os.open(path, os.O_RDONLY)
                    if is_folder:
                        os.fsync(file)
                    else:
                        sync_file_range(file, whole, whole, WRITE_AND_WAIT)
                    os.close(file)
