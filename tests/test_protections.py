"""What must not be overwritten, each case with real files and loop devices; not one byte changes.

`protections.PROTECTIONS` names the test of each protection, here or in test_blockdev*.py; the first
test here makes sure that it exists. What this machine lacks is skipped with its reason.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import mmap
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import made_result
import pytest
from loops import (
    SIGNATURES,
    digest,
    loop,
    mounted,
    needs_root,
    no_loop_taken,
    no_mounts,
    run,
    sparse,
    with_signature,
)
from real_files import GIB, MIB, a_test, keep_the_disk_free, load
from waiting import wait_until

from drivebay.cli import entry
from drivebay.common.errors import DrivebayError, EnvironmentProblem, UserError
from drivebay.definitions.suites import Prepare, Test
from drivebay.targets.base import Progress
from drivebay.targets.fio.target import FioTarget
from drivebay.targets.safety import contents, in_use, marks, target_device
from drivebay.targets.safety import handle as handle_module
from drivebay.targets.safety.authorised import Record
from drivebay.targets.safety.handle import ExclusiveHandle
from drivebay.targets.safety.protections import PROTECTIONS
from drivebay.targets.safety.target_device import OverwritePermission

__all__ = ["keep_the_disk_free"]
TESTS = Path(__file__).parent


def writing() -> Test:
    return a_test(("run", load(rate_iops=500)), prepare=(Prepare(kind="purge"),))


def reading() -> Test:
    return a_test(("run", load(rate_iops=500, read_percent=100)))


def refused(path: str | Path, *, name: str | None = None, signature: bool = False) -> str:
    """With which words both ways in refuse it; not one byte of it is changed."""
    before = digest(Path(path))
    words = []
    for first in ("check", "run"):
        target = FioTarget(path, destroy_data=name, overwrite_signature=signature)
        with contextlib.closing(target), pytest.raises(DrivebayError) as caught:
            if first == "check":
                target.check((writing(),))
            target.run_test(writing(), seed=1, progress=Progress())
        assert caught.value.hint and "\n" not in caught.value.message + caught.value.hint
        words.append(caught.value.message)
    assert digest(Path(path)) == before
    assert words[0] == words[1]
    return words[0]


def review(path: str | Path, *, name: str | None = None) -> None:
    with contextlib.closing(FioTarget(path, destroy_data=name)) as target:
        target.check((writing(),))
        target.run_test(writing(), seed=1, progress=Progress())


@contextlib.contextmanager
def another(program: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program that runs beside; it prints a line when it is ready, and ends with our line."""
    other = subprocess.Popen(
        [sys.executable, "-c", f"{program}\nprint('ready', flush=True); input()", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert other.stdout is not None and other.stdout.readline() == b"ready\n"
    try:
        yield other
    finally:
        other.communicate(b"\n")


def overlay(path: Path, name: str, at: int) -> None:
    """Put a recorded signature into a file, as if what bears it began there."""
    with path.open("r+b") as file:
        for offset, data in SIGNATURES["sectors"][name].items():
            if at + int(offset) < SIGNATURES["size_bytes"] - MIB:
                file.seek(at + int(offset))
                file.write(base64.b64decode(data))


def test_every_protection_names_a_test_that_exists() -> None:
    known = "".join(path.read_text() for path in TESTS.glob("test_*.py"))
    assert len(PROTECTIONS) > 20
    for one in PROTECTIONS:
        assert re.search(rf"^def {one.test}\(", known, re.MULTILINE), one.test
        assert one.what and one.interface


# --- block devices --------------------------------------------------------------------------------


@needs_root
@pytest.mark.parametrize("table", ["gpt", "dos"])
@pytest.mark.parametrize("member", ["crypto_LUKS", "LVM2_member"])
def test_a_member_in_a_partition_that_the_kernel_does_not_show(
    tmp_path: Path, table: str, member: str
) -> None:
    backing = with_signature(tmp_path / "disk.img", table)
    overlay(backing, member, MIB)
    with loop(backing) as device:
        words = refused(device, name=str(backing), signature=True)
    assert "has a partition at byte 1048576 that bears" in words
    assert "(LUKS)" in words or "LVM" in words


@needs_root
@pytest.mark.parametrize("table", ["gpt", "dos"])
def test_partitions_that_the_kernel_does_not_show(tmp_path: Path, table: str) -> None:
    """Whatever is in them: the kernel's own uses of them cannot be looked up."""
    backing = with_signature(tmp_path / "disk.img", table)
    with loop(backing) as device:
        words = refused(device, name=str(backing), signature=True)
    assert "has a partition in its table that the kernel does not show" in words


@needs_root
def test_a_table_in_a_partition_is_followed(tmp_path: Path) -> None:
    """As a virtual machine's disk has it that lies in a partition."""
    backing = with_signature(tmp_path / "disk.img", "gpt")
    overlay(backing, "dos", MIB)
    overlay(backing, "crypto_LUKS", 2 * MIB)
    with loop(backing) as device:
        words = refused(device, name=str(backing), signature=True)
    assert "has a partition at byte 2097152 that bears an encrypted volume (LUKS)" in words


@needs_root
@pytest.mark.parametrize(
    ("member", "words"),
    [
        ("jbd", "an external journal (jbd)"),
        ("DM_integrity", "DM_integrity"),
        ("oracleasm", "oracl"),
    ],
)
def test_parts_of_something_larger(tmp_path: Path, member: str, words: str) -> None:
    backing = sparse(tmp_path / "disk.img", 256 * MIB)
    if member == "jbd":
        run("mke2fs", "-q", "-O", "journal_dev", str(backing))
    else:  # as libblkid's superblocks/{dm_integrity,oracleasm}.c look for them
        place, magic = (0, b"integrt\0") if member == "DM_integrity" else (32, b"ORCLDISK")
        with backing.open("r+b") as file:
            file.seek(place)
            file.write(magic + (b"\1" if member == "DM_integrity" else b"label"))
    with loop(backing) as device:
        assert words in refused(device, name=str(backing), signature=True)


@needs_root
@pytest.mark.parametrize(
    "reference",
    [
        "UUID={uuid}",
        'UUID="{uuid}"',
        r"LABEL=my\040data",
        "/dev/disk/by-uuid/{uuid}",
        r"/dev/disk/by-label/my\x20data",
    ],
)
def test_fstab_names_that_only_the_device_itself_can_resolve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reference: str
) -> None:
    """Without udev, as in a container; it is the file system that is to be mounted at /data."""
    uuid = "7b4b8c7e-9d1c-4c11-a8d1-6a3f5c7d9e10"
    backing = sparse(tmp_path / "disk.img", 64 * MIB)
    run("mkfs.ext4", "-q", "-U", uuid, "-L", "my data", str(backing))
    fstab = tmp_path / "fstab"
    fstab.write_text(f"{reference.format(uuid=uuid)} /data ext4 noauto 0 0\n")
    monkeypatch.setattr(in_use, "FSTAB", fstab)
    with loop(backing) as device:
        words = refused(device, name=str(backing), signature=True)
    assert f"is named in {fstab} for /data" in words


@needs_root
def test_fstab_names_that_nothing_can_resolve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backing, fstab = sparse(tmp_path / "disk.img", 64 * MIB), tmp_path / "fstab"
    run("mkfs.ext4", "-q", str(backing))
    monkeypatch.setattr(in_use, "FSTAB", fstab)
    with loop(backing) as device:
        fstab.write_text("/dev/disk/by-id/ata-gone /data ext4\n")
        words = refused(device, name=str(backing), signature=True)
        assert f"may be the device that is named in {fstab} for /data" in words
        for gone in ("UUID=00000000-9d1c-4c11-a8d1-6a3f5c7d9e10", "LABEL=gone", "/dev/sdzz1"):
            fstab.write_text(f"{gone} /data ext4\n")
            words = refused(device, name=str(backing), signature=True)
            assert f"may be the device that is named in {fstab} for /data: {gone} is not" in words
        fstab.write_text("/dev/sr0 /cd iso9660\nserver:/export /home nfs\ntmpfs /tmp tmpfs\n")
        found = target_device.find(device)
        permission = OverwritePermission(str(backing), overwrite_signature=True)
        handle = ExclusiveHandle(found, permission=permission)
        handle.close()


def test_a_loop_that_is_being_taken_off_its_file_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until it has gone the kernel says neither what it is over nor that it is none."""
    (tmp_path / "loop9" / "loop").mkdir(parents=True)
    backing = tmp_path / "loop9" / "loop" / "backing_file"
    backing.write_text("/gone\n")
    asked: list[str] = []

    def leaving(name: str) -> None:
        asked.append(name)
        if len(asked) == 3:
            backing.unlink()
        raise OSError(errno.ENXIO, "no such device")

    monkeypatch.setattr(in_use, "SYS_BLOCK", tmp_path)
    monkeypatch.setattr(in_use, "loop_backing", leaving)
    assert in_use.loops_over(1, 2, 0) == [] and len(asked) == 3
    backing.write_text("/gone\n")
    assert in_use.loops_over(1, 2, 0) == ["loop9"], "what does not go counts by its size"


@needs_root
def test_two_loops_over_one_inode(tmp_path: Path) -> None:
    """By a hard link, of which the first name is gone."""
    backing = sparse(tmp_path / "disk.img", 64 * MIB)
    with loop(backing) as device:
        other_name = tmp_path / "other.img"
        os.link(backing, other_name)
        backing.unlink()
        with loop(other_name) as other:
            words = refused(other, name=str(other_name))
            assert f"shares its backing file with {device[5:]}" in words


@needs_root
def test_a_device_below_a_mounted_loop(tmp_path: Path) -> None:
    """`losetup /dev/loop8 /dev/sda; mount /dev/loop8`: neither a mount nor a holder of /dev/sda."""
    backing = sparse(tmp_path / "disk.img", 64 * MIB)
    run("mkfs.ext4", "-q", str(backing))
    with loop(backing) as device:
        with loop(Path(device)) as above, mounted(above, tmp_path / "place") as place:
            (place / "file").write_text("precious")
            words = refused(device, name=str(backing), signature=True)
            assert f"is in use by {above}" in words
            assert (place / "file").read_text() == "precious"
        with loop(Path(device), "--offset", str(MIB)) as other:
            assert f"is in use by {other}" in refused(device, name=str(backing), signature=True)


@needs_root
def test_a_loop_over_a_file_that_is_in_use(tmp_path: Path) -> None:
    backing = sparse(tmp_path / "disk.img", 64 * MIB)
    opener = "import sys; file = open(sys.argv[1], 'r+b')"
    with loop(backing) as device:
        for program, words in ((opener, "is in use by python"), (MAPPER, "mapped into its memory")):
            with another(program, str(backing)):
                found = refused(device, name=str(backing))
                assert "is a loop over a file that" in found and words in found


@needs_root
def test_a_loop_that_another_file_has_taken_the_name_of(tmp_path: Path) -> None:
    """Its serial number is a path, which names another file by now; so it names nothing."""
    backing = sparse(tmp_path / "disk.img", 64 * MIB)
    with loop(backing) as device:
        sparse(tmp_path / "new.img", 64 * MIB).replace(backing)
        for name in (str(backing), f"{backing} (deleted)"):
            assert "is a loop over a file that is not what" in refused(device, name=name)


def test_what_the_kernel_offers_to_other_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a folder as configfs has it: nvmet and LIO open files without a process."""
    monkeypatch.setattr(in_use, "CONFIGFS", tmp_path / "config")
    file = sparse(tmp_path / "disk.img", GIB)
    for place, words in (
        ("nvmet/subsystems/lab/namespaces/1/device_path", "an NVMe target"),
        ("target/core/fileio_0/disk/udev_path", "a SCSI target"),
        ("usb_gadget/g1/functions/mass_storage.0/lun.0/file", "a USB mass storage"),
    ):
        attribute = tmp_path / "config" / place
        attribute.parent.mkdir(parents=True)
        attribute.write_text(f"{file}\n")
        assert f"is offered to other hosts as {words}" in refused(file, name="disk.img")
        attribute.unlink()
    if os.geteuid() == 0:
        attribute.write_text("/dev/none\n")
        with loop(file) as device:
            attribute.write_text(f"{device}\n")
            assert "is offered to other hosts" in refused(device, name=str(file))


def spoilt(file: Path, at: int) -> None:
    with file.open("r+b") as opened:
        opened.seek(at)
        opened.write(b"precious")


@needs_root
@pytest.mark.parametrize("at", [0, 700 * MIB + 5, GIB - 8])
def test_data_without_a_signature_on_a_device(tmp_path: Path, at: int) -> None:
    """Its serial number alone is not enough: a raw archive, a database's volume."""
    backing = sparse(tmp_path / "disk.img", GIB)
    spoilt(backing, at)
    with loop(backing) as device:
        words = refused(device, name=str(backing))
        assert "holds data without a signature, at byte " in words
        target_device.check(
            target_device.find(device),
            permission=OverwritePermission(str(backing), overwrite_signature=True),
            will_write=True,
        )


@needs_root
def test_data_on_a_large_device_is_looked_for_at_both_ends_and_all_over_it(tmp_path: Path) -> None:
    size = 64 * GIB
    part = size // contents.DRAWN_BLOCKS
    for at, length in ((5 * MIB, 8), (size - 5 * MIB, 8), (30 * GIB + 77, 2 * part)):
        backing = sparse(tmp_path / "disk.img", size)
        with backing.open("r+b") as opened:
            opened.seek(at)
            opened.write(b"x" * length)
        assert "holds data" in contents.data_on_device(str(backing), size)
    assert contents.data_on_device(str(sparse(tmp_path / "disk.img", size)), size) == ""


@needs_root
def test_what_cannot_be_searched_for_data_in_time_counts_as_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contents, "LOOK_S", 0.0)
    file = sparse(tmp_path / "disk.img", GIB)
    assert contents.data_on_device(str(file), GIB) == "cannot be searched for data within 0 s"
    assert "Is a directory" in contents.data_on_device(str(tmp_path), GIB)


