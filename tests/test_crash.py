"""Every state that a power cut could leave: planted bugs are found and minimised, programs that are
right pass, and what makes an outcome worthless is said."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import crash_program
import here
import pytest

from drivebay import _core, serving
from drivebay.common.errors import EnvironmentProblem, UserError
from drivebay.crash import recording, words
from drivebay.crash.run import VERDICTS, Asked, Outcome, run
from drivebay.definitions import profiles
from drivebay.definitions.modifications import changed
from drivebay.definitions.scaling import with_capacity

PROGRAM = str(Path(crash_program.__file__))
PYTHON = (sys.executable, "-ISE")
DRIVE = "sm951-nvme-256"
STATES = 150 if "DRIVEBAY_LONG" in os.environ else 75
"""States of a recording that are checked, each by a process."""


def _recorded(folder: Path, command: tuple[str, ...], *changes: str) -> Path:
    profile = with_capacity(changed(profiles.load(DRIVE), changes), 64 << 20)
    out = folder / "recording"
    drive = serving.Drive(profile=profile, pace="none")
    assert recording.record(drive, out, command) == 0
    return out


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The recording of a program, made once."""
    known: dict[str, Path] = {}

    def find(name: str) -> Path:
        if name not in known:
            folder = tmp_path_factory.mktemp(name)
            known[name] = _recorded(folder, (*PYTHON, PROGRAM, "work", name))
        return known[name]

    return find


def _silent(_done: int, _all: int, _failed: int) -> None:
    pass


def _run(found: Path, name: str, folder: Path, **more: Any) -> Outcome:
    check = (*PYTHON, PROGRAM, "check", name, "{}")
    return run(Asked(recording=found, check=check, **more), folder / "run", 2, _silent)


def _smallest(found: Outcome, asked: Path) -> tuple[list[dict[str, Any]], str]:
    """What the smallest failure has lost, and what the check said."""
    assert found.failed
    one = found.failures[0]
    timeline = Asked(recording=asked, check=()).open().timeline(one.smallest)
    return [event for event in timeline["events"] if event["lost_units"]], one.verdict.said


@pytest.mark.parametrize(
    ("bug", "lost", "said"),
    [
        ("no-fsync", 1, "record 1 of 1 is gone"),
        ("no-folder-fsync", 1, "has no name"),
        ("rename-without-fsync", 1, "has a name and no data"),
        ("torn-page", 1, "torn or old"),
        ("double-write-without-barrier", 2, "torn or old"),
    ],
)
def test_a_planted_bug_is_found_and_minimised(
    bug: str, lost: int, said: str, recorded: Callable[[str], Path], tmp_path: Path
) -> None:
    asked = recorded(bug)
    found = _run(asked, bug, tmp_path, states=STATES)
    events, told = _smallest(found, asked)
    assert len(events) == lost and said in told
    assert all(event["op"] == "write" for event in events)
    # What one block holds is lost, even of a page of four.
    assert [event["lost_units"] for event in events] == [1] * lost
    # The next round's flush may be under way when the power is cut.
    assert {event["why"] for event in events} <= {"no-flush", "flush-in-flight"}


@pytest.mark.parametrize("bug", crash_program.BUGS)
def test_the_same_program_without_the_bug_passes_in_every_state(
    bug: str, recorded: Callable[[str], Path], tmp_path: Path
) -> None:
    found = _run(recorded(f"right-{bug}"), f"right-{bug}", tmp_path, states=STATES)
    assert not found.failed and len(found.verdicts) > 10


def test_a_drive_that_ignores_flushes_is_found_and_blamed(
    recorded: Callable[[str], Path], tmp_path: Path
) -> None:
    found = _run(
        recorded("right-no-fsync"),
        "right-no-fsync",
        tmp_path,
        states=STATES,
        changes={"ignores_flush": True},
    )
    assert found.failed
    asked = Asked(recording=recorded("right-no-fsync"), check=(), changes={"ignores_flush": True})
    (one,) = found.failures
    events = asked.open().timeline(one.smallest)["events"]
    assert [one["why"] for one in events if one["why"]] == ["flush-ignored"]
    assert any("ignores flushes" in note for note in found.notes)


