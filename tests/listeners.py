"""What a process and its children listen on, read from /proc.

Sources: proc_pid_net(5) and proc_pid_fd(5); the states and the byte order of the addresses are
those of the kernel's include/net/tcp_states.h and net/ipv4/tcp_ipv4.c.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ACCEPTS = {"tcp": "0A", "tcp6": "0A", "udp": "07", "udp6": "07"}
"""The state of a socket that strangers can reach: TCP that listens, UDP that is not connected."""
UNIX_ACCEPTS = 0x10000
"""A flag in /proc/net/unix: it listens (SO_ACCEPTCON)."""


@dataclass(frozen=True, order=True)
class Listener:
    """A socket that others can connect to, or send to; `host` is the path of a Unix socket."""

    kind: str
    host: str
    port: int
    pid: int


def tree(pid: int) -> Iterator[int]:
    """A process and all its descendants."""
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(OSError):  # it has just ended
            for child in (task / "children").read_text().split():
                yield from tree(int(child))


def listeners(pid: int) -> list[Listener]:
    """Those of the process and its descendants, in order."""
    return sorted(one for member in set(tree(pid)) for one in _of_process(member))


def _of_process(pid: int) -> Iterator[Listener]:
    held = set()
    with contextlib.suppress(OSError):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                link = os.readlink(f"/proc/{pid}/fd/{fd}")
                held.add(link.removeprefix("socket:[").removesuffix("]"))
        for kind, state in ACCEPTS.items():
            for row in _rows(pid, kind):
                if row[3] == state and row[9] in held:
                    host, _, port = row[1].partition(":")
                    yield Listener(kind, _address(host), int(port, 16), pid)
        for row in _rows(pid, "unix"):
            if int(row[3], 16) & UNIX_ACCEPTS and row[6] in held:
                yield Listener("unix", row[7] if len(row) > 7 else "", 0, pid)


def _rows(pid: int, kind: str) -> list[list[str]]:
    return [line.split() for line in Path(f"/proc/{pid}/net/{kind}").read_text().splitlines()[1:]]


def _address(text: str) -> str:
    """Words of four bytes, each a number in the order of this machine.

    >>> _address("0100007F"), _address("00000000000000000000000001000000")
    ('127.0.0.1', '::1')
    """
    words = (int(text[at : at + 8], 16) for at in range(0, len(text), 8))
    packed = b"".join(word.to_bytes(4, sys.byteorder) for word in words)
    return str(ipaddress.ip_address(packed))


def answers_http(host: str, port: int) -> bool:
    """Whether what listens there answers a request as HTTP/1 does; who does not answer within two
    seconds waits for more of another protocol."""
    came = b""
    with (
        contextlib.suppress(ConnectionError, TimeoutError),
        socket.create_connection((host, port), timeout=2.0) as talk,
    ):
        talk.sendall(b"GET / HTTP/1.0\r\n\r\n")
        while len(came) < 5 and (more := talk.recv(4096)):
            came += more
    return came.startswith(b"HTTP/")
