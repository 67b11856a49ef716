"""The data file of a served drive: the owner of its data, and its mark while and after it is
served.

Sources: flock(2), which the server holds; marks.py for the mark. Hosts write to the file, so its
data is theirs. It is served without a permission if it is new, blank, or as a server has left it.
The examination comes before the server has its lock; a write of another program in between is
detected by the watch, or because that program still has the file open.

Leaves out: writes of another program while the drive is served.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable
from pathlib import Path

from drivebay.common import inotify
from drivebay.common.errors import UserError
from drivebay.common.files import system_errors
from drivebay.targets.safety import contents, in_use, marks, watch


class ServedFile:
    """A file that a server reads and writes; a context manager. Raises EnvironmentProblem if the
    file exists and cannot be examined.
    """

    def __init__(self, path: Path) -> None:
        self._given, self._path = path, os.path.realpath(path)
        self._stack = contextlib.ExitStack()
        self._disturbed: Callable[[], bool] = bool
        self._mark: marks.KeptMark | None = None
        self.foreign = ""
        """Why the owner has to name the file, a sentence that goes on from "it ..."; "" if not."""

    def __enter__(self) -> ServedFile:
        with system_errors(
            f"--data: {self._given} cannot be looked at", "run as its owner, or name a new file"
        ):
            try:
                self._look()
            except BaseException:
                self._stack.close()
                raise
        return self

    def _look(self) -> None:
        try:
            status = os.stat(self._path)
        except FileNotFoundError:
            return
        if not stat.S_ISREG(status.st_mode) or status.st_size == 0:
            return  # nothing to lose; the core accepts only regular files
        fd = self._stack.enter_context(in_use.opened(self._path))
        watched = watch.writers_watched(fd, self._path, inotify.IN_CLOSE_WRITE)
        self._disturbed = self._stack.enter_context(watched)
        if self._disturbed():
            self.foreign = "is being written by another program"
        elif marks.is_own(fd, self._path, writer="server") or contents.is_blank(fd):
            return
        elif (
            (mark := marks.of_file(self._path)) and mark.writer == "server" and mark.state == "open"
        ):
            self.foreign = "was being served when its server was killed: it may have changed since"
        else:
            self.foreign = "contains data that no served drive has written"

    def begin(self) -> None:
        """Marks the file as being served; the server has its lock. Raises UserError if another
        program has changed it since the examination.
        """
        if self._disturbed():
            raise UserError(
                f"--data: {self._given} has just been changed by another program",
                "stop what uses it, then serve it again",
            )
        fd = self._stack.enter_context(in_use.opened(self._path))
        self._mark = marks.KeptMark(fd, self._path, marks.new_session(), "server")

    def end(self) -> None:
        """Marks the file as its server has left it; the server has ended normally."""
        if self._mark is not None:
            self._mark.end()

    def __exit__(self, *_: object) -> None:
        self._stack.close()