def test_what_fails_in_another_way_is_minimised_too(
    recorded: Callable[[str], Path], tmp_path: Path
) -> None:
    block = 'dd if={} bs=4k skip=%d count=1 2>/dev/null | tr -d "\\0" | head -c 1 | grep -q .'
    first, second = (block % (crash_program.DATA + number) for number in (1, 2))
    script = (
        f'test "$DRIVEBAY_MARK" || exit 0; {first} || {{ echo first of $DRIVEBAY_MARK; exit 1; }}; '
        f"test $DRIVEBAY_MARK = 1 || {second} || {{ echo second in {{}}; exit 1; }}"
    )
    found = _run_words(recorded("no-fsync"), tmp_path, ("sh", "-c", script), states=STATES)
    assert [one.verdict.said.split()[0] for one in found.failures] == ["first", "second"]
    assert sum(len(one.states) for one in found.failures) == len(found.failed)
    core = Asked(recording=recorded("no-fsync"), check=()).open()
    for number, one in enumerate(found.failures):
        lost = [event for event in core.timeline(one.smallest)["events"] if event["lost_units"]]
        assert [event["lba"] for event in lost] == [8 * (crash_program.DATA + 1 + number)]


def test_power_loss_protection_loses_nothing_that_was_promised(
    recorded: Callable[[str], Path], tmp_path: Path
) -> None:
    drive = profiles.load("7450-pro-960")
    assert not _run(recorded("no-fsync"), "no-fsync", tmp_path, states=STATES, drive=drive).failed


def test_a_drive_that_is_served_with_ignored_flushes_says_so_in_its_recording(
    tmp_path: Path,
) -> None:
    command = (*PYTHON, PROGRAM, "work", "right-no-fsync")
    found = Asked(recording=_recorded(tmp_path, command, "ignore_flush"), check=())
    assert found.open().info()["rules"]["ignores_flush"] is True


def test_a_mark_of_a_drive_that_is_not_recorded_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "recording"
    profile = with_capacity(profiles.load(DRIVE), 64 << 20)
    script = (
        "import crash_program as c, os; d = c.Nbd(os.environ['DRIVEBAY_NBD'].split('socket=')[1]);"
        "d.write(0, bytes(4096)); c.tell('mark one'); c.tell('power-cut')\n"
        "try: c.tell('mark two')\nexcept AssertionError: raise SystemExit(7)"
    )
    words_ = ("env", f"PYTHONPATH={Path(PROGRAM).parent}", sys.executable, "-c", script)
    assert recording.record(serving.Drive(profile=profile, pace="none"), out, words_) == 7
    assert Asked(recording=out, check=()).open().info()["marks"] == ["one"]


@pytest.mark.parametrize("loss", ["all", "unflushed"])
def test_what_a_live_power_cut_leaves_is_one_of_the_states(
    loss: Literal["all", "unflushed"], tmp_path: Path
) -> None:
    left, out = tmp_path / "left", tmp_path / "recording"
    profile = with_capacity(profiles.load(DRIVE), 64 << 20)
    drive = serving.Drive(profile=profile, pace="none", loss=loss)
    assert recording.record(drive, out, (*PYTHON, PROGRAM, "cut", str(left))) == 0
    states = Asked(recording=out, check=()).open()
    names, _ = states.enumerate(1000, 1)
    view = _core.CrashView(tmp_path / "state")

    def shown(name: str) -> bytes:
        view.show(states, name)
        with (tmp_path / "state").open("rb") as file:
            return file.read(8 * crash_program.BLOCK)

    found = [shown(name) for name in names]
    last = states.last()
    assert last is not None and left.read_bytes() != shown(last), "the cut took something"
    assert left.read_bytes() in found and len(found) > 20


@pytest.mark.parametrize("name", [DRIVE, "sn770-1tb"])
@pytest.mark.parametrize("writes", [700, 3000])
def test_a_live_power_cut_takes_nothing_that_the_rules_call_safe(
    name: str, writes: int, tmp_path: Path
) -> None:
    """Some or all of what the write buffer can hold: which, the drive's dies decide."""
    left, out = tmp_path / "left", tmp_path / "recording"
    drive = serving.Drive(profile=with_capacity(profiles.load(name), 64 << 20), pace="none")
    command = (*PYTHON, PROGRAM, "cut-behind", str(left), str(writes))
    assert recording.record(drive, out, command) == 0
    states = Asked(recording=out, check=()).open()
    cut = str(states.last()).partition(":")[0]
    volatile = {command for _, command in states.lost_units(f"{cut}:prefix:0")}
    flushed_at = writes // 20 + 1  # which is a command, too
    commands = [number + (number >= flushed_at) for number in range(writes)]
    there = [one == "1" for one in left.read_text()]
    lost = {command for command, is_there in zip(commands, there, strict=True) if not is_there}
    assert lost and lost <= volatile < set(commands)


# --- what makes an outcome worthless --------------------------------------------------------------


def _notes(found: Path, check: tuple[str, ...], folder: Path) -> str:
    return " ".join(run(Asked(recording=found, check=check), folder, 2, _silent).notes)


