"""What a review does when it erases a part of a drive, and when the drive dies under it.

Two served drives in one guest: `pair` has two namespaces, `alone` has one, loses its power and
gets sectors that cannot be read while it is reviewed. Both are as slow as truth_drive.toml says.
Each test can be run by itself; the guest does what the chosen ones need.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import truth_guest

from drivebay import results
from drivebay.analysis import review
from drivebay.results.reading import Result

HERE = Path(__file__).parent
SLOW = HERE / "truth_drive.toml"
FORMAT, SANITIZE = "NVMe Format (user data erase)", "NVMe Sanitize (block erase)"
LATENCY = 0.05
READS = """
[[tests]]
id = "{name}"
title = "{name}"
page = "random"
kind = "ladder"
method = "-"
source = "none"
prepare = [{prepare}]
queue_depths = [1]
metric_queue_depths = [1]
[tests.workload]
pattern = "random"
read_percent = 100
block_bytes = 4096
span_start_percent = {start}
span_percent = 25
duration_s = 20
"""
PURGE = READS.format(name="purge", prepare='{ kind = "purge" }', start=50)
TWICE = READS.format(name="first", prepare="", start=50) + READS.format(
    name="second", prepare="", start=25
)
DRIVES = """\
[drive.pair]
profile = "sm951-nvme-256"
serial = "pair"
nqn = "nqn.2026-11.localhost.drivebay:pair"
namespace = ["1G", "1G"]
[drive.alone]
profile = "{drive}"
serial = "alone"
nqn = "nqn.2026-11.localhost.drivebay:alone"
after-cut = "refuse"
"""
ON = "--yes --overwrite-signature --destroy-data"  # as slow a drive is not searched in time
# /out/fna/nvme is nvme-cli for a drive whose Format erases every namespace (FNA, bit 0).
PAIR = f"""\
attach pair
second=${{DISK%1}}2
dd if=/dev/urandom of=/tmp/a bs=1M count=1 2>/dev/null
dd if=/tmp/a of=$second bs=1M oflag=direct 2>/dev/null
mkdir /out/fna
echo '#!/bin/sh' >/out/fna/nvme
echo '/tmp/out/bin/nvme "$@" | sed "s/\\"fna\\" *: *0/\\"fna\\":1/"' >>/out/fna/nvme
chmod +x /out/fna/nvme
NVME=/tmp/out/fna
drivebay whole review $DISK --suite purge.toml {ON} pair --out whole
NVME=
drivebay part review $DISK --suite purge.toml {ON} pair --out part
dd if=$second of=/tmp/b bs=1M count=1 iflag=direct 2>/dev/null
cmp /tmp/a /tmp/b && echo "SAID second same"
nvme disconnect-all
"""
SANITIZED = f"""\
attach alone
dd if=/dev/urandom of=$DISK bs=1M count=1 seek=20 oflag=direct 2>/dev/null
inside PYTHON -I erases_job.py $DISK "'{SANITIZE}'" >/out/sanitize.json 2>/out/sanitize.err
dd if=$DISK of=/tmp/c bs=1M count=1 skip=20 iflag=direct 2>/dev/null
echo "SAID left $(tr -d '\\0' </tmp/c | wc -c)"
nvme disconnect-all
"""
# The cut comes in the midst of the second test. Linux connects again by itself, as soon as the
# command with which it tried meanwhile has timed out (60 s).
CUT = f"""\
attach alone
drivebay cut review $DISK --suite twice.toml {ON} alone --out cut &
until grep -q '"step_started", "step": "second"' /out/cut/log.jsonl 2>/dev/null; do sleep 1; done
sleep 5
ask drive alone power-cut
wait
ask drive alone power-on
for try in $(seq 300); do
  dd if=$DISK of=/dev/null bs=4k count=1 iflag=direct 2>/dev/null && break; sleep 1
