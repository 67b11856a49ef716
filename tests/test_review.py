"""The engine: results depend on drive, suite and seed alone, and nothing finished is ever lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fakes import CtrlC, FakeTarget, small_suite
from hypothesis import given
from hypothesis import strategies as st
from test_results import content
from waiting import wait_until

from drivebay import results, review
from drivebay.common import memory, provenance
from drivebay.common.errors import EnvironmentProblem, Interrupted, UserError
from drivebay.common.seeds import SEED_MAX, derived_seed
from drivebay.definitions import suites
from drivebay.definitions.suites import Test
from drivebay.review import plan as planning
from drivebay.review import resume

HERE = Path(__file__).parent


def test_the_number_of_jobs_changes_nothing(tmp_path: Path) -> None:
    folders = [
        review.run(
            lambda: FakeTarget(wall_s=0.02), small_suite(), out=tmp_path / str(jobs), jobs=jobs
        )
        for jobs in (1, 2, 4)
    ]
    first, *others = [content(folder) for folder in folders]
    assert len(first) == 1 + 4 * 4
    assert all(other == first for other in others)


def test_the_seed_changes_the_figures_and_only_they_and_the_seeds_differ(tmp_path: Path) -> None:
    one, two = (
        content(review.run(FakeTarget, small_suite(), out=tmp_path / str(seed), seed=seed))
        for seed in (1, 2)
    )
    assert one.keys() == two.keys()
    changed = {name for name in one if one[name] != two[name]}
    assert {"manifest.json", "steps/random-read/series.parquet"} <= changed


def test_virtual_tests_start_longest_first_on_a_target_per_worker(tmp_path: Path) -> None:
    targets: list[FakeTarget] = []

    def make() -> FakeTarget:
        targets.append(FakeTarget(wall_s=0.05))
        return targets[-1]

    review.run(make, small_suite(), out=tmp_path / "r", jobs=2)
    assert len(targets) == 2 and all(target.closed for target in targets)
    assert {targets[0].ran[0], targets[1].ran[0]} == {"consistency-default", "thermal-write"}
    assert all(target.ran for target in targets)


def test_real_tests_run_one_at_a_time_in_order(tmp_path: Path) -> None:
    target = FakeTarget(kind="file", wall_s=0.01)
    review.run(lambda: target, small_suite(), out=tmp_path / "r")
    assert target.ran == [test.id for test in small_suite().tests]
    assert target.checked == [tuple(target.ran)], "checked before anything was touched"
    with pytest.raises(UserError, match="--jobs: 2 is not allowed for a real drive"):
        review.run(lambda: target, small_suite(), out=tmp_path / "other", jobs=2)


def test_nothing_is_made_for_a_drive_that_must_not_be_tested(tmp_path: Path) -> None:
    class Mounted(FakeTarget):
        def check(self, tests: tuple[Test, ...]) -> None:
            raise UserError("it is mounted", "umount it")

    with pytest.raises(UserError, match="it is mounted"):
        review.run(Mounted, small_suite(), out=tmp_path / "r")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"seed": -1}, "--seed: -1 is not allowed"),
        ({"seed": 2**53}, "--seed"),
        ({"jobs": 0}, "--jobs: 0"),
        ({"jobs": 257}, "--jobs: 257"),
    ],
)
def test_numbers_out_of_range(tmp_path: Path, options: dict[str, Any], expected: str) -> None:
    with pytest.raises(UserError, match=expected):
        review.run(FakeTarget, small_suite(), out=tmp_path / "r", **options)
    assert list(tmp_path.iterdir()) == []


def test_quick_is_the_shortened_suite_and_says_so(tmp_path: Path) -> None:
    suite = suites.load("quick")
    made = review.run(FakeTarget, suite, out=tmp_path / "r", quick=True)
    result = results.load(made)
    assert result.quick and result.suite == suite.shortened() != suite


def test_quick_is_refused_where_a_test_has_no_short_form(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="test consistency-default has no short form"):
        review.run(FakeTarget, small_suite(), out=tmp_path / "r", quick=True)
    assert list(tmp_path.iterdir()) == []


def test_a_display_that_fails_stops_the_review_and_leaves_no_thread(tmp_path: Path) -> None:
    class Broken(CtrlC):
        def stopping(self) -> None:
            super().stopping()
            raise OSError("the terminal has gone")

    with pytest.raises(OSError, match="the terminal has gone"):
        review.run(
            lambda: FakeTarget(wall_s=30), small_suite(), out=tmp_path / "r", sink=Broken(1), jobs=2
        )
    assert not [
        thread for thread in threading.enumerate() if thread.name.startswith("drivebay-work")
    ]
    assert len(results.load(tmp_path / "r").missing) == 4


def test_an_ignored_hangup_stays_ignored(tmp_path: Path) -> None:
    """Under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGHUP)).start()
        folder = review.run(lambda: FakeTarget(wall_s=0.2), small_suite(), out=tmp_path / "r")
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    assert results.load(folder).missing == ()


