"""What is kept before an owner's data goes: by which word, and what would put its tables back; YES
typed on a terminal; and a target that is cut short while it is written."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from loops import loop, needs_root, run, sparse, with_signature
from real_files import GIB, MIB, a_test, keep_the_disk_free, load

from drivebay.common.errors import EnvironmentProblem, UserError
from drivebay.targets.base import Progress
from drivebay.targets.fio import process as fio_run
from drivebay.targets.fio.target import FioTarget
from drivebay.targets.safety import contents, marks, target_device
from drivebay.targets.safety.authorised import Record
from drivebay.targets.safety.handle import ExclusiveHandle
from drivebay.targets.safety.target_device import OverwritePermission

__all__ = ["keep_the_disk_free"]
PROGRAM = [sys.executable, "-c", "from drivebay.cli import main; main()"]


def claimed(path: str, permission: OverwritePermission) -> int:
    """Takes it as a first writing step does; the inode of a file."""
    found = target_device.find(path)
    with contextlib.closing(ExclusiveHandle(found, permission=permission)) as handle:
        os.pwrite(handle.fd(to_write=True), b"\xff" * MIB, 0)
    return found.inode[1]


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "authorised.jsonl").read_text().splitlines()]


def borne(device: str) -> list[tuple[str, int]]:
    size = int(run("blockdev", "--getsize64", device))
    found = contents.of(device, size, device[5:])
    return [(one.kind, one.place) for _, area in found.areas for one in area.signatures]


@needs_root
@pytest.mark.parametrize("kind", ["gpt", "ext4"])
def test_what_a_device_bore_is_saved_and_can_be_put_back(tmp_path: Path, kind: str) -> None:
    backing = with_signature(tmp_path / "disk.img", kind)
    with loop(backing, "--partscan") as device:
        subprocess.run(["partx", "--add", device], capture_output=True)  # if the kernel did not
        before = borne(device)
        assert before
        folder = tmp_path / "result"
        permission = OverwritePermission(
            str(backing), overwrite_signature=True, record=Record(folder, resumes=True)
        )
        ends = [backing.read_bytes()[:MIB], backing.read_bytes()[-MIB:]]
        claimed(device, permission)
        with open(device, "r+b") as opened:
            opened.write(b"\xff" * MIB)
            opened.seek(-MIB, os.SEEK_END)
            opened.write(b"\xff" * MIB)
        assert borne(device) == []

        (line,) = lines(folder)
        assert line["serial"] == str(backing) and line["overwrite_signature"]
        assert not line["typed_yes"] and line["time"].endswith("+00:00")
        assert len(line["signatures"]) == len(before)
        place = folder / line["saved"]
        script = (place / "restore.txt").read_text()
        for command in script.splitlines():
            if command.startswith("dd "):
                subprocess.run(["sh", "-c", command], check=True, capture_output=True, cwd=place)
        subprocess.run(["partx", "--delete", device], capture_output=True)
        assert borne(device) == before
        run("blockdev", "--flushbufs", device)
        assert [backing.read_bytes()[:MIB], backing.read_bytes()[-MIB:]] == ends


@needs_root
def test_nothing_is_written_where_that_cannot_be_kept(tmp_path: Path) -> None:
    backing = with_signature(tmp_path / "disk.img", "ext4")
    os.truncate(backing, GIB)
    (tmp_path / "result").write_text("a file, not a folder")
    record = Record(tmp_path / "result", resumes=True)
    with loop(backing) as device:
        before = borne(device)
        with pytest.raises(EnvironmentProblem, match="what was authorised cannot be kept"):
            claimed(device, OverwritePermission(str(backing), True, record=record))
        assert borne(device) == before


def test_what_belongs_to_no_result_is_kept_with_what_is_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(marks.STATE_VARIABLE, str(tmp_path / "state"))
    blank, file = sparse(tmp_path / "blank.img", GIB), sparse(tmp_path / "disk.img", GIB)
    claimed(str(blank), OverwritePermission())
    assert not (tmp_path / "state").exists(), "nothing of anybody's went"
    file.open("r+b").write(b"precious")
    inode = claimed(str(file), OverwritePermission("disk.img"))
    (line,) = lines(tmp_path / "state")
    assert (line["path"], line["inode"], line["destroy_data"]) == (str(file), inode, "disk.img")
    assert line["saved"] is None and line["signatures"] == []
    record = Record(tmp_path / "state", resumes=False)
    assert record.sessions == frozenset(), "no other command goes on with it"


def test_a_damaged_note_of_what_was_authorised_lets_nothing_pass(tmp_path: Path) -> None:
    (tmp_path / "authorised.jsonl").write_bytes(
        b'\xff\n[]\n{"session": 5}\n' + b"[" * 10_000 + b'\n{"session": "known"}\n{"ses'
    )
    assert Record(tmp_path, resumes=True).sessions == {"known"}


@pytest.mark.parametrize(("answer", "code"), [("yes", 2), ("", 2), ("YES", 0)])
def test_yes_is_typed_on_a_terminal_before_data_goes(
    tmp_path: Path, answer: str, code: int
) -> None:
    file = sparse(tmp_path / "disk.img", GIB)
    with file.open("r+b") as opened:
        opened.seek(500 * MIB)
        opened.write(b"precious")
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [*PROGRAM, "check-trim", str(file), "--destroy-data", "disk.img"],
        stdin=slave,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, marks.STATE_VARIABLE: str(tmp_path / "state")},
    )
    os.write(master, f"{answer}\n".encode())
    _, said = process.communicate()
    os.close(master)
    os.close(slave)
    assert process.returncode == code, said
    assert f"Type YES to overwrite parts of {file}" in said
    if code:
        assert "error: not started, as YES was not typed" in said
        assert marks.of_file(str(file)) is None
    else:
        assert [line["typed_yes"] for line in lines(tmp_path / "state")] == [True]


@pytest.mark.parametrize("when", ["before fio opens it", "while fio writes"])
def test_a_file_that_is_cut_short_is_told_in_our_words_and_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """fio lays out a file that is too short anew, and begins by unlinking it; through our
    descriptor it cannot."""
    file = sparse(tmp_path / "disk.img", GIB)
    inode = file.stat().st_ino
    begun = fio_run.Fio.__init__

    def cut(*given: Any) -> None:
        if when == "before fio opens it":
            os.truncate(file, 8 * MIB)
        begun(*given)

    def cuts(what: str, _done: float, _planned: float, now: dict[str, float]) -> None:
        if when == "while fio writes" and now:
            os.truncate(file, 8 * MIB)

    monkeypatch.setattr(fio_run.Fio, "__init__", cut)
    with contextlib.closing(FioTarget(file)) as target:
        work = load(duration_s=30, span_bytes=GIB, rate_iops=50)
        with pytest.raises(UserError) as caught:
            target.run_test(a_test(("run", work)), seed=1, progress=Progress(cuts))
    assert "is no longer what it was when the review began: it had 1073741824 bytes, and has" in (
        caught.value.message
    )
    assert file.stat().st_ino == inode
    assert marks.of_file(str(file)) is None


def test_no_program_of_ours_takes_modules_from_the_folder_that_it_runs_in(tmp_path: Path) -> None:
    """A stranger's folder: what stands in it is not run, least of all as root."""
    (tmp_path / "json.py").write_text("open('canary', 'w')\n")
    file = sparse(tmp_path / "disk.img", GIB)
    with file.open("r+b") as opened:
        opened.write(b"precious")  # whose owner names it: then there is a witness
    words = ("check-trim", str(file), "--destroy-data", "disk.img")
    subprocess.run(
        [sys.executable, "-P", "-c", "from drivebay.cli import main; main()", *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(os.path.isabs, sys.path))},
        check=True,
        capture_output=True,
    )
    assert not (tmp_path / "canary").exists()
