"""Several portals of one drive (ANA): failover by `drivebay ctl`, with a host written for this, and
with Linux's multipathing.

Sources: NVM Express base specification 2.1, section 8.1.1; the steps under Linux are those of
blktests' nvme/057.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import pytest
import served_guest
from nbd_server import Served, served
from nvme_tcp_host import CC, ENABLED, Queue, Refused

NQN = "nqn.2026-11.test:paths"
ACCESS_CHANGE = 0x0C0302  # a notice about log page 0Ch
INACCESSIBLE, PERSISTENT_LOSS, TRANSITION = 0x302, 0x301, 0x303
NOTICES = 1 << 11


class Host:
    """A host's admin and I/O queue at one portal."""

    def __init__(self, port: int, queues: contextlib.ExitStack) -> None:
        self.admin, self.io = (queues.enter_context(Queue(("127.0.0.1", port))) for _ in range(2))
        controller = self.admin.connect(NQN)
        self.admin.set(CC, ENABLED)
        self.io.connect(NQN, queue=1, controller=controller)

    def read(self) -> bytes:
        return self.io.command(0x02, 0, 0, 7, nsid=1, receive=4096)[1]

    def write(self, data: bytes) -> None:
        self.io.command(0x01, 0, 0, 7, nsid=1, send=data)

    def state(self) -> tuple[int, int]:
        """Number of changes of the access log, and the state of its only group."""
        page = self.admin.command(0x02, 0x0C | 15 << 16, receive=64)[1]
        changes, groups, group, state = struct.unpack("<QH6xI12xB", page[:33])
        assert (groups, group) == (1, 1)
        return changes, state


def ports_of(discovery: Queue) -> dict[int, int]:
    """TCP ports by port identifier, from the discovery log."""
    discovery.connect("nqn.2014-08.org.nvmexpress.discovery")
    discovery.set(CC, ENABLED)
    log = discovery.command(0x02, 0x70 | 1023 << 16, receive=4096)[1]
    (records,) = struct.unpack("<Q", log[8:16])
    entries = (log[1024 * place : 1024 * (place + 1)] for place in range(1, records + 1))
    return {
        struct.unpack("<H", entry[4:6])[0]: int(entry[32:64].split(b"\0")[0]) for entry in entries
    }


def tcp_ports(lines: Iterable[str]) -> Iterator[int]:
    """TCP ports of the portals, from what the server says."""
    return (int(one.split("127.0.0.1:")[1].split()[0]) for one in lines if "nvme-tcp:" in one)


@contextlib.contextmanager
def two_portals(tmp_path: Path) -> Iterator[tuple[Served, Host, Host]]:
    options = ("--nvme-tcp", "127.0.0.1:0", "--nvme-tcp", "127.0.0.1:0", "--nqn", NQN)
    with (
        served(tmp_path, *options, "--pace", "none", drive=served_guest.SMALL_DRIVE) as server,
        contextlib.ExitStack() as queues,
    ):
        assert server.process.stderr is not None
        ports = list(islice(tcp_ports(server.process.stderr), 2))
        with Queue(("127.0.0.1", ports[0])) as discovery:
            assert ports_of(discovery) == dict(enumerate(ports, start=1))
        yield server, Host(ports[0], queues), Host(ports[1], queues)


def refusal(path: Host) -> int:
    with pytest.raises(Refused) as why:
        path.read()
    return why.value.status


def test_a_host_fails_over_to_the_other_portal(tmp_path: Path) -> None:
    with two_portals(tmp_path) as (server, first, second):
        first.write(b"\x07" * 4096)
        first.admin.command(0x09, 0x0B, NOTICES)
        request = first.admin.request_event()
        assert server.say("ana-state 1 inaccessible") == {
            "ana_states": ["inaccessible", "optimized"]
        }
        assert first.admin.event(request) == ACCESS_CHANGE
        assert first.state() == (1, 3)
        assert second.state() == (0, 1)
        assert refusal(first) == INACCESSIBLE
        assert second.read() == b"\x07" * 4096
        second.write(b"\x08" * 4096)
        for state, status, expected in (
            ("persistent-loss", PERSISTENT_LOSS, (2, 4)),
            ("change", TRANSITION, (3, 15)),
        ):
            server.say(f"ana-state 1 {state}")
            assert refusal(first) == status
            assert first.state() == expected
        server.say("ana-state 1 non-optimized")
        assert first.read() == b"\x08" * 4096
        assert first.state() == (4, 2)
        assert server.say("status")["ana_states"] == ["non-optimized", "optimized"]
        states = [event["state"] for event in server.say("events")["events"] if "state" in event]
        assert states == ["inaccessible", "persistent-loss", "change", "non-optimized"]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("ana-state 3 optimized", "no portal 3"),
        ("ana-state x optimized", "x is no number of a portal"),
        ("ana-state 1 broken", "unknown variant `broken`"),
        ("ana-state 1", "unknown variant"),
    ],
)
def test_ctl_refuses_other_portals_and_states(tmp_path: Path, line: str, error: str) -> None:
    with two_portals(tmp_path) as (server, *_):
        assert error in server.say(line)["error"]


