"""What forbids overwriting a block device: every case on a real loop device, with real signatures.

In each case the refusal must name the cause, and not one byte of the device may have changed. The
target is asked both ways: `check`, as the review does before anything, and `run_test` without it.
"""

from __future__ import annotations

import contextlib
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fakes import made_test, workload
from loops import (
    READ_ONLY,
    SIGNATURES,
    content,
    digest,
    loop,
    mounted,
    moved,
    needs_root,
    no_loop_taken,
    no_mounts,
    run,
    sparse,
    with_signature,
)
from real_files import MIB, keep_the_disk_free

from drivebay.common.errors import EnvironmentProblem, UserError
from drivebay.definitions.suites import Phase, Prepare, Test
from drivebay.targets.base import Progress
from drivebay.targets.fio.target import FioTarget
from drivebay.targets.safety import blockdev, contents, in_use, libblkid, target_device
from drivebay.targets.safety.handle import ExclusiveHandle

__all__ = ["keep_the_disk_free"]
SMALL = 64 * MIB


def a_test() -> Test:
    """A test that purges, fills and writes: everything that destroys."""
    return made_test(
        Phase(label="run", workload=workload(read_percent=0, queue_depth=4, duration_s=1)),
        prepare=(Prepare(kind="purge"), Prepare(kind="fill")),
    )


def refusal(device: str, serial: str | None, *, never: bool = True, is_swap: bool = False) -> str:
    """The words with which both ways in refuse the device; not one byte of it is changed.

    `never` is for what no word of the user's allows: it must be refused with all of them given.
    `is_swap`: the kernel may write to it at any time, as it does when memory is short, so bytes
    are compared before `swapon` alone.
    """
    backing = None if is_swap else backing_file(device)
    before = backing and (content(backing), backing.stat().st_blocks)
    with pytest.raises(UserError) as checked:
        FioTarget(device, destroy_data=serial).check((a_test(),))
    with pytest.raises(UserError) as ran:
        run_all(device, serial)
    found = [checked.value, ran.value]
    if never:
        with pytest.raises(UserError) as with_all_words:
            run_all(device, serial, overwrite_signature=True)
        found.append(with_all_words.value)
    assert before == (backing and (content(backing), backing.stat().st_blocks))
    for caught in found:
        assert caught.exit_code == 2
        assert "\n" not in caught.message + caught.hint
        assert caught.hint
        assert caught.message == checked.value.message
    return checked.value.message


def backing_file(device: str) -> Path | None:
    """The file that has a loop device's bytes, or a partition's of it; None if it is detached."""
    loop_name = device.removeprefix("/dev/").partition("p1")[0]
    file = Path(in_use.read(in_use.SYS_BLOCK / loop_name / "loop/backing_file"))
    if file == Path():
        return None
    return backing_file(str(file)) if str(file).startswith("/dev/") else file


def run_all(device: str, serial: str | None, *, overwrite_signature: bool = False) -> None:
    """Everything that destroys, without asking first."""
    target = FioTarget(device, destroy_data=serial, overwrite_signature=overwrite_signature)
    with contextlib.closing(target):
        target.run_test(a_test(), seed=1, progress=Progress())


