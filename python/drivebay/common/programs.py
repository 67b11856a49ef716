"""Other programs: finding them, running them, and folders of PATH where other users could add one.

Source: execvp(3) and POSIX: an empty or relative folder of PATH is resolved from the working
directory. Only root's PATH matters here: whoever can write to one of its folders has programs run
as root. Leaves out access control lists.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ADMIN_PATH = "/usr/sbin:/sbin:/usr/bin:/bin"
# Words of nvme-cli 3 for commands that only read; its builds may lack the old ones
# (nvme-cmds-deprecated.c).
NVME_3 = {
    "smart-log": ("log", "smart"),
    "sanitize-log": ("log", "sanitize"),
    "id-ctrl": ("id", "ctrl"),
    "id-ns": ("id", "ns"),
    "list-ns": ("id", "ns-list"),
}
# Of output and of complaints, each. guess: 100 times the longest seen, 130 KB of QEMU's list of
# devices.
ANSWER_BYTES_MAX = 2**24


class NoAnswer(Exception):
    """A program could not be started, or did not end in time; the message gives the reason."""


def find(name: str) -> str | None:
    """Path of a program, also in the administrator's folders; None if it is not installed."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:{ADMIN_PATH}")


def ask(
    command: Sequence[str],
    *,
    timeout_s: float,
    typed: bytes = b"",
    more: Mapping[str, str] | None = None,
    folder: str | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Runs a program in the C locale and returns its result. `typed` is its input, `more` are
    additional environment variables; it runs in `folder`, or in drivebay's own working directory.
    A command of nvme-cli that fails is asked in the words of version 3, too (`NVME_3`). Raises
    NoAnswer if it cannot be started, exceeds `timeout_s`, or prints over `ANSWER_BYTES_MAX`.
    """
    environment = {**os.environ, "LC_ALL": "C", **(more or {})}
    deadline = time.monotonic() + timeout_s
    try:
        with tempfile.TemporaryFile() as given:
            given.write(typed)
            given.seek(0)
            process = subprocess.Popen(
                command,
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                cwd=folder,
            )
        with process:
            try:
                output, complaints = _read(process, deadline)
                process.wait(max(0.0, deadline - time.monotonic()))
            except BaseException:
                process.kill()
                raise
    except TimeoutError:
        raise NoAnswer(f"{command[0]} timed out after {timeout_s:g} seconds") from None
    except (OSError, subprocess.SubprocessError) as problem:
        raise NoAnswer(str(problem)) from None
    words = NVME_3.get(command[1], ()) if Path(command[0]).name == "nvme" and command[1:] else ()
    if process.returncode and words:
        newer = [command[0], *words, *command[2:]]
        answer = ask(newer, timeout_s=timeout_s, typed=typed, more=more, folder=folder)
        if not answer.returncode:
            return answer
    return subprocess.CompletedProcess(command, process.returncode, output, complaints)


def _read(process: subprocess.Popen[bytes], deadline: float) -> tuple[bytes, bytes]:
    """Output and complaints, to their ends. Raises TimeoutError after the deadline; NoAnswer if one
    of them is too long."""
    assert process.stdout is not None and process.stderr is not None
    found = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
    with selectors.DefaultSelector() as pipes:
        for pipe in found:
            pipes.register(pipe, selectors.EVENT_READ)
        while pipes.get_map():
            if not (ready := pipes.select(max(0.0, deadline - time.monotonic()))):
                raise TimeoutError
            for key, _ in ready:
                came = os.read(key.fd, 2**16)
                found[key.fd] += came
                if not came:
                    pipes.unregister(key.fd)
                if len(found[key.fd]) > ANSWER_BYTES_MAX:
                    raise NoAnswer(f"it prints over {ANSWER_BYTES_MAX / 1e6:.3g} MB")
    output, complaints = map(bytes, found.values())
    return output, complaints


def loose_folders(path: str) -> Iterator[str]:
    """Folders of a PATH where users other than root could put a program, each with the reason.

    >>> list(loose_folders("/usr/bin:bin:"))
    ['bin is relative', 'an empty part means the current folder']
    """
    for part in path.split(os.pathsep):
        if not part.startswith("/"):
            yield f"{part} is relative" if part else "an empty part means the current folder"
            continue
        given, real = Path(part), Path(os.path.realpath(part))
        # A missing folder could be created in the last existing folder of its path.
        last = next(folder for folder in (real, *real.parents) if folder.exists())
        for folder in dict.fromkeys((given, *given.parents, real, *real.parents)):
            if _is_loose(folder, within=folder not in (given, last)):
                yield f"{folder} can be written by others"
                break


def _is_loose(folder: Path, *, within: bool) -> bool:
    """True if users other than root may add entries to a folder or (`within`) replace existing
    ones, which a sticky bit forbids. A link's owner may change its target.
    """
    with contextlib.suppress(OSError):
        status = folder.stat()
        mode, group = status.st_mode, status.st_gid
        others = bool(mode & stat.S_IWOTH) or (bool(mode & stat.S_IWGRP) and group != 0)
        owners = {status.st_uid, folder.lstat().st_uid}
        return owners != {0} or (others and not (within and mode & stat.S_ISVTX))
    return False
