"""Reservations as a cluster uses them: two hosts of one drive, by nvme-cli and Linux.

The guest connects as two hosts, each with an identifier of its own; Linux shows the drive twice.
Not run where DRIVEBAY_GUEST_SUITE names no folder with the programs.
"""

from __future__ import annotations

from pathlib import Path

import served_guest

pytestmark = served_guest.SUITE_MARKS
OTHER = "11111111-2222-3333-4444-666666666666"
JOB = f"""\
nvme connect -t tcp -a 10.0.2.2 -s PORT -n {served_guest.NQN} \\
  --hostnqn nqn.2014-08.org.nvmexpress:uuid:{OTHER} --hostid {OTHER}
for try in $(seq 60); do [ -b /dev/nvme1n1 ] && break; sleep 0.5; done
one=/dev/nvme0n1 other=/dev/nvme1n1
wrote() {{ dd if=/dev/zero of=$1 bs=4k count=1 oflag=direct 2>/dev/null; echo $?; }}
both() {{ SAY $1 $(wrote $one) $(wrote $other); }}
quiet() {{ "$@" >/tmp/log 2>&1; echo $?; }}
both free
SAY registered $(quiet nvme resv-register $one --rrega=0 --nrkey=10 --cptpl=3) \\
  $(quiet nvme resv-register $other --rrega=0 --nrkey=11)
SAY acquired $(quiet nvme resv-acquire $one --racqa=0 --crkey=10 --rtype=1)
both held
SAY report $(nvme resv-report $other --eds -o json | tr -d ' ",' |
  sed -n 's/^\\(rtype\\|regctl\\|ptpls\\|rcsts\\):/\\1=/p' | tr '\\n' ' ')
SAY preempted $(quiet nvme resv-acquire $other --racqa=1 --crkey=11 --prkey=10 --rtype=1)
both taken
SAY notice $(nvme get-log /dev/nvme0 -i 0x80 -l 64 -b 2>/dev/null | od -An -tu1 -j8 -N1)
SAY given_up $(quiet nvme resv-release $other --rrela=1 --crkey=11)
both cleared
"""


def test_two_hosts_agree_by_reservations_on_who_may_write(tmp_path: Path) -> None:
    root = served_guest.suite_root(tmp_path)
    # Else Linux takes the second host's controller as another path to the same disk.
    (root / "modules.options").write_text("nvme-core.ko multipath=N\n")
    with served_guest.server("--nvme-tcp", "127.0.0.1:0", "--nqn", served_guest.NQN) as lines:
        port = next(one for one in lines if "127.0.0.1:" in one).split("127.0.0.1:")[1].split()[0]
        said = served_guest.boot_suite(root, JOB.replace("PORT", port), lines)
    assert said["free"] == "0 0"
    assert said["registered"] == "0 0"
    assert said["acquired"] == "0"
    assert said["held"] == "0 1"
    assert said["report"].split() == ["rtype=1", "regctl=2", "ptpls=1", "rcsts=1", "rcsts=0"]
    assert said["preempted"] == "0"
    assert said["taken"] == "1 0"
    assert said["notice"] == "1"
    assert said["given_up"] == "0"
    assert said["cleared"] == "0 0"
