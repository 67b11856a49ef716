"""What the scripts of this folder share: drive, loads, drivebay's side, rows of the table."""

from __future__ import annotations

import math
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from scipy.special import lambertw

import drivebay
from drivebay import Workload

DRIVE = Path(__file__).with_name("drive.toml")
PAGE = 4096
FEW = 1000
HEAD = """\
| load | | I/Os per CPU-second | IOPS | mean latency, us | write amplification |
|---|---|---|---|---|---|"""


@dataclass(frozen=True)
class Load:
    """A closed loop: name, share of reads, requests outstanding, random or sequential, size."""

    name: str
    read_percent: int
    queue_depth: int
    pattern: Literal["random", "sequential"] = "random"
    block_bytes: int = PAGE
    written: float = 0.9
    """Share of the drive that holds data."""

    @property
    def is_prepared(self) -> bool:
        """Whether the state of the flash matters, so that MQSim has to compute a steady one."""
        return self.written > 0 and self.read_percent < 100


LOADS = (
    Load("4 KiB random reads, QD1", 100, 1),
    Load("4 KiB random reads, QD32", 100, 32),
    Load("4 KiB random writes, QD32", 0, 32),
    Load("128 KiB sequential writes, QD4", 0, 4, "sequential", 32 * PAGE, written=0),
)


@dataclass(frozen=True)
class Outcome:
    """I/Os per second of the drive's time, mean latency, write amplification, processor seconds."""

    iops: float
    latency_us: float
    waf: float
    cpu_s: float


def by_drivebay(drive: drivebay.Drive, load: Load, requests: int) -> Outcome:
    """Runs the same load here."""
    device = drive.device(seed=1)
    span = int(drive.capacity_bytes * (load.written or 1)) // load.block_bytes * load.block_bytes
    if load.written:
        device.run(
            Workload(pattern="sequential", block_bytes=32 * PAGE, span_bytes=span, bytes=span)
        )
    if load.read_percent < 100 and load.written:
        device.run(Workload(bytes=3 * span, span_bytes=span, queue_depth=32))
    ask = Workload(
        pattern=load.pattern,
        read_percent=load.read_percent,
        queue_depth=load.queue_depth,
        block_bytes=load.block_bytes,
        span_bytes=span,
        bytes=requests * load.block_bytes,
    )
    began = time.process_time()
    result = device.run(ask)
    used = time.process_time() - began
    return Outcome(result.iops, result.latency.mean_us, result.waf, used)


def compare(
    load: Load, drive: drivebay.Drive, name: str, run: Callable[[int], Outcome], requests: int
) -> None:
    """Prints a line of the other simulator, whose `run` takes a number of requests, and ours."""
    few, theirs = run(FEW), run(requests)
    speed = (requests - FEW) / max(theirs.cpu_s - few.cpu_s, 1e-3)
    row(load.name, name, speed, theirs)
    # As many as take some seconds: the processor's clock is too coarse for fewer.
    ours = by_drivebay(drive, load, 10 * requests)
    row(load.name, "drivebay", 10 * requests / ours.cpu_s, ours)


def children_cpu_s() -> float:
    """Processor seconds of the programs that were run and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def greedy(alpha: float, pages: int) -> float:
    """Write amplification with alpha times as much flash as data, in blocks of so many pages."""
    k = (1 + 1 / (2 * pages)) * alpha
    return float(pages / (pages + 0.5 + pages / alpha * lambertw(-k * math.exp(-k)).real))


def row(load: str, name: str, speed: float, found: Outcome) -> None:
    """Prints a line of the table."""
    waf = f"{found.waf:.2f}" if found.waf > 0 else ""
    print(
        f"| {load} | {name} | {speed:,.0f} | {found.iops:,.0f} | {found.latency_us:.1f} | {waf} |",
        flush=True,
    )
