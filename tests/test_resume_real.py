"""What survives: kills at random moments of virtual drives and files, power cuts, reboots.

`make test` kills some nine times, `make test-long` as often as DRIVEBAY_KILLS says; by hand:
`python tests/kill_often.py virtual DIR 1 100`, and with `file` (DIR.img of 1 GiB beside DIR).
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import kill_often
import pytest
from fakes import FakeTarget, small_suite
from loops import loop, mounted, needs_root, run, sparse
from test_results import content

from drivebay import results, review
from drivebay.common import provenance
from drivebay.definitions.suites import Test
from drivebay.results import history
from drivebay.results.records import PhaseResult
from drivebay.targets.base import Progress
from drivebay.targets.fio.job import TARGET_VARIABLE
from drivebay.targets.fio.target import FioTarget

HERE = Path(__file__).parent
KILLS = {
    kind: int(os.environ.get("DRIVEBAY_KILLS", kills))
    for kind, kills in (("virtual", 6), ("file", 3))
}


def kill_and_resume(kind: str, out: Path, kills: int) -> int:
    """Runs the program of kills; how often it killed."""
    done = subprocess.run(
        [sys.executable, str(HERE / "kill_often.py"), kind, str(out), "7", str(kills)],
        env={**os.environ, "PYTHONPATH": str(HERE.parent / "python")},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return int(done.stdout)


def test_a_virtual_drives_review_ends_bit_for_bit_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provenance, "git_commit", lambda: None)
    factory, suite, _ = kill_often.what("virtual", tmp_path, KILLS["virtual"])
    whole = review.run(factory, suite, out=tmp_path / "whole", jobs=1)
    assert (
        kill_and_resume("virtual", tmp_path / "killed", KILLS["virtual"]) >= KILLS["virtual"] // 2
    )
    assert content(tmp_path / "killed") == content(whole)


def test_a_files_review_ends_whole_and_says_how_often_it_was_cut_short(tmp_path: Path) -> None:
    image = sparse(tmp_path / "killed.img", 2**30)
    kills = kill_and_resume("file", tmp_path / "killed", KILLS["file"])
    image.unlink()
    assert kills == KILLS["file"]
    result = results.load(tmp_path / "killed")
    said = 0
    for step in result.steps:
        assert step.done and step.error is None
        for phase in step.phases():
            rows = step.table("series", phase.label).to_pylist()
            assert sum(row["reads"] + row["writes"] for row in rows) == phase.reads + phase.writes
        cut_short = step.conditions().get("interruptions", [])
        assert all(cut["ended"] == "killed" and not cut["host_rebooted"] for cut in cut_short)
        if cut_short:
            again = step.conditions()["precondition_established_again"]
            assert again == ", ".join(part.kind for part in step.test.prepare)
        said += len(cut_short)
    begun = (tmp_path / "killed" / "log.jsonl").read_text().count('"step_started"')
    assert said == begun - len(result.steps), "each start but the last of every test"


def test_a_review_can_be_resumed_while_the_killed_ones_fio_still_ends(tmp_path: Path) -> None:
    """fio ends with its last I/O, which may take a while; until then its file is in use."""
    image = sparse(tmp_path / "disk.img", 2**30)
    gone = subprocess.Popen(["true"])
    gone.wait()
    fio = "import sys, time; f = open(sys.argv[1], 'r+b'); print(1, flush=True); time.sleep(1.5)"
    left = subprocess.Popen(
        [sys.executable, "-c", fio, str(image)],
        env={**os.environ, TARGET_VARIABLE: f"/proc/{gone.pid}/fd/7"},
        stdout=subprocess.PIPE,
    )
    assert left.stdout is not None and left.stdout.readline()
    suite = kill_often.short_tests(1, duration_s=0.3, fill_bytes=2**24)
    FioTarget(image).check(suite.tests)
    assert left.poll() == 0
    image.unlink()


class Dies(BaseException):
    """Stands for a process that goes without a word."""


@needs_root
def test_a_power_cut_at_any_step_leaves_a_folder_to_go_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ext4 is shut down without flushing, as when the power fails: what was not synced is lost."""
    backing = sparse(tmp_path / "disk.img", 128 * 2**20)
    run("mkfs.ext4", "-q", str(backing))
    place = tmp_path / "place"
    place.mkdir()
    suite = small_suite()
    with loop(backing) as device:
        for cut_at in range(1, len(suite.tests)):
            begun = 0

            def before(test: Test) -> None:
                nonlocal begun
                begun += 1
                if begun == 2:
                    shut_down(place)
                    raise Dies

            def make(before: Callable[[Test], None] = before) -> FakeTarget:
                return FakeTarget(kind="file", before=before)

            out = place / "r"
            with mounted(device, place), pytest.raises(Dies):
                review.run(make, suite, out=out, resume=cut_at > 1)
            with mounted(device, place):
                done = [step.id for step in results.load(out).done]
                assert done == [test.id for test in suite.tests[:cut_at]], "kept at once, for good"
        with mounted(device, place):
            review.run(lambda: FakeTarget(kind="file"), suite, out=out, resume=True)
            assert not results.load(out).missing


