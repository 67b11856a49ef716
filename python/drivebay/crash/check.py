"""The user's check on one state: a command with a time limit; its exit code is the verdict."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from drivebay import _core
from drivebay.common.files import system_errors
from drivebay.common.inotify import IN_CLOSE_WRITE, Watch

DISK = "{}"
# Bytes of a check's output that are kept: the last ones.
SAID_MAX = 2000


@dataclass(frozen=True)
class Verdict:
    """Verdict of a check on a state; `exit_code` is None if the check hung and was killed."""

    kind: Literal["pass", "fail", "hang"]
    exit_code: int | None
    said: str

    @property
    def failed(self) -> bool:
        """True if the check did not pass; a check that hangs has failed."""
        return self.kind != "pass"

    @property
    def alike(self) -> str:
        """Key that is equal for checks that failed alike: exit code and last line, without numbers
        and paths.
        """
        words = re.sub(r"\S*[/0-9]\S*", "#", (self.said.splitlines() or [""])[-1])
        return f"{self.kind} {self.exit_code} {words}"


class Checker:
    """Runs a check on one state after the other, in a file that it owns.

    Parameters
    ----------
    states : the recording.
    words : the check's command, in which {} is the file with the state.
    timeout_s : a check that takes longer hangs.
    folder : where the file is made.
    """

    def __init__(
        self, states: _core.CrashStates, words: Sequence[str], timeout_s: float, folder: Path
    ) -> None:
        self._states, self._words, self._timeout_s = states, words, timeout_s
        self._folder = folder
        self._begin_file()

    def _begin_file(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="state-", dir=self._folder)) / "state"
        self._view = _core.CrashView(self.path)
        # Mapped memory does not change a file's times, but it has been open for writing.
        with system_errors(
            f"{self.path} cannot be watched", "sysctl fs.inotify.max_user_instances"
        ):
            self._watch = Watch.opened(str(self.path), IN_CLOSE_WRITE)

    def close(self) -> None:
        """Removes its file."""
        self._watch.close()
        self.path.unlink(missing_ok=True)

    def __call__(self, state: str) -> Verdict:
        """Returns the verdict on a state."""
        self._view.show(self._states, state)
        damage = self._states.timeline(state)["damage"] if "+unreadable" in state else None
        unreadable = f"{damage[1]}+{damage[2]}" if damage else ""
        return self._judge(state, self._states.mark_of(state), unreadable)

    def empty(self, mark: str | None) -> Verdict:
        """Returns the verdict on a drive of zeros; `mark` is the last mark that the workload had
        reached.
        """
        self._view.clear(self._states)
        return self._judge("empty", mark)

    def _judge(self, state: str, mark: str | None, unreadable: str = "") -> Verdict:
        self._watch.seen()
        os.utime(self.path, ns=(0, 0))
        environment = {
            **os.environ,
            "DRIVEBAY_DISK": str(self.path),
            "DRIVEBAY_STATE": state,
            "DRIVEBAY_MARK": mark or "",
            "DRIVEBAY_UNREADABLE": unreadable,
        }
        words = [word.replace(DISK, str(self.path)) for word in self._words]
        hint = "the check stands behind --, its program first"
        with tempfile.TemporaryFile(dir=self._folder) as output:
            with system_errors(f"{words[0]} cannot be started", hint):
                process = subprocess.Popen(
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=environment,
                    start_new_session=True,
                )
            try:
                code: int | None = process.wait(self._timeout_s)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                # The check has its own session; processes that it left running are killed as well.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            output.seek(max(0, output.seek(0, os.SEEK_END) - SAID_MAX))
            said = output.read().decode(errors="replace").strip()
        if code is None:
            # A killed check may still hold its file through a mount or a loop device.
            self.close()
            self._begin_file()
        elif self._watch.seen() or self.path.stat().st_mtime_ns != 0:
            self._view.clear(self._states)
        return Verdict("hang" if code is None else "fail" if code else "pass", code, said)
