"""How drives are named: sysfs as Linux lays it out for drives that this machine does not have.

The layouts are those of Linux 5.10 to 6.18 for NVMe (with and without native multipath), SATA, USB,
virtio and MMC; the serial number is what a user types to have a drive overwritten.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from drivebay.targets.safety import in_use, protections, storage


class FakeSysfs:
    """A folder that looks like /sys/class/block and what it points to."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.blocks = root / "class/block"
        self.blocks.mkdir(parents=True)

    def write(self, path: str, text: str | bytes) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())

    def link(self, path: str, to: str) -> None:
        link = self.root / path
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(self.root / to, link.parent.resolve()))

    def block(self, name: str, folder: str, device: str | None = None) -> None:
        (self.root / folder).mkdir(parents=True)
        self.link(f"class/block/{name}", folder)
        if device is not None:
            self.link(f"{folder}/device", device)


@pytest.fixture
def sysfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSysfs:
    fake = FakeSysfs(tmp_path / "sys")
    monkeypatch.setattr(in_use, "SYS_BLOCK", fake.blocks)
    monkeypatch.setattr(in_use, "is_locked", lambda path: False)  # there is no such node
    return fake


def named(name: str) -> tuple[str, str, str]:
    return storage.model(name), storage.serial(name), storage.interface(name)


def blockers(name: str) -> list[str]:
    """What forbids this drive, by what the kernel shows of it."""
    examined = protections.Examined(f"/dev/{name}", os.stat("/"), name, 1, held=True)
    return list(protections.blockers(examined))


def nvme(sysfs: FakeSysfs, *, multipath: bool) -> None:
    """One drive with two namespaces, the first with a partition."""
    pci = "devices/pci0000:00/0000:00:1d.0/0000:3c:00.0"
    sysfs.write(f"{pci}/current_link_speed", "8.0 GT/s PCIe\n")
    sysfs.write(f"{pci}/current_link_width", "4\n")
    sysfs.link(f"{pci}/nvme/nvme0/device", pci)
    parent = f"{pci}/nvme/nvme0"
    if multipath:
        sysfs.block("nvme0c0n1", f"{parent}/nvme0c0n1")
        sysfs.write(f"{parent}/nvme0c0n1/hidden", "1\n")
        sysfs.write(f"{parent}/nvme0c0n1/wwid", "eui.0025385b61b01a01\n")
        parent = "devices/virtual/nvme-subsystem/nvme-subsys0"
        sysfs.link(f"{parent}/nvme0", f"{pci}/nvme/nvme0")
    sysfs.write(f"{parent}/model", "Samsung SSD 970 EVO 1TB                 \n")
    sysfs.write(f"{parent}/serial", "S467NX0K123456A     \n")
    for number in (1, 2):
        sysfs.block(f"nvme0n{number}", f"{parent}/nvme0n{number}", parent)
        sysfs.write(f"{parent}/nvme0n{number}/wwid", f"eui.0025385b61b01a0{number}\n")
    sysfs.block("nvme0n1p1", f"{parent}/nvme0n1/nvme0n1p1")
    sysfs.write(f"{parent}/nvme0n1/nvme0n1p1/partition", "1\n")


@pytest.mark.parametrize("multipath", [False, True])
def test_nvme(sysfs: FakeSysfs, multipath: bool) -> None:
    nvme(sysfs, multipath=multipath)
    expected = ("Samsung SSD 970 EVO 1TB", "S467NX0K123456A", "NVMe, 8.0 GT/s PCIe x4")
    assert named("nvme0n1") == named("nvme0n2") == named("nvme0n1p1") == expected
    assert in_use.partitions("nvme0n1") == ["nvme0n1p1"]
    assert in_use.partitions("nvme0n2") == []
    assert storage.other_paths("nvme0n1") == [], "namespaces share a serial, but are not the same"


def sata(sysfs: FakeSysfs, name: str, *, ata: int, serial: str, wwid: str) -> None:
    scsi = f"devices/pci0000:00/0000:00:17.0/ata{ata}/host{ata}/target{ata}:0:0/{ata}:0:0:0"
    sysfs.write(f"{scsi}/vendor", "ATA     \n")
    sysfs.write(f"{scsi}/model", "Samsung SSD 860 \n")
    page = serial.rjust(20).encode()
    sysfs.write(f"{scsi}/vpd_pg80", bytes([0, 0x80, 0, len(page)]) + page)
    sysfs.write(f"{scsi}/wwid", f"{wwid}\n")
    sysfs.block(name, f"{scsi}/block/{name}", scsi)


