"""`drivebay prepare`: what the model's own count says of each way to prepare a drive."""

from __future__ import annotations

import contextlib

import pytest
from fakes import made_test
from pydantic import ValidationError

from drivebay.cli.entry import run
from drivebay.definitions import profiles
from drivebay.definitions.profiles import Profile
from drivebay.definitions.scaling import with_capacity
from drivebay.definitions.suites import Phase, Prepare, Workload
from drivebay.lab import prepare as lab
from drivebay.report.base.text import step_words
from drivebay.targets.base import Progress
from drivebay.targets.virtual.target import VirtualTarget


@pytest.fixture(scope="module")
def drive() -> Profile:
    return with_capacity(profiles.load("sm951-nvme-128"), 10**9)


@pytest.fixture(scope="module")
def found(drive: Profile) -> dict[lab.Method, lab.Prepared]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lab, "LONG_TIMES", 3)  # long enough for the bounds here
        return {one.method: one for one in lab.prepare(drive)}


def test_two_fills_leave_a_drive_below_steady_state_and_random_writes_bring_it_there(
    found: dict[lab.Method, lab.Prepared],
) -> None:
    fills, random = found["two-fills"], found["random"]
    assert fills.error_percent < -10 and fills.more and random.more == 0
    assert abs(random.error_percent) < 10
    assert fills.written == pytest.approx(2, rel=0.01)
    assert random.written == pytest.approx(3, rel=0.01)
    assert random.drive_s > 3 * fills.drive_s > 0


def test_sprandom_writes_once_and_as_much_more_as_it_is_told_of_spare(
    drive: Profile, found: dict[lab.Method, lab.Prepared], monkeypatch: pytest.MonkeyPatch
) -> None:
    own = found["sprandom"]
    spare = drive.flash_bytes / drive.capacity_bytes - 1
    assert own.written == pytest.approx(1 + spare, rel=0.02)
    monkeypatch.setattr(lab, "LONG_TIMES", 1)  # steady state is of no interest here
    (more,) = lab.prepare(drive, ("sprandom",), spare=0.4)
    assert more.written == pytest.approx(1.4, rel=0.02) and more.waf < own.waf


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--method", "three-fills"], "--method: 'three-fills' is not allowed"),
        (["--spare-percent", "0"], "--spare-percent: 0 is not allowed"),
        (["--capacity", "x"], "--capacity"),
    ],
)
def test_a_mistake_is_told_in_two_lines(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["prepare", "sm951-nvme-128", *words]) == 2
    error, hint = capsys.readouterr().err.splitlines()
    assert error.startswith(f"error: {said}") and hint.startswith("hint: ")


def test_sprandom_is_a_step_of_a_test_as_well(
    drive: Profile, found: dict[lab.Method, lab.Prepared]
) -> None:
    """The writes just after it cost what `drivebay prepare` says, and every address was written."""
    spare = 100 * (drive.flash_bytes / drive.capacity_bytes - 1)
    step = Prepare(kind="sprandom", spare_percent=round(spare, 9))
    writes = Workload(
        pattern="random", read_percent=0, block_bytes=4096, queue_depth=32, duration_s=1
    )
    test = made_test(Phase(label="run", workload=writes), kind="loads", prepare=(step,))
    with contextlib.closing(VirtualTarget(drive)) as target:
        (run,) = target.run_test(test, seed=1, progress=Progress())
    assert run.metrics["waf"] == pytest.approx(found["sprandom"].waf, rel=0.05)
    assert step_words(step).startswith("written as fio's sprandom does (")
    with pytest.raises(ValidationError, match="a sprandom needs 'spare_percent'"):
        Prepare(kind="sprandom")
    with pytest.raises(ValidationError, match="'passes' has no meaning for a sprandom"):
        Prepare(kind="sprandom", spare_percent=7, passes=2)