@needs_root
def test_a_device_that_drivebay_left_so_is_taken_again(tmp_path: Path) -> None:
    """By its mark in the folder for what is remembered; one that was overwritten since is not."""
    backing = sparse(tmp_path / "disk.img", GIB)
    with loop(backing) as device:
        review(device, name=str(backing))
        assert contents.data_on_device(device, GIB)
        review(device, name=str(backing))
        with open(device, "r+b") as opened:
            opened.write(b"x" * 8 * MIB)
        assert "holds data without a signature" in refused(device, name=str(backing))


@needs_root
def test_a_device_of_a_killed_review_is_taken_by_its_result_alone(tmp_path: Path) -> None:
    backing = sparse(tmp_path / "disk.img", GIB)
    with loop(backing) as device:
        permission = killed(Path(device), tmp_path / "result", str(backing))
        assert "holds data without a signature" in refused(device, name=str(backing))
        gone_on_with(Path(device), permission)


@needs_root
def test_what_has_a_device_open_for_writing_when_it_is_claimed(tmp_path: Path) -> None:
    backing = sparse(tmp_path / "disk.img", GIB)
    opener = "import sys; file = open(sys.argv[1], 'r+b', 0)"
    with loop(backing) as device:
        permission = OverwritePermission(str(backing))
        with contextlib.closing(
            ExclusiveHandle(target_device.find(device), permission=permission)
        ) as handle:
            with another(opener, device), pytest.raises(UserError, match="open for writing by"):
                handle.fd(to_write=True)
            handle.fd(to_write=True)


