"""What cannot be known counts as data: errors, other programs, and what a kill has left.

Seen in a hostile test of version 0.2.0: an owner's bytes went, with exit code 0, wherever an error
or a time that had not moved was read as "nothing there". Each of these has a test here.
"""

from __future__ import annotations

import ast
import contextlib
import errno
import fcntl
import mmap
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest
from loops import loop, needs_root, sparse
from test_protections import gone_on_with
from waiting import wait_until

from drivebay import cli as entry
from drivebay.common.errors import DrivebayError, EnvironmentProblem, UserError
from drivebay.common.inotify import IN_OPEN, WRITES, Watch
from drivebay.targets.fio.job import TARGET_VARIABLE
from drivebay.targets.safety import contents, in_use, marks, target_device, watch, witness
from drivebay.targets.safety.authorised import Record
from drivebay.targets.safety.handle import ExclusiveHandle
from drivebay.targets.safety.served import ServedFile
from drivebay.targets.safety.target_device import OverwritePermission

MIB, GIB = 2**20, 2**30
PLACE = 500 * MIB
PACKAGE = Path(target_device.__file__).parents[2]


def put(file: Path, at: int = PLACE, text: bytes = b"precious") -> None:
    with file.open("r+b") as opened:
        opened.seek(at)
        opened.write(text)


def holds(file: Path, at: int = PLACE, text: bytes = b"precious") -> bool:
    with file.open("rb") as opened:
        opened.seek(at)
        return opened.read(len(text)) == text


# --- errors ---------------------------------------------------------------------------------------

VERDICTS = {
    "authorised._new_folder": "the next number is taken",
    "blockdev.inspect": "refused",
    "erase._slowly": "asked again while a device does not answer, then raised",
    "in_use.below": "decided by the path",
    "in_use.lock": "another program has it: refused",
    "in_use.look": "EAGAIN: it is written; else as is_open_for_writing",
    "authorised.sessions": "no session: the next review asks",
    "authorised.keep": "refused: nothing is written",
    "contents.of": "refused: cannot be searched",
    "contents.data_on_device": "counts as data",
    "contents.is_blank": "counts as data, but for ENXIO, which says that there is none",
    "handle._open": "refused",
    "handle._refuse_users": "refused",
    "handle._path_leads_here": "refused",
    "handle.close": "fsync and the partition table of what was overwritten: nothing is read",
    "in_use.read": "an attribute that is not there; tables of the kernel always are",
    "in_use.named_for_booting": "no EFI: nothing is named there",
    "in_use._settled": "asked again",
    "in_use.loops_over": "decided by the path, then by the size: that of the file counts",
    "in_use.loops_over_device": "decided by the path",
    "in_use.written": "refused",
    "in_use.exported_as": "a path of another namespace; the exclusive open fails for devices",
    "in_use.is_open_for_writing": "a lease that is not to be had; then /proc and the watch decide",
    "in_use.named_file": "a file that is not there is not this one",
    "in_use.is_swap_file": "a swap file by another name: the kernel refuses writes to it",
    "in_use.unchangeable": "writing fails then, before anything is changed",
    "in_use.mappers": "a process of others, or one that has ended; the watch sees its end",
    "in_use._writes": "a process of others, or one that has ended; the lease and the watch decide",
    "in_use._number_of": "no number: the source of a network file system",
    "in_use._names": "not there; others are raised",
    "libblkid.load": "refused",
    "locks.bottlenecks_of": "locks between reviews: no data",
    "locks.drive_lock": "locks between reviews: no data",
    "locks._opened": "locks between reviews: no data",
    "locks._holder": "locks between reviews: no data",
    "marks._digest": "no digest: it is not ours",
    "marks.note": "the mark before holds no longer, as the times are others",
    "marks.of_file": "no mark: it is not ours",
    "marks.remove": "the mark holds no longer, as the times are others",
    "marks._unlink_beside": "it stays",
    "marks._read_own": "no mark: it is not ours",
    "marks._keep_beside": "no mark: it is not ours",
    "marks.device_is_own": "it is not ours",
    "marks.note_device": "no mark: it is not ours",
    "marks.forget_device": "the digest decides",
    "marks._of_device": "no mark: it is not ours",
    "protections.file_users": "not there; others are raised",
    "protections._loop": "refused",
    "protections._loop_file": "refused",
    "protections._exported": "a partition without a node here; the exclusive open fails for it",
    "protections._locked": "refused",
    "protections._exclusive": "refused",
    "protections._unseen_writer": "refused",
    "purge.discard": "another way is tried, or raised",
    "served.__enter__": "refused",
    "served._look": "not there; others are refused",
    "storage.serial": "no serial number: refused",
    "target_device.undo": "the file stays",
    "target_device.create": "refused",
    "target_device._opened": "refused: it is there already",
    "target_device._unlink_own": "it is gone already",
    "target_device.find": "refused",
    "target_device.to_read": "refused",
    "target_device.refuse_leased": "refused by the open that follows",
    "target_device._check_direct": "refused",
    "target_device.refuse_if_held": "refused by the open that follows",
    "inotify.seen": "no event is there yet; others are raised",
    "watch.writers_watched": "refused",
    "watch.has_ended": "it has ended",
    "watch._with_variable": "another user's, which drivebay did not start, or one that has ended",
    "watch.has_argument": "it has ended",
    "watch.end_all": "it has ended",
    "witness.close": "the witness has ended",
    "witness.__init__": "without a watch, what a fio had is not marked after a kill",
}
"""Each function of targets/safety that catches an error of the system, and what follows from it."""
CAUGHT = {
    *("OSError", "Exception", "BaseException", "FileNotFoundError", "PermissionError"),
    *("BlockingIOError", "FileExistsError", "NotADirectoryError", "ProcessLookupError"),
}


