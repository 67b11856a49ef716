"""Hosts over NVMe/TCP that prove what they know: DH-HMAC-CHAP, with a host written for this.

Sources: NVM Express base specification 2.0, In-band Authentication; RFC 7919. Hashes are
Python's; the prime of the smallest group is printed here as the RFC has it, the others follow from
its formula.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import struct
import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from nbd_server import PROGRAM, served
from nvme_tcp_host import CC, ENABLED, HOST_NQN, Queue, Refused

DRIVE = "sm951-nvme-256"
NQN = "nqn.2026-11.test:locked"
HASHES = {1: "sha256", 2: "sha384", 3: "sha512"}
GROUPS = {0: 0, 1: 2048, 2: 3072, 3: 4096, 4: 6144, 5: 8192}
# Every hash without a group, and every group with one of them: of a group a hash sees only bytes.
PAIRS = [(one, 0) for one in HASHES] + [(1 + group % 3, group) for group in GROUPS if group]
TERMS = {2048: 560316, 3072: 2625351, 4096: 5736041, 6144: 15705020, 8192: 10965728}
FFDHE2048 = (
    "FFFFFFFFFFFFFFFFADF85458A2BB4A9AAFDC5620273D3CF1D8B9C583CE2D3695A9E13641146433FBCC939DCE"
    "249B3EF97D2FE363630C75D8F681B202AEC4617AD3DF1ED5D5FD65612433F51F5F066ED0856365553DED1AF3"
    "B557135E7F57C935984F0C70E0E68B77E2A689DAF3EFE8721DF158A136ADE73530ACCA4F483A797ABC0AB182"
    "B324FB61D108A94BB2C8E3FBB96ADAB760D7F4681D4F42A3DE394DF4AE56EDE76372BB190B07A7C8EE0A6D70"
    "9E02FCE1CDF7E2ECC03404CD28342F619172FE9CE98583FF8E4F1232EEF28183C3FE3B1B4C6FAD733BB5FCBC"
    "2EC22005C58EF1837D1683B2C6F34A26C1B2EFFA886B423861285C97FFFFFFFFFFFFFFFF"
)
PROTOCOL = 0xE9010100
REQUIRED = 0x191
WANTS_IT = 1 << 17
FAILED = 1


def prime(bits: int) -> int:
    """RFC 7919, appendix A."""
    total, part, k = 0, 1 << bits, 0
    while part:
        total, k = total + part, k + 1
        part //= k
    euler = total >> 130
    return (1 << bits) - (1 << (bits - 64)) + ((euler + TERMS[bits]) << 64) - 1


def secret(transform: int, key: bytes) -> str:
    """As nvme-cli writes it."""
    digits = base64.b64encode(key + struct.pack("<I", zlib.crc32(key))).decode()
    return f"DHHC-1:{transform:02}:{digits}:"


def transformed(text: str, nqn: str) -> bytes:
    """The key as the one of this name uses it."""
    _, kind, digits, _ = text.split(":")
    key = base64.b64decode(digits)[:-4]
    if kind == "00":
        return key
    return hmac.digest(key, f"{nqn}NVMe-over-Fabrics".encode(), HASHES[int(kind)])


class Failure(Exception):
    """The controller ends the exchange: why."""


def authenticate(
    queue: Queue,
    host: str,
    controller: str | None = None,
    *,
    hashes: tuple[int, ...] = (1, 2, 3),
    groups: tuple[int, ...] = (0, 1, 2, 3, 4, 5),
    public: bytes | None = None,
) -> tuple[int, int]:
    """The hash and the group that were used.

    Raises
    ------
    Failure
        If the controller is not content; `public` is sent in place of the right value.
    """

    def send(message: bytes) -> None:
        queue.fabrics(5, PROTOCOL, len(message), send=message)

    def receive(kind: int) -> bytes:
        message = queue.fabrics(6, PROTOCOL, 4096, receive=4096)[1]
        if message[1] == 0xF1:
            assert message[:2] == b"\0\xf1" and message[6] == 1
            raise Failure(message[7])
        assert message[:2] == bytes([1, kind]) and message[4:6] == number
        return message

    number = secrets.token_bytes(2)
    lists = bytes(hashes).ljust(30, b"\0") + bytes(groups).ljust(30, b"\0")
    counts = bytes([1, 0, len(hashes), len(groups)])
    send(b"\0\0\0\0" + number + b"\0\1" + counts + lists)
    challenge = receive(1)
    size, hash_id, group, length, sequence = struct.unpack("<BxBBHI", challenge[6:16])
    assert hash_id == hashes[0]
    name = HASHES[hash_id]
    assert size == hashlib.new(name).digest_size and length == GROUPS[group] // 8
    value, theirs = challenge[16 : 16 + size], challenge[16 + size : 16 + size + length]
    session, own = b"", b""
    if group:
        p, x = prime(GROUPS[group]), secrets.randbits(400)
        own = pow(2, x, p).to_bytes(length, "big")
        session = pow(int.from_bytes(theirs, "big"), x, p).to_bytes(length, "big")

    def response(key: bytes, value: bytes, sequence: int, role: str, *names: str) -> bytes:
        if group:
            value = hmac.digest(hashlib.new(name, session).digest(), value, name)
        head = value + struct.pack("<I", sequence) + number + b"\0" + role.encode()
        return hmac.digest(key, head + b"\0".join(one.encode() for one in names), name)

    mine = response(transformed(host, HOST_NQN), value, sequence, "HostHost", HOST_NQN, NQN)
    back, count = (secrets.token_bytes(size), 77) if controller else (bytes(size), 0)
    own = own if public is None else public
    head = struct.pack("<BBBBHI", size, 0, bool(controller), 0, len(own), count)
    send(b"\1\2\0\0" + number + head + mine + back + own)
    success = receive(3)
    assert (success[6], success[8]) == (size, bool(controller))
    if controller:
        key = transformed(controller, NQN)
        assert success[16 : 16 + size] == response(key, back, count, "Controller", NQN, HOST_NQN)
        send(b"\1\4\0\0" + number + bytes(10))
    return hash_id, group


HOST_SECRET = secret(1, bytes(range(32)))
CONTROLLER_SECRET = secret(0, bytes(range(48)))


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    """Of a drive that asks for one secret and knows another."""
    folder = tmp_path_factory.mktemp("auth")
    (folder / "host").write_text(HOST_SECRET + "\n")
    (folder / "controller").write_text(CONTROLLER_SECRET + "\n")
    options = ("--dhchap-secret", "host", "--dhchap-ctrl-secret", "controller", "--nqn", NQN)
    more = ("--nvme-tcp", "127.0.0.1:0", "--pace", "none")
    with served(folder, *options, *more, drive=DRIVE) as server:
        assert server.process.stderr is not None
        lines = iter(server.process.stderr.readline, "")
        line = next(one for one in lines if one.startswith("nvme-tcp:"))
        host, port = line.removeprefix("nvme-tcp:").split()[0].split(":")
        yield host, int(port)


def test_the_primes_are_those_of_the_rfc() -> None:
    assert prime(2048) == int(FFDHE2048, 16)


@pytest.mark.parametrize(("hash_id", "group"), PAIRS)
@pytest.mark.parametrize("controller", [None, CONTROLLER_SECRET])
def test_who_knows_the_secret_is_let_in(
    address: tuple[str, int], hash_id: int, group: int, controller: str | None
) -> None:
    with Queue(address) as admin, Queue(address) as io:
        result = admin.connect(NQN)
        assert result & WANTS_IT
        used = authenticate(admin, HOST_SECRET, controller, hashes=(hash_id,), groups=(group,))
        assert used == (hash_id, group)
        admin.set(CC, ENABLED)
        assert len(admin.identify(1)) == 4096
        # Each queue by itself.
        assert io.connect(NQN, queue=1, controller=result & 0xFFFF) & WANTS_IT
        read = (0x02, 0, 0, 7)
        with pytest.raises(Refused) as refused:
            io.command(*read, nsid=1, receive=4096)
        assert refused.value.status == REQUIRED
        authenticate(io, HOST_SECRET, hashes=(hash_id,), groups=(group,))
        assert io.command(*read, nsid=1, receive=4096)[1] == bytes(4096)


def test_the_first_hash_and_a_group_are_chosen_as_linux_offers_them(
    address: tuple[str, int],
) -> None:
    with Queue(address) as admin:
        admin.connect(NQN)
        assert authenticate(admin, HOST_SECRET) == (1, 1)
        # Again, at any time, with others.
        assert authenticate(admin, HOST_SECRET, hashes=(3, 1), groups=(0,)) == (3, 0)


def test_who_does_not_is_not_let_in(address: tuple[str, int]) -> None:
    with Queue(address) as admin:
        admin.connect(NQN)
        for command in (lambda: admin.set(CC, ENABLED), lambda: admin.identify(1)):
            with pytest.raises(Refused) as refused:
                command()
            assert refused.value.status == REQUIRED
        for wrong in (secret(1, bytes(32)), secret(0, bytes(range(32)))):
            with pytest.raises(Failure, match=str(FAILED)):
                authenticate(admin, wrong)
        # A value that makes the session key known.
        for value in (0, 1, prime(2048) - 1):
            with pytest.raises(Failure, match="6"):
                authenticate(admin, HOST_SECRET, public=value.to_bytes(256, "big"))
        with pytest.raises(Failure, match="4"):
            authenticate(admin, HOST_SECRET, hashes=(9,))
        with pytest.raises(Failure, match="5"):
            authenticate(admin, HOST_SECRET, groups=(9,))
        with pytest.raises(Refused):
            admin.identify(1)
        authenticate(admin, HOST_SECRET)
        admin.set(CC, ENABLED)
        # What goes wrong later shuts it again.
        with pytest.raises(Failure):
            authenticate(admin, secret(1, bytes(32)))
        with pytest.raises(Refused):
            admin.identify(1)


def test_discovery_is_open(address: tuple[str, int]) -> None:
    with Queue(address) as discovery:
        assert not discovery.connect("nqn.2014-08.org.nvmexpress.discovery") & WANTS_IT


@pytest.mark.parametrize(
    ("text", "why"),
    [("hello", "it does not begin with"), (HOST_SECRET.replace("A", "B", 1), "checksum")],
)
def test_what_is_no_secret_is_refused_without_repeating_it(
    tmp_path: Path, text: str, why: str
) -> None:
    (tmp_path / "secret").write_text(text)
    words = ("serve", DRIVE, "--nvme-tcp", "127.0.0.1:0", "--dhchap-secret", "secret")
    done = subprocess.run(
        [*PROGRAM, *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-2].startswith("error: --dhchap-secret secret: ")
    assert why in done.stderr and text not in done.stderr and "hint: " in done.stderr