def test_sata_and_a_second_path_to_the_same_drive(sysfs: FakeSysfs) -> None:
    sata(sysfs, "sda", ata=1, serial="S3Z9NB0K  12", wwid="naa.5002538e40a8c4a1")
    sata(sysfs, "sdb", ata=2, serial="S3Z9NB0K99", wwid="naa.5002538e40a8c4b2")
    assert named("sda") == ("Samsung SSD 860", "S3Z9NB0K 12", "SATA")
    assert storage.other_paths("sda") == storage.other_paths("sdb") == []
    sata(sysfs, "sdc", ata=3, serial="S3Z9NB0K  12", wwid="naa.5002538e40a8c4a1")
    assert storage.other_paths("sda") == ["sdc"]
    assert "is the same drive as sdc (a second path to it)" in blockers("sda")
    assert blockers("sdb") == ["is read-only"], "what is not there counts against"
    sysfs.write("class/block/sdb/ro", "0\n")
    assert blockers("sdb") == []


def test_usb_virtio_mmc_and_unnamed(sysfs: FakeSysfs) -> None:
    usb = "devices/pci0000:00/0000:00:14.0/usb2/2-1/2-1:1.0/host4/target4:0:0/4:0:0:0"
    sysfs.write(f"{usb}/vendor", "Samsung \n")
    sysfs.write(f"{usb}/model", "Portable SSD T5 \n")
    sysfs.block("sdd", f"{usb}/block/sdd", usb)
    assert named("sdd") == ("Samsung Portable SSD T5", "", "USB")
    assert "has no serial number to name it by" in blockers("sdd")
    virtio = "devices/pci0000:00/0000:00:02.0/virtio1"
    sysfs.write(f"{virtio}/vendor", "0x1af4\n")
    sysfs.block("vda", f"{virtio}/block/vda", virtio)
    sysfs.write(f"{virtio}/block/vda/serial", "disk-7")
    assert named("vda") == ("", "disk-7", "virtio")
    mmc = "devices/platform/soc/mmc_host/mmc0/mmc0:0001"
    sysfs.write(f"{mmc}/name", "SD64G\n")
    sysfs.write(f"{mmc}/serial", "0x9a3b21c4\n")
    sysfs.block("mmcblk0", f"{mmc}/block/mmcblk0", mmc)
    assert named("mmcblk0") == ("SD64G", "0x9a3b21c4", "MMC")


def test_zoned_drives_and_memory(sysfs: FakeSysfs) -> None:
    sysfs.block("zram0", "devices/virtual/block/zram0")
    sysfs.write("devices/virtual/block/zram0/ro", "0\n")
    assert "is memory, not a drive" in blockers("zram0")
    sata(sysfs, "sda", ata=1, serial="S1", wwid="naa.1")
    sysfs.write("class/block/sda/ro", "0\n")
    sysfs.write("class/block/sda/queue/zoned", "host-managed\n")
    assert blockers("sda") == ["is a zoned device, which cannot be written at random"]


def test_what_is_used_below_partitions_is_named(sysfs: FakeSysfs) -> None:
    sata(sysfs, "sda", ata=1, serial="S1", wwid="naa.1")
    for name, uuid, label in (
        ("dm-0", "LVM-abc", "vg-home"),
        ("dm-1", "CRYPT-LUKS2-abc", "secret"),
        ("dm-2", "", "other"),
    ):
        sysfs.block(name, f"devices/virtual/block/{name}")
        sysfs.write(f"class/block/{name}/dm/uuid", uuid)
        sysfs.write(f"class/block/{name}/dm/name", label)
    sysfs.block("md0", "devices/virtual/block/md0")
    (sysfs.blocks / "md0/md").mkdir()
    sysfs.block("bcache0", "devices/virtual/block/bcache0")
    for name in ("dm-0", "dm-1", "dm-2", "md0", "bcache0"):
        sysfs.write(f"class/block/sda/holders/{name}/x", "")
    sysfs.write("class/block/sda/ro", "0\n")
    assert blockers("sda") == [
        "is part of bcache device bcache0",
        "is part of LVM volume vg-home (dm-0)",
        "is part of encrypted volume secret (dm-1)",
        "is part of device-mapper device other (dm-2)",
        "is part of MD RAID md0",
    ]