def caught_in(tree: ast.AST) -> Iterator[str]:
    """Functions that catch an error of the system, or raise it as one of drivebay's."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.ExceptHandler) and node.type is not None:
                kinds: ast.AST = node.type
                if isinstance(node.body[-1], ast.Raise) and node.body[-1].exc is None:
                    continue
            elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("suppress"):
                kinds = node
            elif isinstance(node, ast.Call) and ast.unparse(node.func) == "system_errors":
                kinds = ast.Name("OSError")
            else:
                continue
            if {part.id for part in ast.walk(kinds) if isinstance(part, ast.Name)} & CAUGHT:
                yield function.name
                break


def test_each_error_that_is_caught_has_a_verdict() -> None:
    """An error must not be read as "nothing there": a new handler is entered with its verdict."""
    found = {
        f"{file.stem}.{name}"
        for file in [*(PACKAGE / "targets/safety").glob("*.py"), PACKAGE / "common/inotify.py"]
        for name in caught_in(ast.parse(file.read_text()))
    }
    assert found - VERDICTS.keys() == set(), "what follows from the error? enter it in VERDICTS"
    assert VERDICTS.keys() - found == set(), "gone: take it out"


def no_holes(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    real = os.lseek

    def lseek(fd: int, at: int, whence: int) -> int:
        if whence == os.SEEK_DATA:
            raise OSError(number, os.strerror(number))
        return real(fd, at, whence)

    monkeypatch.setattr(os, "lseek", lseek)


@pytest.mark.parametrize("number", [errno.EIO, errno.EUCLEAN, errno.EINVAL, errno.EOPNOTSUPP])
def test_a_file_whose_holes_cannot_be_asked_for_is_not_blank(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    number: int,
) -> None:
    file = sparse(tmp_path / "full.img", GIB)
    put(file)
    no_holes(monkeypatch, number)
    with file.open("rb") as opened:
        assert not contents.is_blank(opened.fileno())
    with pytest.raises(SystemExit) as ended:
        entry.main(["check-trim", str(file)])
    assert ended.value.code == 2 and "did not write" in capfd.readouterr().err
    with ServedFile(file) as served:
        assert "contains data" in served.foreign
    assert holds(file)


def test_only_a_hole_up_to_the_end_is_blank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = sparse(tmp_path / "full.img", GIB)
    with file.open("rb") as opened:
        assert contents.is_blank(opened.fileno())
        no_holes(monkeypatch, errno.ENXIO)
        assert contents.is_blank(opened.fileno())
    monkeypatch.undo()
    put(file, text=bytes(4096))
    with file.open("rb") as opened:
        assert contents.is_blank(opened.fileno())
        monkeypatch.setattr(os, "pread", lambda *_: (_ for _ in ()).throw(OSError(errno.EIO, "")))
        assert not contents.is_blank(opened.fileno())


def test_a_data_file_that_cannot_be_looked_at_is_not_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = sparse(tmp_path / "d.img", GIB)

    def denied(path: object, *_: object, **__: object) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "open", denied)
    with pytest.raises(EnvironmentProblem, match="cannot be looked at: Permission denied"):
        ServedFile(file).__enter__()


# --- served files ---------------------------------------------------------------------------------


def served(file: Path, *, killed: bool = False) -> str:
    """Why the owner would have to name the file; it is served then, and written by a host."""
    with ServedFile(file) as data:
        if data.foreign:
            return data.foreign
        data.begin()
        put(file, PLACE + 4 * MIB, b"a host's")
        if not killed:
            data.end()
    return ""


def test_a_served_file_is_known_again_until_somebody_else_writes_to_it(tmp_path: Path) -> None:
    file = sparse(tmp_path / "d.img", GIB)
    assert served(file) == "" and served(file) == ""
    before = file.stat()
    put(file)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert "contains data that no served drive has written" in served(file)


def test_a_review_does_not_take_a_served_file_for_its_own_nor_a_server_a_reviews(
    tmp_path: Path,
) -> None:
    file, other = sparse(tmp_path / "d.img", GIB), sparse(tmp_path / "e.img", GIB)
    assert served(file) == ""
    with file.open("rb") as opened:
        assert not marks.is_own(opened.fileno(), str(file))
        assert marks.is_own(opened.fileno(), str(file), writer="server")
    found = target_device.find(str(other))
    with contextlib.closing(ExclusiveHandle(found, permission=OverwritePermission())) as handle:
        os.pwrite(handle.fd(to_write=True), b"a phase", 0)
    assert "contains data" in served(other)


def test_after_a_killed_server_the_owner_names_the_file_again(tmp_path: Path) -> None:
    """Its mark was open: whoever has written since cannot be told from the server."""
    file = sparse(tmp_path / "d.img", GIB)
    assert served(file, killed=True) == ""
    assert "its server was killed" in served(file)


def test_what_is_written_between_the_look_and_the_servers_lock_is_seen(tmp_path: Path) -> None:
    file = sparse(tmp_path / "d.img", GIB)
    with ServedFile(file) as data:
        assert not data.foreign
        put(file)
        with pytest.raises(UserError, match="just been changed by another program"):
            data.begin()


def test_a_copy_of_a_served_file_is_not_its_own(tmp_path: Path) -> None:
    file, copy = sparse(tmp_path / "d.img", GIB), tmp_path / "copy.img"
    assert served(file) == ""
    subprocess.run(["cp", "--archive", "--sparse=always", file, copy], check=True)
    assert "contains data" in served(copy)


# --- other programs -------------------------------------------------------------------------------

MAPPER = """
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
m = mmap.mmap(fd, 2**20, offset=500 * 2**20)
os.close(fd)
for at in range(0, 2**20, 4096):
    m[at] = 0
