"""The whole real half against a drive whose truth is known: a review in a guest, of a served drive.

The guest's kernel attaches the virtual drive over NVMe/TCP; drivebay runs in it as on any machine,
with fio, from the host's own files (read-only, over 9p). The drive's clock is so slow that what the
emulated machine adds is small beside the drive's times. The same loads on the same drive in virtual
time say what should have come out; what is apart is the harness' error.
Leaves out: heat and throttling, which take minutes of the drive's time, and purges.
"""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path
from typing import Literal

import nvme_guest
import pytest
import served_guest

import drivebay
from drivebay import results
from drivebay.analysis import review

TOP = Path(__file__).resolve().parent.parent.parent
SCALE = 10_000
PHASE_S = 100
SPAN = 2**30
SERIAL = "TRUTH1"
RATE, LATENCY = 0.03, 0.05
BETWEEN_S = 0.002
"""Of the drive's time, from one test to the next: some twenty seconds of the guest's, in which the
drive writes what is in its buffer."""
TEST = """
[[tests]]
id = "{name}"
title = "{name}"
page = "random"
kind = "ladder"
method = "over 1 GiB"
source = "none"
queue_depths = {depths}
metric_queue_depths = [1]
[tests.workload]
pattern = "{pattern}"
read_percent = {reads}
block_bytes = {block}
span_bytes = {span}
duration_s = {seconds}
"""
# Pattern, percent of reads, bytes of a block, queue depths. At 32, a long write takes 27 s, and
# the guest's kernel gives one up after 30.
LOADS: dict[str, tuple[Literal["random", "sequential"], int, int, list[int]]] = {
    "random-read": ("random", 100, 4096, [1, 4, 32]),
    "random-write": ("random", 0, 4096, [1, 4, 32]),
    "sequential-read": ("sequential", 100, 131_072, [1, 4]),
    "sequential-write": ("sequential", 0, 131_072, [1, 4]),
}
REVIEW = """\
chroot /host /usr/bin/env -i PATH=$PATH HOME=/tmp /bin/sh -c "cd /tmp/out && \\
  PYTHON -I -m drivebay review /dev/nvme0n1 --suite truth.toml --destroy-data SERIAL --yes \\
  --out guest" >/out/log 2>&1
"""
MODULES = ("virtio_pci", "virtio_net", "crc32c_generic", "nvme-tcp", "9pnet_virtio", "9p")

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(3600),  # a guest without KVM, a drive at a ten-thousandth of its pace
    pytest.mark.skipif(bool(nvme_guest.missing()), reason=nvme_guest.missing() or "-"),
    pytest.mark.skipif(shutil.which("fio") is None, reason="not installed: fio"),
    pytest.mark.skipif(TOP.is_relative_to("/tmp"), reason="the guest's /tmp hides the checkout"),
]


def test_a_review_of_the_served_drive_finds_what_the_virtual_drive_is(tmp_path: Path) -> None:
    shared = tmp_path / "out"
    shared.mkdir()
    head = (
        'schema_version = 1\nname = "truth"\ntitle = "Truth"\ndescription = "-"\nsource = "none"\n'
    )
    tests = [
        TEST.format(
            name=name,
            pattern=pattern,
            reads=reads,
            block=block,
            depths=depths,
            span=SPAN,
            seconds=PHASE_S,
        )
        for name, (pattern, reads, block, depths) in LOADS.items()
    ]
    (shared / "truth.toml").write_text(head + "".join(tests))
    options = ("--pace", "hybrid", "--time-scale", f"1/{SCALE}", "--precondition", "filled")
    address = ("--nvme-tcp", "127.0.0.1:0", "--nqn", served_guest.NQN, "--serial", SERIAL)
    with served_guest.server(*address, *options) as lines:
        port = next(one for one in lines if "127.0.0.1:" in one).split("127.0.0.1:")[1].split()[0]
        connect = served_guest.CONNECT.replace("PORT", port).replace(" --hdr-digest", "")
        script = (
            served_guest.HOST_FILES.replace("NOW", f"{time.time():.0f}")
            + connect.replace(" --data-digest", "")
            + served_guest.WAIT
            + REVIEW.replace("PYTHON", sys.executable).replace("SERIAL", SERIAL)
        )
        served_guest.boot(
            tmp_path,
            script,
            MODULES,
            *("-cpu", "max", "-netdev", "user,id=n0"),
            *("-device", "virtio-net-pci,netdev=n0,romfile="),
            *served_guest.host_files(shared),
        )
    assert (shared / "guest").is_dir(), (shared / "log").read_text()
    found = review(results.load(shared / "guest"))
    device = drivebay.drive(served_guest.DRIVE).device()
    device.fill()
    device.rest(1800)
    apart = []
    for name, (pattern, reads, block, depths) in LOADS.items():
        device.rest(BETWEEN_S)
        steps = {step.queue_depth: step for step in found.tests[name].steps}
        assert list(steps) == depths
        for depth, step in steps.items():
            load = drivebay.Workload(
                pattern=pattern,
                read_percent=reads,
                block_bytes=block,
                queue_depth=depth,
                span_bytes=SPAN,
                duration_s=PHASE_S / SCALE,
            )
            truth = device.run(load)
            assert step.latency_mean_us is not None
            rate = step.iops * SCALE / truth.iops - 1
            latency = step.latency_mean_us / SCALE / truth.latency.mean_us - 1
            print(f"{name} QD{depth}: rate {rate:+.2%}, mean latency {latency:+.2%}")
            if abs(rate) > RATE or abs(latency) > LATENCY:
                apart.append((name, depth, rate, latency))
    assert not apart
