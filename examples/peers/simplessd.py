"""The same drive and loads in SimpleSSD and in drivebay: speed and latency of reads.

    .venv/bin/python examples/peers/simplessd.py simplessd-standalone [--requests 200000]

The program is that of SimpleSSD-Standalone 2.0 (https://github.com/SimpleSSD/SimpleSSD-Standalone),
built as its own documents say. The script writes its two files for the drive of drive.toml into a
folder that it deletes afterwards, runs both programs on one core, one after the other, and prints
one table. Speed is I/Os per second of processor time; what SimpleSSD needs to start and to fill the
drive is taken off by a run of few requests.

What has to be set: no host interface and controller cores of 1 THz, so that the flash alone takes
time, as in drive.toml; no caches; no multi-plane operations, so that a page of the map is a page of
the flash.

Reads alone. Steady random writes came to no figures in SimpleSSD; docs/concepts/peers.md says what
was seen.
"""

from __future__ import annotations

import argparse
import functools
import math
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from loads import DRIVE, HEAD, LOADS, Load, Outcome, children_cpu_s, compare

import drivebay

READS = tuple(load for load in LOADS if load.read_percent == 100)


def settings(sections: dict[str, dict[str, object]]) -> str:
    """A file of SimpleSSD."""
    return "".join(
        f"[{name}]\n" + "".join(f"{key} = {value}\n" for key, value in section.items())
        for name, section in sections.items()
    )


def device(drive: drivebay.Drive, load: Load) -> str:
    """SimpleSSD's device file. What is not named has its default."""
    nand = {key: drive.value(f"nand.{key}") for key in drive.raw["nand"]}
    blocks = math.prod(
        nand[key] for key in ("channels", "dies_per_channel", "planes", "blocks_per_plane")
    )
    flash_bytes = blocks * nand["pages_per_block"] * nand["page_kib"] * 1024
    return settings({
        "cpu": {"ClockSpeed": 10**12, "HILCoreCount": 0, "ICLCoreCount": 0, "FTLCoreCount": 0},
        "pal": {
            "Channel": nand["channels"],
            "Package": nand["dies_per_channel"],
            "Die": 1,
            "Plane": nand["planes"],
            "Block": nand["blocks_per_plane"],
            "Page": nand["pages_per_block"],
            "PageSize": nand["page_kib"] * 1024,
            "EnableMultiPlaneOperation": 0,
            "NANDType": 0,
            "LSBRead": int(nand["read_us"] * 10**6),
            "LSBWrite": int(nand["program_us"][0] * 10**6),
            "Erase": int(nand["erase_us"] * 10**6),
            "DMASpeed": int(nand["channel_mb_per_s"]),
            "DMAWidth": 8,
            "SuperblockSize": "",
            "PageAllocation": "CWDP",
        },
        "ftl": {
            "MappingMode": 0,
            "OverProvisioningRatio": round(1 - drive.capacity_bytes / flash_bytes, 6),
            "EraseThreshold": 100_000,
            "FillingMode": 0,
            "FillRatio": load.written,
            "InvalidPageRatio": 0,
            "EvictPolicy": 0,
            "EnableRandomIOTweak": 1,
        },
        "icl": {"EnableReadCache": 0, "EnableReadPrefetch": 0, "EnableWriteCache": 0},
    })  # fmt: skip


def simulation(load: Load, span: int, requests: int) -> str:
    """SimpleSSD's file for a load on the first `span` bytes."""
    return settings({
        "global": {
            "Mode": 0,
            "LogPeriod": 0,
            "LogFile": "STDOUT",
            "DebugLogFile": "",
            "Interface": 0,
            "Scheduler": 0,
            "SubmissionLatency": 0,
            "CompletionLatency": 0,
        },
        "generator": {
            "io_size": requests * load.block_bytes,
            "readwrite": "randread",
            "blocksize": load.block_bytes,
            "iomode": "async",
            "iodepth": load.queue_depth,
            "size": span,
            "randseed": 1,
        },
    })  # fmt: skip


def by_simplessd(program: Path, drive: drivebay.Drive, load: Load, requests: int) -> Outcome:
    """Runs SimpleSSD on a load."""
    span = int(drive.capacity_bytes * load.written) // load.block_bytes * load.block_bytes
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder, "simulation.cfg"), Path(folder, "device.cfg")
        files[0].write_text(simulation(load, span, requests))
        files[1].write_text(device(drive, load))
        before = children_cpu_s()
        command = [str(program.resolve()), *map(str, files), folder]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    used = children_cpu_s() - before
    iops = requests / took_s(text)
    return Outcome(iops, load.queue_depth * 1e6 / iops, 0.0, used)


def took_s(text: str) -> float:
    """Seconds of the drive's time, as it prints them at the end of a run."""
    found = re.search(r"^Time \(ps\): \d+ - \d+ \((\d+)\)$", text, re.M)
    if found is None:
        raise ValueError("SimpleSSD printed no time: is it version 2.0?")
    return int(found[1]) / 1e12


def main() -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("program", type=Path, metavar="SIMPLESSD", help="simplessd-standalone")
    parser.add_argument("--requests", type=int, default=200_000)
    asked = parser.parse_args()
    if not asked.program.is_file():
        hint = "build SimpleSSD-Standalone as its documents say"
        print(f"error: no program {asked.program}\nhint: {hint}", file=sys.stderr)
        return 2
    drive = drivebay.drive(DRIVE)
    print(HEAD)
    for load in READS:
        run = functools.partial(by_simplessd, asked.program, drive, load)
        compare(load, drive, "SimpleSSD", run, asked.requests)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
