"""A served drive for the interop tests: `drivebay serve` as a process, and its control socket."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import here
from waiting import wait_until

PROGRAM = (sys.executable, "-c", "from drivebay.cli import main; main()")


def missing(*programs: str) -> str:
    """What is not installed, in words; "" if nothing is missing."""
    lacking = [name for name in programs if shutil.which(name) is None]
    return f"not installed: {', '.join(lacking)}" if lacking else ""


class Served:
    """A running `drivebay serve`; its sockets lie in `folder`."""

    def __init__(self, folder: Path, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.socket = folder / "nbd.sock"
        self.control = folder / "control.sock"
        self.uri = f"nbd+unix:///?socket={self.socket}"

    def say(self, line: str) -> dict[str, Any]:
        """One command to the control socket, and its answer."""
        with socket.socket(socket.AF_UNIX) as talk:
            talk.connect(str(self.control))
            talk.sendall(f"{line}\n".encode())
            answer: dict[str, Any] = json.loads(talk.makefile().readline())
        return answer

    def answers(self) -> bool:
        """Whether it serves: its socket is there before it listens, and a signal until it serves
        ends it while it begins."""
        try:
            return bool(self.say("status"))
        except (OSError, ValueError):
            return False

    def ctl(self, *words: str) -> subprocess.CompletedProcess[str]:
        """`drivebay ctl` to its end, in this process."""
        return here.drivebay("ctl", str(self.control), *words, cwd=self.control.parent)

    def end(self) -> dict[str, Any]:
        """Stops it; its last figures."""
        self.process.send_signal(signal.SIGTERM)
        out, err = self.process.communicate()
        assert self.process.returncode == 0, err
        figures: dict[str, Any] = json.loads(out)
        return figures


@contextlib.contextmanager
def served(folder: Path, *options: str, drive: str = "sm951-ahci-512") -> Iterator[Served]:
    """Serves `drive` over NBD until the end of the block."""
    command = [
        *PROGRAM,
        *("serve", drive, "--json", "--nbd", f"unix:{folder / 'nbd.sock'}"),
        *("--control", f"unix:{folder / 'control.sock'}", *options),
    ]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder
    )
    one = Served(folder, process)
    try:
        wait_until(lambda: one.answers() or process.poll() is not None)
        assert process.poll() is None, process.communicate()
        yield one
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()
