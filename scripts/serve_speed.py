#!/usr/bin/env python3
"""Measures `drivebay serve`: against nbdkit, NVMe/TCP against NBD, and against its own model.

usage: PYTHONPATH=python .venv/bin/python scripts/serve_speed.py
       [--seconds 4] [--rounds 5] [--only PART]

Parts: nbdkit, tcp, latency, steady, scaled. Compared sides run in turns, so that other load on the
machine affects both; the figures are medians of rounds, and their ratio means more than they do.
Needs fio with its nbd engine; nbdkit and cargo for their parts. This is not a test: numbers depend
on the machine.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket as socket_
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).resolve().parent.parent
DRIVE = "sm951-ahci-512"
PROGRAM = (sys.executable, "-c", "from drivebay.cli import main; main()")
START_S = 120
STEADY_S = 2000  # of random writes before the steady rate is read, as in the consistency test


@contextlib.contextmanager
def running(command: list[str], socket: Path) -> Iterator[subprocess.Popen[str]]:
    """Runs a server; the block begins when its socket exists."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            end = time.monotonic() + START_S
            while not socket.exists():
                if process.poll() is not None or time.monotonic() > end:
                    sys.exit(f"error: {command[0]} does not serve\nhint: {' '.join(command)}")
                time.sleep(0.02)
            yield process
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
            socket.unlink(missing_ok=True)


def status(control: Path) -> dict[str, Any]:
    """Figures of a server so far."""
    with socket_.socket(socket_.AF_UNIX) as talk:
        talk.connect(str(control))
        talk.sendall(b"status\n")
        figures: dict[str, Any] = json.loads(talk.makefile().readline())
    return figures


def serve(socket: Path, *options: str) -> list[str]:
    """Command that serves the drive at a socket."""
    return [*PROGRAM, "serve", DRIVE, "--json", "--nbd", f"unix:{socket}", *options]


