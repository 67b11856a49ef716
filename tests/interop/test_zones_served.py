"""A drive with zones as Linux and nvme-cli see it, over NVMe/TCP: a host-managed zoned device."""

from __future__ import annotations

from pathlib import Path

import nvme_guest
import pytest
import served_guest

MODULES = ("virtio_pci", "virtio_net", "crc32c_generic", "nvme-tcp")
JOB = """\
queue=/sys/block/nvme0n1/queue
SAY() { echo "SAID $*"; }
SAY zoned $(cat $queue/zoned) $(cat $queue/nr_zones)
SAY limits $(cat $queue/max_active_zones) $(cat $queue/max_open_zones)
SAY size $(cat $queue/chunk_sectors) $(cat $queue/logical_block_size)
SAY append $(cat $queue/zone_append_max_bytes) $(cat $queue/max_hw_sectors_kb)
nvme zns id-ns /dev/nvme0n1 | sed -n 's/^\\(mar\\|mor\\|zoc\\) *: */SAID id_\\1 /p'
nvme zns id-ctrl /dev/nvme0 | sed -n 's/^zasl *: */SAID zasl /p'
head -c 8192 /dev/urandom >/tmp/a
size=$(($(cat $queue/chunk_sectors) / 8))
append() { nvme zns zone-append /dev/nvme0n1 -s $1 -z 8192 -d /tmp/a 2>&1; }
wp() {
  nvme zns report-zones /dev/nvme0n1 -s $1 -d 1 |
    sed -n 's/^SLBA: *\\([^ ]*\\) *WP: *\\([^ ]*\\).*State: *\\([^ ]*\\).*/\\1 \\2 \\3/p'
}
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
"""


def test_it_is_served_and_kept(tmp_path: Path) -> None:
    kept = ("--state", str(tmp_path / "state"), "--data", str(tmp_path / "data"))
    options = ("--set", "zns=14", "--nvme-tcp", "127.0.0.1:0", *kept)
    for _ in range(2):
        with served_guest.server(*options) as lines:
            assert any("nvme-tcp:127.0.0.1:" in one for one in lines)
        assert (tmp_path / "state").is_file()


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.skipif(bool(nvme_guest.missing()), reason=nvme_guest.missing() or "-")
def test_linux_and_nvme_cli_find_a_host_managed_device(tmp_path: Path) -> None:
    options = ("--set", "zns=6", "--nqn", served_guest.NQN)
    with served_guest.server("--nvme-tcp", "127.0.0.1:0", *options) as lines:
        port = next(one for one in lines if "127.0.0.1:" in one).split("127.0.0.1:")[1].split()[0]
        said = served_guest.boot(
            tmp_path,
            served_guest.CONNECT.replace("PORT", port) + served_guest.WAIT + JOB,
            MODULES,
            *("-netdev", "user,id=n0", "-device", "virtio-net-pci,netdev=n0,romfile="),
        )
    kind, zones = said["zoned"].split()
    assert (kind, int(zones) > 100) == ("host-managed", True)
    assert (said["limits"], said["id_mar"], said["id_mor"]) == ("6 6", "0x5", "0x5")
    size, block = map(int, said["size"].split())
    assert (size & (size - 1), block) == (0, 4096)
    append, most_kib = map(int, said["append"].split())
    assert append == most_kib * 1024 > 0
    assert (said["id_zoc"], int(said["zasl"], 0) > 0) == ("0", True)
    blocks = f"{size // 8:#x}"
    assert said["appended"].split()[0] == "0"
    assert said["first"].split() == ["0x0", "0x4", "IMP_OPENED"]
    assert (said["data"], said["written"]) == ("same", "0")
    assert said["astray"] != "0"
    assert said["opened"].split() == ["0", blocks, blocks, "EXP_OPENED"]
    assert said["closed"].split() == ["0", blocks, blocks, "CLOSED"]
    assert said["finished"].split()[:2] == ["0", "0x0"]
    assert said["finished"].split()[-1] == "FULL"
    assert not said["full"].startswith("0 ")
    assert said["reset"].split() == ["0", "0x0", "0x0", "EMPTY"]
    assert (said["left"], said["changed"]) == ("0", "0")