@pytest.mark.parametrize("first_too", [True, False])
def test_btrfs_whose_first_superblock_is_gone(tmp_path: Path, first_too: bool) -> None:
    """A pool's other devices may still know it, and `btrfs rescue super-recover` finds its copy."""
    file = sparse(tmp_path / "disk.img", GIB)
    for place in (64 * 2**10, 64 * MIB)[0 if first_too else 1 :]:
        with file.open("r+b") as opened:  # the fields of the on-disk format that are looked at
            opened.seek(place + 0x20)
            opened.write(bytes(range(16)) + place.to_bytes(8, "little") + bytes(8) + b"_BHRfS_M")
    found = contents.of(str(file), GIB)
    assert found.members == ("bears the signature of btrfs",) * len(found.members) != ()
    assert "bears the signature of btrfs" in refused(file)
    if os.geteuid() == 0:
        with loop(file) as device:
            words = refused(device, name=str(file), signature=True)
            assert "bears the signature of btrfs" in words
    with file.open("r+b") as opened:  # a copy of a copy, as in a file of an image
        opened.seek(128 * MIB + 0x20)
        opened.write(bytes(16) + (64 * MIB).to_bytes(8, "little") + bytes(8) + b"_BHRfS_M")
    assert contents.of(str(file), GIB) == found


@needs_root
def test_what_is_no_drive_of_its_own(tmp_path: Path) -> None:
    known = shutil.which("dmsetup") and subprocess.run(["dmsetup", "version"], capture_output=True)
    if not known or known.returncode != 0:
        pytest.skip("this kernel has no device-mapper")
    backing = sparse(tmp_path / "disk.img", 64 * MIB)
    with loop(backing) as device:
        name = f"drivebay-test-{os.getpid()}"
        run("dmsetup", "create", name, "--table", f"0 65536 linear {device} 0")
        try:
            assert "is part of device-mapper device" in refused(device, name=str(backing))
            mapped = os.path.realpath(f"/dev/mapper/{name}")
            assert "is a device-mapper device" in refused(mapped, name="")
        finally:
            run("dmsetup", "remove", name)


# --- files ----------------------------------------------------------------------------------------


def test_a_file_with_data_is_not_overwritten_without_its_name(tmp_path: Path) -> None:
    """A virtual machine's image, a backup: one tab completion away."""
    file = sparse(tmp_path / "backup.img", GIB)
    with file.open("r+b") as opened:
        opened.seek(700 * MIB)
        opened.write(b"precious")
    assert "holds data that drivebay did not write" in refused(file)
    assert "--destroy-data names 'other'" in refused(file, name="other")
    with contextlib.closing(FioTarget(file)) as target:
        target.check((reading(),))
        target.run_test(reading(), seed=1, progress=Progress())
    review(file, name="backup.img")
    review(file)


@pytest.mark.parametrize("kind", ["gpt", "ext4", "crypto_LUKS"])
def test_signatures_inside_a_file_are_named(tmp_path: Path, kind: str) -> None:
    file = with_signature(tmp_path / "vm.img", kind)
    os.truncate(file, GIB)
    words = refused(file)
    assert {"gpt": "partition table (gpt)", "ext4": "ext4", "crypto_LUKS": "LUKS"}[kind] in words


def test_a_new_an_empty_and_a_blank_file_are_taken(tmp_path: Path) -> None:
    new = tmp_path / "new.img"
    target_device.create(str(new), GIB)
    assert new.stat().st_size == GIB
    review(new)
    with pytest.raises(UserError, match="is there already"):
        target_device.create(str(new), GIB)
    blank = sparse(tmp_path / "blank.img", GIB)
    with blank.open("r+b") as file:
        file.write(bytes(8 * MIB))
    review(blank)


def test_drivebays_own_file_is_taken_until_somebody_else_writes_to_it(tmp_path: Path) -> None:
    file = sparse(tmp_path / "disk.img", GIB)
    review(file)
    review(file)
    copy = tmp_path / "copy.img"
    run("cp", "--archive", "--sparse=always", str(file), str(copy))
    assert "did not write" in refused(copy), "a copy is somebody's backup"
    with file.open("r+b") as opened:
        opened.seek(500 * MIB)
        opened.write(b"precious")
    assert "did not write" in refused(file)