def fio(
    socket: Path, seconds: float, depth: int, pattern: str, *more: str, block: str = "4k"
) -> dict[str, float]:
    """Rate and latencies at a queue depth."""
    done = subprocess.run(
        [
            *("fio", "--name=x", "--ioengine=nbd", f"--uri=nbd+unix:///?socket={socket}"),
            *(f"--bs={block}", f"--rw={pattern}", f"--iodepth={depth}", "--time_based"),
            *(f"--runtime={seconds}", "--norandommap", "--randrepeat=0", "--output-format=json"),
            *(more or ("--size=1g",)),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    side: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0][
        "read" if "read" in pattern else "write"
    ]
    clat = side["clat_ns"]
    return {
        "iops": side["iops"],
        "ios": side["total_ios"],
        "us_mean": clat["mean"] / 1e3,
        "us_p99": clat["percentile"]["99.000000"] / 1e3,
        "us_p999": clat["percentile"]["99.900000"] / 1e3,
    }


def spent_us(process: subprocess.Popen[str]) -> float:
    """Processor time of all threads of a server so far."""
    # After the name, which may contain spaces: user and system time are fields 14 and 15 of
    # proc(5).
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1e6 / os.sysconf("SC_CLK_TCK")


def beside_nbdkit(folder: Path, seconds: float, rounds: int) -> None:
    """Compares reads and writes in memory that holds data, without the model's time."""
    ours, theirs = folder / "ours.sock", folder / "nbdkit.sock"
    nbdkit = ["nbdkit", "-f", "-U", str(theirs), "memory", "1G"]
    with running(serve(ours, "--pace", "none"), ours) as our, running(nbdkit, theirs) as their:
        for socket in (ours, theirs):
            fio(socket, START_S, 8, "write", "--size=1g", "--time_based=0", block="1m")
        for pattern in ("randread", "randwrite"):
            for block, depth in (("4k", 1), ("4k", 32), ("128k", 8), ("128k", 32)):
                figures: dict[Path, list[dict[str, float]]] = {ours: [], theirs: []}
                for turn in range(rounds):
                    # The order alternates too.
                    both = ((ours, our), (theirs, their))
                    for socket, server in both if turn % 2 else both[::-1]:
                        before = spent_us(server)
                        measured = fio(socket, seconds, depth, pattern, block=block)
                        measured["us_cpu"] = (spent_us(server) - before) / measured["ios"]
                        figures[socket].append(measured)
                mid = {
                    (socket, key): statistics.median(measured[key] for measured in figures[socket])
                    for socket in figures
                    for key in ("iops", "us_p999", "us_cpu")
                }
                ratio = statistics.median(
                    a["iops"] / b["iops"]
                    for a, b in zip(figures[ours], figures[theirs], strict=True)
                )
                print(
                    f"{pattern} {block} QD{depth}: drivebay {mid[ours, 'iops'] / 1e3:.1f} K/s, "
                    f"p99.9 {mid[ours, 'us_p999']:.0f} us, {mid[ours, 'us_cpu']:.1f} us CPU each; "
                    f"nbdkit {mid[theirs, 'iops'] / 1e3:.1f} K/s, {mid[theirs, 'us_p999']:.0f} us, "
                    f"{mid[theirs, 'us_cpu']:.1f} us; ratio {ratio:.2f}",
                    flush=True,
                )


def tcp_beside_nbd() -> None:
    """Compares both over loopback, with one client written for both."""
    subprocess.run(
        [
            "cargo",
            "run",
            "-q",
            "--release",
            "-p",
            "drivebay-serve",
            "--example",
            "nvme_against_nbd",
        ],
        cwd=ROOT,
        check=True,
    )


def latency(folder: Path, seconds: float) -> None:
    """Lateness of the server, by its own clock, for single reads from flash."""
    socket, state, control = (folder / name for name in ("paced.sock", "state", "control"))
    with running(serve(socket, "--pace", "none", "--state", str(state)), socket) as process:
        fio(socket, 5, 32, "write", "--size=64m")
        # An orderly end, so that the state is saved.
        process.send_signal(signal.SIGTERM)
        process.communicate()
    for pace in ("hybrid", "spin", "sleep"):
        options = ("--pace", pace, "--state", str(state), "--control", f"unix:{control}")
        with running(serve(socket, *options), socket) as process:
            seen = fio(socket, seconds, 1, "randread", "--size=64m")
            late = status(control)["lateness"]
            process.kill()
        control.unlink()
        print(
            f"QD1 reads, pace {pace}: late at the server p50 {late['us_p50']:.1f} us, p99 "
            f"{late['us_p99']:.1f} us, p99.9 {late['us_p999']:.1f} us, not in time "
            f"{late['late']} of {late['answers']}; fio's mean {seen['us_mean']:.1f} us",
            flush=True,
        )


def steady(folder: Path, seconds: float) -> None:
    """The consistency test's steady rate: virtual, and served to fio from the same state."""
    from drivebay import _core
    from drivebay.definitions import profiles as catalog

    profile = catalog.load(DRIVE)
    drive = _core.VirtualDrive(profile.core, 1)

    def load(
        pattern: Literal["random", "sequential"], block: int, seed: int, **end: Any
    ) -> _core.RunResult:
        span = drive.capacity_bytes // block * block
        work = _core.Workload(
            pattern=pattern,
            read_percent=0,
            block_bytes=block,
            queue_depth=32,
            span_start_bytes=0,
            span_bytes=span,
            stop=end,
        )
        return drive.run(work, seed)

    load("sequential", 131072, 1, bytes=drive.capacity_bytes // 131072 * 131072)
    load("random", 4096, 2, duration_s=STEADY_S)
    state, socket, control = (folder / name for name in ("steady.state", "steady.sock", "control"))
    drive.save(state)
    virtual = float(load("random", 4096, 3, duration_s=seconds).writes.mean())
    whole = f"--size={drive.capacity_bytes // 4096 * 4096}"
    options = ("--state", str(state), "--memory", "8GiB", "--control", f"unix:{control}")
    with running(serve(socket, *options), socket) as process:
        served = fio(socket, seconds, 32, "randwrite", whole)["iops"]
        late = status(control)["lateness"]
        # It would save its state, which takes longer than all before.
        process.kill()
    print(
        f"4 KiB random writes at QD32, steady: virtual {virtual:.0f}/s, served {served:.0f}/s, "
        f"{100 * (served / virtual - 1):+.1f} %; late p99 {late['us_p99']:.0f} us",
        flush=True,
    )


def scaled(folder: Path, seconds: float, rounds: int) -> None:
    """Compares a drive served at a twentieth of its speed with a virtual one, from one state: a
    filled drive.
    """
    import drivebay

    gib, slower = 2**30, 20
    state, socket, control = (folder / name for name in ("filled.state", "sl.sock", "sl.control"))
    device = drivebay.drive(DRIVE).device()
    device.fill()
    device.rest(1800)
    device.save(state)
    for pattern, reads in (("randread", 100), ("randwrite", 0)):
        for depth in (1, 4, 32):
            work = drivebay.Workload(
                read_percent=reads, queue_depth=depth, span_bytes=gib, duration_s=seconds / slower
            )
            virtual = device.copy().run(work)
            latency = virtual.latency
            expected = {"us_mean": latency.mean_us, "us_p99": latency.percentile_us(99)}
            ratios: dict[str, list[float]] = {"iops": [], "us_mean": [], "us_p99": [], "late": []}
            for _ in range(rounds):
                options = ("--state", str(state), "--time-scale", f"1/{slower}", "--memory", "2GiB")
                with running(
                    serve(socket, *options, "--control", f"unix:{control}"), socket
                ) as process:
                    seen = fio(socket, seconds, depth, pattern)
                    late = status(control)["lateness"]
                    process.kill()
                control.unlink()
                ratios["iops"].append(seen["iops"] * slower / virtual.iops)
                ratios["late"].append(late["us_p99"])
                for key, value in expected.items():
                    ratios[key].append(seen[key] / slower / value)
            mid = {key: statistics.median(values) for key, values in ratios.items()}
            print(
                f"{pattern} QD{depth}, time scale 1/{slower}: rate {mid['iops']:.3f}, mean latency "
                f"{mid['us_mean']:.3f}, p99 {mid['us_p99']:.3f} of the virtual drive's "
                f"({virtual.iops:.0f}/s, {expected['us_mean']:.1f} us, "
                f"{expected['us_p99']:.1f} us); late p99 {mid['late']:.0f} us",
                flush=True,
            )


def main() -> None:
    """Runs all parts, or one."""
    parser = argparse.ArgumentParser(description="How fast drivebay serve is here.")
    parser.add_argument("--seconds", type=float, default=4, help="of one measurement")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each comparison")
    parser.add_argument("--only", choices=("nbdkit", "tcp", "latency", "steady", "scaled"))
    asked = parser.parse_args()
    if shutil.which("fio") is None or (asked.only == "nbdkit" and shutil.which("nbdkit") is None):
        sys.exit("error: fio or nbdkit is missing\nhint: sudo apt-get install fio nbdkit")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if asked.only in (None, "nbdkit"):
            if shutil.which("nbdkit") is None:
                print("nbdkit: skipped, it is not installed")
            else:
                beside_nbdkit(folder, asked.seconds, asked.rounds)
        if asked.only in (None, "tcp"):
            tcp_beside_nbd()
        if asked.only in (None, "latency"):
            latency(folder, 2 * asked.seconds)
        if asked.only in (None, "steady"):
            steady(folder, 8 * asked.seconds)
        if asked.only in (None, "scaled"):
            scaled(folder, 2 * asked.seconds, asked.rounds)


if __name__ == "__main__":
    main()
