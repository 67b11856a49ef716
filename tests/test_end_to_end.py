"""Whole reviews of the virtual SM951, and the way in from Python. The figures have other tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fakes import CtrlC
from test_results import content

import drivebay
from drivebay import results, review
from drivebay.common.errors import Interrupted
from drivebay.definitions import profiles as catalog
from drivebay.definitions import suites
from drivebay.targets.virtual.states import States
from drivebay.targets.virtual.target import VirtualTarget

SMALL = "sm951-ahci-128"


def drivebay_command(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The program as a user runs it, without a terminal."""
    package = Path(__file__).resolve().parent.parent / "python"
    return subprocess.run(
        [sys.executable, "-c", "from drivebay.cli import main; main()", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(package)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def check_summary(done: subprocess.CompletedProcess[str], *, kind: str) -> Any:
    """Checks what `review --json` leaves, and returns what it printed."""
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    page = Path(summary["report"]).read_text()
    assert page.startswith("<!") and "</html>" in page
    result = results.load(summary["result"])
    assert result.missing == () and result.target["kind"] == kind
    for row in summary["headline"]:
        # Nothing of the old data is to be left after TRIM.
        assert row["value"] is None or row["value"] > 0 or row["test_id"] == "trim", row
    assert {row["test_id"] for row in summary["headline"]} == {step.id for step in result.done}
    for step in result.done:
        for phase in step.phases():
            load = phase.workload
            series = step.table("series", phase.label)
            ios = phase.reads + phase.writes
            assert ios > 0, (step.id, phase.label)
            assert phase.read_bytes + phase.write_bytes == ios * load.block_bytes
            assert (phase.writes == 0) == (load.read_percent == 100)
            counted = sum(series.column("reads").to_pylist() + series.column("writes").to_pylist())
            assert counted == ios, (step.id, phase.label)
            assert sum(step.table("histogram", phase.label).column("count").to_pylist()) == ios
            assert series.num_rows == max(1, round(phase.duration_s))
    return summary


def test_a_virtual_review_is_the_same_bytes_however_it_is_run(tmp_path: Path) -> None:
    """One worker, two that share prepared states, and interrupted by Ctrl-C in a test."""
    profile = catalog.load(SMALL)
    suite = suites.load("quick").selected(("random-read", "random-write", "consistency-short"))

    def make() -> VirtualTarget:
        return VirtualTarget(profile)

    states = States()

    def sharing() -> VirtualTarget:
        return VirtualTarget(profile, states)

    one = review.run(make, suite, out=tmp_path / "one", jobs=1, quick=True)
    two = review.run(sharing, suite, out=tmp_path / "two", jobs=2, quick=True)
    assert content(one) == content(two)
    assert len(content(one)) == 1 + 3 * 4
    cut = tmp_path / "cut"
    with pytest.raises(Interrupted):
        review.run(make, suite, out=cut, jobs=1, sink=CtrlC(2), quick=True)
    assert len(results.load(cut).done) == 1
    review.run(make, suite, out=cut, resume=True, jobs=2, quick=True)
    assert content(cut) == content(one)


def test_the_virtual_drive_by_the_command_line(tmp_path: Path) -> None:
    done = drivebay_command("review", SMALL, "--suite", "quick", "--quick", "--json", cwd=tmp_path)
    summary = check_summary(done, kind="virtual")
    reading = next(row for row in summary["headline"] if row["test_id"] == "random-read")
    # Published of 512 GB; so few reads at a time do not ask for more dies.
    assert reading["value"] == pytest.approx(108, rel=0.15), "MB/s, mean of QD 1, 2, 4"


def test_public_names_are_all_there() -> None:
    for name in drivebay.__all__:
        assert getattr(drivebay, name) is not None
    with pytest.raises(AttributeError, match="drivebay has no 'nonsense'"):
        drivebay.nonsense  # noqa: B018