print(flush=True)
sys.stdin.readline()
m[:8] = b"precious"
m.close()
print(flush=True)
"""


@pytest.mark.parametrize("ends", [True, False])
def test_a_mapping_whose_pages_are_dirty_already_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    """It comes after the first look, and stores after the scan: no time moves."""
    file = sparse(tmp_path / "new.img", GIB)
    put(file, text=bytes(MIB))
    others: list[subprocess.Popen[str]] = []
    tick, blank = marks.wait_a_tick, contents.is_blank

    def wait_a_tick(fd: int) -> None:
        if not others:
            command = [sys.executable, "-c", MAPPER, str(file)]
            others.append(subprocess.Popen(command, stdin=-1, stdout=-1, text=True))
            assert others[0].stdout is not None and others[0].stdout.readline()
        tick(fd)

    def is_blank(fd: int) -> bool:
        found = blank(fd)
        if ends:
            others[0].communicate("\n")
        return found

    monkeypatch.setattr(marks, "wait_a_tick", wait_a_tick)
    monkeypatch.setattr(contents, "is_blank", is_blank)
    handle = ExclusiveHandle(target_device.find(str(file)), permission=OverwritePermission())
    with contextlib.closing(handle), pytest.raises(DrivebayError):
        handle.fd(to_write=True)
    others[0].communicate("\n")
    assert holds(file)


CALLS = ("fstat", "stat", "lseek", "pread", "read", "open", "setxattr", "getxattr", "listdir")
STEP = 1 if os.environ.get("DRIVEBAY_LONG") else 7
"""Of the system calls of a claim one in so many is tried."""


def claimed(
    path: str, before: int, act: Callable[[], None], name: str | None = None, first: object = None
) -> int:
    """Claims a target; the act comes before the call of that number, `first` before all of them.
    Returns the number of calls."""
    handle = ExclusiveHandle(target_device.find(path), permission=OverwritePermission(name))
    calls = 0
    with contextlib.closing(handle), pytest.MonkeyPatch.context() as patch:

        def counted(call: Callable[..., object]) -> Callable[..., object]:
            def instead(*given: object, **more: object) -> object:
                nonlocal calls
                calls += 1
                if calls == before + 1:
                    act()
                return call(*given, **more)

            return instead

        for each in CALLS:
            patch.setattr(os, each, counted(getattr(os, each)))
        if callable(first):
            first()
        handle.fd(to_write=True)
        return calls


def test_a_mapping_that_stores_at_any_step_of_a_claim_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pages are dirty before the claim begins: only its end, or /proc, shows it."""
    monkeypatch.setattr(in_use, "PROC", tmp_path)  # it is this very process
    steps = claimed(str(sparse(tmp_path / "disk.img", GIB)), -1, lambda: None)
    assert steps > 30
    refused = 0
    for step in range(0, steps, STEP):
        file = sparse(tmp_path / f"disk-{step}.img", GIB)
        mapped: list[mmap.mmap] = []

        def dirty(file: Path = file, mapped: list[mmap.mmap] = mapped) -> None:
            with file.open("r+b") as opened:
                mapped.append(mmap.mmap(opened.fileno(), GIB))
                mapped[0][PLACE] = 0

        def store(mapped: list[mmap.mmap] = mapped) -> None:
            mapped[0][PLACE : PLACE + 8] = b"precious"
            mapped[0].close()

        try:
            made = claimed(str(file), step, store, first=dirty)
        except DrivebayError:
            refused += 1
            assert holds(file), step
        else:
            assert made <= step + STEP, "only behind the claim it may pass"
        file.unlink()
    assert refused > 0.7 * (steps // STEP)


@needs_root
def test_a_write_below_a_loop_at_any_step_of_a_claim_is_seen(tmp_path: Path) -> None:
    backing = sparse(tmp_path / "disk.img", GIB)
    with loop(backing) as device:
        steps = claimed(device, -1, lambda: None, str(backing))
    refused, tried = 0, 60 if STEP == 1 else 6
    for step in range(0, steps, steps // tried):
        backing = sparse(tmp_path / f"disk-{step}.img", GIB)
        with loop(backing) as device:
            try:
                made = claimed(device, step, lambda backing=backing: put(backing), str(backing))  # type: ignore[misc]
            except DrivebayError:
                refused += 1
            else:
                assert made <= step + steps // tried, "only behind the claim it may pass"
        assert holds(backing), step
    assert refused > 0


@needs_root
def test_a_write_below_a_loop_between_two_steps_ends_the_review(tmp_path: Path) -> None:
    backing = sparse(tmp_path / "disk.img", GIB)
    with loop(backing) as device:
        found, permission = target_device.find(device), OverwritePermission(str(backing))
        with contextlib.closing(ExclusiveHandle(found, permission=permission)) as handle:
            os.pwrite(handle.fd(to_write=True), b"a step", 0)
            os.fsync(handle.fd(to_write=False))
            put(backing)
            with pytest.raises(UserError, match="written between two steps"):
                handle.fd(to_write=True)
    assert holds(backing)


@needs_root
def test_who_has_a_file_open_below_a_stack_of_loops_is_seen(tmp_path: Path) -> None:
    lower, mounted = sparse(tmp_path / "lower.img", 2 * GIB), tmp_path / "mounted"
    mounted.mkdir()
    with loop(lower) as below:
        subprocess.run(["mkfs.ext4", "-Fq", below], check=True)
        subprocess.run(["mount", below, mounted], check=True)
        try:
            backing = sparse(mounted / "disk.img", GIB)
            with loop(backing) as device:
                own = [sys.executable, "-c", "import sys; f = open(sys.argv[1], 'r+b'); input()"]
                with subprocess.Popen([*own, lower], stdin=subprocess.PIPE) as other:
                    pid = str(other.pid)
                    fds = Path("/proc") / pid / "fd"
                    wait_until(lambda: str(lower) in {os.path.realpath(fd) for fd in fds.iterdir()})
                    found = target_device.find(device)
                    with pytest.raises(UserError, match="is a loop over a file that is in use by"):
                        ExclusiveHandle(found, permission=OverwritePermission(str(backing)))
                    other.communicate(b"\n")
        finally:
            subprocess.run(["umount", mounted], check=True)


# --- after a kill ---------------------------------------------------------------------------------

KILLED = """
import os, subprocess, sys, time
from pathlib import Path
from drivebay.targets.safety import handle, target_device as t
from drivebay.targets.safety.authorised import Record
permission = t.OverwritePermission(record=Record(Path(sys.argv[2]), resumes=True))
held = handle.ExclusiveHandle(t.find(sys.argv[1]), permission=permission)
fd = held.fd(to_write=True)
os.pwrite(fd, b"half of a fill", 0)
program = '''
import os, time
os.open(os.environ["DRIVEBAY_TARGET"], os.O_RDWR)
print(flush=True)
time.sleep(600)
'''
target = {"DRIVEBAY_TARGET": f"/proc/{os.getpid()}/fd/{fd}"}
fio = subprocess.Popen([sys.executable, "-c", program], stdout=-1, env={**os.environ, **target})
fio.stdout.readline()
print(fio.pid, flush=True)
time.sleep(600)
"""


@contextlib.contextmanager
def killed_with_a_fio(file: Path, folder: Path) -> Iterator[int]:
    """A review that is killed while its fio hangs (SIGSTOP); the number of that fio."""
    command = [sys.executable, "-c", KILLED, str(file), str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as review:
        assert review.stdout is not None
        fio = int(review.stdout.readline())
        os.kill(fio, signal.SIGSTOP)
        review.kill()
        review.wait()
        yield fio
    with contextlib.suppress(ProcessLookupError):
        os.kill(fio, signal.SIGKILL)


def resumed(file: Path, folder: Path) -> None:
    wait_until(lambda: not watch.orphans(TARGET_VARIABLE))
    gone_on_with(file, OverwritePermission(record=Record(folder, resumes=True)))


def state_of(file: Path) -> str:
    mark = marks.of_file(str(file))
    return "none" if mark is None else mark.state


def test_a_mark_after_a_kill_waits_for_fio_and_voids_what_comes_later(tmp_path: Path) -> None:
    file, folder = sparse(tmp_path / "v.img", GIB), tmp_path / "result"
    with killed_with_a_fio(file, folder) as fio:
        wait_until(lambda: state_of(file) == "killed")
        assert watch.has_ended(fio, sys.maxsize)
        put(file)
    with pytest.raises(UserError, match="did not write"):
        resumed(file, folder)
    assert holds(file)


def test_after_a_kill_the_same_result_is_resumed_without_a_word(tmp_path: Path) -> None:
    file, folder = sparse(tmp_path / "v.img", GIB), tmp_path / "result"
    with killed_with_a_fio(file, folder):
        resumed(file, folder)


@pytest.mark.parametrize("how", ["hangs", "opened"])
def test_a_fio_that_does_not_end_at_once_leaves_the_mark_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """A drive that hangs keeps fio in the kernel; who has written meanwhile cannot be known."""
    file = sparse(tmp_path / "v.img", GIB)
    session = marks.new_session()
    with (
        file.open("rb") as opened,
        contextlib.closing(Watch.opened(str(file), WRITES | IN_OPEN)) as events,
    ):
        fd, ended = opened.fileno(), subprocess.Popen(["true"])
        marks.note(fd, str(file), "open", session)
        pidfd = os.pidfd_open(ended.pid)

        def end_all(_pids: list[int], _within_s: float) -> bool:
            if how == "opened":
                put(file)
            return how == "opened"

        monkeypatch.setattr(watch, "started_by", lambda *_: [1])
        monkeypatch.setattr(watch, "end_all", end_all)
        monkeypatch.setattr(signal, "signal", lambda *_: None)
        numbers = [str(each) for each in (fd, pidfd, ended.pid, events.fd)]
        monkeypatch.setattr(sys, "argv", ["witness", *numbers, str(file), session])

        with Path(os.devnull).open("rb") as nothing, open(nothing.fileno(), closefd=False) as text:
            monkeypatch.setattr(sys, "stdin", text)
            witness.main()
        ended.wait()
        os.close(pidfd)
    assert state_of(file) == "open"


def test_a_process_is_over_when_it_is_a_zombie_and_not_before() -> None:
    own = watch._started(Path("/proc/self"))
    with subprocess.Popen(["sleep", "600"]) as other:
        assert not watch.has_ended(other.pid, own + 10**6)
        other.kill()
        stat = Path("/proc") / str(other.pid) / "stat"
        wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "Z")
        assert watch.has_ended(other.pid, own + 10**6)
    assert watch.has_ended(other.pid, own), "and when its number is nobody's"
    assert watch.has_ended(os.getpid(), own - 1), "or another's, which began later"


def test_all_are_ended_that_are_told_to() -> None:
    others = [subprocess.Popen(["sleep", "600"]) for _ in range(3)]
    others[0].send_signal(signal.SIGSTOP)
    begun = time.monotonic()
    assert watch.end_all([other.pid for other in others], 60)
    assert time.monotonic() - begun < 60 and all(other.wait() == -9 for other in others)


def test_a_lock_that_cannot_be_asked_for_is_not_a_free_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"")
    target = Mock(device=None, path=tmp_path / "file")
    monkeypatch.setattr(target_device, "refuse_leased", lambda _: None)
    target_device.refuse_if_held(target)

    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(OSError, match=os.strerror(errno.ENOLCK)):
        target_device.refuse_if_held(target)
