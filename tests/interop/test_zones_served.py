"""A drive with zones as Linux and nvme-cli see it, over NVMe/TCP: a host-managed zoned device."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import nvme_guest
import pytest
import served_guest

MODULES = ("virtio_pci", "virtio_net", "crc32c_generic", "nvme-tcp")
TOOLS = """\
queue=/sys/block/nvme0n1/queue
SAY() { echo "SAID $*"; }
head -c 8192 /dev/urandom >/tmp/a
size=$(($(cat $queue/chunk_sectors) / 8))
append() { nvme zns zone-append /dev/nvme0n1 -s $1 -z 8192 -d /tmp/a 2>&1; }
wp() {
  nvme zns report-zones /dev/nvme0n1 -s $1 -d 1 |
    sed -n 's/^SLBA: *\\([^ ]*\\) *WP: *\\([^ ]*\\).*State: *\\([^ ]*\\).*/\\1 \\2 \\3/p'
}
"""
JOB = """\
SAY zoned $(cat $queue/zoned) $(cat $queue/nr_zones)
SAY limits $(cat $queue/max_active_zones) $(cat $queue/max_open_zones)
SAY size $(cat $queue/chunk_sectors) $(cat $queue/logical_block_size)
SAY append $(cat $queue/zone_append_max_bytes) $(cat $queue/max_hw_sectors_kb)
nvme zns id-ns /dev/nvme0n1 | sed -n 's/^\\(mar\\|mor\\|zoc\\) *: */SAID id_\\1 /p'
nvme zns id-ctrl /dev/nvme0 | sed -n 's/^zasl *: */SAID zasl /p'
append 0 >/tmp/log; append 0 >/tmp/log; SAY appended $? $(sed 's/[^0-9]*//' /tmp/log)
SAY first $(wp 0)
dd if=/dev/nvme0n1 of=/tmp/b bs=4096 skip=2 count=2 iflag=direct 2>/dev/null
cmp /tmp/a /tmp/b && SAY data same
dd if=/tmp/a of=/dev/nvme0n1 bs=4096 seek=4 count=1 oflag=direct 2>/dev/null; SAY written $?
dd if=/tmp/a of=/dev/nvme0n1 bs=4096 seek=9 count=1 oflag=direct 2>/dev/null; SAY astray $?
nvme zns open-zone /dev/nvme0n1 -s $size >/dev/null 2>&1; SAY opened $? $(wp $size)
nvme zns close-zone /dev/nvme0n1 -s $size >/dev/null 2>&1; SAY closed $? $(wp $size)
nvme zns finish-zone /dev/nvme0n1 -s 0 >/dev/null 2>&1; SAY finished $? $(wp 0)
append 0 >/tmp/log; SAY full $? $(tr '\\n' ' ' </tmp/log)
nvme zns reset-zone /dev/nvme0n1 -a >/dev/null 2>&1; SAY reset $? $(wp 0)
dd if=/dev/nvme0n1 of=/tmp/b bs=4096 count=4 iflag=direct 2>/dev/null
SAY left $(tr -d '\\0' </tmp/b | wc -c)
nvme zns changed-zone-list /dev/nvme0n1 >/tmp/log 2>&1; SAY changed $?
errors() { nvme error-log /dev/nvme0 -e 1 | sed -n 's/^error_count[^:]*: *//p'; }
before=$(errors)
dd if=/tmp/a of=/dev/nvme0n1 bs=4096 count=1 oflag=direct 2>/dev/null
SAY stale $? $before $(errors)
"""
# Blocks of a random write area are written in any order, and over again, behind the write pointer,
# which an explicit flush moves, or a write beyond them. Linux itself knows no such areas.
AREA_JOB = """\
put() {
  head -c 4096 /dev/zero | tr '\\0' $2 >/tmp/page
  nvme write /dev/nvme0n1 -s $1 -c 0 -z 4096 -d /tmp/page >/tmp/log 2>&1
}
letter() {
  nvme read /dev/nvme0n1 -s $1 -c 0 -z 4096 -d /tmp/page >/dev/null 2>&1
  head -c 1 /tmp/page | tr '\\0' 0
}
nvme zns id-ns /dev/nvme0n1 | sed -n 's/^\\(zrwafg\\|zrwasz\\|zrwacap\\) *: */SAID id_\\1 /p'
nvme zns open-zone /dev/nvme0n1 -s 0 -r >/tmp/log 2>&1; SAY area $? $(wp 0)
put 7 a; SAY ahead $? $(wp 0)
put 2 b; put 2 c; SAY over $? $(letter 2) $(letter 7)
nvme zns zrwa-flush-zone /dev/nvme0n1 -l 3 >/tmp/log 2>&1; SAY flushed $? $(wp 0)
put 2 d; SAY behind $? $(letter 2)
put 261 e; SAY beyond $? $(wp 0)
put 1000 f; SAY far $? $(wp 0)
append 0 >/tmp/log; SAY append $? $(wp 0)
nvme zns finish-zone /dev/nvme0n1 -s 0 >/dev/null 2>&1; SAY finished $? $(wp 0)
SAY kept $(letter 2) $(letter 3) $(letter 7) $(letter 261)
nvme zns reset-zone /dev/nvme0n1 -s 0 >/dev/null 2>&1; SAY reset $? $(wp 0) $(letter 2)
put 7 a; SAY without $?
"""
# The drive becomes read-only while it is written.
FAILING_JOB = """\
nvme zns changed-zone-list /dev/nvme0n1 >/dev/null 2>&1
dd if=/dev/urandom of=/tmp/piece bs=1M count=1 2>/dev/null
written=0
while [ $written -lt 200 ]; do
  at=$((written / 6 * size / 16 + written % 6 * 16))
  dd if=/tmp/piece of=/dev/nvme0n1 bs=64k seek=$at oflag=direct 2>/tmp/log || break
  written=$((written + 1))