@contextmanager
def partition(device: str) -> Iterator[str]:
    """A partition that only the kernel knows of: no table is written."""
    run("addpart", device, "1", "2048", str(48 * MIB // 512))
    try:
        yield f"{device}p1"
    finally:
        if os.path.exists(f"{device}p1"):  # a test may have had the kernel forget it
            run("delpart", device, "1")


@contextmanager
def shown_partitions(device: str) -> Iterator[None]:
    """The kernel knows the partitions of the device's table, whether or not it can read it."""
    subprocess.run(["partx", "--add", device], capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["partx", "--delete", device], capture_output=True)


@needs_root
def test_nothing_forbids_an_empty_loop_with_the_right_serial(tmp_path: Path) -> None:
    """Without this one, the refusals below would prove nothing."""
    backing = sparse(tmp_path / "disk with space.img", SMALL)
    with loop(backing) as device:
        found = blockdev.inspect(device)
        assert found.blockers == ()
        assert found.serial == str(backing)
        assert found.capacity_bytes == SMALL
        assert found.interface == "loop"
        blockdev.refuse_unless_free(found, str(backing))
        assert found in blockdev.list_devices()


@needs_root
@pytest.mark.parametrize("serial", [None, "", "loop0", "disk.img", "{backing} ", "{BACKING}"])
def test_a_missing_or_other_serial(tmp_path: Path, serial: str | None) -> None:
    backing = sparse(tmp_path / "disk.img", SMALL)
    if serial is not None:
        serial = serial.format(backing=backing, BACKING=str(backing).upper())
    with loop(backing) as device:
        before = digest(backing)
        words = refusal(device, serial)
        assert digest(backing) == before
    assert ("was not given" if serial is None else f"names {serial!r}") in words
    assert device in words


MEMBERS = {"LVM2_member", "crypto_LUKS", "btrfs", "bcache", "swap", "zfs_member"}


@needs_root
@pytest.mark.parametrize("name", sorted(SIGNATURES["sectors"]))
def test_a_signature(tmp_path: Path, name: str) -> None:
    backing = with_signature(tmp_path / "disk.img", name)
    with loop(backing, "--partscan") as device, shown_partitions(device):
        words = refusal(device, str(backing), never=name in MEMBERS)
        found = blockdev.inspect(device)
        assert bool(found.blockers) == (name in MEMBERS)
        if not found.blockers:
            blockdev.refuse_unless_free(found, str(backing), overwrite_signature=True)
            with pytest.raises(UserError, match="--destroy-data names"):
                blockdev.refuse_unless_free(found, "other", overwrite_signature=True)
    assert "it bears" in words
    known = {
        "LVM2_member": "LVM",
        "crypto_LUKS": "LUKS",
        "gpt": "partition table",
        "dos": "partition table",
        "swap": "swap space",
    }
    assert known.get(name, name) in words


def md_superblock() -> bytes:
    """An MD RAID superblock, version 1.2, by hand, as there is no mdadm without the kernel's MD:
    linux/raid/md_p.h."""
    fields = bytearray(256)
    struct.pack_into("<IIII", fields, 0, 0xA92B4EFC, 1, 0, 0)
    fields[16:32] = bytes(range(16))
    struct.pack_into("<QIIQ", fields, 72, 1, 0, 2, 100_000)
    struct.pack_into("<QQQ", fields, 128, 2048, 100_000, 8)
    total = sum(struct.unpack("<64I", fields))
    struct.pack_into("<I", fields, 216, ((total & 0xFFFFFFFF) + (total >> 32)) & 0xFFFFFFFF)
    return bytes(fields)


@needs_root
def test_an_md_member(tmp_path: Path) -> None:
    backing = sparse(tmp_path / "disk.img", SMALL)
    with backing.open("r+b") as file:
        file.seek(4096)
        file.write(md_superblock())
    with loop(backing) as device:
        before = digest(backing)
        assert "bears a member of an MD RAID" in refusal(device, str(backing))
        assert digest(backing) == before


@needs_root
def test_a_zfs_member(tmp_path: Path) -> None:
    """Uberblocks of two labels, by hand: 1 KiB apart from 128 KiB into each label of 256 KiB."""
    backing = sparse(tmp_path / "disk.img", SMALL)
    with backing.open("r+b") as file:
        for label in (0, 256 * 1024):
            for number in range(16):
                file.seek(label + 128 * 1024 + number * 1024)
                file.write(struct.pack("<QQQQQ", 0x00BAB10C, 5000, 10 + number, 1, 1_500_000_000))
    with loop(backing) as device:
        before = digest(backing)
        assert "bears a member of a ZFS pool" in refusal(device, str(backing))
        assert digest(backing) == before


@needs_root
def test_mounted_and_bearing_a_file_system(tmp_path: Path) -> None:
    backing = sparse(tmp_path / "disk.img", SMALL)
    run("mkfs.ext4", "-q", str(backing))
    with loop(backing) as device:
        with mounted(device, tmp_path / "a place", *READ_ONLY):
            words = refusal(device, str(backing))
        assert f"is mounted at {tmp_path}/a place" in words
        assert "held by the kernel" in words
        before = digest(backing)
        words = refusal(device, str(backing), never=False)
        assert "mounted" not in words
        assert "bears the signature of ext4" in words
        assert digest(backing) == before


@needs_root
def test_mounted_where_we_cannot_see_it(tmp_path: Path) -> None:
    """In another mount namespace, as in a container."""
    backing = sparse(tmp_path / "disk.img", SMALL)
    run("mkfs.ext4", "-q", str(backing))
    (tmp_path / "place").mkdir()
    script = f'mount "$0" {tmp_path}/place && echo mounted && read line'
    with loop(backing) as device, no_mounts():
        other = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", script, device],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert other.stdout is not None and other.stdout.readline() == b"mounted\n"
        words = refusal(device, str(backing))
        other.communicate(b"\n")
    assert "is held by the kernel" in words and "is mounted" not in words


@needs_root
def test_partitions(tmp_path: Path) -> None:
    backing = sparse(tmp_path / "disk.img", SMALL)
    with loop(backing, "--partscan") as device, partition(device) as part:
        before = digest(backing)
        words = refusal(device, str(backing), never=False)
        assert "has 1 partition" in words
        assert "is a partition, not a whole device" in refusal(part, str(backing))
        assert digest(backing) == before
        run("mkfs.ext4", "-q", part)
        with mounted(part, tmp_path / "place", *READ_ONLY):
            words = refusal(device, str(backing))
            assert f"has a partition, {part}, that is mounted at {tmp_path}/place" in words
        run("mkswap", part)
        refusal(device, str(backing))
        run("swapon", part)
        try:
            words = refusal(device, str(backing), is_swap=True)
        finally:
            run("swapoff", part)
        assert f"has a partition, {part}, that is used as swap" in words


@needs_root
def test_a_partition_with_a_member_of_something_larger(tmp_path: Path) -> None:
    """The disk itself bears nothing: it is the partition that must be looked at."""
    backing = sparse(tmp_path / "disk.img", SMALL)
    with loop(backing, "--partscan") as device, partition(device) as part:
        run("mkfs.ext4", "-q", part)
        assert f"has a partition, {part}, that bears the signature of ext4" in refusal(
            device, str(backing), never=False
        )
        run("wipefs", "--all", part)
        run("mkswap", part)
        words = refusal(device, str(backing))
        assert f"has a partition, {part}, that bears swap space" in words


@needs_root
def test_a_partition_table_and_a_file_system_may_be_given_up(tmp_path: Path) -> None:
    """By a second word; then all of it is written, and the kernel forgets the partition."""
    backing = sparse(tmp_path / "disk.img", 1024 * MIB)
    with loop(backing, "--partscan") as device, partition(device) as part:
        run("mkfs.ext4", "-q", part)
        with mounted(part, tmp_path / "place", *READ_ONLY):
            refusal(device, str(backing))
        run_all(device, str(backing), overwrite_signature=True)
        assert blockdev.inspect(device, look_inside=False).signatures == ()
        assert not os.path.exists(part)


@needs_root
def test_devices_that_this_system_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Named for booting, though not mounted: in fstab, on the kernel's command line."""
    backing = sparse(tmp_path / "disk.img", SMALL)
    with loop(backing, "--partscan") as device, partition(device) as part:
        fstab = tmp_path / "fstab"
        fstab.write_text(f"# {device} /old\n{part}\t/spare\\040disk ext4 noauto 0 0\n")
        monkeypatch.setattr(in_use, "FSTAB", fstab)
        words = refusal(device, str(backing))
        assert f"has a partition, {part}, that is named in {fstab} for /spare disk" in words
        fstab.write_text("tmpfs /tmp tmpfs\nUUID=none / ext4\n\n")
        proc = tmp_path / "proc"
        (proc / "self").mkdir(parents=True)
        (proc / "cmdline").write_text(f"quiet root={device} ro")
        monkeypatch.setattr(in_use, "PROC", proc)
        assert "named on the kernel's command line (root=)" in refusal(device, str(backing))


@needs_root
def test_a_drive_that_moves_at_a_reset_is_followed_by_its_serial(tmp_path: Path) -> None:
    """As a drive that comes back as /dev/nvme1n1, with another one at its old place."""
    first = sparse(tmp_path / "first.img", 1024 * MIB)
    other = sparse(tmp_path / "other.img", 1024 * MIB)
    with no_loop_taken():
        old = run("losetup", "--find", "--show", str(first))
    new = ""
    try:
        found = target_device.find(old)
        handle = ExclusiveHandle(found, permission=target_device.OverwritePermission(str(first)))
        assert os.fstat(handle.after_reset()).st_rdev == found.inode[2], "not moved: kept"
        handle.close()
        handle = ExclusiveHandle(found, permission=target_device.OverwritePermission(str(first)))
        os.close(handle._fd)  # as a device that vanishes; the kernel keeps a loop while it is open
        moved(old, other)
        with pytest.raises(EnvironmentProblem, match="has not come back"):
            handle.after_reset(wait_s=0.3)
        with no_loop_taken():
            new = run("losetup", "--find", "--show", str(first))
        handle._fd = os.open(os.devnull, os.O_RDONLY)
        fd = handle.after_reset()
        assert handle.target.path == new != old
        assert os.fstat(fd).st_rdev == os.stat(new).st_rdev
        os.pwrite(fd, b"written", 0)
        handle.close()
    finally:
        for device in (old, new):
            if device:
                run("losetup", "--detach", device)
    assert other.stat().st_blocks == 0
    with first.open("rb") as file:
        assert file.read(7) == b"written"


@needs_root
def test_swap_in_use(tmp_path: Path) -> None:
    backing = tmp_path / "disk.img"
    backing.write_bytes(bytes(SMALL))
    with loop(backing) as device:
        run("mkswap", device)
        refusal(device, str(backing))
        run("swapon", device)
        try:
            words = refusal(device, str(backing), is_swap=True)
        finally:
            run("swapoff", device)
    assert "is used as swap" in words


@needs_root
def test_read_only(tmp_path: Path) -> None:
    backing = sparse(tmp_path / "disk.img", SMALL)
    with loop(backing, "--read-only") as device:
        assert "is read-only" in refusal(device, str(backing))


@needs_root
def test_open_for_writing(tmp_path: Path) -> None:
    backing = sparse(tmp_path / "disk.img", SMALL)
    holder = "import os, sys; os.open(sys.argv[1], {}); print('open', flush=True); input()"
    cases = {
        "os.O_RDONLY | os.O_EXCL": "held by the kernel or another program",
        "os.O_RDWR": "is open for writing by python",
    }
    with loop(backing) as device:
        before = digest(backing)
        for flags, expected in cases.items():
            other = subprocess.Popen(
                [sys.executable, "-c", holder.format(flags), device],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            assert other.stdout is not None
            assert other.stdout.readline() == b"open\n"
            words = refusal(device, str(backing))
            other.communicate(b"\n")
            assert expected in words
            assert expected.startswith("held") or str(other.pid) in words
        assert digest(backing) == before
        assert blockdev.inspect(device).blockers == (), "free again once the programs have ended"


@needs_root
def test_a_backing_file_shared_with_another_loop(tmp_path: Path) -> None:
    backing = sparse(tmp_path / "disk.img", SMALL)
    with loop(backing) as device, loop(backing) as other:
        assert f"shares its backing file with {other[5:]}" in refusal(device, str(backing))


@needs_root
def test_a_loop_over_a_block_device(tmp_path: Path) -> None:
    backing = sparse(tmp_path / "disk.img", SMALL)
    with loop(backing) as below, loop(Path(below)) as device:
        assert "is a loop over the block device" in refusal(device, below)


@needs_root
def test_an_empty_device(tmp_path: Path) -> None:
    backing = sparse(tmp_path / "disk.img", SMALL)
    with no_loop_taken():
        device = run("losetup", "--find", "--show", str(backing))
        run("losetup", "--detach", device)
        words = refusal(device, str(backing))
        assert "its size is zero" in words
        assert "has no serial number" in words
        assert device not in [found.path for found in blockdev.list_devices()]


@needs_root
def test_another_disk_behind_the_same_path(tmp_path: Path) -> None:
    """The device is examined, then replaced by another one: it must not be written."""
    first = sparse(tmp_path / "first.img", 1024 * MIB)
    other = sparse(tmp_path / "other.img", 1024 * MIB)
    device = run("losetup", "--find", "--show", str(first))
    try:
        target = FioTarget(device, destroy_data=str(first))
        target.check((a_test(),))
        moved(device, other)
        with pytest.raises(UserError) as caught:
            target.run_test(a_test(), seed=1, progress=Progress())
        assert "no longer the same device" in caught.value.message
        moved(device, first)
        with pytest.raises(UserError) as caught:
            target.run_test(a_test(), seed=1, progress=Progress())
        assert "its sequence was" in caught.value.message, "plugged in again: examined anew"
    finally:
        run("losetup", "--detach", device)
    assert other.stat().st_blocks == 0 and first.stat().st_blocks == 0


@needs_root
def test_a_mount_between_the_steps_is_not_possible(tmp_path: Path) -> None:
    """While a test has the device, mkfs and mount cannot have it."""
    backing = sparse(tmp_path / "disk.img", 1024 * MIB)
    with loop(backing) as device:
        target = FioTarget(device, destroy_data=str(backing))
        target.check((a_test(),))
        target.run_test(a_test(), seed=1, progress=Progress())
        refused = subprocess.run(["mkfs.ext4", "-q", device], capture_output=True, text=True)
        assert refused.returncode != 0
        assert "in use" in refused.stderr
        target.close()
        assert blockdev.inspect(device, look_inside=False).blockers == ()


@needs_root
def test_what_cannot_be_searched_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backing = sparse(tmp_path / "disk.img", SMALL)

    def fails(*_: int) -> list[libblkid.Area]:
        raise libblkid.ProbeError("libblkid cannot read it")

    with loop(backing) as device:
        monkeypatch.setattr(contents, "areas", fails)
        assert "cannot be searched for data: libblkid cannot" in refusal(device, str(backing))


@needs_root
def test_without_root_nothing_can_be_examined(tmp_path: Path) -> None:
    backing = sparse(tmp_path / "disk.img", SMALL)
    program = (
        "import os, sys; os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "from drivebay.targets.safety import blockdev\n"
        "print(*blockdev.inspect(sys.argv[1]).blockers, sep='; ')"
    )
    with loop(backing) as device:
        # Imported before the rights are given up: the checkout may not be readable without them.
        program = f"from drivebay.targets.safety import blockdev\n{program}"
        words = run(sys.executable, "-c", program, device)
    assert "no permission" in words


def test_what_is_no_block_device(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is no block device"):
        blockdev.inspect(str(tmp_path))
    with pytest.raises(UserError, match="No such file"):
        blockdev.inspect("/dev/there-is-no-such-device")


def test_the_disk_with_the_root_file_system_is_never_free() -> None:
    """Whatever machine this runs on; in some containers the disk cannot be seen, which is fine."""
    number = os.stat("/").st_dev
    roots = [
        device
        for device in blockdev.list_devices()
        if device.number == number or any("mounted at / " in text for text in device.blockers)
    ]
    assert all(device.blockers for device in roots)
