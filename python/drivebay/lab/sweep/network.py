"""Schedulers that a sweep and a worker may connect to: whoever reaches Dask's ports can run
programs.

Both ends of a connection unpickle the other's data, so each can run any program as the other's
user. On loopback this concerns only users who can log in here. Elsewhere TLS with certificates on
both sides is required, by Dask's own settings, or the user's statement that everybody on the
network is trusted.

Sources: distributed's documentation (TLS/SSL). Leaves out: Dask's transports over HTTP (ws, wss),
whose workers would be HTTP servers.
"""

from __future__ import annotations

import importlib
import ipaddress
import re
import socket
from dataclasses import dataclass
from typing import Any

from drivebay.common.errors import EnvironmentProblem, UserError

# Roles that need certificates: a sweep is a client; a worker with real drives is both.
ROLES = ("client", "worker")


def distributed() -> Any:
    """Dask's package, which has no types; loaded when needed, in half a second."""
    return importlib.import_module("distributed")


@dataclass(frozen=True)
class Scheduler:
    """A scheduler that may be connected to: its address and TLS settings."""

    address: str
    security: Any


def split(address: str) -> tuple[str, str, int]:
    """Splits a scheduler's address into scheme, host and port.

    Dask itself would accept any text as an address and wait for it: it retries even with an unknown
    protocol.

    >>> split("10.0.0.1:8786"), split("tls://[::1]:1")
    (('tcp', '10.0.0.1', 8786), ('tls', '::1', 1))

    Raises UserError if the text is not an address of a scheduler.
    """
    host = r"\[(?P<v6>[0-9a-fA-F:.]+)\]|(?P<name>[^\s:/\[\]]+)"
    match = re.fullmatch(rf"(?:(?P<scheme>tcp|tls)://)?(?:{host}):(?P<port>\d{{1,5}})", address)
    if match is None or int(match["port"]) > 65535:
        raise UserError(
            f"{address!r} is not the address of a scheduler",
            "give the address that `dask scheduler` prints, for example: tcp://10.0.0.1:8786",
        )
    return match["scheme"] or "tcp", match["v6"] or match["name"], int(match["port"])


def admitted(address: str, *, trust_network: bool) -> Scheduler:
    """Returns the scheduler at an address, if connecting to it is allowed. Raises UserError if
    the text is not an address; if it is not on loopback, without TLS, and the network is not
    trusted; or if Dask's settings do not allow it; EnvironmentProblem if its host is not
    known.
    """
    scheme, host, port = split(address)
    if scheme == "tls":
        return Scheduler(address, _tls(address))
    security = distributed().Security()
    if security.require_encryption:
        raise UserError(
            f"{address} is not encrypted, which Dask's settings require",
            "use the scheduler's TLS address: tls://HOST:PORT",
        )
    if trust_network:
        return Scheduler(address, security)
    local = _loopback(address, host, port)
    if local is None:
        raise UserError(
            f"{address} is not on this machine and has no TLS: whoever reaches the scheduler or a "
            "worker could run programs as you",
            "use tls:// (docs/concepts/sweeps.md); or, if you trust everybody on that network, add "
            "--trust-network",
        )
    return Scheduler(local, security)


def _loopback(address: str, host: str, port: int) -> str | None:
    """The address with its host as a number, so that the checked address is the one that is
    connected to; None if any of the host's addresses is not on loopback.
    """
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as problem:
        raise EnvironmentProblem(
            f"{address}: its host is not known: {getattr(problem, 'strerror', None) or problem}",
            "give the address that `dask scheduler` prints",
        ) from None
    numbers = [ipaddress.ip_address(place[0]) for *_, place in addresses]
    if not all(number.is_loopback for number in numbers):
        return None
    first = min(numbers, key=lambda number: number.version)  # as Dask, which prefers IPv4
    return f"tcp://{first}:{port}" if first.version == 4 else f"tcp://[{first}]:{port}"


def _tls(address: str) -> Any:
    """Dask's TLS settings, which must be complete: CA, certificates and keys that can be read."""
    place = "distributed.comm.tls: ca-file, and cert and key of client and worker"
    hint = f"in Dask's settings ({place}), see docs/concepts/sweeps.md"
    try:
        security = distributed().Security(require_encryption=True)
    except ValueError as problem:
        raise UserError(f"{address}: Dask's settings of TLS: {problem}", hint) from None
    for role in ROLES:
        given = security.get_tls_config_for_role(role)
        missing = [key for key in ("ca_file", "cert") if not given[key]]
        if missing:
            key = missing[0].replace("_", "-")
            name = key if key == "ca-file" else f"{role}.{key}"
            raise UserError(f"{address}: TLS is not set up: Dask's settings have no {name}", hint)
        try:
            security.get_connection_args(role)
        except (OSError, ValueError) as problem:
            files = ", ".join(str(given[key]) for key in ("ca_file", "cert", "key") if given[key])
            why = " ".join(str(problem).split())
            raise UserError(f"{address}: TLS of {role}: {files}: {why}", hint) from None
    return security
