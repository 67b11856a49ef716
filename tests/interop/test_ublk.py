"""Block devices of Linux made of served drives, in a guest whose kernel has ublk.

`drivebay serve --ublk` runs in the guest itself, from the host's own files (read-only, over 9p), as
root. The guest's kernel is emulated: what takes time here says nothing of the drive, so that it is
served with `--pace none`.
Leaves out: the time of commands.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import nvme_guest
import pytest
import served_guest

TOP = Path(__file__).resolve().parent.parent.parent
MODULES = ("virtio_pci", "9pnet_virtio", "9p", "crc32c_generic", "ext4", "ublk_drv")
# What is done more than once. All waits are long, as the guest is slow.
FUNCTIONS = f"""\
{served_guest.HOST_FILES}
inside() {{
  chroot /host /usr/bin/env -i PATH=$PATH HOME=/tmp PYTHONDONTWRITEBYTECODE=1 \\
    PYTHONPATH=PACKAGE "$@"
}}
bay() {{ inside {sys.executable} -m drivebay "$@"; }}
serve() {{ log=$1; shift; bay serve "$@" >$log 2>&1 & server=$!; }}
until_there() {{
  for try in $(seq 600); do [ -b $1 ] && return; sleep 0.5; done; echo "SAID missing $1"
}}
until_gone() {{
  for try in $(seq 600); do [ -e $1 ] || return; sleep 0.5; done; echo "SAID still $1"
}}
stop() {{ kill -$1 $(pidof python python3 python3.11); wait $server; echo "SAID $2 $?"; }}
queue() {{ cat /sys/block/ublkb0/queue/$1; }}
"""
# A drive of two namespaces: attributes, data, a file system, a power cut, an orderly end.
JOB = """\
serve /out/first DRIVE --ublk --pace none --data /tmp/data --control unix:/tmp/c \\
  --namespace 64M --namespace 32M,read-only --after-cut refuse
until_there /dev/ublkb1
echo "SAID lines $(grep -c '^ublk:/dev/ublkb[01] DRIVE/[12]' /out/first)"
echo "SAID sectors $(cat /sys/block/ublkb0/size) $(cat /sys/block/ublkb1/size)"
echo "SAID read_only $(cat /sys/block/ublkb0/ro) $(cat /sys/block/ublkb1/ro)"
echo "SAID blocks $(queue logical_block_size) $(queue physical_block_size)"
echo "SAID cache $(queue write_cache), FUA $(queue fua)"
echo "SAID longest $(queue max_sectors_kb)"
dd if=/dev/urandom of=/tmp/a bs=1M count=2 2>/dev/null
dd if=/tmp/a of=/dev/ublkb0 bs=1M conv=fsync 2>/dev/null
echo 3 >/proc/sys/vm/drop_caches
dd if=/dev/ublkb0 of=/tmp/b bs=1M count=2 2>/dev/null
cmp /tmp/a /tmp/b && echo "SAID data same"
blkdiscard -f -o 0 -l 1048576 /dev/ublkb0
/usr/sbin/blkdiscard -f -z -o 1048576 -l 1048576 /dev/ublkb0
dd if=/dev/ublkb0 of=/tmp/b bs=1M count=2 iflag=direct 2>/dev/null
echo "SAID left $(tr -d '\\0' </tmp/b | wc -c)"
inside mkfs.ext4 -q -F -E nodiscard /dev/ublkb0
mkdir /m; mount -t ext4 /dev/ublkb0 /m
cp /tmp/a /m/a; umount /m && mount -t ext4 /dev/ublkb0 /m
cmp /tmp/a /m/a && umount /m && echo "SAID file same"
inside fsck.ext4 -f -n /dev/ublkb0 >/out/fsck 2>&1; echo "SAID fsck $?"
bay ctl /tmp/c power-cut >/out/cut 2>&1
dd if=/dev/ublkb0 of=/dev/null bs=4k count=1 iflag=direct 2>/dev/null; echo "SAID off $?"
bay ctl /tmp/c power-on >>/out/cut 2>&1
dd if=/dev/ublkb0 of=/dev/null bs=4k count=1 iflag=direct 2>/dev/null; echo "SAID on $?"
echo later | dd of=/dev/ublkb0 bs=6 seek=1000000 conv=notrunc 2>/dev/null
stop TERM ended
until_gone /dev/ublkc1
echo "SAID written $(dd if=/host/tmp/data bs=6 skip=1000000 count=1 2>/dev/null)"
"""
# A server that is killed: the kernel takes the device away, and the next server what is left.
KILLED_JOB = """\
serve /out/killed DRIVE --ublk --pace none
until_there /dev/ublkb0
dd if=/dev/zero of=/dev/ublkb0 bs=64k count=100000 oflag=direct 2>/dev/null &
writer=$!
sleep 1
stop KILL killed
wait $writer; echo "SAID writer $?"
until_gone /dev/ublkb0
echo "SAID left_over $(ls /dev/ublkc*)"
serve /out/next DRIVE --ublk --pace none
until_there /dev/ublkb0
echo "SAID next $(ls /dev/ublkc*)"
stop TERM next_ended
until_gone /dev/ublkc0
"""

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(bool(nvme_guest.missing()), reason=nvme_guest.missing() or "-"),
    pytest.mark.skipif(TOP.is_relative_to("/tmp"), reason="the guest's /tmp hides the checkout"),
]


def _in_guest(folder: Path, job: str) -> dict[str, str]:
    """What a guest said that did this, its files' names and drive filled in."""
    if not list(Path(os.environ["DRIVEBAY_GUEST_KERNEL"]).rglob("ublk_drv.ko")):
        pytest.skip("the guest's kernel has no ublk: scripts/guest.sh fetches one that has")
    shared = folder / "out"
    shared.mkdir()
    script = FUNCTIONS.replace("NOW", f"{time.time():.0f}") + job
    script = script.replace("PACKAGE", str(TOP / "python")).replace("DRIVE", served_guest.DRIVE)
    devices = served_guest.host_files(shared)
    return served_guest.boot(folder, script, MODULES, "-cpu", "max", "-smp", "2", *devices)


def test_a_namespace_is_a_block_device_with_the_drives_attributes(tmp_path: Path) -> None:
    said = _in_guest(tmp_path, JOB)
    assert "missing" not in said and "still" not in said
    assert said["lines"] == "2"
    assert (said["sectors"], said["read_only"]) == ("131072 65536", "0 1")
    assert (said["blocks"], said["cache"]) == ("512 4096", "write back, FUA 1")
    assert said["longest"] == "128"  # the drive's largest command, KiB
    assert (said["data"], said["left"]) == ("same", "0")
    assert (said["file"], said["fsck"]) == ("same", "0")
    # Without power commands fail; with it the device goes on, as one in a computer does.
    assert (said["off"], said["on"]) == ("1", "0")
    # SIGTERM writes what was in the page cache, and takes the devices away.
    assert (said["ended"], said["written"]) == ("0", "later")


def test_a_server_that_is_killed_takes_its_device_with_it(tmp_path: Path) -> None:
    said = _in_guest(tmp_path, KILLED_JOB)
    assert "missing" not in said and "still" not in said
    assert (said["killed"], said["writer"]) == ("137", "1")
    # The next server removes what is left, and the kernel gives the same number again.
    assert (said["left_over"], said["next"]) == ("/dev/ublkc0", "/dev/ublkc0")
    assert said["next_ended"] == "0"