@contextlib.contextmanager
def held(file: Path) -> Iterator[ExclusiveHandle]:
    """A file that a review has, with a step that has written to it and is over."""
    found = target_device.find(str(file))
    with contextlib.closing(ExclusiveHandle(found, permission=OverwritePermission())) as handle:
        os.pwrite(handle.fd(to_write=True), b"a phase", 0)
        handle.fd(to_write=False)
        yield handle


def put(file: Path, text: bytes) -> None:
    """What somebody else writes into a file, later than whatever was written before."""
    before = file.stat().st_mtime_ns
    with file.open("r+b") as opened:
        opened.seek(500 * MIB)
        opened.write(text)
    while file.stat().st_mtime_ns == before:  # within one tick of the file system's clock
        os.utime(file)


@pytest.mark.parametrize("to_write", [False, True])
def test_what_somebody_else_writes_between_two_steps_stops_the_review_and_stays(
    tmp_path: Path, to_write: bool
) -> None:
    file = sparse(tmp_path / "disk.img", GIB)
    with held(file) as handle:
        put(file, b"precious")
        with pytest.raises(UserError, match="no longer what it was"):
            handle.fd(to_write=to_write)
    assert "did not write" in refused(file)


def test_what_somebody_else_writes_beside_the_last_reads_stays(tmp_path: Path) -> None:
    file = sparse(tmp_path / "disk.img", GIB)
    with held(file):
        put(file, b"precious")
    assert "did not write" in refused(file)


def test_a_file_that_is_replaced_by_a_copy_in_place_stays(tmp_path: Path) -> None:
    """`cp other disk.img` keeps the inode; the next review must not take it for its own."""
    file, other = sparse(tmp_path / "disk.img", GIB), sparse(tmp_path / "other.img", GIB + 50 * MIB)
    put(other, b"precious")
    with held(file) as handle:
        run("cp", "--sparse=always", str(other), str(file))
        with pytest.raises(UserError, match="no longer what it was"):
            handle.fd(to_write=False)
    assert "did not write" in refused(file)


KILLED = """
import os, signal, sys
from pathlib import Path
from drivebay.targets.safety import handle, target_device as t
from drivebay.targets.safety.authorised import Record
permission = t.OverwritePermission(*sys.argv[3:], record=Record(Path(sys.argv[2]), resumes=True))
held = handle.ExclusiveHandle(t.find(sys.argv[1]), permission=permission)
os.pwrite(held.fd(to_write=True), b"half of a fill", 0)
os.kill(os.getpid(), signal.SIGKILL)
"""


def killed(file: Path, folder: Path | None = None, *serial: str) -> OverwritePermission:
    """A review of the file that was killed while it wrote; what going on with its result allows."""
    folder = folder or file.with_name("result")
    done = subprocess.run([sys.executable, "-c", KILLED, str(file), str(folder), *serial])
    assert done.returncode == -9
    named = serial[0] if serial else None
    return OverwritePermission(named, record=Record(folder, resumes=True))


def gone_on_with(file: Path, permission: OverwritePermission) -> None:
    target = target_device.find(str(file))
    target_device.check(target, permission=permission, will_write=True)
    with contextlib.closing(ExclusiveHandle(target, permission=permission)) as handle:
        handle.fd(to_write=True)


def test_a_file_of_a_killed_review_is_taken_by_its_result_alone(tmp_path: Path) -> None:
    file = sparse(tmp_path / "disk.img", GIB)
    permission = killed(file)
    assert "did not write" in refused(file), "another review asks"
    other = OverwritePermission(record=Record(tmp_path / "other", resumes=True))
    with pytest.raises(UserError, match="did not write"):
        gone_on_with(file, other)
    gone_on_with(file, permission)
    review(file)


def test_an_archive_that_is_copied_into_a_killed_reviews_file_stays(tmp_path: Path) -> None:
    """Within the minute that once passed for ours, with the size and the inode of the file."""
    file, archive = sparse(tmp_path / "disk.img", GIB), sparse(tmp_path / "archive.tar", GIB)
    put(archive, b"precious")
    killed(file)
    run("cp", "--sparse=always", str(archive), str(file))
    assert "did not write" in refused(file)


def test_a_file_of_a_killed_review_that_somebody_else_has_used_since_is_refused(
    tmp_path: Path,
) -> None:
    """By whoever goes on with the review, too: by either of its times."""
    file = sparse(tmp_path / "disk.img", GIB)
    permission = killed(file)
    wait_until(lambda: (mark := marks.of_file(str(file))) is not None and mark.state == "killed")
    before = file.stat()
    put(file, b"precious")
    later = file.stat().st_mtime_ns + 3600 * 10**9
    for mtime_ns in (later, before.st_mtime_ns):
        os.utime(file, ns=(later, mtime_ns))
        with pytest.raises(UserError, match="did not write"):
            gone_on_with(file, permission)


def test_a_file_whose_time_of_modification_was_set_back_is_refused(tmp_path: Path) -> None:
    file = sparse(tmp_path / "disk.img", GIB)
    review(file)
    before = file.stat()
    put(file, b"precious")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert "did not write" in refused(file)


def test_a_file_whose_blocks_are_not_those_of_its_mark_is_refused(tmp_path: Path) -> None:
    """Though its times are: a file system that was put back, a clock that was set."""
    file = sparse(tmp_path / "disk.img", GIB)
    review(file)
    mark = marks.of_file(str(file))
    assert mark is not None and mark.state == "done"
    with file.open("r+b") as opened:
        for at in marks.drawn_blocks(GIB, mark.session, marks.DIGEST_BLOCKS)[3:4]:
            opened.seek(at)
            opened.write(b"precious")
        opened.flush()
        status = os.fstat(opened.fileno())
        same = replace(mark, mtime_ns=status.st_mtime_ns, ctime_ns=status.st_ctime_ns)
        os.setxattr(opened.fileno(), marks.ATTRIBUTE, same.encoded())
    assert "did not write" in refused(file)


def test_what_is_killed_with_its_witness_is_nobodys(tmp_path: Path) -> None:
    """As after a power cut: nobody says how the target was left."""
    file = sparse(tmp_path / "disk.img", GIB)
    folder = tmp_path / "result"
    program = KILLED.replace("os.kill(", "held._witness._process.kill(); os.kill(")
    done = subprocess.run([sys.executable, "-c", program, str(file), str(folder)])
    assert done.returncode == -9
    mark = marks.of_file(str(file))
    assert mark is not None and mark.state == "open"
    with pytest.raises(UserError, match="did not write"):
        gone_on_with(file, OverwritePermission(record=Record(folder, resumes=True)))


