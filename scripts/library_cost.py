"""Measures the Python library's overhead: ten million I/Os from Python and from Rust.

    cargo build --release -p drivebay-run --example one_load
    .venv/bin/python scripts/library_cost.py

Both run in turn, five times, in processor time; the smallest of each is compared. The Python side
does what a user does: the run, the per-second series, the merged histogram. The core under Python
must be built like the example (same profile, same flags). Memory that is used for the first time
costs the same on both sides: the drive is filled before.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import drivebay
from drivebay import Workload

IOS = 10_000_000
TURNS = 5
EXAMPLE = Path(__file__).resolve().parent.parent / "target/release/examples/one_load"


def from_rust(drive: drivebay.Drive, load: Workload, folder: Path) -> float:
    """Processor seconds of the run alone."""
    (folder / "profile.json").write_text(drive.json())
    command = [str(EXAMPLE), str(folder / "profile.json"), str(load.read_percent), str(IOS)]
    ios, ns = subprocess.check_output(command, text=True).split()
    assert int(ios) == IOS, ios
    return int(ns) / 1e9


def from_python(drive: drivebay.Drive, load: Workload) -> float:
    """Processor seconds of the run and of reading all its results."""
    device = drive.device()
    device.fill()
    begin = time.process_time()
    result = device.run(load, seed=1)
    shown = (result.series, result.latency.percentile_us(99), result.stages_us)
    seconds = time.process_time() - begin
    assert result.ios == IOS and len(shown) == 3
    return seconds


def main() -> int:
    """Prints a line for each load."""
    drive = drivebay.drive("sm951-ahci-512").scaled(1 / 32)
    for load in (Workload(read_percent=100, ios=IOS), Workload(ios=IOS)):
        rust, python = [], []
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(TURNS):
                rust.append(from_rust(drive, load, Path(folder)))
                python.append(from_python(drive, load))
        ratio = min(python) / min(rust)
        print(f"{load.words()}: Rust {min(rust):.3f} s, Python {min(python):.3f} s, {ratio:.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
