"""Recording of a workload on a served drive."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from drivebay import serving
from drivebay.common.errors import EnvironmentProblem
from drivebay.common.files import system_errors

FUSE_WAIT_S = 30.0
DISK = "{}"


def record(drive: serving.Drive, out: Path, command: Sequence[str]) -> int:
    """Runs a command on a served drive, records the drive's commands, and returns the exit code.

    The command finds the drive at $DRIVEBAY_NBD, a URI, and $DRIVEBAY_CONTROL, the control socket,
    which takes `mark TEXT`. {} in the command stands for a file with the drive's bytes, made by
    libnbd's nbdfuse: writes go to the drive at once, fsync is a flush. Raises UserError if the file
    exists, or an option is not possible; EnvironmentProblem if the command or nbdfuse is missing.
    `drive`: the served drive. `out`: the recording, a new file. `command`: words, without a shell.
    """
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
        }
        words = list(command)
        with contextlib.ExitStack() as resources:
            server = serving.Server([replace(drive, record=out)], options)
            resources.enter_context(_served(server))
            if any(DISK in word for word in words):
                disk = resources.enter_context(_disk(uri, folder))
                words = [word.replace(DISK, str(disk)) for word in words]
                environment["DRIVEBAY_DISK"] = str(disk)
            with system_errors(
                f"{words[0]} cannot be started", "the command stands behind --, its program first"
            ):
                return subprocess.run(words, env=environment, check=False).returncode


@contextlib.contextmanager
def _served(server: serving.Server) -> Iterator[None]:
    """Serves during the block; raises the error with which the server ended."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            server.run()
        except BaseException as problem:
            failed.append(problem)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        server.stop()
        thread.join()
    if failed:
        raise failed[0]


@contextlib.contextmanager
def _disk(uri: str, folder: Path) -> Iterator[Path]:
    """Provides a file with the drive's bytes."""
    if not shutil.which("nbdfuse") or not shutil.which("fusermount3"):
        raise EnvironmentProblem(
            "{} in the command needs nbdfuse", "apt-get install libnbd-bin fuse3, or $DRIVEBAY_NBD"
        )
    there, ready = folder / "bytes", folder / "nbdfuse.pid"
    there.mkdir()
    words = ["nbdfuse", "-P", str(ready), str(there / "drive"), uri]
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