def test_what_is_copied_into_a_killed_reviews_file_stops_its_own_resume(tmp_path: Path) -> None:
    file, archive = sparse(tmp_path / "disk.img", GIB), sparse(tmp_path / "archive.tar", GIB)
    put(archive, b"precious")
    permission = killed(file)
    wait_until(lambda: (mark := marks.of_file(str(file))) is not None and mark.state == "killed")
    run("cp", "--sparse=always", str(archive), str(file))
    with pytest.raises(UserError, match="did not write"):
        gone_on_with(file, permission)


def test_a_mark_beside_a_file_that_another_user_has_made_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder such as /tmp: who may only read the file can name its times and its digest."""
    file = sparse(tmp_path / "disk.img", GIB)
    put(file, b"precious")
    beside = tmp_path / ".disk.img.drivebay"
    with file.open("rb") as opened:
        status, session = os.fstat(opened.fileno()), marks.new_session()
        found = marks.digest(opened.fileno(), session)
    times = (status.st_mtime_ns, status.st_ctime_ns)
    beside.write_bytes(marks.Mark("done", session, found, status.st_ino, *times).encoded())
    beside.chmod(0o644)
    assert "did not write" in refused(file), "where there are attributes they alone count"
    without_attributes(monkeypatch)
    if os.geteuid() == 0:
        os.chown(beside, 65534, 65534)
        assert "did not write" in refused(file)
        os.chown(beside, 0, 0)
    beside.chmod(0o666)
    assert "did not write" in refused(file)
    os.link(beside, tmp_path / "another name")
    beside.chmod(0o644)
    assert "did not write" in refused(file)


def test_a_file_beside_that_is_not_ours_stays_whatever_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk refuses the attribute: then there is no mark, and none beside either."""
    file, beside = sparse(tmp_path / "disk.img", GIB), tmp_path / ".disk.img.drivebay"
    review(file)
    beside.write_text("my notes")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "setxattr", full)
        review(file)
    without_attributes(monkeypatch)
    review(file, name="disk.img")
    assert beside.read_text() == "my notes"


@needs_root
def test_a_folder_of_marks_that_is_not_ours_alone_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user's folder under sudo: a link in it would lead root's writes elsewhere."""
    state, victim = tmp_path / "state", tmp_path / "victim"
    victim.mkdir()
    monkeypatch.setenv(marks.STATE_VARIABLE, str(state))
    backing = sparse(tmp_path / "disk.img", GIB)
    for make in ("link", "theirs"):
        if make == "link":
            state.symlink_to(victim)
        else:
            state.mkdir()
            os.chown(state, 65534, 65534)
        with loop(backing) as device, pytest.raises(EnvironmentProblem, match="cannot be kept"):
            gone_on_with(Path(device), OverwritePermission(str(backing)))
        assert list(victim.iterdir()) == []
        state.unlink() if make == "link" else state.rmdir()


@needs_root
def test_a_device_that_is_written_between_two_steps_is_not_ours(tmp_path: Path) -> None:
    backing = sparse(tmp_path / "disk.img", GIB)
    with loop(backing) as device:
        found, permission = target_device.find(device), OverwritePermission(str(backing))
        handle = ExclusiveHandle(found, permission=permission)
        with contextlib.closing(handle):
            os.pwrite(handle.fd(to_write=True), b"a step", 0)
            os.fsync(handle.fd(to_write=False))
            run("dd", "if=/dev/urandom", f"of={device}", "bs=1M", "seek=500", "count=1",
                "oflag=direct", "conv=notrunc")  # fmt: skip
            with pytest.raises(UserError, match="written between two steps"):
                handle.fd(to_write=True)
        assert "holds data without a signature" in refused(device, name=str(backing))


# --- files: between "is it blank?" and the first note ---------------------------------------------

CALLS = (
    *("fstat", "stat", "lseek", "pread", "read", "open", "close", "scandir", "posix_fadvise"),
    *("setxattr", "getxattr", "removexattr", "readlink", "listdir"),
)
"""What a claim asks of the system; before each of these a writer may run."""
STEP = 1 if os.environ.get("DRIVEBAY_LONG") else 5
"""Of these calls one in so many is tried."""
PLACE = 500 * MIB


def writes(file: Path) -> None:
    with file.open("r+b") as opened:
        opened.seek(PLACE)
        opened.write(b"precious")


def writes_and_sets_the_time_back(file: Path) -> None:
    before = os.stat(file)
    writes(file)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def writes_through_memory(file: Path) -> None:
    with file.open("r+b") as opened, mmap.mmap(opened.fileno(), GIB) as memory:
        memory[PLACE : PLACE + 8] = b"precious"


class HeldWriter:
    """Counts the calls of CALLS and lets a writer run before the one of that number. It is this
    very process: the one that no look at others' processes shows."""

    def __init__(self, patch: pytest.MonkeyPatch, before: int, act: Callable[[], None]) -> None:
        self.calls, self.at_end, self._before, self._act = 0, 0, before, act
        self._in = False
        for name in CALLS:
            patch.setattr(os, name, self._counted(getattr(os, name)))
        authorise = ExclusiveHandle._authorise

        def authorised(handle: ExclusiveHandle) -> None:
            self.at_end = self.calls
            authorise(handle)

        patch.setattr(ExclusiveHandle, "_authorise", authorised)

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*given: Any, **more: Any) -> Any:
            if not self._in:
                if self.calls == self._before:
                    self._in = True
                    self._act()
                    self._in = False
                self.calls += 1
            return call(*given, **more)

        return counted


