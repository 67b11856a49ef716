#!/usr/bin/env python3
"""Measures the harness's overhead: the same fio job by hand, and its replay against io_uring.

usage: PYTHONPATH=python .venv/bin/python scripts/harness_speed.py
       [--folder DIR] [--rounds 7] [--seconds 5] [--only WORDS]

Both sides of each row run in turns on the same file, so that other load on the machine affects
both. The ratio is that of the medians, the harness over plain fio: 0.98 to 1.02 is the goal, for
replay at least 0.95. The load of the machine is printed too: above 0.5 the ratios mean little.
Needs fio; takes a file of 1 GiB in DIR (default: the folder for temporary files). This is not a
test.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from drivebay.definitions.suites import Phase, Test, Workload
from drivebay.targets.base import Progress
from drivebay.targets.fio.job import TARGET_VARIABLE
from drivebay.targets.fio.target import FioTarget
from drivebay.targets.replay.run import RealReplay, ReplayOptions, TraceSource
from drivebay.targets.safety import target_device
from drivebay.targets.safety.target_device import OverwritePermission

GIB = 2**30
LOADS = {
    "random read 4 KiB, QD 1": ("random", 100, 4096, 1),
    "random read 4 KiB, QD 32": ("random", 100, 4096, 32),
    "random write 4 KiB, QD 32": ("random", 0, 4096, 32),
    "sequential read 128 KiB, QD 32": ("sequential", 100, 131072, 32),
}


def a_test(name: str, seconds: float) -> Test:
    pattern, read_percent, block_bytes, depth = LOADS[name]
    work = Workload.model_validate(
        {
            "pattern": pattern,
            "read_percent": read_percent,
            "block_bytes": block_bytes,
            "queue_depth": depth,
            "duration_s": seconds,
        }
    )
    return Test(
        id="one",
        title=name,
        page="one",
        kind="loads",
        method="one load",
        source="this script",
        phases=(Phase(label="run", workload=work),),
    )


def by_harness(file: Path, test: Test, kept: dict[str, str]) -> float:
    """I/Os per second measured by a review; its fio job file is stored in `kept`."""
    with contextlib.closing(FioTarget(file, destroy_data=file.name)) as target:
        target.check((test,))
        result = target.run_test(test, seed=1, progress=Progress())[0]
    jobs = [name for name in result.artefacts if name.endswith(".fio")]
    kept["job"] = result.artefacts[jobs[-1]].decode()
    return (result.reads + result.writes) / result.duration_s


def by_fio(file: Path, job: str) -> float:
    """I/Os per second of the job file, run directly by fio."""
    command = ["fio", "--output-format=json", "-"]
    environment = {**os.environ, TARGET_VARIABLE: str(file)}
    done = subprocess.run(
        command, input=job, env=environment, capture_output=True, text=True, check=True
    )
    job_figures = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]
    sides = [job_figures[side] for side in ("read", "write")]
    return sum(side["total_ios"] for side in sides) / max(side["runtime"] for side in sides) * 1000


def by_replay(file: Path, trace: Path, depth: int) -> float:
    """Requests per second of a trace whose requests are all due at once."""
    options = ReplayOptions(depth=depth, only_reads=True)
    run = RealReplay(TraceSource.file(trace, None), options, str(file), permission=NOTHING)
    run.check()
    figures = run.play().figures
    return float(figures["reads"] / figures["wall_s"])


NOTHING = OverwritePermission()


def by_io_uring(file: Path, depth: int, count: int) -> float:
    """Requests per second of as many 4 KiB random reads by fio's io_uring."""
    command = [
        *("fio", "--name=r", f"--filename={file}", "--rw=randread", "--bs=4k", "--direct=1"),
        *("--ioengine=io_uring", f"--iodepth={depth}", f"--number_ios={count}", "--thread=1"),
        "--output-format=json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    figures = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]["read"]
    return float(figures["total_ios"] / figures["runtime"] * 1000)


def a_trace(path: Path, count: int) -> None:
    """Writes a trace of 4 KiB reads at random places, all at the same time."""
    places = random.Random(1)
    with path.open("w") as file:
        file.write("at_ns,op,offset_bytes,bytes,device,response_ns\n")
        for _ in range(count):
            file.write(f"0,read,{places.randrange(GIB // 4096) * 4096},4096,0,\n")


def fill(file: Path) -> None:
    """Fills the file, because reads of unwritten blocks do not reach the drive."""
    command = ["fio", "--name=fill", f"--filename={file}", "--rw=write", "--bs=1M", f"--size={GIB}"]
    subprocess.run([*command, "--direct=1", "--end_fsync=1"], capture_output=True, check=True)


def compare(name: str, rounds: int, ours: Callable[[], float], theirs: Callable[[], float]) -> None:
    """Prints one row: medians of alternating runs, their ratio, and the load of the machine."""
    ours(), theirs()  # the first run of each meets a cold cache
    pairs = [(ours(), theirs()) for _ in range(rounds)]
    mine, plain = (statistics.median(side) for side in zip(*pairs, strict=True))
    spread = statistics.median(abs(ours_rate / other - mine / plain) for ours_rate, other in pairs)
    print(
        f"{name:34} {mine:10.0f} {plain:10.0f}  {mine / plain:6.3f} ±{spread:5.3f}"
        f"   {os.getloadavg()[0]:5.1f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", default=tempfile.gettempdir())
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--only", default="", help="rows whose name has these words")
    given = parser.parse_args()
    print(f"{'load':34} {'harness':>10} {'fio':>10}  {'ratio':>6}  {'':5}   {'load':>5}")
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        file, trace = Path(folder) / "disk.img", Path(folder) / "trace.csv"
        target_device.create(str(file), GIB)
        fill(file)
        for name in (name for name in LOADS if given.only in name):
            test, kept = a_test(name, given.seconds), dict[str, str]()
            compare(
                name,
                given.rounds,
                lambda test=test, kept=kept: by_harness(file, test, kept),
                lambda kept=kept: by_fio(file, kept["job"]),
            )
        count = 100_000
        a_trace(trace, count)
        for depth in (1, 32):
            name = f"replay: reads 4 KiB, QD {depth}"
            if given.only not in name:
                continue
            compare(
                name,
                given.rounds,
                lambda depth=depth: by_replay(file, trace, depth),
                lambda depth=depth: by_io_uring(file, depth, count),
            )


if __name__ == "__main__":
    main()
