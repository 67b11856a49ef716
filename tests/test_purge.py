"""Purges by the drive's own erases, with simulated nvme-cli and hdparm acting on a loop device.

What counts is what can be read afterwards, whatever the program said.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from loops import loop, needs_root, no_loop_taken, run, sparse
from simulated_erase import SECURITY

from drivebay.common.errors import Cancelled, UserError
from drivebay.targets.safety import erase, in_use, purge, target_device
from drivebay.targets.safety.handle import ExclusiveHandle

pytestmark = needs_root
SIZE = 64 * 2**20
FORMAT, SANITIZE = "NVMe Format (user data erase)", "NVMe Sanitize (block erase)"
ATA, DISCARD = "ATA secure erase", "ioctl(BLKDISCARD)"


class Simulated:
    """A loop device that is an NVMe or SATA drive as far as purging goes."""

    def __init__(self, folder: Path, device: str, backing: Path) -> None:
        self.device, self.backing = device, backing
        self._state = folder / "drive.json"
        os.environ["SIMULATED"] = str(self._state)
        self.be()

    def be(self, **more: Any) -> None:
        """What the drive can do and how it behaves."""
        self._state.write_text(json.dumps({"backing": str(self.backing), "calls": [], **more}))

    @property
    def now(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._state.read_text())
        return found

    def calls(self, *verbs: str) -> list[str]:
        """The calls of these verbs, in order."""
        return [call for call in self.now["calls"] if call.split()[1] in verbs]

    def purge(self, step: Callable[[float], None] = lambda _: None, own: bool = True) -> Any:
        """The purge's record; the loop holds marks of an old owner before it."""
        found = target_device.find(self.device)
        handle = ExclusiveHandle(
            found, permission=target_device.OverwritePermission(str(self.backing))
        )
        try:
            return purge.purge(handle, own_erases=own, seed=1, step=step)
        finally:
            handle.close()


@pytest.fixture
def drive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Simulated]:
    backing = sparse(tmp_path / "disk.img", SIZE)
    for program in ("nvme", "hdparm"):
        script = tmp_path / "bin" / program
        script.parent.mkdir(exist_ok=True)
        here = Path(__file__).parent / "simulated_erase.py"
        script.write_text(f'#!/bin/sh\nexec {sys.executable} -S {here} {program} "$@"\n')
        script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("SIMULATED", "")
    monkeypatch.setattr(erase, "bus_of", lambda _: "nvme")
    monkeypatch.setattr(erase, "POLL_S", 0.01)
    with loop(backing) as device:
        yield Simulated(tmp_path, device, backing)


def outcomes(record: Any) -> list[tuple[str, str]]:
    return [(tried["method"], tried["outcome"]) for tried in record["tried"]]


def test_format_comes_first_and_is_verified(drive: Simulated) -> None:
    drive.be(oacs=2, sanicap=2)
    record = drive.purge()
    assert (record["method"], record["marks_gone"], record["marks"]) == (FORMAT, 16, 16)
    assert record["reads_after"] == "zeros"
    assert outcomes(record) == [(FORMAT, "done")]
    (call,) = drive.calls("format")
    assert call.startswith(
        f"nvme format {drive.device} --lbaf=1 --ms=0 --pi=0 --pil=0 --ses=1 --force"
    )
    assert drive.calls("sanitize") == []


def test_format_keeps_the_lba_format_metadata_and_protection(drive: Simulated) -> None:
    drive.be(oacs=2, flbas=0b0110001, dps=0b1010)
    drive.purge()
    (call,) = drive.calls("format")
    assert " --lbaf=17 --ms=1 --pi=2 --pil=1 " in call


@pytest.mark.parametrize(
    ("able", "listed", "offered"),
    [
        (0b1010, {"allocated": [1], "active": [1]}, True),
        (0b1010, {"allocated": [1, 7], "active": [1]}, False),
        (0b0010, {"allocated": [], "active": [1]}, True),
        (0b0010, {"allocated": [], "active": [1, 2]}, False),
        (0b1010, {"fails": ["list-ns"]}, False),
    ],
)
def test_a_namespace_that_is_not_attached_here_is_never_erased(
    drive: Simulated, able: int, listed: dict[str, Any], offered: bool
) -> None:
    """Allocated and not attached, or attached to another controller of the drive."""
    drive.be(oacs=able, sanicap=2, fna=1, nn=32, **listed)
    record = drive.purge()
    assert (record["method"] == FORMAT) == offered
    assert len(drive.calls("format", "sanitize")) == offered
    if not offered:
        why = record["tried"][0]["why"]
        assert "namespace" in why or "cannot be asked" in why


def test_sanitize_is_waited_for_and_its_failure_seen(drive: Simulated) -> None:
    shares: list[float] = []
    states = [[0, 0], [16384, 2], [49152, 2], [65535, 1]]
    drive.be(oacs=0, sanicap=2, **{"sanitize states": states})
    record = drive.purge(shares.append)
    assert record["method"] == SANITIZE and record["marks_gone"] == 16
    assert outcomes(record) == [(FORMAT, "not offered"), (SANITIZE, "done")]
    assert 0.25 <= shares[0] < shares[1] < 1
    drive.be(oacs=0, sanicap=2, **{"sanitize states": [[0, 0], [0, 3]]})
    record = drive.purge()
    assert outcomes(record)[1] == (SANITIZE, "failed")
    assert record["method"] == DISCARD and record["marks_gone"] == 16