def test_a_check_that_passes_on_an_empty_drive_is_called_out(
    recorded: Callable[[str], Path], tmp_path: Path
) -> None:
    found = run(Asked(recording=recorded("no-fsync"), check=("true",)), tmp_path / "a", 2, _silent)
    assert found.is_void and "passes on an empty drive" in " ".join(found.notes)
    looks = (
        "sh",
        "-c",
        "head -c 262144 {} | tr -d '\\0' | head -c 1 | grep -q . || test -z $DRIVEBAY_MARK",
    )
    assert "empty drive" not in _notes(recorded("right-no-fsync"), looks, tmp_path / "b")


def test_a_recording_without_write_back_says_what_it_cannot_have_seen(
    recorded: Callable[[str], Path], tmp_path: Path
) -> None:
    said = "never wrote back by itself"
    assert said in _notes(recorded("right-no-fsync"), ("true",), tmp_path / "a")
    assert said not in _notes(recorded("no-fsync"), ("true",), tmp_path / "b")


def test_a_workload_without_a_flush_was_promised_nothing(
    recorded: Callable[[str], Path], tmp_path: Path
) -> None:
    assert "promised it nothing" in _notes(recorded("no-fsync"), ("true",), tmp_path)


def test_a_recording_that_is_cut_short_is_called_out(
    recorded: Callable[[str], Path], tmp_path: Path
) -> None:
    short = tmp_path / "short"
    short.write_bytes(recorded("right-no-fsync").read_bytes()[:-5000])
    assert "cut short" in _notes(short, ("true",), tmp_path / "run")
    told = _drivebay("run", "short", "--out", "again", "--", "true", code=2, folder=tmp_path)
    assert "error: the recording is cut short" in told


def test_a_check_that_hangs_has_failed_and_leaves_nothing_running(
    recorded: Callable[[str], Path], tmp_path: Path
) -> None:
    pid, log = tmp_path / "pid", tmp_path / "log"
    hang = f"sleep 1000 & echo $! > {pid}; echo {{}} hangs >> {log}; wait"
    script = f'echo {{}} >> {log}; test "$DRIVEBAY_MARK" != 1 || {{ {hang}; }}'
    found = _run_words(recorded("right-no-fsync"), tmp_path, ("sh", "-c", script), timeout_s=0.3)
    hung = [verdict for verdict in found.verdicts.values() if verdict.kind == "hang"]
    assert hung and all(verdict.exit_code is None for verdict in hung)
    left = Path(f"/proc/{pid.read_text().strip()}/stat")
    with contextlib.suppress(OSError):  # gone
        while left.read_text().rpartition(")")[2].split()[0] != "Z":  # killed, on a busy machine
            time.sleep(0.1)
    # What was killed may still hold its file: the next state is in another one.
    lines = log.read_text().split("\n")
    for number, line in enumerate(lines):
        if line.endswith(" hangs"):
            assert line.removesuffix(" hangs") not in lines[number:]


def _run_words(found: Path, folder: Path, check: tuple[str, ...], **more: Any) -> Outcome:
    return run(Asked(recording=found, check=check, **more), folder / "run", 2, _silent)


def test_a_check_that_fails_though_nothing_is_lost_is_refused(
    recorded: Callable[[str], Path], tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="although nothing is lost: exit code 1, no output"):
        _run_words(recorded("no-fsync"), tmp_path, ("false",))


def test_a_check_that_says_now_this_and_now_that_is_called_out(
    recorded: Callable[[str], Path], tmp_path: Path
) -> None:
    # It fails on each state of the first mark, the first time.
    once = f'test "$DRIVEBAY_MARK" != 1 || ! mkdir "{tmp_path}/$DRIVEBAY_STATE"'
    found = _run_words(recorded("right-no-fsync"), tmp_path, ("sh", "-c", once))
    assert found.failed and not found.failures
    assert any("it is no judge" in note for note in found.notes)


def test_a_check_that_is_not_there_is_the_machines_fault(
    recorded: Callable[[str], Path], tmp_path: Path
) -> None:
    with pytest.raises(EnvironmentProblem, match="nowhere cannot be started"):
        _run_words(recorded("no-fsync"), tmp_path, ("/nowhere",))


# --- repeatable, resumed, clean -------------------------------------------------------------------