def claimed(file: Path, before: int, act: Callable[[], None]) -> HeldWriter:
    """A handle's first writing step, with the writer run before that call."""
    handle = ExclusiveHandle(target_device.find(str(file)), permission=OverwritePermission())
    with contextlib.closing(handle), pytest.MonkeyPatch.context() as patch:
        held = HeldWriter(patch, before, act)
        handle.fd(to_write=True)
        return held


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("writer", [writes, writes_and_sets_the_time_back, writes_through_memory])
def test_what_is_written_at_any_step_of_a_claim_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer: Callable[[Path], None], own: bool
) -> None:
    """A blank file, and one that is drivebay's own."""
    monkeypatch.setattr(in_use, "PROC", tmp_path)  # other processes are looked at elsewhere
    file = sparse(tmp_path / "disk.img", GIB)
    with file.open("r+b") as opened:
        opened.write(bytes(MIB))  # so that there is something to read
    if own:
        with contextlib.closing(
            ExclusiveHandle(target_device.find(str(file)), permission=OverwritePermission())
        ) as handle:
            handle.fd(to_write=True)
    steps = claimed(file, -1, lambda: None).at_end
    assert steps > 20
    refused_at: list[int] = []
    for step in range(random.randrange(STEP), steps, STEP):
        fresh = file.with_name(f"disk-{step}.img")
        sparse(fresh, GIB)
        if own:
            with contextlib.closing(
                ExclusiveHandle(target_device.find(str(fresh)), permission=OverwritePermission())
            ) as handle:
                os.pwrite(handle.fd(to_write=True), b"ours", 0)
        else:
            with fresh.open("r+b") as opened:
                opened.write(bytes(MIB))
        try:
            held = claimed(fresh, step, lambda fresh=fresh: writer(fresh))  # type: ignore[misc]
        except DrivebayError:
            pass
        else:  # a busy machine makes a mark of one call more or less: this one came after the claim
            assert held.at_end <= step, (step, steps, held.at_end)
            continue
        refused_at.append(step)
        with fresh.open("rb") as opened:
            opened.seek(PLACE)
            assert opened.read(8) == b"precious", step
            assert not marks.is_own(opened.fileno(), str(fresh)), step
        fresh.unlink()
    assert len(refused_at) > 0.8 * (steps // STEP)


@pytest.mark.parametrize("verb", ["review", "prepare", "replay", "check-trim"])
def test_every_verb_that_writes_claims_its_file_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """A writer behind the look at the file's content, in each of them."""
    monkeypatch.chdir(tmp_path)
    file = sparse(tmp_path / "disk.img", GIB)
    (tmp_path / "trace.csv").write_text("128166372003061629,host,0,Write,0,4096,100\n")
    more = {
        "review": ["--quick", "--only", "random-read", "--yes"],
        "prepare": ["--method", "two-fills", "--yes"],
        "replay": [],
        "check-trim": [],
    }[verb]
    looked: list[bool] = []
    in_handle = target_device.refuse_foreign_data

    def looks(*given: Any, **more: Any) -> None:
        in_handle(*given, **more)
        if not looked:
            looked.append(True)
            writes(file)

    monkeypatch.setattr(handle_module, "refuse_foreign_data", looks)
    trace = ["trace.csv"] if verb == "replay" else []
    with pytest.raises(SystemExit) as ended:
        entry.main([verb, "disk.img", *trace, *more])
    assert ended.value.code == 2 and looked
    assert "disk.img would be overwritten: it holds data" in capfd.readouterr().err
    with file.open("rb") as opened:
        opened.seek(PLACE)
        assert opened.read(8) == b"precious"


LEASE = """
import fcntl, os, signal, sys, time
signal.signal(signal.SIGIO, lambda *_: os.write(2, b"broken"))
fd = os.open(sys.argv[1], os.O_RDONLY if sys.argv[2] == "RDLCK" else os.O_RDWR)
fcntl.fcntl(fd, fcntl.F_SETLEASE, getattr(fcntl, "F_" + sys.argv[2]))
"""


@pytest.mark.parametrize("kind", ["RDLCK", "WRLCK"])
@pytest.mark.parametrize("seen", [True, False])
def test_a_file_under_a_lease_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, seen: bool
) -> None:
    """By what /proc/locks shows, before anything is opened; and where it shows nothing (another
    namespace), without waiting the 45 s after which the kernel takes a lease away."""
    file = sparse(tmp_path / "disk.img", GIB)
    found = target_device.find(str(file))
    with another(LEASE, str(file), kind) as other:
        if not seen:
            monkeypatch.setattr(in_use, "PROC", tmp_path / "none")
        begun = time.monotonic()
        with pytest.raises(DrivebayError) as caught:
            target_device.check(found, permission=OverwritePermission(), will_write=True)
            ExclusiveHandle(found, permission=OverwritePermission())
        assert time.monotonic() - begun < 30
        if seen:
            serve = ["serve", "sm951-ahci-128", "--nbd", f"unix:{tmp_path}/s", "--data", str(file)]
            assert entry.run(serve) == 2
            assert f"is under a lease of python (pid {other.pid})" in caught.value.message


def without_attributes(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> bytes:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "setxattr", none)
    monkeypatch.setattr(os, "getxattr", none)


def test_without_extended_attributes_a_file_beside_it_says_whose_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_attributes(monkeypatch)
    file = sparse(tmp_path / "disk.img", GIB)
    review(file)
    assert (tmp_path / ".disk.img.drivebay").exists()
    review(file)


@needs_root
def test_a_backing_file_under_another_name_is_refused(tmp_path: Path) -> None:
    """`ln a b; losetup a; mount; rm a`: sysfs names a path that is gone."""
    first, other = tmp_path / "a.img", tmp_path / "b.img"
    sparse(first, GIB)
    run("mkfs.ext4", "-q", str(first))
    os.link(first, other)
    with loop(first) as device, mounted(device, tmp_path / "place") as place:
        first.unlink()
        assert f"is in use by {device}" in refused(other, name="b.img")
        (place / "file").write_text("still there")
    with loop(other) as device:
        assert f"is in use by {device}" in refused(other, name="b.img")


@needs_root
def test_a_loop_of_another_mount_namespace_is_seen(tmp_path: Path) -> None:
    """As a container makes it, under a path that leads nowhere here."""
    file = sparse(tmp_path / "disk.img", GIB)
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    script = f'mount --bind {tmp_path} {hidden} && exec losetup --find --show "$0"'
    command = ["unshare", "--mount", "sh", "-c", script, str(hidden / "disk.img")]
    with no_mounts(), no_loop_taken():
        device = run(*command)
    try:
        assert f"is in use by {device}" in refused(file)
    finally:
        run("losetup", "--detach", device)


MAPPER = """
import mmap, sys
with open(sys.argv[1], "r+b") as file:
    mapped = mmap.mmap(file.fileno(), 4096)
"""


def test_a_file_that_another_program_has_mapped_is_refused(tmp_path: Path) -> None:
    """It has closed the file, and can write to it all the same."""
    file = sparse(tmp_path / "disk.img", GIB)
    with another(MAPPER, str(file)):
        assert "which has it mapped into its memory" in refused(file)
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 4096, prot=mmap.PROT_READ):
        review(file)  # our own does not count


def test_a_writer_that_proc_does_not_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where /proc shows a container's own processes only, or the writer is the kernel."""
    file = sparse(tmp_path / "disk.img", GIB)
    (tmp_path / "proc").mkdir()
    opener = "import sys; file = open(sys.argv[1], 'r+b')"
    for program in (opener, MAPPER):
        with another(program, str(file)), monkeypatch.context() as patch:
            patch.setattr(in_use, "PROC", tmp_path / "proc")
            assert "by the kernel or by a program that cannot be seen" in refused(file)
    reader = "import sys; file = open(sys.argv[1], 'rb')"
    with another(reader, str(file)):
        review(file)


