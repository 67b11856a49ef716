#!/usr/bin/env python3
"""Compares a served drive with the library's closed loop, by queue depth.

usage: PYTHONPATH=python .venv/bin/python scripts/serve_depth.py [--drives NAMES] [--depths 1,4,8]
       [--scales 1/20,1/100,none] [--clients 1,4] [--loads read,write,mix] [--transports nbd,tcp]
       [--seconds 3]

Each row is a client of this script that keeps `depth` 4 KiB requests in flight, spread over its
connections, beside the same load of the library from the same state: rate by the drive's clock,
and latencies that the client sees, in the drive's time. The library runs with five seeds, as mixes
depend on them. Without pace the client's latencies have no meaning and are left out. This is not a
test: with a pace, figures depend on the machine.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import selectors
import socket as socket_
import struct
import subprocess
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import drivebay

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "interop"))
from nvme_tcp_host import ENABLED, Queue

PROGRAM = (sys.executable, "-c", "from drivebay.cli import main; main()")
NQN = "nqn.2026-11.localhost:depth"
CAPACITY = 16e9
BLOCK = 4096
READS = {"read": 100, "write": 0, "mix": 70}
MOST = 40_000
"""Requests of a row."""
STEADY = 400_000
"""Requests before the first row of a load: the rate of a mix falls for so long."""
SEEDS = range(1, 6)
"""Seeds of the library's runs; the one with the median rate is compared."""
WARM_UP = 0.2
"""Part of the requests before the measurement."""


def ask(control: Path, command: str) -> dict[str, Any]:
    """Answer of the server's control socket."""
    with socket_.socket(socket_.AF_UNIX) as talk:
        talk.connect(str(control))
        talk.sendall(command.encode() + b"\n")
        answer: dict[str, Any] = json.loads(talk.makefile().readline())
    return answer


class Nbd:
    """A connection by NBD; commands carry a tag."""

    def __init__(self, address: Path) -> None:
        self.socket = socket_.socket(socket_.AF_UNIX)
        self.socket.connect(str(address))
        self._take(18)
        self.socket.sendall(struct.pack(">I8sIIIH", 3, b"IHAVEOPT", 7, 6, 0, 0))
        kind = 0
        while kind != 1:
            _, _, kind, length = struct.unpack(">QIII", self._take(20))
            self._take(length)
        self.received = bytearray()
        self.reads: dict[int, bool] = {}

    def _take(self, count: int) -> bytes:
        taken = self.socket.recv(count, socket_.MSG_WAITALL)
        assert len(taken) == count
        return taken

    def submit(self, tag: int, offset: int, is_read: bool) -> None:
        """Sends a command."""
        self.reads[tag] = is_read
        head = struct.pack(">IHHQQI", 0x25609513, 0, 0 if is_read else 1, tag, offset, BLOCK)
        self.socket.sendall(head if is_read else head + bytes(BLOCK))

    def completed(self) -> list[int]:
        """Tags of the commands that have completed."""
        self.received += self.socket.recv(1 << 20)
        tags, at = [], 0
        while len(self.received) - at >= 16:
            _, error, tag = struct.unpack_from(">IIQ", self.received, at)
            length = 16 + BLOCK * self.reads[tag]
            if len(self.received) - at < length:
                break
            assert error == 0
            tags.append(tag)
            at += length
        del self.received[:at]
        return tags


