"""Placement as others use it: fio's own FDP test, nvme-cli's `nvme fdp`, Linux's write streams.

fio's test is t/nvmept_fdp.py of its source package. It is run as it is, and nothing of it is kept
here: `eval "$(scripts/guest.sh)"` fetches it, with the programs of Debian's unstable that it needs.
Write streams are Linux's from 6.16 on. Not run where DRIVEBAY_GUEST_SUITE names no such folder.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import served_guest

pytestmark = served_guest.SUITE_MARKS
HANDLES = 5
# The hint of a file becomes its writes' stream: `fcntl.F_SET_RW_HINT` is 1036, stream 3 the third.
STREAM = """\
import fcntl, mmap, os, struct
fd = os.open("/dev/nvme0n1", os.O_RDWR | os.O_DIRECT)
fcntl.fcntl(fd, 1036, struct.pack("Q", 3))
page = mmap.mmap(-1, 65536)
os.pwrite(fd, page, 1 << 20)
"""
JOB = """\
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


def test_fios_own_test_nvme_cli_and_linuxs_write_streams(tmp_path: Path) -> None:
    root = served_guest.suite_root(tmp_path)
    shutil.copytree(next(Path(served_guest.SUITE).glob("fio-*/t")), root / "fio/t")
    (root / "stream.py").write_text(STREAM)
    placed = ("--set", f"fdp={HANDLES}", "--nqn", served_guest.NQN)
    with served_guest.server(
        "--nvme-tcp", "127.0.0.1:0", *placed, drive=served_guest.SMALL_DRIVE
    ) as lines:
        said = served_guest.boot_suite(root, JOB, lines)
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
