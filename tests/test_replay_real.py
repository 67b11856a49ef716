"""`drivebay replay` on files and loop devices: what is played, what is refused, what is left after
an error or an interruption. What is due when is tested on an invented clock (crates/replay).
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from loops import digest, loop, mounted, needs_root, run, sparse, with_signature

from drivebay.cli import entry
from drivebay.targets.safety import in_use, locks

GIB = 2**30
MIB = 2**20
HEAD = "at_ns,op,offset_bytes,bytes,device,response_ns\n"
PROGRAM = [sys.executable, "-c", "from drivebay.cli import main; main()", "replay"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


def replay(*words: str | Path) -> Done:
    """The command, to its end, in this process."""
    stdout, stderr = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        code = entry.run(["replay", *map(str, words)])
    return Done(code, stdout.getvalue(), stderr.getvalue())


def played(*words: str | Path, code: int = 0) -> dict[str, Any]:
    """The figures of a replay that ends with this exit code."""
    done = replay(*words, "--json")
    assert done.returncode == code, done.stderr
    return dict(json.loads(done.stdout))


def refused(*words: str | Path, code: int = 2) -> str:
    """The error and hint of a replay that is refused; one line each."""
    done = replay(*words)
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    said = [line for line in done.stderr.splitlines() if line.startswith(("error: ", "hint: "))]
    assert [line.partition(":")[0] for line in said] == ["error", "hint"], done.stderr
    return "\n".join(said)


def trace(path: Path, *lines: str) -> Path:
    """A trace of lines "op,offset,bytes", a millisecond apart."""
    text = HEAD + "".join(
        f"{number * 1_000_000},{line},0,100000\n" for number, line in enumerate(lines)
    )
    path.write_text(text)
    return path


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    return trace(
        tmp_path / "mixed.csv",
        "read,0,4096",
        "write,1048576,8192",
        "trim,2097152,1048576",
        "flush,0,0",
        f"write,{3 * GIB},4096",
    )


@pytest.fixture
def reads(tmp_path: Path) -> Path:
    return trace(tmp_path / "reads.csv", "read,0,4096", f"read,{512 * MIB},65536")


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    path = sparse(tmp_path / "a disk.img", GIB)
    yield path
    path.unlink()


def test_a_file_is_played_on_and_keeps_its_size(mixed: Path, file: Path) -> None:
    figures = played(file, mixed)
    assert figures["ended"] == "complete"
    assert (figures["reads"], figures["writes"]) == (1, 2)
    assert (figures["read_bytes"], figures["written_bytes"]) == (4096, 8192 + 4096)
    assert figures["passed_over"] == {"writes": 0, "trims": 1, "flushes": 1}
    assert figures["direct"] and figures["failures"] == [] and figures["unanswered"] == 0
    assert sum(figures["latency_histogram"]["count"]) == 3
    assert sum(figures["seconds"]["reads"] + figures["seconds"]["writes"]) == 3
    counted, by_law = figures["outstanding_mean"], figures["outstanding_mean_by_littles_law"]
    assert counted == pytest.approx(by_law, rel=1e-6)
    assert figures["wall_s"] >= 0.004
    assert file.stat().st_size == GIB
    assert 0 < file.stat().st_blocks * 512 <= 64 * 1024


def test_the_table_is_for_people(mixed: Path, file: Path) -> None:
    done = replay(file, mixed, "--trim")
    assert done.returncode == 0
    assert "mean outstanding, Little's law" in done.stdout
    assert "skipped" not in done.stdout
    assert "its content will be overwritten" in done.stderr


def test_reading_alone_changes_nothing_and_needs_no_word(mixed: Path, file: Path) -> None:
    before = digest(file)
    figures = played(file, mixed, "--only-reads")
    assert (figures["reads"], figures["writes"]) == (1, 0)
    assert figures["passed_over"]["writes"] == 2
    assert digest(file) == before
    words = refused(file, mixed, "--only-reads", "--destroy-data", "x")
    assert "has no meaning" in words


def test_a_damaged_trace_changes_nothing(mixed: Path, file: Path) -> None:
    mixed.write_text(mixed.read_text() + "9000000,write,0,-1,0,\n")
    before = digest(file)
    assert "mixed.csv, line 7" in refused(file, mixed)
    assert digest(file) == before


def test_what_is_no_trace_or_no_drive(mixed: Path, file: Path, tmp_path: Path) -> None:
    assert "destroyer, heavy, light" in refused(file, tmp_path / "none.csv")
    assert "does not exist" in refused(tmp_path / "none.img", mixed)
    assert "did you mean sm951-ahci-512?" in refused("sm951-achi-512", mixed)
    assert "--only-reads has no meaning" in refused("sm951-ahci-512", mixed, "--only-reads")
    assert "--empty has no meaning" in refused(file, mixed, "--empty")
    assert "is the trace itself" in refused(mixed, mixed)
    assert "not a regular file" in refused(file, tmp_path)
    assert "--scale is for synthesized" in refused(file, mixed, "--scale", "0.1")
    assert "depth: 5000 is not allowed" in refused(file, mixed, "--depth", "5000")
    assert "--time-percent: 0 is not allowed" in refused(file, mixed, "--time-percent", "0")
    small = sparse(tmp_path / "small.img", 32 * MIB)
    assert "too small" in refused(small, mixed)


def test_a_synthesized_trace(file: Path) -> None:
    figures = played(file, "light", "--scale", "0.0005", "--mode", "dependencies", "--only-reads")
    assert figures["ended"] == "complete" and figures["reads"] > 100
    assert figures["failures"] == []


def test_a_file_in_use_is_refused(mixed: Path, file: Path) -> None:
    with file.open("r+b") as opened, subprocess.Popen(["sleep", "60"], stdin=opened) as other:
        try:
            assert "is in use by sleep" in refused(file, mixed)
        finally:
            other.kill()


@needs_root
def test_a_device_is_written_only_by_its_name(mixed: Path, tmp_path: Path) -> None:
    backing = sparse(tmp_path / "disk.img", GIB)
    with loop(backing) as device:
        before = digest(backing)
        assert "its serial number was not given" in refused(device, mixed)
        assert "names 'other'" in refused(device, mixed, "--destroy-data", "other")
        assert digest(backing) == before
        figures = played(device, mixed, "--destroy-data", backing)
        assert figures["writes"] == 2 and figures["failures"] == []
    assert digest(backing) != before


@needs_root
def test_a_device_with_something_on_it_is_refused(mixed: Path, reads: Path, tmp_path: Path) -> None:
    backing = with_signature(tmp_path / "disk.img", "ext4")
    with loop(backing) as device:
        before = digest(backing)
        assert "bears the signature of ext4" in refused(device, mixed, "--destroy-data", backing)
        assert digest(backing) == before
        # A trace of reads alone needs no --only-reads, and no serial number.
        assert played(device, reads)["reads"] == 2
        assert digest(backing) == before


@needs_root
def test_a_mounted_device_is_never_written_but_may_be_read(mixed: Path, tmp_path: Path) -> None:
    backing = sparse(tmp_path / "disk.img", GIB)
    run("mkfs.ext4", "-q", str(backing))
    with loop(backing) as device, mounted(device, tmp_path / "place"):
        assert "is mounted at" in refused(device, mixed, "--destroy-data", backing)
        words = ("--destroy-data", str(backing), "--overwrite-signature")
        assert "is mounted at" in refused(device, mixed, *words)
        done = replay(device, mixed, "--only-reads", "--json")
        assert done.returncode == 0 and json.loads(done.stdout)["reads"] == 1
        assert "others may use it at the same time" in done.stderr


@needs_root
def test_errors_are_listed_by_request(reads: Path, tmp_path: Path) -> None:
    """A loop device whose file has lost its end gives I/O errors there."""
    backing = sparse(tmp_path / "disk.img", GIB)
    with loop(backing) as device:
        os.truncate(backing, 256 * MIB)
        figures = played(device, reads, code=1)
    assert figures["ended"] == "complete" and figures["reads"] == 1
    assert figures["failures"] == [{"op": "read", "error": "EIO", "count": 1}]
    (failed,) = figures["failed"]
    assert (failed["number"], failed["offset_bytes"], failed["bytes"]) == (1, 512 * MIB, 65536)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_leaves_what_was_played(
    number: signal.Signals, file: Path, tmp_path: Path
) -> None:
    long = tmp_path / "long.csv"
    lines = (f"{n * 10_000_000},read,{n % 100 * 4096},4096,0,100000\n" for n in range(60_000))
    long.write_text(HEAD + "".join(lines))
    out = tmp_path / "figures.json"
    process = subprocess.Popen(
        [*PROGRAM, str(file), str(long), "--only-reads", "--out", str(out), "--json"],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("trace "):
            break
    time.sleep(1)
    process.send_signal(number)
    stdout, stderr = process.communicate()
    assert process.returncode == 130, stderr
    assert "error: interrupted; the figures cover the part replayed" in stderr
    figures = json.loads(stdout)
    assert figures["ended"] == "stopped" and figures["unanswered"] == 0
    assert 0 < figures["reads"] == figures["issued"] < 60_000
    assert json.loads(out.read_text()) == figures


def test_figures_are_never_written_over(mixed: Path, file: Path, tmp_path: Path) -> None:
    before = digest(file)
    assert "exists already" in refused(file, mixed, "--out", mixed)
    assert digest(file) == before


def test_through_the_page_cache_is_said(reads: Path, file: Path) -> None:
    done = replay(file, reads, "--buffered", "--json")
    assert json.loads(done.stdout)["direct"] is False
    assert "figures of the page cache" in done.stderr


def test_a_replay_waits_for_a_review_of_the_same_drive(
    reads: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drive = in_use.drive_below(file.stat().st_dev)
    if drive is None:
        pytest.skip("no drive is known below the temporary folder")
    with contextlib.ExitStack() as review:
        review.enter_context(locks.drive_lock(drive, "other.img", lambda _words: None))
        waits = []

        def rest(_seconds: float) -> None:
            waits.append(1)
            review.close()

        monkeypatch.setattr(time, "sleep", rest)
        done = replay(file, reads)
    assert done.returncode == 0 and len(waits) == 1
    assert "waiting for the review of other.img" in done.stderr
