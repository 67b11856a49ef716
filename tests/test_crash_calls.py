"""The system calls behind a failure: a trace by strace, and the calls that no sync followed."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from drivebay.crash import words
from drivebay.crash.calls import COMMAND, last_of, unsynced

HEAD = (
    'openat(AT_FDCWD</mnt>, "/etc/ld.so.cache", O_RDONLY|O_CLOEXEC) = 3</etc/ld.so.cache>',
    'write(2</dev/null>, "noise"..., 237) = 237',
    "+++ exited with 0 +++",
)
MARK = r'sendto(6<socket:[4969843]>, "mark {}\n", 7, 0, NULL, 0) = 7'
APPEND = r'write(5</mnt/log>, "a\"b\n"..., 4096) = 4096'


def _left(tmp_path: Path, *calls: str, mark: str | None = "2") -> list[tuple[str, str]]:
    """Files and missing syncs of the calls that no sync followed."""
    trace = tmp_path / "a.crash.strace"
    lines = [f"{42 + n % 2} 1795976400.{n:06} {call}" for n, call in enumerate((*HEAD, *calls))]
    trace.write_text("\n".join((*lines, "")))
    return [(call.path, call.missing) for call in unsynced(tmp_path / "a.crash", mark)]


def test_a_write_without_a_sync_before_the_mark_is_left(tmp_path: Path) -> None:
    calls = (APPEND, "fsync(5</mnt/log>) = 0", MARK.format(1), APPEND, MARK.format(2))
    assert _left(tmp_path, *calls, "fsync(5</mnt/log>) = 0") == [("/log", "fsync of /log")]
    assert _left(tmp_path, *calls, mark="1") == []
    # Without marks, those at the end.
    assert _left(tmp_path, *calls, mark=None) == [("/log", "fsync of /log")]
    (call,) = unsynced(tmp_path / "a.crash", "2")
    assert call.text == "write(5</mnt/log>, ..., 4096) at 1795976400.000006"
    assert unsynced(tmp_path / "other", "2") == []


@pytest.mark.parametrize("sync", ["sync()          = 0", "syncfs(4</mnt>) = 0"])
def test_a_sync_of_everything_leaves_nothing(tmp_path: Path, sync: str) -> None:
    assert _left(tmp_path, APPEND, 'mkdir("a", 0777) = 0', sync) == []


def test_a_sync_that_another_thread_interrupts_counts(tmp_path: Path) -> None:
    begun = "fdatasync(5</mnt/log> <unfinished ...>"
    assert _left(tmp_path, APPEND, begun, "<... fdatasync resumed>) = 0") == []


def test_a_name_needs_a_sync_of_its_folder_or_of_its_file(tmp_path: Path) -> None:
    new = 'openat(AT_FDCWD</mnt>, "d/new", O_WRONLY|O_CREAT|O_TRUNC, 0666) = 6</mnt/d/new>'
    assert _left(tmp_path, new) == [("/d/new", "fsync of the folder /d")]
    assert _left(tmp_path, new, "fsync(7</mnt/d>) = 0") == []
    assert _left(tmp_path, new, "fsync(6</mnt/d/new>) = 0") == []
    data = 'pwrite64(6</mnt/d/new>, "hi", 2, 0) = 2'
    moved = 'renameat2(AT_FDCWD</mnt>, "d/new", 3</mnt/d>, "cur", RENAME_NOREPLACE) = 0'
    # The folder's sync does not cover the data.
    assert _left(tmp_path, new, data, moved, "fsync(3</mnt/d>) = 0") == [
        ("/d/cur", "fsync of /d/cur")
    ]
    assert _left(tmp_path, data, moved)[-1] == ("/d/cur", "fsync of /d/cur")
    assert _left(tmp_path, data, 'unlink("d/new") = 0') == [("/d/new", "fsync of the folder /d")]


def test_calls_that_fail_or_are_durable_by_themselves_do_not_count(tmp_path: Path) -> None:
    flags = "O_WRONLY|O_CREAT|O_DSYNC"
    durable = f'openat(AT_FDCWD</mnt>, "log", {flags}, 0666) = 5</mnt/log>'
    assert _left(tmp_path, durable, APPEND) == []
    assert _left(tmp_path, 'rename("a", "b") = -1 ENOENT (No such file or directory)') == []
    assert _left(tmp_path, 'openat(AT_FDCWD</mnt>, "log", O_WRONLY) = 5</mnt/log>') == []


def test_a_paragraph_names_the_call_and_its_sync(tmp_path: Path) -> None:
    _left(tmp_path, APPEND, MARK.format(2))
    calls = unsynced(tmp_path / "a.crash", "2")
    assert last_of(calls, "/other") is None
    found = {"cut_ns": 1, "mark": "2", "damage": None, "later": [8], "events": [], "calls": calls}
    text = words.paragraph(found, lambda _sector: "", "it is gone", 4)
    named = "No sync followed the system call write(5</mnt/log>, ..., 4096) at 1795976400.000003"
    assert f"{named}. Missing: fsync of /log before the mark 2." in text
    lost = {"op": "write", "number": 5, "lba": 8, "sectors": 8, "lost_units": 1, "mark": None}
    found["events"] = [{**lost, "why": "no-flush"}]
    for owner, is_named in (("/log at offset 0", True), ("", True), ("/other at offset 0", False)):
        text = words.paragraph(found, {8: owner}.__getitem__, "it is gone", 4)
        assert (named in text) == is_named


@pytest.mark.skipif(shutil.which("strace") is None, reason="not installed: strace")
def test_strace_writes_what_is_read(tmp_path: Path) -> None:
    program = (
        "import os; log = os.open('log', os.O_WRONLY | os.O_CREAT, 0o666); os.write(log, b'a');"
        "os.fsync(log); os.pwrite(log, b'\"b\\n', 8); open('new', 'w').close();"
        "os.rename('new', 'cur'); os.pwrite(1, b'x', 0) if 0 else None; print('mark 7')"
    )
    trace = shlex.quote(str(tmp_path / "a.crash.strace"))
    (tmp_path / "root").mkdir()
    command = [*shlex.split(f"{COMMAND} {trace}"), sys.executable, "-ISE", "-c", program]
    done = subprocess.run(command, cwd=tmp_path / "root", capture_output=True, check=False)
    if b"ptrace" in done.stderr.lower():
        pytest.skip("strace is not permitted here")
    assert done.returncode == 0, done.stderr
    left = [(call.path, call.missing) for call in unsynced(tmp_path / "a.crash", "7")]
    folder = "fsync of the folder /"
    assert left == [("/log", "fsync of /log"), ("/new", folder), ("/cur", folder)]
