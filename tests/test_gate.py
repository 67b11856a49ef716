"""The gate: a program's requests are recorded without data and run again in a virtual drive's time,
and two sets of recordings are compared."""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from pathlib import Path

import here
import pytest

from drivebay import traces
from drivebay.common.errors import UserError
from drivebay.crash.run import Asked
from drivebay.definitions import profiles
from drivebay.gate import record as gate_record
from drivebay.gate import timing
from drivebay.gate.compare import change, changes
from drivebay.gate.timing import recordings, timed

DRIVE = profiles.load("sm951-nvme-256")
PROGRAM = """
import os, struct, sys
sys.path.insert(0, sys.argv[1])
from crash_program import Nbd, mark
drive = Nbd(os.environ["DRIVEBAY_NBD"].partition("socket=")[2])
for number in range(int(sys.argv[2])):
    if str(number) in sys.argv[3:]:
        mark("start")
    drive.write(number, bytes([number]) * 4096)
    drive.write(1000 + number, bytes([number]) * 8192)
    drive.flush()
drive.read(0, 2)
drive.talk.sendall(struct.pack(">IHHQQI", 0x25609513, 1, 1, 0, 0, 4096) + bytes(4096))
drive._read(16)
"""
"""Writes pages with a flush each, reads two of them, and writes one with FUA. Sends the mark
`start` before the commits that are named."""


def _recorded(out: Path, commits: int, runs: int = 4, starts: tuple[str, ...] = ()) -> Path:
    words = [sys.executable, "-c", PROGRAM, str(Path(__file__).parent), str(commits), *starts]
    size = 64 << 20
    assert not gate_record.record(
        out, words, runs=runs, size_bytes=size, file_system=None, setup=None
    )
    return out


@pytest.fixture(autouse=True)
def _small_drive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "CAPACITY_BYTES", 1 << 30)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _recorded(tmp_path_factory.mktemp("gate") / "base", 100)


def test_requests_are_recorded_without_data(base: Path) -> None:
    files = recordings(base)
    assert [file.name for file in files] == [f"{run}.requests" for run in range(1, 5)]
    # Less than a block of data.
    assert files[0].stat().st_size < 32_000
    described = traces.info(files[0])
    assert described.summary.format == "recording"
    assert (described.figures["writes"], described.figures["reads"]) == (201, 1)
    # Each request was sent after the answer to the one before.
    assert described.figures["queue_depth_mean"] == 1
    with pytest.raises(UserError, match="no data"):
        Asked(recording=files[0], check=()).open()


def test_the_same_requests_take_the_same_time_however_fast_the_machine_is(base: Path) -> None:
    first, *others = list(timed(recordings(base), DRIVE))
    assert all(other == first for other in others)
    assert first["bytes written"] == (100 * 3 + 1) * 4096
    assert first["FUA writes"] == first["write-fua 4 KiB"] == 1
    assert first["flushes"] == 100 and first["I/O time"] > 0
    assert first["write 4 KiB"] == first["write 8 KiB"] == 100
    assert first["read 8 KiB"] == 1
    # A drive without power-loss protection programs what a flush covers.
    assert first["mean flush"] > 100


def test_requests_before_the_last_mark_start_do_not_count(tmp_path: Path) -> None:
    file = _recorded(tmp_path / "out", 5, runs=1, starts=("1", "3")) / "1.requests"
    described = traces.info(file)
    # Two commits, a read, and a write with FUA.
    assert (described.figures["writes"], described.figures["flushes"]) == (2 * 2 + 1, 2)
    assert described.figures["reads"] == 1
    (figures,) = timed([file], DRIVE)
    assert figures["flushes"] == 2 and figures["I/O time"] > 0


