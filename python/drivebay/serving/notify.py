"""Tells the service manager how far a server is.

Source: sd_notify(3): a datagram to the socket that NOTIFY_SOCKET names.
"""

from __future__ import annotations

import contextlib
import os
import socket


def notify(state: str) -> None:
    """Sends "READY=1", "STOPPING=1" or "STATUS=..."; nothing where nobody wants to know.

    What a service manager does not hear is no reason to fail.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    with (
        contextlib.suppress(OSError),
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as talk,
    ):
        talk.setblocking(False)
        # '@' stands for an abstract name.
        talk.sendto(state.encode(), "\0" + address[1:] if address[0] == "@" else address)
