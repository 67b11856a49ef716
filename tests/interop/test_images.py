"""Drives that begin as images: over them in memory, as a copy in a file; and scaled drives."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import here
import loops
import nbd_server
import pytest
from nbd_server import PROGRAM, Served, served
from waiting import wait_until

from drivebay.common.errors import UserError
from drivebay.definitions import profiles as catalog
from drivebay.definitions.scaling import with_capacity
from drivebay.targets.safety import in_use

SMALL = "sm951-ahci-128"
MIB = 2**20
PART = random.Random(1).randbytes(MIB)

clients = pytest.mark.skipif(
    bool(nbd_server.missing("nbdcopy", "qemu-io", "qemu-img")),
    reason=nbd_server.missing("nbdcopy", "qemu-io", "qemu-img") or "-",
)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """64 MiB with a MiB of data at the beginning and one in the middle."""
    path = tmp_path / "image.raw"
    with path.open("wb") as file:
        file.write(PART)
        file.seek(32 * MIB)
        file.write(PART)
        file.truncate(64 * MIB)
    return path


def _qemu_io(drive: Served, *steps: str) -> str:
    words = [word for step in steps for word in ("-c", step)]
    command = ["qemu-io", "-f", "raw", "-t", "none", *words, drive.uri]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def _content(drive: Served, out: Path, mib: int = 64) -> bytes:
    part = ("bs=1M", f"count={mib}", f"if={drive.uri}", f"of={out}")
    command = ["qemu-img", "dd", "-f", "raw", "-O", "raw", *part]
    subprocess.run(command, check=True, capture_output=True)
    return out.read_bytes()


def _refused(*words: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        # One address twice: were the words not refused, the second would be, as in use.
        addresses = ("--nbd", f"unix:{folder}/nbd") * 2
        done = here.drivebay("serve", *words, *addresses, cwd=Path(folder))
    assert done.returncode in (2, 3)
    assert done.stderr.count("error: ") == 1 and "\nhint: " in done.stderr
    return done.stderr


@clients
def test_a_drive_over_an_image_is_written_and_the_image_stays(tmp_path: Path, image: Path) -> None:
    before = loops.digest(image)
    with served(tmp_path, "--from", str(image), "--pace", "none", drive=SMALL) as drive:
        assert _content(drive, tmp_path / "found") == image.read_bytes()
        steps = ("write -P 7 4k 4k", "discard 32M 64k", "write -z 33619968 512", "flush")
        assert "error" not in _qemu_io(drive, *steps)
        expected = bytearray(image.read_bytes())
        expected[4096:8192] = bytes([7]) * 4096
        expected[32 * MIB : 32 * MIB + 65536] = bytes(65536)
        expected[33619968 : 33619968 + 512] = bytes(512)
        assert _content(drive, tmp_path / "found") == expected
        (tmp_path / "page").write_bytes(bytes([9]) * 4096)
        # Unlike QEMU it leaves without a flush.
        subprocess.run(["nbdcopy", tmp_path / "page", drive.uri], check=True)
        assert drive.say("power-cut")["lost_bytes"] == 4096
        assert _content(drive, tmp_path / "found") == expected
        drive.say("snapshot now")
        _qemu_io(drive, "write -P 8 0 1M", "discard 32M 1M")
        drive.say(f"clone now {tmp_path / 'cloned'}")
        with (tmp_path / "cloned" / "data").open("rb") as file:
            assert file.read(64 * MIB) == expected
        drive.say("restore now")
        assert _content(drive, tmp_path / "found") == expected
        drive.end()
    assert loops.digest(image) == before


@clients
def test_what_an_image_holds_is_read_from_flash(tmp_path: Path, image: Path) -> None:
    with served(tmp_path, "--from", str(image), "--pace", "none", drive=SMALL) as drive:

        def took_us(at: str) -> float:
            before = float(drive.say("status")["drive_s"])
            _qemu_io(drive, f"read {at} 4k")
            return 1e6 * (float(drive.say("status")["drive_s"]) - before)

        assert took_us("32M") > took_us("16M") + 40
        drive.end()


@clients
def test_a_new_file_begins_as_a_copy_and_one_that_is_there_stays(
    tmp_path: Path, image: Path
) -> None:
    data = tmp_path / "data"
    words = ("--from", str(image), "--data", str(data))
    with served(tmp_path, *words, drive=SMALL) as drive:
        _qemu_io(drive, "write -P 7 0 4k", "flush")
        drive.end()
    assert data.stat().st_size == catalog.load(SMALL).capacity_bytes
    assert data.stat().st_blocks * 512 < 8 * MIB
    image.unlink()
    with served(tmp_path, *words, drive=SMALL) as drive:
        assert _content(drive, tmp_path / "found", 1) == bytes([7]) * 4096 + PART[4096:]
        drive.process.terminate()
        _, said = drive.process.communicate()
    assert f"is kept: --from {image} is only for new data" in said


@clients
def test_a_qcow2_image_is_read_by_qemu_img(tmp_path: Path, image: Path) -> None:
    qcow2 = tmp_path / "image.qcow2"
    base = ("qemu-img", "convert", "-f", "raw", "-O", "qcow2", str(image), str(qcow2))
    subprocess.run(base, check=True)
    before = loops.digest(qcow2)
    with served(tmp_path, "--from", str(qcow2), drive=SMALL) as drive:
        assert _content(drive, tmp_path / "found") == image.read_bytes()
        drive.end()
    assert loops.digest(qcow2) == before
    qcow2.write_bytes(b"QFI\xfb" + bytes(600))
    assert "cannot be read" in _refused(SMALL, "--from", str(qcow2))


@pytest.mark.parametrize("is_there", [False, True])
def test_a_preconditioning_that_is_stopped_leaves_data_as_it_was(
    tmp_path: Path, is_there: bool
) -> None:
    """Data that is there is held from before it, so that nobody else takes it meanwhile."""
    data = tmp_path / "data"
    size = catalog.load("sm951-nvme-512").capacity_bytes
    if is_there:
        loops.sparse(data, size)
    words = ["--nbd", f"unix:{tmp_path}/s", "--data", str(data), "--precondition", "steady"]
    command = [*PROGRAM, "serve", "sm951-nvme-512", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        next(line for line in process.stderr if line.startswith("data"))
        if is_there:
            open_files = Path(f"/proc/{process.pid}/fd")
            wait_until(lambda: any(one.resolve() == data for one in open_files.iterdir()))
        time.sleep(0.5)  # of some ten seconds
        process.terminate()
        assert "error: interrupted" in process.stderr.read()
    assert process.returncode == 130
    assert [(one.name, one.stat().st_size) for one in tmp_path.iterdir()] == [
        ("data", size)
    ] * is_there


def test_what_is_no_image_of_the_drive_is_refused(tmp_path: Path, image: Path) -> None:
    assert "neither a regular file nor a block" in _refused(SMALL, "--from", str(tmp_path))
    assert "No such file" in _refused(SMALL, "--from", str(tmp_path / "none"))
    large = loops.sparse(tmp_path / "large", 2**40)
    assert "more than the drive's" in _refused(SMALL, "--from", str(large))
    both = ("--from", str(image), "--data", str(image))
    assert "is the file of --data" in _refused(SMALL, *both)
    new = tmp_path / "new"
    (tmp_path / "link").symlink_to(new)
    for state in (new, tmp_path / "link"):
        same = ("--data", str(new), "--state", str(state))
        assert "is the file of --data" in _refused(SMALL, *same), "its state would replace its data"
        assert not new.exists()
    opener = "import sys; file = open(sys.argv[1], 'r+b'); print(flush=True); input()"
    command = [sys.executable, "-c", opener, str(image)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdout.readline()
        assert "is in use by" in _refused(SMALL, "--from", str(image))
        other.communicate(b"\n")


def test_what_is_no_file_does_not_become_a_copy(tmp_path: Path) -> None:
    image = tmp_path / "image"
    image.write_bytes(bytes(MIB))
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert "is not a regular file" in _refused(SMALL, "--from", str(image), "--data", str(pipe))
    assert pipe.is_fifo()


@loops.needs_root
def test_a_device_that_is_mounted_is_refused(tmp_path: Path) -> None:
    path = loops.sparse(tmp_path / "disk", 64 * MIB)
    loops.run("mkfs.ext4", "-q", str(path))
    with loops.loop(path) as device:
        (tmp_path / "mounted").mkdir()
        loops.run("mount", device, str(tmp_path / "mounted"))
        try:
            assert "is mounted, part of another device" in _refused(SMALL, "--from", device)
        finally:
            loops.run("umount", str(tmp_path / "mounted"))
        with served(tmp_path, "--from", device, drive=SMALL) as drive:
            assert not in_use.mount_points(Path(device).name)
            assert drive.say("status")["is_off"] is False
            drive.end()


@clients
def test_a_state_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    words = ("--state", str(tmp_path / "state"), "--precondition", "filled", "--capacity", "4G")
    with served(tmp_path, *words, drive=SMALL) as drive:
        first = drive.end()["drive_s"]
    with served(tmp_path, *words, drive=SMALL) as drive:
        drive.process.terminate()
        out, said = drive.process.communicate()
    assert first > 1800 and json.loads(out)["drive_s"] < 2 * 1800
    assert "state is kept: --precondition filled is only for a new state" in said


@pytest.mark.parametrize("name", ["sm951-ahci-512", "970-evo-plus-1tb", SMALL])
def test_a_scaled_drive_has_at_least_the_capacity_and_says_that_it_is_scaled(name: str) -> None:
    whole = catalog.load(name)
    for size in (1, 10 * 10**9, 10 * 2**30, whole.capacity_bytes // 3):
        small = with_capacity(whole, size)
        assert small.capacity_bytes >= size
        assert "scaled to" in small.title
    blocks = whole.resolved()["nand"]["pages_per_block"]["value"]
    step = whole.capacity_bytes / blocks
    assert with_capacity(whole, 10 * 10**9).capacity_bytes < 10 * 10**9 + step
    assert with_capacity(whole, whole.capacity_bytes) is whole
    with pytest.raises(UserError):
        with_capacity(whole, whole.capacity_bytes + 1)


def test_every_output_of_a_scaled_drive_says_so(tmp_path: Path) -> None:
    with served(tmp_path, "--capacity", "10GB", drive=SMALL) as drive:
        ctl = [*PROGRAM, "ctl", str(drive.control), "status"]
        for more in ([], ["--json"], ["--metrics"]):
            said = subprocess.run([*ctl, *more], capture_output=True, text=True, check=True)
            assert "scaled to" in said.stdout, more
        assert 10 * 10**9 <= drive.say("status")["capacity_bytes"] < 11 * 10**9
        drive.process.terminate()
        out, err = drive.process.communicate()
    assert "scaled to" in out and "scaled to" in err


def test_foreign_data_is_served_only_by_its_owners_word(tmp_path: Path) -> None:
    """Another program's image of the drive's size: hosts would write to it."""
    profile = with_capacity(catalog.load(SMALL), 2**30)
    data, copy = tmp_path / "disk.img", tmp_path / "copy.img"
    with data.open("wb") as file:
        file.truncate(profile.capacity_bytes)
        file.seek(500 * MIB)
        file.write(PART)

    def refused(file: Path) -> str:
        said = _refused(SMALL, "--capacity", "1G", "--data", str(file))
        assert "--from FILE" in said
        return said

    before = loops.digest(data)
    assert f"error: --data: {data} contains data that no served drive has written" in refused(data)
    small = ("--capacity", "1G", "--data", str(data))
    with served(tmp_path, *small, "--read-only", drive=SMALL) as drive:
        drive.end()
    assert "contains data that" in refused(data), "who only read it has not taken it"
    assert loops.digest(data) == before
    with served(tmp_path, *small, "--foreign-data", drive=SMALL) as drive:
        drive.end()
    with served(tmp_path, *small, drive=SMALL) as drive:
        drive.end()
    loops.run("cp", "--archive", "--sparse=always", str(data), str(copy))
    loops.run("cp", "--sparse=always", str(copy), str(data))
    assert "contains data that" in refused(data), "another's image over it has its inode number"
    assert "contains data that" in refused(copy), "a copy is somebody's backup"
    blank = loops.sparse(tmp_path / "blank.img", profile.capacity_bytes)
    with served(tmp_path, "--capacity", "1G", "--data", str(blank), drive=SMALL) as drive:
        drive.end()


def test_a_served_file_that_may_have_changed_is_named_again(tmp_path: Path) -> None:
    """After a kill, and after an orderly end if another program has set its time back."""
    data = tmp_path / "d.img"
    options = ("--capacity", "1G", "--data", str(data))
    with served(tmp_path, *options, drive=SMALL) as drive:
        with data.open("r+b") as file:
            file.write(PART)
        drive.process.kill()
        drive.process.wait()
    assert "its server was killed" in _refused(SMALL, *options)
    with served(tmp_path, *options, "--foreign-data", drive=SMALL) as drive:
        drive.end()
    before = data.stat()
    with data.open("r+b") as file:
        file.seek(MIB)
        file.write(PART)
    os.utime(data, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert "contains data that no served drive has written" in _refused(SMALL, *options)