# One connection for all commands, as the network forwards only one.
CTL = """\
mkfifo /tmp/ctl
python3 -c 'import socket
talk = socket.create_connection(("10.0.2.9", 9))
answers = talk.makefile()
for line in open("/tmp/ctl"):
    talk.sendall(line.encode())
    answers.readline()' &
exec 3>/tmp/ctl
ctl() { echo "$*" >&3; }
"""
# The states of four portals as in nvme/057, before and after the failover.
JOB = (
    CTL
    + f"""\
for port in PORTS; do
  nvme connect -t tcp -a 10.0.2.2 -s $port -n {served_guest.NQN} 2>/dev/null
done
for try in $(seq 60); do [ $(ls -d /sys/block/nvme0c*n1 | wc -l) = 4 ] && break; sleep 0.5; done
set_all() {{
  portal=0; for state in "$@"; do portal=$((portal + 1)); ctl ana-state $portal $state; done
}}
failback() {{ set_all optimized non-optimized inaccessible inaccessible; }}
failover() {{ set_all inaccessible inaccessible optimized non-optimized; }}
states() {{ sleep 2; cat /sys/block/nvme0c*n1/ana_state | tr '\\n' ' '; }}
SAY disks $(ls /sys/block | grep -c '^nvme[0-9]*n1$')
failback; SAY before $(states)
fio --name=v --filename=/dev/nvme0n1 --size=8M --rw=randwrite --bs=4k --iodepth=8 \\
  --ioengine=libaio --direct=1 --verify=crc32c --time_based --runtime=20 >/tmp/fio 2>&1 &
fio=$!
sleep 3; failover; SAY over $(states)
sleep 3; failback; SAY back $(states)
wait $fio; SAY fio $?
set_all persistent-loss inaccessible inaccessible inaccessible; SAY lost $(states)
# Without a path Linux holds I/O back; it goes on with the first one that is usable.
dd if=/dev/urandom of=/tmp/a bs=4k count=64 2>/dev/null
dd if=/tmp/a of=/dev/nvme0n1 bs=4k oflag=direct 2>/dev/null &
dd=$!
sleep 3; SAY held $(kill -0 $dd 2>/dev/null && echo yes)
ctl ana-state 4 optimized; wait $dd; SAY written $?
failback; SAY again $(states)
dd if=/dev/nvme0n1 of=/tmp/b bs=4k count=64 iflag=direct 2>/dev/null
cmp /tmp/a /tmp/b && SAY data same
ctl ana-state 2 change; SAY change $(states)
SAY failures $(dmesg | grep -c 'I/O error')
"""
)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.skipif(not served_guest.SUITE, reason="DRIVEBAY_GUEST_SUITE names no folder")
def test_linux_fails_over_and_back_while_fio_verifies(tmp_path: Path) -> None:
    control = tmp_path / "control"
    portals = ["--nvme-tcp", "127.0.0.1:0"] * 4
    options = (*portals, "--nqn", served_guest.NQN, "--control", f"unix:{control}")
    root = served_guest.suite_root(tmp_path)
    with served_guest.server(*options, drive=served_guest.SMALL_DRIVE) as lines:
        further = [str(port) for port in tcp_ports(lines)][1:]
        job = JOB.replace("PORTS", " ".join(further))
        said = served_guest.boot_suite(root, job, lines, control=control)
    before, over = ("optimized non-optimized inaccessible inaccessible",
                    "inaccessible inaccessible optimized non-optimized")  # fmt: skip
    assert said["disks"] == "1"
    assert (said["before"], said["over"], said["back"]) == (before, over, before)
    assert said["fio"] == "0"
    assert said["lost"] == "persistent-loss inaccessible inaccessible inaccessible"
    assert (said["held"], said["written"], said["again"]) == ("yes", "0", before)
    assert said["change"] == before.replace("non-optimized", "change")
    assert (said["data"], said["failures"]) == ("same", "0")