def test_a_file_with_a_second_name_is_not_overwritten_without_its_name(tmp_path: Path) -> None:
    """`cp -al` and backups with hard links: the other name is somebody's backup."""
    file = sparse(tmp_path / "disk.img", GIB)
    review(file)
    os.link(file, tmp_path / "backup.img")
    assert "has another name (hard link)" in refused(file)
    review(file, name="disk.img")


def test_a_link_is_not_the_name_of_a_file(tmp_path: Path) -> None:
    """Who types the link's name may not know which file it leads to."""
    file = sparse(tmp_path / "important.img", GIB)
    with file.open("r+b") as opened:
        opened.write(b"precious")
    link = tmp_path / "scratch.img"
    link.symlink_to(file)
    for name in ("scratch.img", str(link)):
        assert "but the file is called 'important.img'" in refused(link, name=name)
    review(link, name="important.img")


def test_a_stranger_s_file_beside_it_is_not_taken_for_the_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file `.NAME.drivebay` is written only if it is one of ours, and never through a link."""
    without_attributes(monkeypatch)
    precious = tmp_path / "precious"
    precious.write_text("my thesis")
    for name, make in (("a.img", precious.rename), ("b.img", None)):
        file, beside = sparse(tmp_path / name, GIB), tmp_path / f".{name}.drivebay"
        if make is None:
            beside.symlink_to(tmp_path / ".a.img.drivebay")
        else:
            make(beside)
        review(file)
        assert (tmp_path / ".a.img.drivebay").read_text() == "my thesis"
        assert "did not write" in refused(file), "no mark, so it asks"


@needs_root
def test_a_swap_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "swap.img"
    run("fallocate", "--length", str(GIB), str(file))
    file.chmod(0o600)
    run("mkswap", str(file))
    done = subprocess.run(["swapon", str(file)], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"no swap here: {done.stderr.strip()}")
    try:
        with pytest.raises(DrivebayError, match="is used as swap space"):
            FioTarget(file, destroy_data="swap.img").check((writing(),))
    finally:
        run("swapoff", str(file))
    assert "swap space" in refused(file)


@pytest.mark.parametrize(
    ("table", "line", "purpose"),
    [
        ("FSTAB", "{} none swap sw 0 0", "none"),
        ("FSTAB", "{}  /mnt/my\\040image ext4 loop,noauto", "/mnt/my image"),
        ("CRYPTTAB", "secret {} none luks", "secret"),
    ],
)
def test_a_file_that_this_system_will_use_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str, line: str, purpose: str
) -> None:
    """Nothing uses it now: swap is off, the image is not mounted. Found under any of its names."""
    named, other = sparse(tmp_path / "a.img", GIB), tmp_path / "b.img"
    os.link(named, other)
    path = tmp_path / table.lower()
    path.write_text(f"# {other}\n{line.format(named)}\n")
    monkeypatch.setattr(in_use, table, path)
    assert f"is named in {path} for {purpose}" in refused(other, name="b.img")
    path.write_text(f"# {named}\n")
    FioTarget(other, destroy_data="b.img").check((writing(),))


@needs_root
def test_a_loop_over_a_file_that_this_system_will_use_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backing = sparse(tmp_path / "disk.img", GIB)
    monkeypatch.setattr(in_use, "FSTAB", tmp_path / "fstab")
    in_use.FSTAB.write_text(f"{backing} none swap\n")
    with loop(backing) as device:
        words = refused(device, name=str(backing))
    assert f"is a loop over a file that is named in {in_use.FSTAB}" in words


@needs_root
def test_a_device_of_crypttab_is_refused_without_any_signature(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plain dm-crypt, or LUKS with its header elsewhere: nothing on the device tells of it."""
    backing = sparse(tmp_path / "disk.img", GIB)
    monkeypatch.setattr(in_use, "CRYPTTAB", tmp_path / "crypttab")
    with loop(backing) as device:
        in_use.CRYPTTAB.write_text(f"secret {device} /etc/key plain,cipher=aes-xts-plain64\n")
        words = refused(device, name=str(backing), signature=True)
    assert f"is named in {in_use.CRYPTTAB} for secret" in words


LOCKER = """
import fcntl, os, struct, sys
file = open(sys.argv[1], "rb")
how = getattr(fcntl, sys.argv[2])
fcntl.fcntl(file, how, struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, 100, 1, 0))
"""


@needs_root
@pytest.mark.parametrize("how", ["F_SETLK", "F_OFD_SETLK"])
def test_what_another_program_has_locked_is_refused(tmp_path: Path, how: str) -> None:
    """As QEMU with an image that it only reads: a guest's base, of which others are made."""
    file = sparse(tmp_path / "disk.img", GIB)
    with another(LOCKER, str(file), how):
        assert "is locked by another program" in refused(file, name="disk.img")
    FioTarget(file, destroy_data="disk.img").check((writing(),))
    with loop(file) as device, another(LOCKER, device, how):
        assert "is locked by another program" in refused(device, name=str(file))


@needs_root
@pytest.mark.parametrize(("flag", "words"), [("i", "immutable"), ("a", "append-only")])
def test_an_immutable_file_is_refused(tmp_path: Path, flag: str, words: str) -> None:
    file = sparse(tmp_path / "disk.img", GIB)
    done = subprocess.run(["chattr", f"+{flag}", str(file)], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"no such attribute here: {done.stderr.strip()}")
    try:
        with pytest.raises(DrivebayError, match=words) as caught:
            FioTarget(file, destroy_data="disk.img").check((writing(),))
        assert f"chattr -{flag} " in caught.value.hint
    finally:
        run("chattr", f"-{flag}", str(file))


@needs_root
def test_a_file_in_memory_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "memory"
    place.mkdir()
    run("mount", "-t", "tmpfs", "none", str(place))
    try:
        assert "is in memory (tmpfs), not on a drive" in refused(sparse(place / "disk.img", GIB))
    finally:
        run("umount", str(place))


# --- in the middle of a review --------------------------------------------------------------------


@contextlib.contextmanager
def begun(file: Path) -> Iterator[FioTarget]:
    """A review of the file after its first test."""
    with contextlib.closing(FioTarget(file)) as target:
        target.check((writing(),))
        target.run_test(writing(), seed=1, progress=Progress())
        yield target


