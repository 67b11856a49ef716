"""Drives that share a bottleneck are tested one at a time; others at the same time."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import pytest
from loops import sparse
from real_files import GIB, a_test, keep_the_disk_free, load
from waiting import wait_until

from drivebay.common.errors import Cancelled, EnvironmentProblem
from drivebay.targets.base import Progress
from drivebay.targets.fio.target import FioTarget
from drivebay.targets.safety import in_use, locks

__all__ = ["keep_the_disk_free"]

ROOT = "devices/pci0000:00"
PLACES = {
    "nvme0n1": "0000:00:1d.0/0000:3c:00.0/nvme/nvme0/nvme0n1",
    "nvme1n1": "0000:00:1c.0/0000:3d:00.0/nvme/nvme1/nvme1n1",
    # Two behind one switch: root port, upstream port, downstream ports.
    "nvme2n1": "0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:03:00.0/nvme/nvme2/nvme2n1",
    "nvme3n1": "0000:00:01.0/0000:01:00.0/0000:02:01.0/0000:04:00.0/nvme/nvme3/nvme3n1",
    "sda": "0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0/block/sda",
    # Behind a port multiplier of another controller.
    "sdb": "0000:00:1f.2/ata4/host3/target3:0:0/3:0:0:0/block/sdb",
    "sdc": "0000:00:1f.2/ata4/host3/target3:1:0/3:1:0:0/block/sdc",
    "sdd": "0000:00:14.0/usb2/2-1/2-1.1/2-1.1:1.0/host6/target6:0:0/6:0:0:0/block/sdd",
    "sde": "0000:00:14.0/usb2/2-1/2-1.2/2-1.2:1.0/host7/target7:0:0/7:0:0:0/block/sde",
}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = tmp_path / "class/block"
    blocks.mkdir(parents=True)
    for name, place in PLACES.items():
        (tmp_path / ROOT / place).mkdir(parents=True)
        (blocks / name).symlink_to(tmp_path / ROOT / place)
    for module in (locks, in_use):
        monkeypatch.setattr(module, "SYS_BLOCK", blocks)


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        ("nvme0n1", "nvme1n1", []),
        ("nvme0n1", "sda", []),
        ("sda", "sdb", []),
        ("nvme2n1", "nvme3n1", ["PCIe bridge 0000:00:01.0", "PCIe bridge 0000:01:00.0"]),
        ("sdb", "sdc", ["controller 0000:00:1f.2"]),
        ("sdd", "sde", ["controller 0000:00:14.0", "USB hub or port usb2", "USB hub or port 2-1"]),
    ],
)
def test_what_drives_share(one: str, other: str, words: list[str]) -> None:
    first, second = (locks.bottlenecks_of(drive) for drive in (one, other))
    assert [each.description for each in first if each in second] == words
    assert {each.description for each in second if each in first} == set(words)


class Waits(threading.Thread):
    """Takes a drive lock in a thread; releases it when told to."""

    def __init__(self, drive: str) -> None:
        super().__init__(daemon=True)
        self.drive = drive
        self.has_it, self.give_back = threading.Event(), threading.Event()
        self.words: list[str] = []

    def run(self) -> None:
        with locks.drive_lock(self.drive, f"/dev/{self.drive}", self.words.append):
            self.has_it.set()
            self.give_back.wait()


@pytest.mark.usefixtures("machine")
def test_in_turn_and_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "LOOK_EVERY_S", 0.01)
    first, apart, same = Waits("sdb"), Waits("nvme0n1"), Waits("sdc")
    for one in (first, apart):
        one.start()
        one.has_it.wait()  # nothing in common: side by side
    same.start()
    wait_until(lambda: same.words)
    assert not same.has_it.is_set()
    assert same.words[0] == (
        f"waiting for the review of /dev/sdb (pid {os.getpid()}), which also uses controller "
        "0000:00:1f.2"
    )
    first.give_back.set()
    same.has_it.wait()
    for one in (first, apart, same):
        one.give_back.set()
        one.join()


def gives_up(_: str) -> None:
    """Instead of waiting for a lock."""
    raise Cancelled


@pytest.mark.usefixtures("machine")
def test_whoever_waits_can_give_up() -> None:
    first = locks.drive_lock("sdb", "one", gives_up)
    with first, pytest.raises(Cancelled), locks.drive_lock("sdc", "other", gives_up):
        raise AssertionError("the lock is held")
    with locks.drive_lock("sdc", "other", gives_up):
        pass  # nothing is waited for


@pytest.mark.usefixtures("machine")
def test_without_waiting_it_is_said_what_for() -> None:
    first = locks.drive_lock("sdb", "/dev/sdb", print)
    other = locks.drive_lock("sdc", "/dev/sdc", print, no_wait=True)
    with first, pytest.raises(EnvironmentProblem) as caught, other:
        raise AssertionError("the lock is held")
    assert caught.value.message == (
        f"/dev/sdc would have to wait for the review of /dev/sdb (pid {os.getpid()}), which also "
        "uses controller 0000:00:1f.2"
    )
    assert "--no-wait" in caught.value.hint
    with locks.drive_lock("sdc", "/dev/sdc", print, no_wait=True):
        pass


@pytest.mark.usefixtures("machine")
def test_another_file_in_the_place_of_a_lock_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder of locks is everybody's; a link in it may lead to a file of somebody else."""
    precious = tmp_path / "precious"
    precious.write_text("my thesis")
    precious.chmod(0o600)
    folder = tmp_path / "locks"
    folder.mkdir()
    monkeypatch.setenv(locks.DIRECTORY_VARIABLE, str(folder))
    for make in (os.link, os.symlink, shutil.copy):
        place = folder / "drivebay-disk-sda.lock"
        make(precious, place)
        with locks.drive_lock("sda", "one", print):
            pass
        assert precious.read_text() == place.read_text() == "my thesis"
        assert precious.stat().st_mode & 0o777 == 0o600
        place.unlink()


def test_without_a_place_for_locks_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(locks.DIRECTORY_VARIABLE, "/proc/none")
    for drive in ("sda", None):
        one = locks.drive_lock(drive, "one", gives_up)
        with one, locks.drive_lock(drive, "other", gives_up):
            pass


def test_two_files_on_one_disk_are_tested_in_turn_and_it_is_said(tmp_path: Path) -> None:
    one, other = (FioTarget(sparse(tmp_path / f"{name}.img", GIB)) for name in "ab")
    test = a_test(("run", load()))
    one.check((test,))
    one.run_test(test, seed=1, progress=Progress())
    said: list[str] = []
    results: list[object] = []

    def second() -> None:
        progress = Progress(lambda what, *_: said.append(what))
        results.append(other.run_test(test, seed=1, progress=progress)[0].conditions)

    thread = threading.Thread(target=second)
    thread.start()
    wait_until(lambda: said)
    assert said[0].startswith(f"waiting for the review of {tmp_path / 'a.img'} (pid ")
    assert not results
    threading.Event().wait(1.0)
    one.close()
    thread.join()
    other.close()
    (conditions,) = results
    assert isinstance(conditions, dict) and conditions["waited_for_lock_s"] >= 1
