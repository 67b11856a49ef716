"""fio's own tests of NVMe commands and of zones against a served drive, in a guest.

They are t/nvmept.py, t/nvmept_trim.py and t/zbd/test-zbd-support of fio's source package, run as
they are; nothing of them is kept here. What does not apply is named below, with its reason;
docs/concepts/others-tests.md lists it all.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import served_guest

pytestmark = served_guest.SUITE_MARKS
# Commands of 256 KiB; 128 KiB are the most that a served drive takes (MDTS).
TOO_LONG = (300, 301, 304)
ACTIVE_ZONES = 16
"""As many as the test with most zones at a time asks for."""
PASS_THROUGH = """\
cd /fio/t
for one in nvmept "nvmept_trim --skip TOO_LONG"; do
  set -- $one; name=$1; shift
  python3 $name.py --dut /dev/ng0n1 --artifact-root /tmp/$name "$@" >/tmp/log 2>&1
  SAY $name $? $(grep -c PASSED /tmp/log) $(grep -c FAILED /tmp/log)
  grep -v PASSED /tmp/log
done
"""
# The script takes fio from its own source's folder. -w: zones that are left active by earlier cases
# count against the drive's limit.
ZONES = """\
ln -s /usr/bin/fio /fio/fio; ln -s /proc/self/fd /dev/fd
cd /fio/t/zbd
./test-zbd-support -w /dev/nvme0n1 >/tmp/log 2>&1
sed -n 's/^Running test 0*\\([0-9]*\\) ... /SAID zbd_\\1 /p' /tmp/log
for file in $(grep -l '^FAIL$' *.log.*); do echo $file; tail -n 30 $file; done
dmesg | tail -n 20
"""
NOT_APPLICABLE = {
    "not a SCSI device": {9, 10},
    "conventional zones": {14, 50, 51, 52, 53},
    "not a regular block device": {42, 43, 49, 56},
    "max_active_zones limit": {71},
    "error injection": {72, 73},
    "not null_blk": {74, 75},
}


def _root(folder: Path) -> Path:
    root = served_guest.suite_root(folder)
    shutil.copytree(next(Path(served_guest.SUITE).glob("fio-*/t")), root / "fio/t")
    return root


def test_fios_pass_through_tests_pass(tmp_path: Path) -> None:
    root = _root(tmp_path)
    job = PASS_THROUGH.replace("TOO_LONG", " ".join(map(str, TOO_LONG)))
    options = ("--nvme-tcp", "127.0.0.1:0")
    with served_guest.server(*options, drive=served_guest.SMALL_DRIVE) as lines:
        said = served_guest.boot_suite(root, job, lines)
    for name, skipped in (("nvmept", 0), ("nvmept_trim", len(TOO_LONG))):
        listed = (root / f"fio/t/{name}.py").read_text().count('"test_id"')
        assert said[name].split() == ["0", str(listed - skipped), "0"], name


def test_fios_tests_of_zones_pass(tmp_path: Path) -> None:
    root = _root(tmp_path)
    # The script sets the scheduler, of which a drive that several paths lead to has none.
    (root / "modules.options").write_text("nvme-core.ko multipath=N\n")
    options = ("--nvme-tcp", "127.0.0.1:0", "--set", f"zns={ACTIVE_ZONES}")
    with served_guest.server(*options, drive=served_guest.SMALL_DRIVE) as lines:
        said = served_guest.boot_suite(root, ZONES, lines)
    script = (root / "fio/t/zbd/test-zbd-support").read_text()
    cases = [int(number) for number in re.findall(r"^test(\d+)\(\)", script, re.MULTILINE)]
    assert len(cases) > 70
    reasons = {case: reason for reason, some in NOT_APPLICABLE.items() for case in some}
    results = {case: said.get(f"zbd_{case}", "not run") for case in cases}
    for case, result in results.items():
        if reason := reasons.get(case):
            assert result.startswith("SKIP") and reason in result, (case, result)
            results[case] = "PASS"
    assert results == dict.fromkeys(cases, "PASS")