def test_a_real_drive_waits_in_real_time(tmp_path: Path) -> None:
    suite = suites.load("quick")
    for kind, expected in (("virtual", suite), ("file", suite.in_real_time())):
        target = FakeTarget(kind=kind)  # type: ignore[arg-type]
        made = review.run(partial(same, target), suite, out=tmp_path / kind)
        assert results.load(made).suite == expected
        review.run(partial(same, target), expected, out=made, resume=True)


def test_default_folder_is_new_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = [review.run(FakeTarget, small_suite()).name for _ in range(3)]
    assert names == [f"fake-drive-small-{n}" for n in (1, 2, 3)]
    quick = review.run(FakeTarget, suites.load("quick"), quick=True)
    assert quick == tmp_path / "drivebay-results" / "fake-drive-quick-quick-1"


ABOUT_THE_WAY = {"interruptions", "precondition_established_again"}
"""Conditions that say how a review went, with times of day."""


def figures(folder: Path) -> list[Any]:
    """All that was measured, and under which conditions."""

    def measured(phase: results.PhaseResult) -> results.PhaseResult:
        kept = {key: said for key, said in phase.conditions.items() if key not in ABOUT_THE_WAY}
        return replace(phase, conditions=kept)

    return [
        (
            step.id,
            [measured(phase) for phase in step.phases()],
            step.table("series"),
            step.table("histogram"),
            step.table("stages"),
        )
        for step in results.load(folder).steps
    ]


def test_a_failed_test_stops_the_review_and_is_run_again(tmp_path: Path) -> None:
    broken = True

    def before(test: Test) -> None:
        if broken and test.id == "sequential-read":
            raise EnvironmentProblem("the drive does not answer", "look at its cable")

    def make() -> FakeTarget:
        return FakeTarget(kind="block", before=before)

    out = tmp_path / "r"
    with pytest.raises(EnvironmentProblem) as caught:
        review.run(make, small_suite(), out=out)
    assert caught.value.message == "test sequential-read: the drive does not answer"
    assert caught.value.hint.startswith("look at its cable; then: drivebay review --resume ")
    assert caught.value.hint.endswith("--destroy-data FAKE0001")
    broken = False
    review.run(make, small_suite(), out=out, resume=True)
    whole = review.run(make, small_suite(), out=tmp_path / "whole")
    assert figures(out) == figures(whole)
    conditions = results.load(out).step("sequential-read").conditions()
    assert conditions["interruptions"][0]["ended"] == "failed: the drive does not answer"
    assert conditions["precondition_established_again"] == "purge, fill"


def test_a_bug_in_a_target_keeps_its_trace_and_what_had_finished(tmp_path: Path) -> None:
    def before(test: Test) -> None:
        if test.id == "thermal-write":
            raise ZeroDivisionError("a bug")

    with pytest.raises(ZeroDivisionError):
        review.run(
            lambda: FakeTarget(kind="file", before=before), small_suite(), out=tmp_path / "r"
        )
    assert len(results.load(tmp_path / "r").done) == 3