done
SAY written $written $(nvme smart-log /dev/nvme0 | sed -n 's/^critical_warning[^:]*: *//p')
sleep 1
SAY first $(wp 0)
dd if=/dev/nvme0n1 of=/tmp/b bs=64k count=16 iflag=direct 2>/dev/null
cmp /tmp/piece /tmp/b && SAY data same
SAY listed $(nvme zns changed-zone-list /dev/nvme0n1)
append 0 >/tmp/log; SAY refused $? $(tr '\\n' ' ' </tmp/log)
nvme zns offline-zone /dev/nvme0n1 -s 0 >/tmp/log 2>&1; SAY offline $? $(wp 0)
nvme read /dev/nvme0n1 -s 0 -c 0 -z 4096 -d /tmp/page >/tmp/log 2>&1
SAY gone $? $(tr '\\n' ' ' </tmp/log)
SAY next $(wp $size)
"""


def test_it_is_served_and_kept(tmp_path: Path) -> None:
    kept = ("--state", str(tmp_path / "state"), "--data", str(tmp_path / "data"))
    options = ("--set", "zns=14", "--nvme-tcp", "127.0.0.1:0", *kept)
    for _ in range(2):
        with served_guest.server(*options) as lines:
            assert any("nvme-tcp:127.0.0.1:" in one for one in lines)
        assert (tmp_path / "state").is_file()


def guest(test: Callable[..., None]) -> Callable[..., None]:
    """A test that needs the guest, and takes its time."""
    reason = nvme_guest.missing()
    marks = (pytest.mark.long, pytest.mark.timeout(900))
    for mark in (*marks, pytest.mark.skipif(bool(reason), reason=reason or "-")):
        test = mark(test)
    return test


def _said(folder: Path, job: str, *options: str, drive: str) -> dict[str, str]:
    """What a guest says that does this with the drive, served with these options."""
    options = ("--nvme-tcp", "127.0.0.1:0", "--nqn", served_guest.NQN, *options)
    with served_guest.server(*options, drive=drive) as lines:
        port = next(one for one in lines if "127.0.0.1:" in one).split("127.0.0.1:")[1].split()[0]
        return served_guest.boot(
            folder,
            served_guest.CONNECT.replace("PORT", port) + served_guest.WAIT + TOOLS + job,
            MODULES,
            *("-netdev", "user,id=n0", "-device", "virtio-net-pci,netdev=n0,romfile="),
        )


def _zone(said: str) -> list[int]:
    """Start, write pointer and state."""
    return [int(one, 0) for one in said.split()]


@guest
def test_linux_and_nvme_cli_find_a_host_managed_device(tmp_path: Path) -> None:
    said = _said(tmp_path, JOB, "--set", "zns=6", drive=served_guest.DRIVE)
    kind, zones = said["zoned"].split()
    assert (kind, int(zones) > 100) == ("host-managed", True)
    assert (said["limits"], said["id_mar"], said["id_mor"]) == ("6 6", "0x5", "0x5")
    size, block = map(int, said["size"].split())
    assert (size & (size - 1), block) == (0, 4096)
    append, most_kib = map(int, said["append"].split())
    assert append == most_kib * 1024 > 0
    assert (said["id_zoc"], int(said["zasl"], 0) > 0) == ("0", True)
    second = size // 8
    assert said["appended"].split()[0] == "0"
    assert _zone(said["first"]) == [0, 4, 0x20]
    assert (said["data"], said["written"]) == ("same", "0")
    assert said["astray"] != "0"
    assert _zone(said["opened"]) == [0, second, second, 0x30]
    assert _zone(said["closed"]) == [0, second, second, 0x40]
    assert _zone(said["finished"]) == [0, 0, 2**64 - 1, 0xE0]
    assert not said["full"].startswith("0 ")
    assert _zone(said["reset"]) == [0, 0, 0, 0x10]
    assert (said["left"], said["changed"]) == ("0", "0")
    # Linux has write pointers of its own, which a reset by a command of nvme-cli does not move: it
    # refuses the next write itself, and the drive never sees it.
    result, before, after = said["stale"].split()
    assert (result, after) == ("1", before)


@guest
def test_a_random_write_area_takes_writes_in_any_order(tmp_path: Path) -> None:
    area = ("--set", "zns=6:1:1024/16")
    said = _said(tmp_path, AREA_JOB, *area, drive=served_guest.SMALL_DRIVE)
    assert (said["id_zrwasz"], said["id_zrwafg"]) == ("256", "4")
    assert int(said["id_zrwacap"]) & 1 == 1
    assert said["area"].split()[0] == "0"
    opened = [0, 0, 0x30]
    assert _zone(said["area"])[1:] == opened
    # Ahead of the write pointer, and twice; an explicit flush moves it by whole granules.
    assert _zone(said["ahead"]) == [0, *opened]
    assert said["over"].split() == ["0", "c", "a"]
    assert _zone(said["flushed"]) == [0, 0, 4, 0x30]
    assert said["behind"].split()[0] != "0" and said["behind"].split()[1] == "c"
    # The area is 256 blocks from the write pointer on: a write beyond moves that by granules.
    assert _zone(said["beyond"]) == [0, 0, 8, 0x30]
    assert said["far"].split()[0] != "0" and said["append"].split()[0] != "0"
    assert _zone(said["finished"])[0] == 0 and _zone(said["finished"])[3] == 0xE0
    assert said["kept"].split() == ["c", "0", "a", "e"]
    assert _zone(said["reset"]) == [0, 0, 0, 0x10, 0]
    assert said["without"] != "0"


@guest
def test_zones_of_a_drive_that_ends_become_read_only_and_can_be_taken_offline(
    tmp_path: Path,
) -> None:
    ending = ("--set", "zns=6", "--ailment", "read-only-soon", "--set")
    options = (*ending, "health.end_of_life.writes_mb=20")
    said = _said(tmp_path, FAILING_JOB, *options, drive=served_guest.SMALL_DRIVE)
    written, warning = said["written"].split()
    assert 15 < int(written) < 25
    assert int(warning, 0) & 1 << 3
    first = _zone(said["first"])
    assert (first[0], first[2]) == (0, 0xD0)
    assert said["data"] == "same"
    # All of them, and the log has room for 511.
    assert "Too many zones have changed" in said["listed"]
    assert not said["refused"].startswith("0 ")
    assert _zone(said["offline"])[0] == 0 and _zone(said["offline"])[3] == 0xF0
    assert not said["gone"].startswith("0 ")
    assert _zone(said["next"])[2] == 0xD0
