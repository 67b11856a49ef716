"""Storage stacks of a real kernel: drivebay overwrites no device of one, whatever a user allows.

In a guest (served_guest.py), on two NVMe drives of 1 GiB: device-mapper, MD, LVM, LUKS, bcache,
btrfs, loops, NBD and ublk are built one after the other, and each upper device, each lower one and
each backing file is reviewed, checked for TRIM and served with all permissions given.

Leaves out: ZFS (Debian has its module as source only), and multipath by two real paths.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import nvme_guest
import pytest
import served_guest

TOP = Path(__file__).resolve().parent.parent.parent
PROGRAMS = (
    *("dmsetup", "mdadm", "lvm", "cryptsetup", "integritysetup", "make-bcache", "nbd-client"),
    *("losetup", "sfdisk", "wipefs", "mkfs.btrfs", "fio"),
)
MODULES = (
    *("virtio_pci", "9pnet_virtio", "9p", "crc32c_generic", "nvme", "loop", "nbd", "ublk_drv"),
    *("dm-mod", "dm-flakey", "dm-snapshot", "dm-multipath", "dm-round-robin", "dm-crypt"),
    *("dm-delay", "dm-thin-pool", "dm-integrity", "md-mod", "raid0", "raid1", "bcache"),
    *(
        "crc32c-cryptoapi",
        "xts",
        "aes_generic",
        "aesni-intel",
        "algif_skcipher",
        "algif_hash",
        "btrfs",
        "ext4",
    ),
)
LACKING = [name for name in PROGRAMS if nvme_guest.program_of(name) is None]
pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(bool(nvme_guest.missing()), reason=nvme_guest.missing() or "-"),
    pytest.mark.skipif(bool(LACKING), reason=f"not installed: {', '.join(LACKING)}"),
    pytest.mark.skipif(TOP.is_relative_to("/tmp"), reason="the guest's /tmp hides the checkout"),
]
SCRIPT = f"""\
{served_guest.HOST_FILES}
mkdir -p /host/run/lock/lvm
for try in 1 2 3 4 5 6 7 8 9 10; do [ -b /dev/nvme1n1 ] || sleep 0.5; done
chroot /host /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp LC_ALL=C \\
  PYTHONDONTWRITEBYTECODE=1 PYTHONPATH={TOP / "python"} \\
  {sys.executable} {TOP}/tests/interop/stacks_job.py /tmp/out/said WANTED >/out/log 2>&1
echo "SAID code $?"
"""


def asked(folder: Path, *wanted: str) -> list[dict[str, Any]]:
    """What the guest said of each device."""
    have = {one.stem.replace("-", "_") for one in kernel().rglob("*.ko")}
    modules = [one for one in MODULES if one.replace("-", "_") in have]
    shared = folder / "out"
    shared.mkdir()
    devices = ["-cpu", "max", "-smp", "2", *served_guest.host_files(shared)]
    for number in (1, 2):
        devices += nvme_guest.disk(folder / f"plain{number}.img", 2**30, name=f"p{number}")
        devices += ["-device", f"nvme,drive=p{number},serial=PLAIN{number}"]
    script = SCRIPT.replace("NOW", f"{time.time():.0f}").replace("WANTED", " ".join(wanted))
    said = served_guest.boot(folder, script, modules, *devices)
    assert said["code"] == "0", (shared / "log").read_text()
    return [json.loads(line) for line in (shared / "said").read_text().splitlines()]


def kernel() -> Path:
    """The folder of the guest's kernel."""
    return Path(os.environ["DRIVEBAY_GUEST_KERNEL"])


def test_no_device_of_a_stack_is_overwritten(tmp_path: Path) -> None:
    lines = asked(tmp_path)
    assert not [line["trace"] for line in lines if "failed" in line]
    stacks = [line for line in lines if line["role"] != "plain"]
    (disk,) = [line for line in lines if line["role"] == "plain"]
    assert len(stacks) > 50
    for line in stacks:
        assert all(one[:2] in ("2 ", "3 ") for one in line["answers"].values()), line
        assert not line["written"] or line["case"] == "bcache", line  # which writes by itself
    # What is left when all is taken away may be tested, with the same words.
    assert disk["answers"]["review"][:2] == "0 " and disk["written"], disk
