"""Device-mapper, MD, an NVMe target and NVMe namespaces of a real kernel, in a guest.

What a container or a machine without these cannot have; see nvme_guest.py for what it needs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nvme_guest
import pytest

MIB = 2**20
PRECIOUS = b"precious" * 512
PROGRAMS = ("dmsetup", "mdadm")
MODULES = ("nvme", "dm-mod", "md-mod", "raid1", "nvmet")
MISSING = nvme_guest.missing() or ", ".join(
    f"{name} is not installed" for name in PROGRAMS if nvme_guest.program_of(name) is None
)

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(bool(MISSING), reason=MISSING or "-"),
]
Said = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(tmp_path_factory.mktemp("guest"))


@pytest.fixture(scope="module")
def said(folder: Path) -> Said:
    devices = ["-device", "nvme-subsys,id=s", "-device", "nvme,id=c,serial=SUBSYS1,subsys=s"]
    devices += nvme_guest.disk(folder / "first.img", 64 * MIB, name="d1")
    devices += ["-device", "nvme-ns,drive=d1,bus=c,nsid=1,ms=8,mset=0,pi=1"]
    devices += nvme_guest.disk(folder / "second.img", 64 * MIB, name="d2")
    devices += ["-device", "nvme-ns,drive=d2,bus=c,nsid=2,detached=on"]
    for number in (1, 2):
        devices += nvme_guest.disk(folder / f"plain{number}.img", 64 * MIB, name=f"p{number}")
        devices += ["-device", f"nvme,drive=p{number},serial=PLAIN{number}"]
    with (folder / "second.img").open("r+b") as file:
        file.write(PRECIOUS)
    job = nvme_guest.Job("protections_job.py", devices, MODULES, PROGRAMS)
    lines = nvme_guest.boot(folder, job)
    traces = [line["trace"] for line in lines if line["what"] == "failed"]
    assert not traces, "\n".join(traces)
    return {line.pop("what"): line for line in lines}


def test_what_is_below_a_device_mapper_device_is_refused(said: Said) -> None:
    assert any("part of device-mapper device t" in one for one in said["dm"]["below"])
    assert "is held by the kernel or another program" in said["dm"]["below"]
    assert any("is a device-mapper device" in one for one in said["dm"]["itself"])
    assert said["dm gone"]["below"] == []


def test_members_of_a_raid_are_refused_running_and_stopped(said: Said) -> None:
    for drive in ("below", "other"):
        assert any("part of MD RAID md0" in one for one in said["md"][drive])
        assert "bears a member of an MD RAID" in said["md stopped"][drive]
        assert said["md gone"][drive] == []
    assert any("is an MD RAID" in one for one in said["md"]["itself"])


def test_what_an_nvme_target_offers_is_refused(said: Said) -> None:
    """The kernel has opened it without claiming it: no holder, no process, no O_EXCL."""
    words = said["exported"]["blockers"]
    assert words == [
        "is offered to other hosts as an NVMe target (nvmet/subsystems/lab/namespaces/1)"
    ]
    assert said["not exported"]["blockers"] == []


def test_a_namespace_that_is_not_attached_keeps_its_data(said: Said, folder: Path) -> None:
    reasons = {one["method"]: one["reason"] for one in said["namespaces"]["offered"]}
    assert "namespace 2" in reasons["NVMe Sanitize (block erase)"] or (
        "does not offer it" in reasons["NVMe Sanitize (block erase)"]
    )
    assert (folder / "second.img").read_bytes()[: len(PRECIOUS)] == PRECIOUS
    assert said["namespaces"]["record"]["marks_gone"] == said["namespaces"]["record"]["marks"]


def test_a_format_keeps_metadata_and_protection_information(said: Said) -> None:
    kept = said["namespaces"]["kept"]
    assert all(before == after for before, after in kept.values()), kept
    assert kept["dps"][0] & 0b111 == 1
