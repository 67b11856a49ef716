"""`drivebay prepare`: what fio's sprandom writes, by definition; what the model's own count says
of each way to prepare a drive."""

from __future__ import annotations

import numpy as np
import pytest

from drivebay.cli.entry import run
from drivebay.definitions import profiles
from drivebay.definitions.profiles import Profile
from drivebay.definitions.scaling import with_capacity
from drivebay.lab import prepare as lab


def test_valid_pages_in_steady_state_lie_as_fio_says() -> None:
    """At 10 % spare fio takes a write amplification of 5.7: the victim is valid to 1 - 1 / 5.7."""
    shares = lab.validity(100, 0.1)
    assert shares[0] == pytest.approx(1 - 1 / 5.7) and shares[-1] == 1
    assert (np.diff(shares) > 0).all()
    # Amounts in proportion to 1 / v: half of the flash lies below the geometric mean of both ends.
    assert shares[50] == pytest.approx(np.sqrt(shares[0]), abs=0.005)


def test_sprandom_writes_each_page_and_again_as_many_as_are_invalid() -> None:
    pages, spare = 100_000, 0.1
    regions = list(lab.sprandom_pages(pages, spare, seed=1))
    written = np.concatenate(regions)
    assert set(written.tolist()) == set(range(pages))
    assert len(written) == pytest.approx(pages * (1 + spare), rel=0.01)
    for number, valid in list(enumerate(lab.validity(lab.REGIONS, spare)))[:90:30]:
        again = np.isin(regions[number], regions[number + 1]).mean()
        assert again == pytest.approx(1 - valid, abs=0.03)


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