def test_a_second_worker_that_cannot_start_is_told(tmp_path: Path) -> None:
    made: list[FakeTarget] = []

    def make() -> FakeTarget:
        if made:
            raise EnvironmentProblem("no memory for a second drive", "use --jobs 1")
        made.append(FakeTarget(wall_s=0.2))
        return made[0]

    with pytest.raises(EnvironmentProblem, match="no memory"):
        review.run(make, small_suite(), out=tmp_path / "r", jobs=2)
    review.run(FakeTarget, small_suite(), out=tmp_path / "r", resume=True)
    assert results.load(tmp_path / "r").missing == ()


@pytest.mark.parametrize("kind", ["virtual", "file"])
def test_ctrl_c_keeps_what_had_finished(tmp_path: Path, kind: Any) -> None:
    def make() -> FakeTarget:
        return FakeTarget(kind=kind)

    out = tmp_path / "it's mine"
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(Interrupted) as caught:
        review.run(make, small_suite(), out=out, jobs=1, sink=CtrlC(2))
    assert caught.value.exit_code == 130
    assert caught.value.hint.startswith("go on with: drivebay review --resume '")
    assert signal.getsignal(signal.SIGINT) is handler
    assert len(results.load(out).done) == 1
    assert not list(out.glob(".partial*"))
    review.run(make, small_suite(), out=out, resume=True)
    whole = review.run(make, small_suite(), out=tmp_path / "whole")
    if kind == "virtual":
        assert content(out) == content(whole)
    assert figures(out) == figures(whole)
    stopped = [step.id for step in results.load(out).steps if step.conditions()]
    assert stopped == ([] if kind == "virtual" else ["random-read"])


def test_ctrl_c_after_the_last_test_is_not_an_interruption(tmp_path: Path) -> None:
    target = FakeTarget(wall_s=0.2)
    suite = small_suite().selected(("random-read",))
    run_test = target.run_test

    def run_and_interrupt(*arguments: Any, **options: Any) -> Any:
        phases = run_test(*arguments, **options)
        os.kill(os.getpid(), signal.SIGINT)
        return phases

    target.run_test = run_and_interrupt  # type: ignore[method-assign]
    try:
        folder = review.run(lambda: target, suite, out=tmp_path / "r")
    except Interrupted:
        folder = review.run(FakeTarget, suite, out=tmp_path / "r", resume=True)
    assert results.load(folder).missing == ()


class Other(FakeTarget):
    """The fake with one thing changed, by name."""

    what = ""

    def identity(self) -> dict[str, Any]:
        known = super().identity()
        return {
            "": known,
            "serial": {**known, "serial": "FAKE0002"},
            "profile": {**known, "profile": {"nand": {"dies": 32}}},
            "firmware": {**known, "firmware": "2"},
        }[self.what]


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("serial", "serial was FAKE0001, is FAKE0002"),
        ("profile", "profile.nand.dies was 64, is 32"),
        ("firmware", "firmware was None, is 2"),
    ],
)
def test_resume_refuses_another_drive(tmp_path: Path, what: str, expected: str) -> None:
    folder = review.run(FakeTarget, small_suite(), out=tmp_path / "r")
    other = Other()
    other.what = what
    with pytest.raises(UserError, match=expected):
        review.run(lambda: other, small_suite(), out=folder, resume=True)


