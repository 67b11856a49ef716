"""Status notification for the service manager.

Source: sd_notify(3): a datagram to the socket in NOTIFY_SOCKET.
"""

from __future__ import annotations

import contextlib
import os
import socket


def notify(state: str) -> None:
    """Sends "READY=1", "STOPPING=1" or "STATUS=..." if there is a service manager, and ignores
    errors.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    with (
        contextlib.suppress(OSError),
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as talk,
    ):
        talk.setblocking(False)
        # '@' marks an abstract name.
        talk.sendto(state.encode(), "\0" + address[1:] if address[0] == "@" else address)
