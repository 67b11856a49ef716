"""A guest in which drivebay reviews drives that drivebay serves to it: what test_truth*.py share.

The guest's kernel attaches the drives over NVMe/TCP; drivebay runs in it as on any machine, with
fio and nvme-cli, from the host's own files (read-only, over 9p). A folder of the test is the
guest's /out. What the guest wants done to a drive meanwhile it writes into that folder, and a
thread here tells the served drive's control socket.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nvme_guest
import pytest
import served_guest
from nbd_server import PROGRAM

from drivebay import results
from drivebay.results.reading import Result

TOP = Path(__file__).resolve().parent.parent.parent
MARKS = [
    pytest.mark.long,
    pytest.mark.timeout(3600),  # a guest without KVM, a drive at a ten-thousandth of its pace
    pytest.mark.skipif(bool(nvme_guest.missing()), reason=nvme_guest.missing() or "-"),
    pytest.mark.skipif(shutil.which("fio") is None, reason="not installed: fio"),
    pytest.mark.skipif(TOP.is_relative_to("/tmp"), reason="the guest's /tmp hides the checkout"),
]
MODULES = ("virtio_pci", "virtio_net", "crc32c_generic", "nvme-tcp", "9pnet_virtio", "9p")
HEAD = 'schema_version = 1\nname = "truth"\ntitle = "Truth"\ndescription = "-"\nsource = "none"\n'
NETWORK = "ip addr add 10.0.2.15/24 dev eth0; ip link set eth0 up\n"
# attach NAME: the drive of that name; what it is called here is in $DISK. Commands fail when the
# drive has been away for five seconds, and do not wait for ever.
# inside COMMAND...: in the host's files, in /out. drivebay NAME ARGUMENT...: likewise, what it
# writes into NAME.log, and its exit code said under that name.
# ask LINE: has the drives' control socket told this line, and waits for the answer.
FUNCTIONS = """\
attach() {
  nvme connect -t tcp -a 10.0.2.2 -s PORT -n nqn.2026-11.localhost.drivebay:$1 \\
    --hostnqn=HOST --hostid=HOST_ID --reconnect-delay=1 >>/out/nvme.log 2>&1
  DISK=
  for try in $(seq 100); do
    for name in /sys/block/nvme*n1; do
      [ -e $name/wwid ] && grep -qi "^$1 *$" $name/device/serial && DISK=/dev/${name##*/}
    done
    [ -b "$DISK" ] && break; sleep 0.3
  done
  for path in /sys/class/nvme/nvme*/fast_io_fail_tmo; do echo 5 >$path; done
}
inside() {
  chroot /host /usr/bin/env -i PATH=${NVME:-/tmp/out/bin}:$PATH HOME=/tmp \\
    /bin/sh -c "cd /tmp/out && $*"
}
drivebay() {
  name=$1; shift
  inside PYTHON -I -m drivebay "$@" >>/out/$name.log 2>&1; echo "SAID $name $?"
}
ask() {
  echo "$*" >/out/ask.new; mv /out/ask.new /out/ask
  while [ -e /out/ask ]; do sleep 0.2; done
}
"""


def suite(folder: Path, name: str, *tests: str) -> None:
    """Write a suite of these tests, TOML tables, where the guest finds it."""
    (folder / name).write_text(HEAD + "".join(tests))


def boot(
    folder: Path, script: str, serve: Sequence[str], *, drive: str | None = served_guest.DRIVE
) -> dict[str, str]:
    """Serve drives with these options, boot a guest with this script and `folder` as its /out; what
    it said, by the first word. Each drive's serial number is the end of its NQN."""
    control = folder.parent / "control.sock"
    _programs(folder / "bin")
    options = ("--nvme-tcp", "127.0.0.1:0", "--control", f"unix:{control}", "--pace", "hybrid")
    with served_guest.server(*serve, *options, drive=drive) as lines:
        port = next(one for one in lines if "127.0.0.1:" in one).split("127.0.0.1:")[1].split()[0]
        whole = served_guest.HOST_FILES + NETWORK + FUNCTIONS + script
        for word, value in (
            ("NOW", f"{time.time():.0f}"),
            ("PORT", port),
            ("HOST_ID", served_guest.HOST[-36:]),
            ("HOST", served_guest.HOST),
            ("PYTHON", sys.executable),
        ):
            whole = whole.replace(word, value)
        over = threading.Event()
        teller = threading.Thread(target=_tell, args=(folder, control, over))
        teller.start()
        try:
            return served_guest.boot(
                folder.parent,
                whole,
                MODULES,
                *("-cpu", "max", "-netdev", "user,id=n0"),
                *("-device", "virtio-net-pci,netdev=n0,romfile="),
                *served_guest.host_files(folder),
            )
        finally:
            over.set()
            teller.join()


def _tell(folder: Path, control: Path, over: threading.Event) -> None:
    """Tell the drives what the guest asks for, until it is over."""
    while not over.wait(0.1):
        if (folder / "ask").exists():
            with socket.socket(socket.AF_UNIX) as talk:
                talk.connect(str(control))
                talk.sendall((folder / "ask").read_bytes())
                answer = talk.makefile().readline()
            with (folder / "answers").open("a") as file:
                file.write(answer)
            (folder / "ask").unlink()


def in_virtual_time(drive: Path, suite: Path, out: Path) -> Result:
    """The result of a suite on the virtual drive."""
    command = [*PROGRAM, "review", str(drive), "--suite", str(suite), "--out", str(out)]
    subprocess.run(command, capture_output=True, check=True)
    return results.load(out)


def answers(folder: Path) -> list[dict[str, Any]]:
    """What the drives answered to what the guest asked for."""
    return [json.loads(line) for line in (folder / "answers").read_text().splitlines()]


def _programs(folder: Path) -> None:
    """nvme-cli, wherever it is, in a folder of its own for PATH."""
    tools = Path(os.environ.get("DRIVEBAY_GUEST_TOOLS", "/none"))
    libraries = ":".join(
        str(one) for sub in ("usr/lib", "lib") for one in tools.glob(f"{sub}/*-gnu")
    )
    folder.mkdir()
    program = folder / "nvme"
    program.write_text(
        f'#!/bin/sh\nLD_LIBRARY_PATH={libraries} exec {nvme_guest.program_of("nvme")} "$@"\n'
    )
    program.chmod(0o755)