def test_resume_refuses_another_suite_seed_or_length(tmp_path: Path) -> None:
    folder = review.run(FakeTarget, small_suite(), out=tmp_path / "r", seed=7)
    again: dict[str, Any] = {"out": folder, "resume": True}
    with pytest.raises(UserError, match="started with seed 7, not 1"):
        review.run(FakeTarget, small_suite(), seed=1, **again)
    with pytest.raises(UserError, match="at full length"):
        review.run(FakeTarget, small_suite(), seed=7, quick=True, **again)
    with pytest.raises(UserError, match="another suite, 'small'"):
        review.run(FakeTarget, suites.load("quick"), seed=7, **again)
    review.run(FakeTarget, small_suite(), seed=7, drive="elsewhere", **again)


def same(target: FakeTarget) -> FakeTarget:
    """A factory of one target."""
    return target


def test_resume_refuses_another_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = {}
    for kind in ("virtual", "file"):
        target = FakeTarget(kind=kind)
        made[kind] = review.run(partial(same, target), small_suite(), out=tmp_path / kind)
    manifests = {kind: results.read_manifest(folder) for kind, folder in made.items()}

    def compare(kind: Any) -> tuple[str, ...]:
        target = resume.target_block(FakeTarget(kind=kind), "")
        return resume.must_be_same(
            manifests[kind], suite=small_suite(), seed=1, quick=False, target=target
        )

    assert compare("virtual") == () == compare("file")
    core, python = provenance._digests()
    for digests, what in (((16 * "0", python), "core"), ((core, 16 * "0"), "Python sources")):
        monkeypatch.setattr(provenance, "_digests", lambda digests=digests: digests)
        with pytest.raises(UserError, match=f"{what} [0-9a-f]{{16}}; this is 0000000000000000"):
            compare("virtual")
        (warning,) = compare("file")
        assert what in warning
    older = manifests["virtual"].tool.model_copy(update={"core": None, "python": None})
    manifests["virtual"] = manifests["virtual"].model_copy(update={"tool": older})
    assert compare("virtual") == (), "what an older drivebay did not note is not compared"
    monkeypatch.setattr(provenance, "git_commit", lambda: "another")
    with pytest.raises(UserError, match="commit"):
        compare("virtual")
    (warning,) = compare("file")
    assert "another" in warning
    monkeypatch.setattr(provenance, "tool_version", lambda: "99.0")
    for kind in made:
        with pytest.raises(UserError, match=r"this is 99\.0"):
            compare(kind)


def test_resume_on_another_machine_warns_for_a_real_drive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = review.run(lambda: FakeTarget(kind="file"), small_suite(), out=tmp_path / "r")
    host = {**provenance.host(), "kernel": "Linux 99"}
    monkeypatch.setattr(provenance, "host", lambda: host)
    warned: list[str] = []

    class Listening(review.Silent):
        def warn(self, message: str) -> None:
            warned.append(message)

    again = {"out": folder, "resume": True, "sink": Listening()}
    review.run(lambda: FakeTarget(kind="file"), small_suite(), **again)  # type: ignore[arg-type]
    assert len(warned) == 1 and "kernel was" in warned[0] and "Linux 99" in warned[0]


@given(seed=st.integers(0, SEED_MAX), test_id=st.text(max_size=20))
def test_derived_seeds_are_in_range_and_differ_by_name(seed: int, test_id: str) -> None:
    drawn = derived_seed(seed, test_id)
    assert 0 <= drawn <= SEED_MAX
    assert drawn == derived_seed(seed, test_id) != derived_seed(seed, test_id + "x")


def test_default_jobs_leave_memory_for_the_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(64)))
    monkeypatch.setattr(planning, "available_bytes", lambda: 8 * 2**30)
    assert planning.default_jobs(FakeTarget(capacity_bytes=512 * 10**9), 9) == 5
    assert planning.default_jobs(FakeTarget(capacity_bytes=16 * 10**12), 9) == 1
    assert planning.default_jobs(FakeTarget(capacity_bytes=10**9), 9) == 9
    assert planning.default_jobs(FakeTarget(kind="block"), 9) == 1


