#!/usr/bin/env python3
"""Runs a program and sends a mark to the recording for each line `mark TEXT` that it prints.

usage: marks.py COMMAND...

The program waits for a line on its standard input after each mark: what it does later is recorded
after the mark. A first mark, `mounted`, is sent before the program starts.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys


def mark(text: str) -> None:
    """Sends a mark to the recording."""
    with socket.socket(socket.AF_UNIX) as control:
        control.connect(os.environ["DRIVEBAY_CONTROL"])
        control.sendall(f"mark {text}\n".encode())
        control.recv(4096)


def main() -> int:
    mark("mounted")
    pipe = subprocess.PIPE
    with subprocess.Popen(sys.argv[1:], stdin=pipe, stdout=pipe, text=True) as program:
        assert program.stdin is not None and program.stdout is not None
        for line in program.stdout:
            if line.startswith("mark "):
                mark(line.removeprefix("mark ").strip())
                print(file=program.stdin, flush=True)
            else:
                print(line, end="", file=sys.stderr)
    return program.returncode


if __name__ == "__main__":
    sys.exit(main())