class Tcp:
    """A connection by NVMe/TCP: an I/O queue."""

    def __init__(self, controller: int, address: tuple[str, int], number: int) -> None:
        queue = Queue(address)
        queue.connect(NQN, queue=number, controller=controller, entries=256)
        self.socket = queue.socket
        # A client without Nagle's algorithm, as Linux's driver is.
        self.socket.setsockopt(socket_.IPPROTO_TCP, socket_.TCP_NODELAY, 1)
        self.received = bytearray()

    def submit(self, tag: int, offset: int, is_read: bool) -> None:
        """Sends a command."""
        kind = 0x5A if is_read else 0x01
        command = struct.pack("<BBHI16xQI3xB", 2 if is_read else 1, 0x40, tag, 1, 0, BLOCK, kind)
        command += struct.pack("<QI12x", offset // 512, BLOCK // 512 - 1)
        data = b"" if is_read else bytes(BLOCK)
        at = 0 if is_read else 72
        self.socket.sendall(struct.pack("<BBBBI", 4, 0, 72, at, 72 + len(data)) + command + data)

    def completed(self) -> list[int]:
        """Tags of the commands that have completed."""
        self.received += self.socket.recv(1 << 20)
        tags, at = [], 0
        while len(self.received) - at >= 8:
            kind, flags, _, _, length = struct.unpack_from("<BBBBI", self.received, at)
            if len(self.received) - at < length:
                break
            if kind == 7 and flags & 8:
                tags.append(struct.unpack_from("<H", self.received, at + 8)[0])
            elif kind == 5:
                tag, status = struct.unpack_from("<HH", self.received, at + 20)
                assert status >> 1 == 0
                tags.append(tag)
            at += length
        del self.received[:at]
        return tags


def model_of(
    device: drivebay.Device, reads: int, depth: int, count: int, seed: int = 0
) -> drivebay.Result:
    """Result of the library for the same number of requests, measured after the same warm-up."""
    copy, warm = device.copy(), int(WARM_UP * count)
    for part, ios in enumerate((warm, count - warm)):
        work = drivebay.Workload(read_percent=reads, queue_depth=depth, ios=ios)
        result = copy.run(work, seed=2 * seed + part)
    return result


def measure(
    ends: list[Nbd] | list[Tcp], control: Path, depth: int, reads: int, size: int, count: int
) -> tuple[float, list[float]]:
    """Requests per second of the drive's clock, and latencies in seconds of the client's clock."""
    rng, watch = random.Random(1), selectors.DefaultSelector()
    sent, latencies = {}, []

    def submit(end: Nbd | Tcp, tag: int) -> None:
        sent[tag] = time.perf_counter()
        offset = rng.randrange(size // BLOCK) * BLOCK
        end.submit(tag, offset, rng.random() * 100 < reads)

    for end in ends:
        watch.register(end.socket, selectors.EVENT_READ, end)
    for tag in range(depth):
        submit(ends[tag % len(ends)], tag)
    done, begun = 0, 0.0
    while done < count:
        for key, _ in watch.select(0):  # polls: a client that sleeps wakes up late
            for tag in key.data.completed():
                now = time.perf_counter()
                done += 1
                if done == int(WARM_UP * count):
                    begun = ask(control, "now")["drive_s"]
                if done > WARM_UP * count:
                    latencies.append(now - sent[tag])
                submit(key.data, tag)
    span = ask(control, "now")["drive_s"] - begun
    return (count - int(WARM_UP * count)) / span, latencies


def served(
    name: str,
    state: Path,
    folder: Path,
    row: tuple[str, str, int, int, int],
    count: int,
    size: int,
) -> tuple[float, float | None, float | None, dict[str, Any]]:
    """Rate, p50 and p99 in microseconds of the drive's time, and the server's own judgement."""
    transport, scale, clients, depth, reads = row
    control, unix = folder / "control", folder / "nbd"
    with socket_.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    pace = ["--pace", "none"] if scale == "none" else ["--time-scale", scale]
    where = (
        ["--nbd", f"unix:{unix}"]
        if transport == "nbd"
        else ["--nvme-tcp", f"127.0.0.1:{port}", "--nqn", NQN]
    )
    command = [*PROGRAM, "serve", name, "--capacity", str(size), "--state", str(state)]
    command += [*where, "--control", f"unix:{control}", *pace]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            while not control.exists() or (transport == "nbd" and not unix.exists()):
                if process.poll() is not None:
                    sys.exit(f"error: the server ended\nhint: {' '.join(command)}")
                time.sleep(0.05)
            ends: list[Nbd] | list[Tcp]
            if transport == "nbd":
                ends = [Nbd(unix) for _ in range(clients)]
            else:
                address = ("127.0.0.1", port)
                admin = Queue(address)
                controller = admin.connect(NQN) & 0xFFFF
                admin.set(0x14, ENABLED)
                ends = [Tcp(controller, address, 1 + i) for i in range(clients)]
            ratio = 1.0 if scale == "none" else float(Fraction(scale))
            rate, latencies = measure(ends, control, depth, reads, size, count)
            late = ask(control, "status")["lateness"]
        finally:
            process.kill()
    control.unlink()
    if scale == "none":
        return rate, None, None, late
    latencies.sort()
    at = [latencies[int(len(latencies) * share)] * ratio * 1e6 for share in (0.5, 0.99)]
    return rate, at[0], at[1], late


def main() -> None:
    """Prints a row for each combination."""
    parser = argparse.ArgumentParser(description=__doc__)
    for option, default in (
        ("drives", "sm951-nvme-512,980-pro-1tb,pm9a3-960"),
        ("depths", "1,4,8,32,128"),
        ("scales", "1/20,1/100,none"),
        ("clients", "1,4"),
        ("loads", "read,write,mix"),
        ("transports", "nbd,tcp"),
    ):
        parser.add_argument(f"--{option}", default=default)
    parser.add_argument("--seconds", type=float, default=3, help="length of a row")
    asked = parser.parse_args()
    lists = {key: value.split(",") for key, value in vars(asked).items() if key != "seconds"}
    print(
        "drive | load | depth | clients | transport | scale | "
        "model IOPS (scatter by seed), p50, p99 | served: IOPS, p50, p99 | kept up"
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for drive in lists["drives"]:
            whole = drivebay.drive(drive)
            device = whole.scaled(
                min(1.0, 2.0 ** round(_log2(CAPACITY / whole.capacity_bytes)))
            ).device()
            size = device.capacity_bytes
            device.fill()
            if lists["loads"] != ["read"]:  # the sustained rate: bursts depend on the moment
                device.run(drivebay.Workload(read_percent=0, queue_depth=32, bytes=2 * size))
            state = folder / drive
            for load, depth in itertools.product(lists["loads"], map(int, lists["depths"])):
                if depth == int(lists["depths"][0]):  # the load's own steady state
                    device.run(drivebay.Workload(read_percent=READS[load], ios=STEADY))
                    device.save(state)
                rough = model_of(device, READS[load], depth, 20_000).iops
                for rest in itertools.product(
                    lists["clients"], lists["transports"], lists["scales"]
                ):
                    clients, transport, scale = int(rest[0]), rest[1], rest[2]
                    if clients > depth:
                        continue
                    row = (transport, scale, clients, depth, READS[load])
                    ratio = 1.0 if scale == "none" else float(Fraction(scale))
                    count = max(int(min(asked.seconds * rough * ratio, MOST)), 20 * depth, 400)
                    runs = [model_of(device, READS[load], depth, count, seed) for seed in SEEDS]
                    runs.sort(key=lambda run: run.iops)
                    model = runs[len(runs) // 2]
                    scatter = [100 * (runs[at].iops / model.iops - 1) for at in (0, -1)]
                    us = [model.latency.percentile_us(at) for at in (50, 99)]
                    rate, *seen, late = served(drive, state, folder, row, count, size)
                    off = [
                        "-" if a is None else f"{100 * (a / b - 1):+.1f} %"
                        for a, b in zip((rate, *seen), (model.iops, *us), strict=True)
                    ]
                    print(
                        f"{drive} | {load} | {depth} | {clients} | {transport} | {scale} | "
                        f"{model.iops:,.0f} ({scatter[0]:+.1f} to {scatter[1]:+.1f} %), "
                        f"{us[0]:.0f}, {us[1]:.0f} us | {', '.join(off)} | "
                        f"{late['kept_up_percent'] or 0:.1f} %, "
                        f"{late['kept_up_least_percent'] or 0:.1f} %",
                        flush=True,
                    )


def _log2(ratio: float) -> float:
    import math

    return math.log2(ratio)


if __name__ == "__main__":
    main()