@needs_root
def test_a_loop_that_is_mounted_over_the_file_in_mid_review_stops_it(tmp_path: Path) -> None:
    file = sparse(tmp_path / "disk.img", GIB)
    with begun(file) as target:
        run("mkfs.ext4", "-q", "-F", str(file))
        with loop(file) as device, mounted(device, tmp_path / "place"):
            before = digest(file)
            with pytest.raises(UserError, match=f"is in use by {device}"):
                target.run_test(writing(), seed=1, progress=Progress())
            assert digest(file) == before


def test_what_comes_to_use_the_file_in_mid_review_stops_it(tmp_path: Path) -> None:
    file = sparse(tmp_path / "disk.img", GIB)
    opener = "import sys; file = open(sys.argv[1], 'r+b')"
    for program, words in ((opener, "is in use by python"), (MAPPER, "mapped into its memory")):
        with begun(file) as target, another(program, str(file)):
            before = digest(file)
            with pytest.raises(UserError, match=words):
                target.run_test(writing(), seed=1, progress=Progress())
            assert digest(file) == before


def test_a_file_that_was_moved_in_mid_review_is_not_written(tmp_path: Path) -> None:
    file = sparse(tmp_path / "disk.img", GIB)
    with begun(file) as target:
        moved = file.rename(tmp_path / "kept.img")
        before = digest(moved)
        with pytest.raises(UserError, match="no longer what it was"):
            target.run_test(writing(), seed=1, progress=Progress())
        sparse(file, GIB)
        with pytest.raises(UserError, match="no longer what it was"):
            target.run_test(writing(), seed=1, progress=Progress())
        assert digest(moved) == before


def test_a_file_without_enough_space_below_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the space is not taken to find out: others who write there would be told "disk full"."""
    free = shutil.disk_usage(tmp_path).free
    taken = []
    monkeypatch.setattr(os, "posix_fallocate", lambda *given: taken.append(given))
    with pytest.raises(EnvironmentProblem, match="cannot be made"):
        target_device.create(str(tmp_path / "huge.img"), free + 2**40)
    with pytest.raises(UserError, match="too small"):
        target_device.create(str(tmp_path / "small.img"), 256 * 2**20)
    assert not list(tmp_path.glob("*.img"))
    assert not taken
    assert marks.of_file(str(tmp_path / "huge.img")) is None


def test_a_size_makes_a_new_file_and_never_changes_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new, kept = tmp_path / "NEW.img", tmp_path / "kept.img"
    kept.write_bytes(b"precious")
    words = ["--suite", "quick", "--quick", "--size", "1100M", "--out", str(tmp_path / "result")]
    for path, expected in ((new, "nonsense"), (kept, "is there already")):
        only = ["--only", "nonsense"] if path == new else []
        assert entry.run(["review", str(path), *words, *only]) == 2
        assert expected in capsys.readouterr().err
    assert not new.exists(), "an option that is wrong is refused before"
    assert kept.read_bytes() == b"precious"


def test_a_size_grows_no_file_that_may_not_be_tested(tmp_path: Path) -> None:
    used, pipe = tmp_path / "used.img", tmp_path / "pipe"
    used.touch()
    os.mkfifo(pipe)
    cases = ((used, "in use"), (pipe, "is there already"))
    with another("import sys; kept = open(sys.argv[1], 'a')", str(used)):
        for path, words in cases:
            with pytest.raises(UserError, match=words):
                target_device.create(str(path), GIB)
            assert path.stat().st_size == 0
    loose = tmp_path / "link.img"
    loose.symlink_to(tmp_path / "nowhere.img")
    with pytest.raises(EnvironmentProblem, match="cannot be made"):
        target_device.create(str(loose), shutil.disk_usage(tmp_path).free + 2**40)
    assert not (tmp_path / "nowhere.img").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("review", "--suite", "quick", "--quick", "--purge", "nonsense"),
        ("review", "--suite", "quick", "--quick", "--destroy-data", "another.img"),
        ("prepare", "--method", "random", "--destroy-data", "another.img"),
    ],
)
def test_what_is_refused_leaves_no_file_that_a_size_has_made(
    tmp_path: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    new, empty, linked = (tmp_path / name for name in ("new.img", "empty.img", "linked.img"))
    empty.touch()
    linked.touch()
    os.link(linked, tmp_path / "its other name")
    for path in (new, empty, linked):
        verb, *more = words
        out = ["--out", str(tmp_path / "result")] if verb == "review" else []
        with pytest.raises(SystemExit) as ended:
            entry.main([verb, str(path), "--size", "1100M", *more, *out])
        assert ended.value.code == 2, capsys.readouterr().err
    assert not new.exists()
    assert empty.stat().st_size == linked.stat().st_size == 0


def test_a_new_file_that_has_been_written_since_is_not_undone(tmp_path: Path) -> None:
    made = target_device.create(str(tmp_path / "new.img"), GIB)
    put(Path(made.path), b"precious")
    made.undo()
    assert Path(made.path).stat().st_size == GIB


@needs_root
def test_a_file_that_is_in_use_is_not_served(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = sparse(tmp_path / "data.img", 128_035_676_160)
    serve = ["serve", "sm951-ahci-128", "--nbd", f"unix:{tmp_path}/socket", "--data", str(file)]
    opener = "import sys; file = open(sys.argv[1], 'r+b')"
    with loop(file) as device:
        assert entry.run(serve) == 2
        assert f"cannot be served: it is in use by {device}" in capsys.readouterr().err
    with another(opener, str(file)):
        assert entry.run(serve) == 2
        assert "cannot be served: it is in use by python" in capsys.readouterr().err
    assert file.stat().st_blocks == 0


def test_a_report_replaces_no_other_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / "thesis.html"
    mine.write_text("<html>my thesis</html>")
    folder = str(made_result.make(tmp_path / "r", suite="quick", only=("random-read",), quick=True))
    assert entry.run(["report", folder, "--out", str(mine)]) == 2
    assert "is not a drivebay report" in capsys.readouterr().err
    assert mine.read_text() == "<html>my thesis</html>"
    pipe, dangling = tmp_path / "pipe.html", tmp_path / "dangling.html"
    os.mkfifo(pipe)
    dangling.symlink_to(tmp_path / "nowhere")
    for place in (pipe, dangling):
        assert entry.run(["report", folder, "--out", str(place)]) == 2
    assert pipe.is_fifo() and dangling.is_symlink()
    for _ in range(2):
        assert entry.run(["report", folder, "--out", str(tmp_path / "page.html")]) == 0
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    (pictures / "random-read-rate.png").write_bytes(b"my holiday")
    for option in ("--png", "--out"):
        assert entry.run(["report", folder, option, str(pictures)]) == 2
        assert f"error: {option}: {pictures}" in capsys.readouterr().err
        assert [one.name for one in pictures.iterdir()] == ["random-read-rate.png"]