def test_an_erase_that_lies_is_found_out_and_the_next_way_is_tried(drive: Simulated) -> None:
    drive.be(oacs=2, sanicap=2, lies=True)
    record = drive.purge()
    assert [tried.get("marks_gone") for tried in record["tried"]] == [0, 0, 16]
    assert record["method"] == DISCARD
    drive.be(oacs=2, **{"stops half way": True})
    record = drive.purge()
    assert 0 < record["tried"][0]["marks_gone"] < 16
    assert record["method"] == DISCARD


def test_an_erase_that_fails_says_why(drive: Simulated) -> None:
    drive.be(oacs=2, fails=["format"])
    record = drive.purge()
    assert record["tried"][0]["why"] == "NVMe status: Invalid Format (0x10a)"
    assert outcomes(record) == [(FORMAT, "failed"), (SANITIZE, "not offered"), (DISCARD, "done")]


@pytest.mark.parametrize(("fna", "formats"), [(0, True), (1, False), (2, False), (3, False)])
def test_another_namespaces_data_is_never_erased(
    drive: Simulated, fna: int, formats: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erase, "_other_namespaces", lambda *_: ["nvme0n2"])
    drive.be(oacs=2, sanicap=2, fna=fna)
    record = drive.purge()
    assert (record["method"] == FORMAT) is formats
    refused = [tried for tried in record["tried"] if tried["outcome"] == "not offered"]
    assert all("other namespaces, too: nvme0n2" in tried["why"] for tried in refused)
    assert len(refused) == (0 if formats else 2)
    assert drive.calls("sanitize") == []


def test_whoever_asks_to_stop_has_to_wait_for_the_erase(drive: Simulated) -> None:
    drive.be(oacs=2)
    script = Path(os.environ["PATH"].split(":")[0]) / "nvme"
    script.write_text(script.read_text().replace("exec", 'test "$1" = format && sleep 0.5\nexec'))

    def stop(_: float) -> None:
        raise Cancelled

    with pytest.raises(Cancelled):
        drive.purge(stop)
    assert len(drive.calls("format")) == 1, "it had ended by then"


def test_only_discard_where_the_user_wants_that(drive: Simulated) -> None:
    drive.be(oacs=2)
    record = drive.purge(own=False)
    assert outcomes(record) == [(DISCARD, "done")] and drive.now["calls"] == []


def test_a_drive_that_cannot_be_asked(drive: Simulated) -> None:
    script = Path(os.environ["PATH"].split(":")[0]) / "nvme"
    script.write_text("#!/bin/sh\necho '[]'\n")
    record = drive.purge()
    assert "cannot be asked: id-ctrl gave no JSON object" in record["tried"][0]["why"]
    assert record["method"] == DISCARD


def test_a_drive_that_moves_while_it_is_formatted(
    drive: Simulated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its old name goes to another drive, of which not one byte may change."""
    other = tmp_path / "other.img"
    other.write_bytes(b"precious" * (SIZE // 8))
    drive.be(oacs=2, fails=["format"], sanicap=2)
    moved: list[str] = []
    after_reset = ExclusiveHandle.after_reset

    def moves(handle: ExclusiveHandle, wait_s: float = 5.0) -> int:
        if not moved:
            os.close(handle._fd)
            with no_loop_taken():
                run("losetup", "--detach", drive.device)
                run("losetup", drive.device, str(other))
                moved.append(run("losetup", "--find", "--show", str(drive.backing)))
            handle._fd = os.open(os.devnull, os.O_RDONLY)
        return after_reset(handle, wait_s)

    monkeypatch.setattr(ExclusiveHandle, "after_reset", moves)
    try:
        record = drive.purge()
    finally:
        run("losetup", "--detach", moved[0])
    assert record["method"] == SANITIZE
    assert drive.calls("sanitize") == [f"nvme sanitize {moved[0]} --sanact=2"]
    assert other.read_bytes() == b"precious" * (SIZE // 8)


def test_a_mount_before_the_erase_stops_it(
    drive: Simulated, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looked at once more right before: whatever has come to use it since."""
    drive.be(oacs=2)
    seen: list[int] = []

    def mounted_later(_: str) -> list[str]:
        seen.append(1)
        return ["/late"] if len(seen) > 4 else []

    monkeypatch.setattr(in_use, "mount_points", mounted_later)
    with pytest.raises(UserError, match="is mounted at /late"):
        drive.purge()
    assert drive.calls("format") == []


def test_ata_secure_erase(drive: Simulated, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erase, "bus_of", lambda _: "sata")
    record = drive.purge()
    assert record["method"] == ATA and record["marks_gone"] == 16
    assert not drive.now["enabled"], "the password is gone with the erase"
    drive.be(fails=["erase"])
    record = drive.purge()
    assert record["tried"][0] == {
        "method": ATA,
        "outcome": "failed",
        "why": "SG_IO: bad/missing sense data",
    }
    assert record["method"] == DISCARD
    assert not drive.now["enabled"], "no password stays on a drive"
    drive.be(frozen=True)
    assert "has frozen it" in drive.purge()["tried"][0]["why"]
    drive.be(enabled=True)
    assert "hdparm --security-disable drivebay" in drive.purge()["tried"][0]["why"]
    assert not drive.calls("--user-master")


def test_what_hdparm_says_of_the_security_feature_set() -> None:
    free = SECURITY.format(enabled="not", frozen="not")
    assert erase.ata_security(free) == ("", 120.0)
    assert erase.ata_security("ATA device\n")[0] == "the drive does not offer it"
    without = free.replace("\t\tsupported\n", "\tnot\tsupported\n")
    assert erase.ata_security(without)[0] == "the drive does not offer it"