def test_what_a_check_writes_is_not_in_the_next_state(
    recorded: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = tmp_path / "digests"
    folder.mkdir()
    spoil = "import mmap,os,sys; f=os.open(sys.argv[1],os.O_RDWR); mmap.mmap(f,4096)[:4]=b'dirt'"
    for name, end in (("clean", ""), ("dirty", f'; {sys.executable} -ISc "{spoil}" {{}}')):
        (folder / name).mkdir()
        digest = f'head -c 262144 {{}} | sha256sum > "{folder / name}/$DRIVEBAY_STATE"'
        found = _run_words(
            recorded("right-torn-page"), folder / name, ("sh", "-c", digest + end), states=20
        )
        assert not found.failed

    def digests(name: str) -> dict[str, str]:
        return {one.name: one.read_text() for one in (folder / name).glob("*:*")}

    assert digests("clean") == digests("dirty")
    assert len(set(digests("clean").values())) > 5


def test_an_interrupted_run_goes_on_and_another_ones_folder_is_refused(
    recorded: Callable[[str], Path], tmp_path: Path
) -> None:
    counter = tmp_path / "count"
    check = ("sh", "-c", f"echo x >> {counter}")
    asked = Asked(recording=recorded("no-fsync"), check=check)
    whole = run(asked, tmp_path / "run", 2, _silent)
    first = len(counter.read_text().split())
    journal = tmp_path / "run" / VERDICTS
    lines = journal.read_text().splitlines(keepends=True)
    assert len(lines) == len(whole.verdicts)
    long = json.dumps({**json.loads(lines[0]), "said": "x" * 2_000_000}) + "\n"
    journal.write_text(long + "".join(lines[:-3]) + lines[-3][:10])  # as a kill leaves it
    again = run(asked, tmp_path / "run", 2, _silent)
    assert again.verdicts == whole.verdicts
    # The empty drive and the whole one are checked each time.
    assert len(counter.read_text().split()) == first + 3 + 2
    with pytest.raises(UserError, match="is of another run: seed"):
        run(Asked(recording=asked.recording, check=check, seed=2), tmp_path / "run", 2, _silent)


# --- the command line -----------------------------------------------------------------------------


def _drivebay(*words_: str, code: int, folder: Path) -> str:
    done = here.drivebay("crash", *words_, cwd=folder)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_the_way_from_a_recording_to_the_smallest_failure_and_back(tmp_path: Path) -> None:
    work = (*PYTHON, PROGRAM, "work", "rename-without-fsync")
    check = (*PYTHON, PROGRAM, "check", "rename-without-fsync", "{}")
    size = ("--capacity", "64MiB")
    said = _drivebay(
        "record", DRIVE, *size, "--out", "kv.crash", "--", *work, code=0, folder=tmp_path
    )
    assert f"note: --capacity 64MiB: {DRIVE} has 2.0 GB, the next larger size" in said
    said = _drivebay(
        "run", "kv.crash", "--after", "2", "--json", "--", *check, code=1, folder=tmp_path
    )
    found = json.loads(said[said.index("{") : said.rindex("}") + 1])
    name = next(iter(found["smallest"].values()))
    told = _drivebay("show", "kv.crash.run", name, code=0, folder=tmp_path)
    assert "LOST" in told and "why: " in told and "THE POWER IS CUT; the last mark was" in told
    assert "failed" in _drivebay("show", "kv.crash.run", code=0, folder=tmp_path)
    assert "writes  10" in _drivebay("show", "kv.crash", code=0, folder=tmp_path)
    _drivebay("replay", "kv.crash.run", name, "--file", "state.img", code=0, folder=tmp_path)
    recorded = Asked(recording=tmp_path / "kv.crash", check=(), after="2").open()
    mark = recorded.timeline(name)["mark"]
    assert mark and int(mark) >= 2
    done = subprocess.run(
        [word.replace("{}", str(tmp_path / "state.img")) for word in check],
        env={**os.environ, "DRIVEBAY_MARK": mark or ""},
        check=False,
    )
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("words_", "code", "said"),
    [
        (("run", "none", "--", "true"), 3, "No such file"),
        (("run", "text", "--", "true"), 2, "is not a recording"),
        (("run", "text", "--set", "heatsink", "--", "true"), 2, "--set needs --drive"),
        (("run", "text", "--atomic", "700", "--", "true"), 2, "--atomic 700 is not possible"),
        (("replay", "text", "0:prefix:0"), 2, "either --nbd or --file"),
        (("show", "."), 2, "is no run"),
        (("record", DRIVE, "--out", "text", "--", "true"), 2, "text exists already"),
        (("record", DRIVE, "--out", "new", "--", "/nowhere"), 3, "cannot be started"),
    ],
)
def test_bad_input_is_told_in_a_line(
    words_: tuple[str, ...], code: int, said: str, tmp_path: Path
) -> None:
    (tmp_path / "text").write_text("a text, and no recording\n")
    told = _drivebay(*words_, code=code, folder=tmp_path)
    assert said in told and "hint: " in told and "Traceback" not in told


def test_numbers_of_choices_are_told_exactly_where_they_are_small() -> None:
    coverage = {"cuts": 3, "cuts_exhausted": 3, "choices_log2": 4.0}
    assert words.covered(coverage, 12) == "all 12 states of 3 cuts (16 choices) checked"
