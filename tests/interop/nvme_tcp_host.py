"""A host over NVMe/TCP in a page of Python: what a server answers, byte for byte.

Sources: NVM Express base specification 2.0, TCP transport specification 1.0. It shares no
code with the server. Left out: digests, data beyond a capsule, several commands at a time.
"""

from __future__ import annotations

import socket
import struct
from types import TracebackType

HOST_NQN = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555"
HOST_ID = bytes(range(16))
CC = 0x14
CSTS = 0x1C
ENABLED = 0x460001  # entries of 64 and 16 bytes, enabled
SHUTDOWN = ENABLED | 1 << 14
ANY_CONTROLLER = 0xFFFF


class Refused(Exception):
    """A command failed: `status` with its type, as the specification writes it."""

    def __init__(self, status: int, result: int) -> None:
        super().__init__(f"status {status:#x}, result {result:#x}")
        self.status, self.result = status, result


class Queue:
    """One connection, which becomes a queue by `connect`."""

    def __init__(self, address: tuple[str, int], *, alignment: int = 0) -> None:
        self.socket = socket.create_connection(address, timeout=30)
        self.cid = 0
        self.data_at: int | None = None
        """Where data last began in its PDU."""
        self.events: dict[int, int | None] = {}
        """Event requests by command identifier, and their answers."""
        self.socket.sendall(
            struct.pack("<BBBBIHBB", 0, 0, 128, 0, 128, 0, alignment, 0) + bytes(116)
        )
        assert self._pdu()[0] == 1

    def __enter__(self) -> Queue:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, why: BaseException | None, at: TracebackType | None
    ) -> None:
        self.socket.close()

    def _exactly(self, count: int) -> bytes:
        got = b""
        while len(got) < count:
            some = self.socket.recv(count - len(got))
            if not some:
                raise ConnectionResetError("the server has closed the connection")
            got += some
        return got

    def _pdu(self) -> tuple[int, int, bytes, bytes]:
        """Type, flags, header and data of the next one."""
        head = self._exactly(8)
        kind, flags, header_bytes, data_at, whole = struct.unpack("<BBBBI", head)
        rest = head + self._exactly(whole - 8)
        self.data_at = data_at or self.data_at
        return kind, flags, rest[:header_bytes], rest[data_at:] if data_at else b""

    def command(
        self, opcode: int, *dwords: int, nsid: int = 0, send: bytes = b"", receive: int = 0
    ) -> tuple[int, bytes]:
        """Dwords are 10 to 15; returns what the completion holds (64 bits), and data."""
        self._send(opcode, *dwords, nsid=nsid, send=send, receive=receive)
        return self._answer(self.cid)

    def _send(
        self, opcode: int, *dwords: int, nsid: int = 0, send: bytes = b"", receive: int = 0
    ) -> None:
        self.cid += 1
        words = (*dwords, 0, 0, 0, 0, 0, 0)[:6]
        if send:
            sgl = struct.pack("<QI3xB", 0, len(send), 0x01)
        else:
            sgl = struct.pack("<QI3xB", 0, receive, 0x5A)
        sqe = (
            struct.pack("<BBHI16x", opcode, 0x40, self.cid, nsid) + sgl + struct.pack("<6I", *words)
        )
        self.socket.sendall(
            struct.pack("<BBBBI", 4, 0, 72, 72 if send else 0, 72 + len(send)) + sqe + send
        )

    def _answer(self, expected: int) -> tuple[int, bytes]:
        """The completion and the data of this command; events that come before are kept."""
        data = b""
        while True:
            kind, flags, header, more = self._pdu()
            if kind == 7:
                data += more
                if flags & 8:
                    return 0, data
                continue
            assert kind == 5, f"PDU of type {kind}"
            result, _, _, cid, status = struct.unpack("<QHHHH", header[8:24])
            if cid != expected and cid in self.events:
                self.events[cid] = result
                continue
            assert cid == expected
            if status >> 1:
                raise Refused(status >> 1 & 0x7FF, result)
            return result, data

    def request_event(self) -> int:
        """Asks for an asynchronous event; returns the identifier for `event`."""
        self._send(0x0C)
        self.events[self.cid] = None
        return self.cid

    def event(self, request: int) -> int:
        """Waits for the event of this request: type, information and log page."""
        answer = self.events.pop(request)
        return self._answer(request)[0] if answer is None else answer

    def fabrics(
        self, kind: int, *dwords: int, send: bytes = b"", receive: int = 0
    ) -> tuple[int, bytes]:
        """A command of fabrics."""
        return self.command(0x7F, *dwords, nsid=kind, send=send, receive=receive)

    def connect(
        self,
        nqn: str,
        *,
        queue: int = 0,
        entries: int = 32,
        controller: int = ANY_CONTROLLER,
        keep_alive_ms: int = 0,
        host_nqn: str = HOST_NQN,
        host_id: bytes = HOST_ID,
    ) -> int:
        """Dword 0 of the completion: the controller, and what it wants as authentication."""
        names = nqn.encode().ljust(256, b"\0") + host_nqn.encode().ljust(256, b"\0")
        data = host_id + struct.pack("<H", controller) + bytes(238) + names + bytes(256)
        return self.fabrics(1, queue << 16, entries - 1, keep_alive_ms, send=data)[0]

    def set(self, register: int, value: int) -> None:
        """Writes a property."""
        self.fabrics(0, 0, register, value)

    def get(self, register: int, *, is_wide: bool = False) -> int:
        """Reads a property."""
        return self.fabrics(4, int(is_wide), register)[0]

    def identify(self, cns: int, nsid: int = 0) -> bytes:
        """A page of Identify."""
        return self.command(0x06, cns, nsid=nsid, receive=4096)[1]

    def feature(self, feature: int) -> int:
        """The present value of a feature."""
        return self.command(0x0A, feature)[0]
