"""Whole reviews of real storage from the command line: a file and a loop device.

They are small, as all of them is written: 2.1 GiB of the disk while the tests run. Both run the
quick suite's short form through fio at the same time. The file's review is interrupted by Ctrl-C
and the device's killed outright, each after its first test; both must go on and end whole.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from loops import digest, loop, needs_root, sparse
from real_files import fios_of
from waiting import wait_until

from drivebay import results
from drivebay.common import data
from drivebay.definitions import suites
from drivebay.results import Result
from drivebay.targets.safety.locks import DIRECTORY_VARIABLE

GIB = 2**30
SIZE_OF_FILE = 17 * GIB // 16
PROGRAM = [sys.executable, "-c", "from drivebay.cli import main; main()"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
FIRST, LAST = "sequential-read", "trim"
LADDERS = ("random-read", "random-write", "consistency-short")
LONG = "DRIVEBAY_LONG" in os.environ
SKIPPED = () if LONG else LADDERS
"""Random reads and writes, which show nothing of resuming; `make test-long` runs them."""
PHASE_S = 2 if LONG else 0.5
"""Seconds of a ladder's phase; two in the suite's short form."""


class Review(threading.Thread):
    """`drivebay review` in a process, sent a signal once its first test is kept; then resumed."""

    def __init__(self, number: signal.Signals, out: Path, drive: str, *word: str) -> None:
        super().__init__(daemon=True)
        self.suite = out.with_name("quick.toml")
        text = (data.path("suites") / "quick.toml").read_text()
        self.suite.write_text(text.replace("{ duration_s = 2,", f"{{ duration_s = {PHASE_S},"))
        self.number, self.out, self.drive, self.word = number, out, drive, word
        # Both are on one disk, so they would wait for one another.
        own_locks = out.with_name(f"{out.name}-locks")
        own_locks.mkdir()
        self.environment = {**ENVIRONMENT, DIRECTORY_VARIABLE: str(own_locks)}
        self.exit_code, self.stderr, self.kept = -1, "", ["", ""]
        self.fios: list[int] = []
        self.resumed: subprocess.CompletedProcess[str] | None = None

    def run(self) -> None:
        given = ["--suite", str(self.suite), "--quick", "--out", str(self.out)]
        given += [word for name in SKIPPED for word in ("--skip", name)]
        process = subprocess.Popen(
            [*PROGRAM, "review", self.drive, *given, *self.word],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        first = self.out / "steps" / FIRST
        wait_until(lambda: first.exists() or process.poll() is not None)
        while process.poll() is None and not self.fios:
            self.fios = fios_of(process.pid)
            time.sleep(0.05)
        process.send_signal(self.number)
        _, self.stderr = process.communicate()
        self.exit_code = process.returncode
        # They end, if only after their last I/O.
        wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in self.fios))
        self.kept[0] = digest(first / "series.parquet")
        again = ("review", "--resume", str(self.out), *self.word)
        self.resumed = drivebay(*again, environment=self.environment)
        self.kept[1] = digest(first / "series.parquet")


def drivebay(
    *arguments: str, environment: dict[str, str] = ENVIRONMENT
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def must_be_whole(out: Path, kind: str, size_bytes: int) -> Result:
    """Every test done, with figures that add up, raw output kept, and a report."""
    result = results.load(out)
    wanted = [test.id for test in suites.load("quick").tests if test.id not in SKIPPED]
    assert [step.id for step in result.steps] == wanted
    assert all(step.state == "done" for step in result.steps)
    assert (result.target["kind"], result.target["capacity_bytes"]) == (kind, size_bytes)
    for step in result.steps:
        content = json.loads((out / "steps" / step.id / "step.json").read_text())
        series = results_table(out, step.id, "series")
        histogram = results_table(out, step.id, "histogram")
        for phase in content["phases"]:
            rows = [row for row in series if row["phase"] == phase["label"]]
            bins = [row for row in histogram if row["phase"] == phase["label"]]
            assert phase["reads"] + phase["writes"] > 0
            for way in ("read", "write"):
                assert sum(row[f"{way}s"] for row in rows) == phase[f"{way}s"]
                counted = sum(row["count"] for row in bins if row["direction"] == way)
                assert counted == phase[f"{way}s"]
            raw = out / "steps" / step.id / "raw"
            if step.id == "trim":  # not fio's work
                continue
            assert (raw / f"{phase['label']}.exit-code.txt").read_text() == "0\n"
            assert (raw / f"{phase['label']}.fio").exists()
    page = (out / "report.html").read_text()
    assert result.target["name"] in page
    return result


def results_table(out: Path, step: str, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(out / "steps" / step / f"{name}.parquet").to_pylist()
    return rows


@dataclass(frozen=True)
class Ran:
    """What was run side by side; the loop device only as root."""

    file: Path
    of_file: Review
    backing: Path
    of_loop: Review | None
    without_word: subprocess.CompletedProcess[str] | None
    untouched: bool


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    folder = tmp_path_factory.mktemp("real")
    file = sparse(folder / "drive.img", SIZE_OF_FILE)
    backing = sparse(folder / "disk.img", GIB)
    of_file = Review(signal.SIGINT, folder / "of-file", str(file))
    of_file.start()
    of_loop, refused, untouched = None, None, False
    if os.geteuid() == 0:
        with loop(backing, "--direct-io=on") as device:
            before = digest(backing)
            refused = drivebay("review", device, "--quick", "--out", str(folder / "none"))
            untouched = digest(backing) == before and not (folder / "none").exists()
            word = ("--destroy-data", str(backing))
            of_loop = Review(signal.SIGKILL, folder / "of-loop", device, *word)
            of_loop.start()
            of_loop.join()
    of_file.join()
    yield Ran(file, of_file, backing, of_loop, refused, untouched)
    file.unlink()
    backing.unlink()


def test_a_file(ran: Ran) -> None:
    review = ran.of_file
    assert review.exit_code == 130, review.stderr
    *_, error, hint = review.stderr.splitlines()
    assert error == "error: interrupted"
    assert hint.startswith("hint: go on with: drivebay review --resume")
    must_have_gone_on(review)
    must_be_whole(review.out, "file", SIZE_OF_FILE)
    assert ran.file.stat().st_size == SIZE_OF_FILE


@needs_root
def test_a_loop_device(ran: Ran) -> None:
    review = ran.of_loop
    assert review is not None and ran.untouched
    assert ran.without_word is not None
    assert ran.without_word.returncode == 2 and ran.without_word.stdout == ""
    assert "its serial number was not given" in ran.without_word.stderr
    assert review.exit_code == -signal.SIGKILL
    assert "ALL DATA ON IT WILL BE LOST" in review.stderr
    assert str(ran.backing) in review.stderr
    must_have_gone_on(review)
    result = must_be_whole(review.out, "block", GIB)
    assert result.target["serial"] == str(ran.backing)
    assert ran.backing.stat().st_size == GIB


def must_have_gone_on(review: Review) -> None:
    """fio was running when the signal came, ended with drivebay, and the rest was run later."""
    assert review.fios
    assert review.resumed is not None and review.resumed.returncode == 0, review.resumed
    assert LAST in review.resumed.stdout
    assert f"{FIRST}  " in review.stderr
    assert f"{FIRST}  " not in review.resumed.stderr, "what had finished is not planned again"
    assert review.kept[0] == review.kept[1], "nor run again"