def test_memory_is_the_lesser_of_machine_and_control_group(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    assert memory.available_bytes(meminfo, tmp_path) == memory.UNLIMITED_BYTES
    meminfo.write_text("MemTotal: 900 kB\nMemAvailable:     8 kB\n")
    assert memory.available_bytes(meminfo, tmp_path) == 8192
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.available_bytes(meminfo, tmp_path) == 8192
    (tmp_path / "memory.max").write_text("5000\n")
    (tmp_path / "memory.current").write_text("1000\n")
    assert memory.available_bytes(meminfo, tmp_path) == 4000


# ---------------------------------------------------------------------------- a killed process


def spawn(out: Path, *more: str, wall_s: float) -> subprocess.Popen[bytes]:
    """A review of the fake drive in a process of its own."""
    return subprocess.Popen(
        [sys.executable, str(HERE / "cli_with_fakes.py"), "review", *more],
        env={
            **os.environ,
            "PYTHONPATH": str(HERE.parent / "python"),
            "FAKE_WALL_S": str(wall_s),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=out.parent,
    )


@pytest.mark.parametrize("seed", [2014, 2015])
def test_kill_9_at_any_moment_and_resume_gives_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Killed again and again, at random moments, until it gets through."""
    monkeypatch.setattr(provenance, "git_commit", lambda: None)
    whole = review.run(lambda: FakeTarget(), small_suite(), out=tmp_path / "whole")
    out = tmp_path / "killed"
    done = subprocess.run(
        [sys.executable, str(HERE / "kill_often.py"), "fake", str(out), str(seed)],
        env={**os.environ, "PYTHONPATH": str(HERE.parent / "python")},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert int(done.stdout) >= 3, "it killed next to nothing and so showed nothing"
    assert content(out) == content(whole)
    assert {path.name for path in tmp_path.iterdir()} == {"whole", "killed"}, "no leftovers"


def wait_for_work(child: subprocess.Popen[bytes], out: Path) -> None:
    """Until this child has written to the log: what comes before is Python's start."""
    log = out / "log.jsonl"
    before = log.stat().st_size if log.exists() else 0

    def has_begun() -> bool:
        return log.exists() and log.stat().st_size > before

    wait_until(lambda: has_begun() or child.poll() is not None)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_end_with_130_and_a_hint_to_type(tmp_path: Path, number: signal.Signals) -> None:
    out = tmp_path / "r"
    child = spawn(out, "fake", "--out", "r", wall_s=5)
    wait_for_work(child, out)
    time.sleep(0.1)
    child.send_signal(number)
    stdout, stderr = child.communicate()
    assert child.returncode == 130
    assert stdout == b""
    assert stderr.decode().splitlines()[-2:] == [
        "error: interrupted",
        "hint: go on with: drivebay review --resume r",
    ]


def test_a_real_drive_is_changed_by_a_person_and_the_review_goes_on_after(tmp_path: Path) -> None:
    """Tests that need a heatsink wait, are named with what to type, and run when it is fitted."""
    suite = small_suite()
    cooled = suite.tests[1].model_copy(update={"what_if": ("heatsink",)})
    suite = suite.model_copy(update={"tests": (suite.tests[0], cooled, *suite.tests[2:])})
    told: list[str] = []

    class Ear(review.Silent):
        def warn(self, message: str) -> None:
            told.append(message)

    target = FakeTarget(kind="file")
    folder = review.run(lambda: target, suite, out=tmp_path / "r", sink=Ear())
    assert cooled.id not in target.ran and len(target.ran) == len(suite.tests) - 1
    assert cooled.id in told[0] and told[0].endswith("--modified heatsink")
    review.run(lambda: target, suite, out=folder, resume=True, modified=("heatsink",), sink=Ear())
    assert target.ran[-1] == cooled.id and len(told) == 1
    assert len(results.load(folder).done) == len(suite.tests)
    whole = review.run(FakeTarget, suite, out=tmp_path / "virtual")
    assert len(results.load(whole).done) == len(suite.tests), "a virtual drive changes by itself"
