"""Client of a served drive's control socket: sends a line, receives a line of JSON.

Source: docs/concepts/serving-control.md, "Control, events, metrics".
"""

from __future__ import annotations

import contextlib
import selectors
import socket
from collections.abc import Iterator
from typing import Any

from drivebay.common import documents
from drivebay.common.errors import EnvironmentProblem, UserError
from drivebay.common.files import system_errors

# Time limit of an answer; a power cut waits until the store is written.
PATIENCE_S = 30.0
# Commands that copy data and wait for the disk.
COPY_PATIENCE_S = 3600.0
COPIES = frozenset({"restore", "forget", "clone"})
# Limit of an answer; a drive keeps about a thousand events.
LINE_MAX = 8 << 20


def ask(address: str, line: str) -> dict[str, Any]:
    """Sends a command and returns the server's answer.

    `address` is the socket, `unix:PATH` or a path. `line` is drives, status, events, power-cut,
    power-on, ambient CELSIUS, ana-state PORTAL STATE, fault JSON, no-faults, mark TEXT, resize
    BYTES, resize NSID BYTES, snapshot NAME, restore NAME, forget NAME or clone NAME FOLDER, with
    the prefix `drive NAME` if a server has several. Raises UserError for a bad command, and
    EnvironmentProblem if no drivebay server listens there.
    """
    with _connected(address, line) as talk:
        if COPIES.intersection(line.split()):
            talk.settimeout(COPY_PATIENCE_S)
        answer = talk.makefile("rb").readline(LINE_MAX)
    return _answer(address, answer)


def status(address: str, drive: str | None = None) -> list[dict[str, Any]]:
    """Figures of each drive of a server, or of one drive; raises like `ask`."""
    return [ask(address, f"drive {name} status") for name in _names(address, drive)]


def events(address: str, drive: str | None = None) -> list[dict[str, Any]]:
    """Recorded events of all drives, or of one, sorted by time; raises like `ask`."""
    names = _names(address, drive)
    found = [one for name in names for one in ask(address, f"drive {name} events")["events"]]
    return sorted(found, key=lambda event: float(event["time_s"]))


def follow(address: str, drive: str | None = None) -> Iterator[dict[str, Any]]:
    """Yields past events, then new events until the server ends; raises like `ask`.

    A reader that is slower than its drive misses events: their numbers have gaps.
    """
    with contextlib.ExitStack() as resources:
        waiting = resources.enter_context(selectors.DefaultSelector())
        for name in _names(address, drive):
            talk = resources.enter_context(_connected(address, f"drive {name} follow"))
            waiting.register(talk, selectors.EVENT_READ, bytearray())
        while waiting.get_map():
            for key, _ in waiting.select():
                try:
                    came = key.fileobj.recv(1 << 16)  # type: ignore[union-attr]
                except ConnectionError:
                    came = b""
                key.data.extend(came)
                *lines, rest = bytes(key.data).split(b"\n")
                key.data[:] = rest
                yield from (_answer(address, line) for line in lines)
                if not came or len(rest) > LINE_MAX:
                    waiting.unregister(key.fileobj)


def _names(address: str, drive: str | None) -> list[str]:
    return [drive] if drive else [str(name) for name in ask(address, "drives").get("drives", [])]


@contextlib.contextmanager
def _connected(address: str, line: str) -> Iterator[socket.socket]:
    """Opens a connection and sends a line; raises EnvironmentProblem if it breaks."""
    if "\n" in line:
        raise UserError("a command is one line", "one command at a time")
    path = address.removeprefix("unix:")
    with (
        system_errors(
            f"no served drive answers at {path}",
            f"drivebay serve DRIVE --nbd unix:/tmp/drive.sock --control unix:{path}",
        ),
        socket.socket(socket.AF_UNIX) as talk,
    ):
        talk.settimeout(PATIENCE_S)
        try:
            talk.connect(path)
            talk.sendall(f"{line}\n".encode())
        except ValueError as problem:  # a path with a null byte
            raise OSError(str(problem)) from None
        yield talk


def _answer(address: str, line: bytes) -> dict[str, Any]:
    """Parses the JSON object of an answer; raises like `ask`."""
    try:
        found = documents.from_json(line)
        assert isinstance(found, dict)
    except (ValueError, AssertionError):
        raise EnvironmentProblem(
            f"what listens at {address.removeprefix('unix:')} is no served drive",
            "name what --control was given",
        ) from None
    if "error" in found:
        raise UserError(str(found["error"]), str(found.get("hint", "drivebay ctl --help")))
    return found