def test_a_page_more_before_the_first_read_changes_the_time_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw, at, rows = random.Random(1), 10_000, list[str]()
    for number in range(300):
        at += 3000
        rows += [f"{at},read,{8192 * draw.randrange(50_000)},8192,0,1000"]
        rows += [f"{at + 1500},write,{(1 << 29) + 16384 * number},16384,0,1000"]
    files = [tmp_path / f"{before}.csv" for before in range(4)]
    for before, file in enumerate(files):
        more = [f"{1500 * page},write,{4096 * page},4096,0,1000" for page in range(before)]
        file.write_text("\n".join(("at_ns,op,offset_bytes,bytes,device,response_ns", *more, *rows)))

    def spread() -> float:
        times = [one["I/O time"] for one in timed(files, profiles.load("7450-pro-960"))]
        return max(times) / min(times) - 1

    assert spread() < 0.015
    monkeypatch.setattr(timing, "PHASES", 1)
    assert spread() > 0.03


def test_a_change_of_two_per_cent_fails_the_gate_and_none_passes_it(base: Path) -> None:
    new = _recorded(base.parent / "new", 102)
    drive = ("--drive", "sm951-nvme-256")
    done = here.drivebay("gate", "compare", str(base), str(new), *drive, cwd=base)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "| flushes | 100 | 102 | +2.00 % | +2.00 to +2.00 % | worse |" in done.stdout
    assert "| write 4 KiB | 100 | 102 | +2.00 %" in done.stdout
    done = here.drivebay("gate", "compare", str(base), str(base), *drive, "--json", cwd=base)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["flushes"]["verdict"] == "same" and "write 4 KiB" not in found


def test_a_failing_command_ends_the_recording(tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ("--out", str(out), "--fs", "none", "--size", "64MiB", "--", "sh", "-c", "exit 7")
    assert here.drivebay("gate", "record", *words, cwd=tmp_path).returncode == 7
    assert list(out.iterdir()) == []
    with pytest.raises(UserError, match="has no recordings"):
        recordings(out)


def test_no_change_is_claimed_of_equal_sets_and_none_of_2_per_cent_is_missed() -> None:
    draw = random.Random(1)
    found: Counter[str] = Counter()
    for _ in range(500):
        sets = [[draw.gauss(mean, 0.3) for _ in range(7)] for mean in (100, 100, 102)]
        found[change(sets[0], sets[1], 1.0).verdict] += 1
        found[f"new {change(sets[0], sets[2], 1.0).verdict}"] += 1
    assert found["worse"] + found["better"] == 0
    assert found["new worse"] > 490
    # One disturbed recording does not hide a change.
    assert change([100.0] * 6 + [150], [102.0] * 7, 1.0).verdict == "worse"
    # Tables of the Mann-Whitney statistic: 8 is critical for 10 and 5 values at 5 %, two-sided.
    known = change(range(100, 110), range(200, 205), 1.0)
    shifts = sorted(after / before for before in range(100, 110) for after in range(200, 205))
    assert known.low == pytest.approx(100 * (shifts[8] - 1))
    assert known.high == pytest.approx(100 * (shifts[41] - 1))


def test_what_is_zero_in_both_sets_is_left_out_and_what_appears_is_worse() -> None:
    sets = [[{"flushes": flushes, "write 4 KiB": flushes}] * 4 for flushes in (0, 5)]
    assert changes(sets[0], sets[0], 1.0) == {}
    found = changes(sets[0], sets[1], 1.0)
    assert found["flushes"].verdict == found["write 4 KiB"].verdict == "worse"
    sets = [[{"p99 latency": value, "I/O time": value}] * 4 for value in (100, 103, 106)]
    for new, expected in ((sets[1], "same"), (sets[2], "worse")):
        found = changes(sets[0], new, 1.0)
        assert found["p99 latency"].verdict == expected and found["I/O time"].verdict == "worse"
    sets = [[{"flushes": 0}] * 4, [{"flushes": 5}] * 4]
    with pytest.raises(UserError, match="at least 4 recordings"):
        changes(sets[0][:3], sets[1], 1.0)
