"""Atomic file writes, flushed to the disk, and a lock.

A file is written under a temporary name in the same folder, flushed, and renamed to its final name,
and the folder is flushed; so after a kill or a power cut the old or the new content exists, never a
mixture. Every failure of the file system becomes an `EnvironmentProblem` with a hint.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from drivebay.common.errors import EnvironmentProblem, UserError

PARTIAL = ".partial-"


def json_bytes(value: Any) -> bytes:
    """Encodes JSON reproducibly: sorted keys, no NaN, a newline at the end.

    >>> json_bytes({"b": 1, "a": [0.5]})
    b'{\\n "a": [\\n  0.5\\n ],\\n "b": 1\\n}\\n'
    """
    text = json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False)
    return (text + "\n").encode()


def sha256(path: Path) -> str:
    """SHA-256 checksum of a file's content, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_new(path: Path, content: bytes) -> None:
    """Writes a new file, and flushes it to the disk."""
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def replace(path: Path, content: bytes) -> None:
    """Replaces the content of `path`, atomically and flushed."""
    beside = path.with_name(f"{PARTIAL}{path.name}")
    beside.unlink(missing_ok=True)
    try:
        write_new(beside, content)
        beside.rename(path)
    except OSError:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        raise
    flush_directory(path.parent)


def flush_directory(path: Path) -> None:
    """Makes renames in a directory survive a power cut."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove_tree(path: Path) -> None:
    """Removes a directory or file if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def lock(file: IO[bytes], folder: Path) -> None:
    """Locks the folder for this process until `file` is closed. Raises UserError if another
    review has locked it.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UserError(
            f"another review is writing to {folder}",
            "wait until it ends, or choose another folder with --out",
        ) from None


@contextlib.contextmanager
def storing(folder: Path, *, resumable: bool = True) -> Iterator[None]:
    """Converts failures of the file system inside the block to an error with a hint."""
    try:
        yield
    except OSError as problem:
        raise explain(problem, folder, resumable=resumable) from problem


def explain(problem: OSError, folder: Path, *, resumable: bool = True) -> EnvironmentProblem:
    """Error and hint for a failed write to a result folder."""
    where = (problem.filename or folder) if resumable else folder
    again = f"then: drivebay review --resume {shlex.quote(str(folder))}"
    match problem.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return EnvironmentProblem(
                f"the disk is full while writing to {folder}",
                f"finished tests are kept; free some space, {again}"
                if resumable
                else "free some space, or choose a folder on another disk with --out DIR",
            )
        case errno.EROFS:
            message = f"{where} is on a read-only file system"
        case errno.EACCES | errno.EPERM:
            message = f"no permission to write {where}"
        case _:
            message = f"writing to {where} failed: {problem.strerror or problem}"
    if resumable:
        return EnvironmentProblem(message, f"make {folder} writable, {again}")
    return EnvironmentProblem(message, "choose a folder that you can write to with --out DIR")
