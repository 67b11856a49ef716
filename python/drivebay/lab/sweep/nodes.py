"""Dask's processes as drivebay starts them: without HTTP, and on this machine for this user alone.

Dask starts an HTTP server in each scheduler and worker even if the dashboard is off; drivebay's do
not.

Whoever reaches a port of Dask runs programs as the user who listens there, and every user of a
machine reaches its loopback. So a sweep on this machine uses its own transport: TCP whose both ends
look up the owner of the other end in /proc/net/tcp, and close connections of other users before
reading a byte.

Sources: distributed's comm/tcp.py; Linux, net/ipv4/tcp_ipv4.c: get_tcp4_sock (columns and states of
/proc/net/tcp; an orphan, which has nobody's uid, is in neither of the two states).
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import sys
from pathlib import Path
from typing import Any

import distributed
from distributed.comm.core import CommClosedError
from distributed.comm.registry import backends
from distributed.comm.tcp import TCPBackend, TCPConnector, TCPListener

SCHEME = "same-user"
PRELOAD = "drivebay.lab.sweep.preload"
LOOPBACK = "127.0.0.1"
ESTABLISHED, LISTEN = "01", "0A"


class _WithoutHttp:
    def start_http_server(self, *_arguments: Any, **_more: Any) -> None:
        """Does nothing: no HTTP server is started."""


class Scheduler(_WithoutHttp, distributed.Scheduler):
    """A scheduler without HTTP."""


class Worker(_WithoutHttp, distributed.Worker):
    """A worker without HTTP."""


def common(host: str, security: Any) -> dict[str, Any]:
    """Options of all nannies; they and their workers listen on `host` only."""
    return {
        "host": host,
        "security": security,
        "worker_class": Worker,
        "memory_limit": 0,
        "preload": [PRELOAD],
        "silence_logs": logging.CRITICAL,
    }


def local_cluster(jobs: int, resources: dict[str, float]) -> Any:
    """Starts a scheduler and single-threaded workers on this machine, for this user alone."""
    security = distributed.Security(require_encryption=False)  # type: ignore[no-untyped-call]
    options = {"host": LOOPBACK, "port": 0, "protocol": SCHEME, "security": security}
    worker = {
        "cls": distributed.Nanny,
        "options": {**common(LOOPBACK, security), "nthreads": 1, "resources": resources},
    }
    return distributed.SpecCluster(  # type: ignore[no-untyped-call]
        scheduler={"cls": Scheduler, "options": {**options, "dashboard": False}},
        workers=dict.fromkeys(range(jobs), worker),
        worker=worker,
        security=security,
        silence_logs=logging.CRITICAL,
    )


def is_ours(local: tuple[str, int], remote: tuple[str, int] | None) -> bool:
    """True if a socket with these ends belongs to this user; without `remote`, a listening
    socket.
    """
    ends = [_column(*local), _column(*(remote or ("0.0.0.0", 0)))]
    state = ESTABLISHED if remote else LISTEN
    with Path("/proc/net/tcp").open() as rows:
        for row in rows:
            columns = row.split()
            if columns[1:3] == ends and columns[3] == state:
                return int(columns[7]) == os.geteuid()
    return False


def _column(host: str, port: int) -> str:
    """Formats an IPv4 address and a port as in /proc/net/tcp.

    >>> _column("127.0.0.1", 22)
    '0100007F:0016'
    """
    number = int.from_bytes(socket.inet_aton(host), sys.byteorder)
    return f"{number:08X}:{port:04X}"


class _Connector(TCPConnector):
    prefix = f"{SCHEME}://"

    async def connect(self, address: str, deserialize: bool = True, **more: Any) -> Any:
        comm = await super().connect(address, deserialize, **more)  # type: ignore[no-untyped-call]
        if not is_ours(comm.stream.socket.getpeername(), None):
            comm.abort()
            raise CommClosedError(f"{address} belongs to another user")
        return comm


class _Listener(TCPListener):
    prefix = f"{SCHEME}://"

    async def _prepare_stream(self, stream: Any, _address: str) -> Any:
        ends = stream.socket
        with contextlib.suppress(OSError):  # the connection is closed already
            if is_ours(ends.getpeername(), ends.getsockname()):
                return stream
        stream.close()
        return None


class _Backend(TCPBackend):
    _connector_class = _Connector
    _listener_class = _Listener


backends[SCHEME] = _Backend()