def shut_down(place: Path) -> None:
    """EXT4_IOC_SHUTDOWN without flushing even the journal (fs/ext4/ext4.h)."""
    fd = os.open(place, os.O_RDONLY)
    try:
        fcntl.ioctl(fd, 0x8004587D, (2).to_bytes(4, "little"))
    finally:
        os.close(fd)


class Noting(FakeTarget):
    """A real drive whose phases carry conditions of their own."""

    def run_test(self, test: Test, *, seed: int, progress: Progress) -> list[PhaseResult]:
        first, *rest = super().run_test(test, seed=seed, progress=progress)
        return [replace(first, conditions={"warnings": ["a warning"]}), *rest]


class Warned(review.Silent):
    """Keeps the warnings."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warn(self, message: str) -> None:
        self.warnings.append(message)


def test_a_reboot_is_told_from_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, boot = tmp_path / "r", tmp_path / "boot_id"
    monkeypatch.setattr(history, "BOOT_ID", boot)

    def dies(_: Test) -> None:
        raise Dies

    ways: list[tuple[str, Any]] = [("one\n", dies), ("two\n", dies), ("two\n", None)]
    warned = Warned()
    for number, (name, before) in enumerate(ways):
        boot.write_text(name)
        target = Noting(kind="block", before=before)
        try:
            review.run(
                lambda target=target: target,  # type: ignore[misc]
                small_suite(),
                out=out,
                resume=number > 0,
                sink=warned,
            )
        except Dies:
            lines = (out / "log.jsonl").read_text().splitlines(keepends=True)
            kept = [line for line in lines if '"step_failed"' not in line]
            (out / "log.jsonl").write_text("".join(kept) + '{"event": "cut o')
    conditions = results.load(out).steps[0].conditions()
    assert conditions["warnings"] == ["a warning"]
    assert [cut["host_rebooted"] for cut in conditions["interruptions"]] == [True, False]
    assert conditions["precondition_established_again"] == "purge, fill"
    assert "interruptions" not in results.load(out).steps[1].conditions()
    assert any("consistency-default was cut short (the host went" in w for w in warned.warnings)
    assert any("consistency-default was cut short (killed)" in w for w in warned.warnings)


def test_failed_and_stopped_tries_are_told_as_such(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    events: list[dict[str, Any]] = [
        {"event": "created", "boot_id": "a"},
        {"event": "step_started", "step": "x", "time": "1"},
        {"event": "step_cancelled", "step": "x"},
        {"event": "step_started", "step": "x", "time": "2"},
        {"event": "step_failed", "step": "x", "error": "no space"},
        {"event": "step_started", "step": "y", "time": "3"},
        {"event": "step_done", "step": "y"},
        {"event": "step_started", "step": "x", "time": "4"},
    ]
    log.write_text("".join(json.dumps(event) + "\n" for event in events) + "[]\nnot json\n")
    ended = [cut["ended"] for cut in history.interruptions(log, "x")]
    assert ended == ["stopped", "failed: no space"]
    assert history.interruptions(log, "y") == []
    assert history.interruptions(tmp_path / "none", "x") == []
