"""What cannot be tested, and with which fio not; every case with an error, a hint, an exit code.

Needs fio (`make test` installs it).
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from loops import digest, loop, needs_root, run, sparse
from real_files import (
    GIB,
    MIB,
    a_test,
    file,
    keep_the_disk_free,
    load,
    refusal,
)

from drivebay.common.errors import EnvironmentProblem, UserError
from drivebay.targets.base import Progress
from drivebay.targets.fio import process
from drivebay.targets.fio.target import FioTarget
from drivebay.targets.safety import storage

__all__ = ["file", "keep_the_disk_free"]


def test_what_cannot_be_tested(tmp_path: Path) -> None:
    missing = refusal(tmp_path / "nothing.img")
    assert missing.exit_code == 2
    assert "there is no such file" in missing.message
    assert f"drivebay review {tmp_path}/nothing.img --size 4G" in missing.hint
    folder = refusal(tmp_path)
    assert "is a directory" in folder.message and folder.exit_code == 2
    assert f"truncate -s 4G {tmp_path}/drivebay.img" in folder.hint
    os.mkfifo(tmp_path / "pipe")
    assert "is a special file" in refusal(tmp_path / "pipe").message
    assert "is a special file" in refusal("/dev/zero").message
    assert "there is no such file" in refusal(f"{tmp_path}/file/").message
    small = refusal(sparse(tmp_path / "small.img", GIB - 1))
    assert "1.1 GB is too small; must be at least 1 GiB" in small.message
    assert f"truncate -s 4G {tmp_path}/small.img" in small.hint
    assert small.exit_code == 2
    (tmp_path / "circle").symlink_to("circle")
    assert refusal(tmp_path / "circle").exit_code == 2


def test_spans_and_blocks_that_do_not_fit(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = load(span_bytes=MIB, block_bytes=2 * MIB)
    assert "not one block fits" in refusal(file, a_test(("run", tiny))).message
    monkeypatch.setattr(storage, "block_facts", lambda _: {"logical_block_bytes": 4096})
    small = refusal(file, a_test(("run", load(block_bytes=512))))
    assert "block_bytes: 512 is not allowed" in small.message
    assert "multiple of 4096" in small.message


def test_a_link_leads_to_its_file(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.img"
    link.symlink_to(file)
    target = FioTarget(link)
    target.check((a_test(("run", load())),))
    assert target.identity()["path"] == str(file)
    assert (target.kind, target.name, target.capacity_bytes) == ("file", file.name, GIB)


def test_a_file_that_others_write_is_refused(file: Path) -> None:
    holder = "import sys; f = open(sys.argv[1], sys.argv[2]); print('open', flush=True); input()"
    for mode, refused in (("r+b", True), ("rb", False)):
        other = subprocess.Popen(
            [sys.executable, "-c", holder, str(file), mode],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert other.stdout is not None and other.stdout.readline() == b"open\n"
        try:
            if refused:
                assert "in use by python" in refusal(file).message
            else:
                FioTarget(file).check((a_test(("run", load())),))
        finally:
            other.communicate(b"\n")


def test_two_reviews_cannot_have_the_same_file(file: Path) -> None:
    first, second = FioTarget(file), FioTarget(file)
    test = a_test(("run", load()))
    with contextlib.closing(first):
        first.run_test(test, seed=1, progress=Progress())
        with pytest.raises(UserError, match="is being tested by another drivebay"):
            second.run_test(test, seed=1, progress=Progress())
    second.run_test(test, seed=1, progress=Progress())
    second.close()


def test_a_file_that_changes_meanwhile_is_refused(file: Path, tmp_path: Path) -> None:
    test = a_test(("run", load()))
    target = FioTarget(file)
    target.run_test(test, seed=1, progress=Progress())
    with file.open("r+b") as grown:
        grown.truncate(2 * GIB)
    with pytest.raises(UserError, match="no longer what it was"):
        target.run_test(test, seed=1, progress=Progress())
    target.close()
    with pytest.raises(UserError, match="did not write"):
        FioTarget(file).check((test,))
    target = FioTarget(file, destroy_data=file.name)
    target.check((test,))
    file.rename(tmp_path / "moved.img")
    other = sparse(file, 2 * GIB)
    with pytest.raises(UserError, match="no longer what it was"):
        target.run_test(test, seed=1, progress=Progress())
    assert other.stat().st_blocks == 0


def test_identity_tells_the_storage_and_stays_the_same(file: Path) -> None:
    first, second = FioTarget(file).identity(), FioTarget(file).identity()
    assert first == second == json.loads(json.dumps(first))
    assert first["kind"] == "file" and first["size_bytes"] == GIB
    found = run("findmnt", "--noheadings", "--output", "FSTYPE,TARGET", "--target", str(file))
    assert [first["filesystem"], first["mount_point"]] == found.split(maxsplit=1)


def test_without_fio(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    problem = refusal(file)
    assert isinstance(problem, EnvironmentProblem)
    assert problem.exit_code == 3
    assert problem.message.startswith("fio is not installed")
    assert problem.hint == "apt install fio"


def a_fio(folder: Path, script: str) -> Path:
    """A shell script in fio's place."""
    folder.mkdir()
    fake = folder / "fio"
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)
    return fake


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo fio-4.0", "fio 4.0 is not known"),
        ("echo fio-3.1", "fio 3.1 is not known"),
        ("exit 1", "which is no version of fio"),
        ('case $1 in --version) echo fio-3.33;; *) echo "fio: bad thing" >&2; exit 3;; esac',
         "fio cannot read"),
        ("exec head -c 99000000 /dev/zero", "it prints over 16.8 MB"),
    ],
)  # fmt: skip
def test_a_fio_that_is_no_good(
    file: Path, tmp_path: Path, script: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = a_fio(tmp_path / "bin", script)
    monkeypatch.setenv("PATH", f"{fake.parent}:/usr/bin")
    problem = refusal(file)
    assert problem.exit_code == 3
    assert words in problem.message
    assert "bad thing" in problem.message or "bad thing" not in script


def failure(fio: Path, file: Path) -> EnvironmentProblem:
    """What a job ends with by this program in fio's place."""
    with file.open("rb") as target, pytest.raises(EnvironmentProblem) as caught:
        process.run(
            process.Tool(str(fio), "fio-3.33", "libaio"),
            "",
            target.fileno(),
            name="run",
            shown_target="-",
            progress=Progress(),
            each_second=lambda _: False,
            asks_until_ms=lambda _: 0.0,
        )
    return caught.value


@pytest.mark.parametrize(
    "prints",
    [
        'yes "{"',
        "cat /dev/zero",
        "printf '{ \"a\": [\\n'; yes '1,'",
        f"while cat {Path(__file__).parent}/data/fio/3.33-status.json; do :; done",
        "exec 3>&1; exec yes complaint >&2",
    ],
)
def test_a_fio_that_prints_without_end_is_ended(
    file: Path, tmp_path: Path, prints: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "DOCUMENT_BYTES_MAX", 2**20)
    fake = a_fio(tmp_path / "bin", prints)
    problem = failure(fake, file)
    assert "prints more than figures" in problem.message
    assert problem.exit_code == 3 and "\n" not in problem.message + problem.hint


@pytest.mark.parametrize(
    ("number", "words"), [(errno.ENOSPC, "file system"), (errno.EDQUOT, "disk quota")]
)
def test_no_space_and_no_quota_are_one_error(
    file: Path, tmp_path: Path, number: int, words: str
) -> None:
    problem = failure(a_fio(tmp_path / "bin", f"echo '{os.strerror(number)}' >&2; exit 1"), file)
    assert words in problem.message and problem.exit_code == 3
    assert problem.hint == "free some space: df -h, quota"


@needs_root
def test_no_permission(tmp_path: Path, file: Path) -> None:
    program = (
        "import os, sys; sys.path[:0] = sys.argv[2:]\n"
        "from real_files import *\n"
        "target = FioTarget(sys.argv[1])\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "try: target.check((a_test(('run', load())),))\n"
        "except DrivebayError as problem: print(problem.exit_code, problem.message)\n"
    )
    file.chmod(0o644)
    paths = [str(Path(__file__).parent), *sys.path]
    words = run(sys.executable, "-c", program, str(file), *paths)
    assert words.startswith("3 ")
    assert "no permission" in words


@needs_root
def test_a_file_behind_a_loop_device_is_refused(file: Path) -> None:
    before = digest(file)
    with loop(file) as device:
        assert f"in use by {device}" in refusal(file).message
    assert digest(file) == before
