"""Small programs on a raw drive, each right or with one bug, and the checks of what they promise.

Run as a script: `crash_program.py work NAME` on the drive at $DRIVEBAY_NBD, `check NAME FILE` on a
state of it, with $DRIVEBAY_MARK; `cut FILE` cuts the drive's power, and writes what is there then,
`cut-behind FILE WRITES` behind so many, and writes which of them are.
NAME of a bug is one of `BUGS`, "right-" before it is the program without the bug. The files of this
little world are blocks, its folder is block 0.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
import zlib
from collections.abc import Callable

BLOCK = 4096
PAGE = 4 * BLOCK
ROUNDS = 5
DATA = 16
"""Block from which on data lies."""
BUGS = (
    "no-fsync",
    "no-folder-fsync",
    "rename-without-fsync",
    "torn-page",
    "double-write-without-barrier",
)


class Nbd:
    """A client of NBD (fixed newstyle, simple replies), which waits for each answer."""

    def __init__(self, path: str) -> None:
        self.talk = socket.socket(socket.AF_UNIX)
        self.talk.connect(path)
        self._read(18)
        # No zeroes; NBD_OPT_GO (7) of the default export.
        self.talk.sendall(struct.pack(">I8sIIIH", 3, b"IHAVEOPT", 7, 6, 0, 0))
        kind = 0
        while kind != 1:  # NBD_REP_ACK
            _, _, kind, length = struct.unpack(">QIII", self._read(20))
            self._read(length)
        self.tag = 0

    def _read(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            more = self.talk.recv(count - len(found))
            assert more, "the server is gone"
            found += more
        return found

    def _ask(self, kind: int, offset: int, length: int, data: bytes = b"") -> None:
        self.tag += 1
        head = struct.pack(">IHHQQI", 0x25609513, 0, kind, self.tag, offset, length)
        self.talk.sendall(head + data)
        _, error, _ = struct.unpack(">IIQ", self._read(16))
        assert error == 0, error

    def write(self, block: int, data: bytes) -> None:
        self._ask(1, block * BLOCK, len(data), data)

    def read(self, block: int, blocks: int) -> bytes:
        self._ask(0, block * BLOCK, blocks * BLOCK)
        return self._read(blocks * BLOCK)

    def flush(self) -> None:
        self._ask(3, 0, 0)


def tell(line: str) -> None:
    """A line to the control socket."""
    with socket.socket(socket.AF_UNIX) as talk:
        talk.connect(os.environ["DRIVEBAY_CONTROL"])
        talk.sendall(f"{line}\n".encode())
        assert b"error" not in talk.recv(4096)


def mark(text: str) -> None:
    """Tells the recording what was promised."""
    tell(f"mark {text}")


def cut(drive: str) -> bytes:
    """Writes, some of it behind the last flush, has the power cut, and reads what is there."""
    one = Nbd(drive)
    for number in range(1, 5):
        one.write(number, filled(number))
    one.flush()
    for number in (2, 3, 2, 5, 6):
        one.write(number, filled(10 + number))
    tell("power-cut")
    return Nbd(drive).read(0, 8)


def cut_behind(drive: str, writes: int) -> list[bool]:
    """Writes blocks of their own, flushes a twentieth of the way behind the start, has the power
    cut; for each block whether it is there."""
    one = Nbd(drive)
    for number in range(writes):
        one.write(number * 3, filled(number + 1))
        if number == writes // 20:
            one.flush()
    tell("power-cut")
    one = Nbd(drive)
    return [number_of(one.read(number * 3, 1)) == number + 1 for number in range(writes)]


def filled(number: int, size: int = BLOCK) -> bytes:
    """Blocks full of a number, each with a checksum."""
    body = number.to_bytes(4, "big") * (BLOCK // 4 - 1)
    return (body + zlib.crc32(body).to_bytes(4, "big")) * (size // BLOCK)


def number_of(block: bytes) -> int | None:
    """The number that a block is full of; None if it is damaged or empty."""
    is_whole = zlib.crc32(block[:-4]) == int.from_bytes(block[-4:], "big")
    return int.from_bytes(block[:4], "big") if is_whole and any(block) else None


def work(name: str, drive: Nbd) -> None:
    """Does what promises something, again and again, and says so."""
    is_right = name.startswith("right-")
    bug = name.removeprefix("right-")

    def barrier(needed: str) -> None:
        if is_right or bug != needed:
            drive.flush()

    if bug in ("torn-page", "double-write-without-barrier"):
        for block in (0, DATA):
            drive.write(block, filled(0, PAGE))
        drive.flush()
        mark("0")
    for number in range(1, ROUNDS + 1):
        if bug == "no-fsync":  # a log of records
            drive.write(DATA + number, filled(number))
            barrier(bug)
        elif bug == "no-folder-fsync":  # a new file, then its name in the folder
            drive.write(DATA + number, filled(number))
            drive.flush()
            drive.write(0, filled(number))
            barrier(bug)
        elif bug == "rename-without-fsync":  # a new version, then the name points to it
            drive.write(DATA + number, filled(number))
            barrier(bug)
            drive.write(0, filled(number))
            drive.flush()
        elif bug == "torn-page":  # in place; right: a copy first
            if is_right:
                drive.write(0, filled(number, PAGE))
                drive.flush()
            drive.write(DATA, filled(number, PAGE))
            drive.flush()
        elif bug == "double-write-without-barrier":
            drive.write(0, filled(number, PAGE))
            barrier(bug)
            drive.write(DATA, filled(number, PAGE))
            drive.flush()
        mark(str(number))


def check(name: str, read: Callable[[int], bytes], promised: int) -> str:
    """What is wrong with a state; "" if nothing is."""
    bug = name.removeprefix("right-")
    if bug == "no-fsync":
        lost = [n for n in range(1, promised + 1) if number_of(read(DATA + n)) != n]
        return f"record {lost[0]} of {promised} is gone" if lost else ""
    if bug in ("no-folder-fsync", "rename-without-fsync"):
        named = number_of(read(0)) or 0
        if named < promised:
            return f"file {promised} has no name"
        is_there = named == 0 or number_of(read(DATA + named)) == named
        return "" if is_there else f"file {named} has a name and no data"
    pages = [[number_of(read(at + n)) for n in range(PAGE // BLOCK)] for at in (DATA, 0)]
    page = pages[0]
    if bug == "double-write-without-barrier" or name.startswith("right-"):
        # Recovery: a page that is torn is taken from its copy.
        page = page if len(set(page)) == 1 else pages[1]
    if promised < 0:
        return ""
    if len(set(page)) != 1 or page[0] is None or page[0] < promised:
        return f"the page is torn or old: {page}, {promised} was promised"
    return ""


def main() -> int:
    what, name, *rest = sys.argv[1:]
    drive = os.environ.get("DRIVEBAY_NBD", "").partition("socket=")[2]
    if what == "work":
        work(name, Nbd(drive))
        return 0
    if what == "cut-behind":
        with open(name, "w") as text:
            text.write("".join(str(int(one)) for one in cut_behind(drive, int(rest[0]))))
        return 0
    if what == "cut":
        with open(name, "wb") as out:
            out.write(cut(drive))
        return 0
    with open(rest[0], "rb") as file:

        def read(block: int) -> bytes:
            file.seek(block * BLOCK)
            return file.read(BLOCK)

        marked = os.environ["DRIVEBAY_MARK"]
        none = -1 if "page" in name or "double" in name else 0
        wrong = check(name, read, int(marked) if marked else none)
    print(wrong or "good")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
