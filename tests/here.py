"""The command line in this process, which has all modules already: as a user meets it, but for how
a process begins and ends."""

from __future__ import annotations

import contextlib
import io
import subprocess
from pathlib import Path

from drivebay.cli.entry import run

DATA = Path(__file__).parent / "data"
Output = io.StringIO
"""Class of the standard output; a test may take one that is a terminal."""


def drivebay(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Runs `drivebay` with these words in a folder to its end, without a terminal."""
    out, err = Output(), io.StringIO()
    with (
        contextlib.chdir(cwd),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            code = run(list(words))
        except SystemExit as end:
            code = int(end.code or 0)
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())