done
dmesg >/out/dmesg
drivebay resumed review --resume cut {ON} alone
nvme disconnect-all
"""
# Within the second test's quarter; not at the start, which is searched for data before each review.
BAD = f"""\
attach alone
ask 'drive alone fault {{"kind": "read-error", "lba": 524288, "sectors": 524288}}'
drivebay bad review $DISK --suite twice.toml {ON} alone --out bad
ask drive alone no-faults
drivebay mended review --resume bad {ON} alone
nvme disconnect-all
"""
SCRIPTS = {"namespaces": PAIR, "sanitize": SANITIZED, "cut": CUT, "unreadable": BAD}

pytestmark = truth_guest.MARKS


@dataclass(frozen=True)
class Ran:
    """What the guest said, and the folder that it left."""

    said: dict[str, str]
    out: Path

    def log(self, name: str) -> str:
        return (self.out / f"{name}.log").read_text()

    def refused(self, name: str) -> str:
        """The message of a review that failed, which says it in one line, and one with a hint."""
        log = self.log(name)
        lines = [line for line in log.splitlines() if line.startswith(("error: ", "hint: "))]
        assert self.said[name] == "3" and "Traceback" not in log, log
        assert [line.split(":")[0] for line in lines] == ["error", "hint"], log
        return lines[0]


@pytest.fixture(scope="module")
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    out = Path(tmp_path_factory.mktemp("faults")) / "out"
    out.mkdir()
    truth_guest.suite(out, "purge.toml", PURGE)
    truth_guest.suite(out, "twice.toml", TWICE)
    shutil.copy(HERE / "erases_job.py", out)
    drives = out.parent / "drives.toml"
    drives.write_text(DRIVES.format(drive=SLOW))
    names = [getattr(item, "originalname", "") for item in request.session.items]
    script = [SCRIPTS[one] for one in SCRIPTS if any(f"_{one}_" in name for name in names)]
    said = truth_guest.boot(out, "".join(script), ("--config", str(drives)), drive=None)
    return Ran(said, out)


@pytest.fixture(scope="module")
def virtual(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """The two tests in virtual time, on a fresh drive."""
    folder = tmp_path_factory.mktemp("virtual")
    truth_guest.suite(folder, "twice.toml", TWICE)
    return truth_guest.in_virtual_time(SLOW, folder / "twice.toml", folder / "result")


def purged(folder: Path) -> dict[str, Any]:
    """The record of the purge."""
    prepare = json.loads((folder / "steps/purge/raw/prepare.json").read_text())
    return dict(prepare[0])


def compare(real: Result, virtual: Result) -> None:
    """Every test's mean latency is the virtual drive's."""
    for step in virtual.steps:
        (here,), (truth,) = (review(one).tests[step.id].steps for one in (real, virtual))
        assert here.latency_mean_us is not None and truth.latency_mean_us is not None
        apart = here.latency_mean_us / truth.latency_mean_us - 1
        print(f"{step.id}: rate {here.iops / truth.iops - 1:+.1%}, mean latency {apart:+.1%}")
        assert abs(apart) <= LATENCY


def _smart(result: Result, test: str, name: str) -> float:
    """What SMART says after a test."""
    return float(result.step(test).conditions()["smart"]["after"][name])


def test_a_format_of_namespaces_strikes_one_or_is_not_sent(ran: Ran) -> None:
    assert (ran.said["whole"], ran.said["part"]) == ("0", "0"), ran.log("whole") + ran.log("part")
    part, whole = purged(ran.out / "part"), purged(ran.out / "whole")
    assert part["method"] == FORMAT and part["marks_gone"] == part["marks"]
    refused = {one["method"]: one["why"] for one in whole["tried"] if one["outcome"] != "done"}
    assert set(refused) == {FORMAT, SANITIZE}
    assert all("it would erase other namespaces, too: nvme0n2" in why for why in refused.values())
    assert whole["marks_gone"] == whole["marks"]
    assert ran.said["second"] == "same"


def test_a_sanitize_leaves_nothing(ran: Ran) -> None:
    offered = json.loads((ran.out / "sanitize.json").read_text())
    assert offered == {FORMAT: "offered", SANITIZE: "offered"}, (
        ran.out / "sanitize.err"
    ).read_text()
    assert ran.said["left"] == "0"


def test_a_power_cut_in_a_review_is_said_and_the_review_goes_on(ran: Ran, virtual: Result) -> None:
    print(ran.refused("cut"))
    assert "second" in ran.refused("cut") and "on file /dev/nvme" in ran.refused("cut")
    assert ran.said["resumed"] == "0", ran.log("resumed")
    result = results.load(ran.out / "cut")
    events = [json.loads(line) for line in (ran.out / "cut/log.jsonl").read_text().splitlines()]
    begun = [one["step"] for one in events if one["event"] == "step_started"]
    assert begun == ["first", "second", "second"]  # what was measured was kept
    assert result.step("second").conditions()["interruptions"]
    assert [_smart(result, name, "unsafe_shutdowns") for name in ("first", "second")] == [0, 1]
    compare(result, virtual)


def test_an_unreadable_part_is_said_counted_and_the_review_goes_on(
    ran: Ran, virtual: Result
) -> None:
    print(ran.refused("bad"))
    assert "second" in ran.refused("bad") and "on file /dev/nvme" in ran.refused("bad")
    assert ran.said["mended"] == "0", ran.log("mended")
    result = results.load(ran.out / "bad")
    before, after = (_smart(result, name, "media_errors") for name in ("first", "second"))
    assert before == 0 < after
    compare(result, virtual)
