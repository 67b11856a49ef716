"""Placement as others use it: fio's own FDP test, nvme-cli's `nvme fdp`, Linux's write streams.

fio's test is t/nvmept_fdp.py of its source package. It is run as it is, and nothing of it is kept
here: `eval "$(scripts/guest.sh)"` fetches it, with the programs of Debian's unstable that it needs.
Write streams are Linux's from 6.16 on. Not run where DRIVEBAY_GUEST_SUITE names no such folder.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import nvme_guest
import pytest
import served_guest

SUITE = os.environ.get("DRIVEBAY_GUEST_SUITE", "")
MODULES = ("virtio_pci", "virtio_net", "crc32c_generic", "nvme-tcp")
HANDLES = 5
# Reclaim units of 1,536 blocks, as fio's test writes a dozen of them; capacitors, as a flush would
# pad what fio counts to the block.
PROFILE = """\
base = "pm9a3-960"
[drive]
name = "placed"
title = "a small drive with placement"
capacity_sectors = {{ value = {sectors}, source = "guess: a test's" }}
[nand]
{nand}
[gc]
{gc}
[gc.idle]
{idle}
"""
FEW = {
    "channels": 2,
    "dies_per_channel": 1,
    "pages_per_block": 96,
    "blocks_per_plane": 1024,
    "bad_superblocks": 0,
}
# The hint of a file becomes its writes' stream: `fcntl.F_SET_RW_HINT` is 1036, stream 3 the third.
STREAM = """\
import fcntl, mmap, os, struct
fd = os.open("/dev/nvme0n1", os.O_RDWR | os.O_DIRECT)
fcntl.fcntl(fd, 1036, struct.pack("Q", 3))
page = mmap.mmap(-1, 65536)
os.pwrite(fd, page, 1 << 20)
"""
JOB = """\
export PATH=/usr/bin:/usr/sbin:/bin:/sbin PYTHONDONTWRITEBYTECODE=1
unset LD_LIBRARY_PATH
ip addr add 127.0.0.1/8 dev lo; ip link set lo up
SAY() { echo "SAID $*"; }
nvme format /dev/nvme0n1 -l 1 -f >/tmp/log 2>&1; SAY format $?
sleep 2
SAY streams $(cat /sys/block/nvme0n1/queue/max_write_streams)
SAY granularity $(cat /sys/block/nvme0n1/queue/write_stream_granularity)
json() { tr -d ' ",' | sed -n "s/^$1://p" | tr '\\n' ' '; }
status() { nvme fdp status /dev/nvme0n1 -o json | json ruamw; }
SAY runs $(nvme fdp configs /dev/nvme0 -e 1 -o json | json runs)
SAY fresh $(status)
python3 /stream.py; SAY written $?
SAY streamed $(status)
nvme fdp update /dev/nvme0n1 --pids=2 >/tmp/log 2>&1; SAY updated $? $(status)
for one in configs usage stats; do
  nvme fdp $one /dev/nvme0 -e 1 >/tmp/log 2>&1; SAY $one $?
done
nvme fdp events /dev/nvme0 -e 1 -E >/tmp/log 2>&1; SAY events $?
nvme fdp set-events /dev/nvme0n1 -p 0 -t 3 -e >/tmp/log 2>&1; SAY set_events $?
nvme fdp feature /dev/nvme0 -e 1 >/tmp/log 2>&1; SAY feature $? $(tr '\\n' ' ' </tmp/log)
cd /fio/t
timeout 3000 python3 nvmept_fdp.py --dut /dev/ng0n1 --artifact-root /tmp/fdp >/tmp/log 2>&1
SAY fio $? $(grep -c PASSED /tmp/log) $(grep -c FAILED /tmp/log)
grep -v PASSED /tmp/log | sed 's/^/   /'
"""


def _profile(folder: Path) -> Path:
    path = folder / "placed.toml"

    def lines(values: dict[str, int]) -> str:
        one = '{} = {{ value = {}, source = "guess: a test\'s" }}'
        return "\n".join(one.format(name, value) for name, value in values.items())

    gc = {"threshold_mb": 500, "target_mb": 100}
    path.write_text(
        PROFILE.format(sectors=4 << 21, nand=lines(FEW), gc=lines(gc), idle=lines({"free_mb": 300}))
    )
    return path


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.skipif(bool(nvme_guest.missing()), reason=nvme_guest.missing() or "-")
@pytest.mark.skipif(not SUITE, reason="DRIVEBAY_GUEST_SUITE names no folder with the suite")
def test_fios_own_test_nvme_cli_and_linuxs_write_streams(tmp_path: Path) -> None:
    root = tmp_path / "root"
    subprocess.run(["cp", "-a", f"{SUITE}/root", root], check=True)
    shutil.copytree(next(Path(SUITE).glob("fio-*/t")), root / "fio/t")
    # The guest has no other user than root.
    sudo = root / "usr/bin/sudo"
    sudo.write_text('#!/bin/sh\nexec "$@"\n')
    sudo.chmod(0o755)
    (root / "stream.py").write_text(STREAM)
    placed = ("--set", f"fdp={HANDLES}", "--nqn", served_guest.NQN)
    profile = str(_profile(tmp_path))
    with served_guest.server("--nvme-tcp", "127.0.0.1:0", *placed, drive=profile) as lines:
        port = next(one for one in lines if "127.0.0.1:" in one).split("127.0.0.1:")[1].split()[0]
        connect = served_guest.CONNECT.replace("PORT", port).replace(
            " --hdr-digest --data-digest", ""
        )
        said = served_guest.boot_root(
            root,
            connect + served_guest.WAIT + JOB,
            MODULES,
            *("-cpu", "max", "-netdev", "user,id=n0"),
            *("-device", "virtio-net-pci,netdev=n0,romfile="),
        )
    unit = int(said["runs"]) // 4096
    assert (said["format"], said["written"]) == ("0", "0")
    assert (said["streams"], said["granularity"]) == (str(HANDLES), said["runs"])
    assert said["fresh"].split() == [str(unit)] * HANDLES
    assert said["streamed"].split() == [str(unit), str(unit), str(unit - 16), str(unit), str(unit)]
    assert said["updated"].split() == ["0", *[str(unit)] * HANDLES]
    for name in ("configs", "usage", "stats", "events", "set_events"):
        assert said[name] == "0", name
    assert said["feature"].startswith("0")
    jobs = (root / "fio/t/nvmept_fdp.py").read_text().count('"test_id"')
    assert jobs > 30
    assert said["fio"].split() == ["0", str(jobs), "0"]
