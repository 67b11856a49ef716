"""Measures how a sweep scales on this machine: python scripts/sweep_scaling.py [--runs 12]

Runs one sweep with one worker and with two, alternating, three times each, and prints the median
wall time of the runs (without the workers' start), the ratio, and processor time: that of the runs,
and that of the engine and Dask's scheduler in this process. Then it runs empty tasks, which show
the scheduler's cost of a run. Wall times need an otherwise idle machine; processor times hardly do.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from drivebay.lab.sweep import cluster, engine, plan, spec, work
from drivebay.lab.sweep.store import Store

TABLE: dict[str, Any] = {
    "name": "scaling",
    "drives": ["sm951-ahci-512"],
    "set": [
        "drive.capacity_sectors=56000000",
        "gc.idle.free_mb=1000",
        "nand.blocks_per_plane=64",
    ],
    "workload": {
        "pattern": "random",
        "read_percent": 0,
        "block_bytes": 4096,
        "queue_depth": 32,
        "duration_s": 120,
    },
}


class Silent:
    """A sink that records the earliest start of the first run."""

    began = 0.0

    def begin(self, runs: int, done: int, capacity: int) -> None:
        self.began = time.monotonic()

    def ended(self, index: int, error: str | None) -> None:
        assert error is None, error

    def warn(self, message: str) -> None:
        print(message)


def nothing(_plan: str, _url: str, index: int) -> work.Outcome:
    """A run that does nothing."""
    return {"index": index}


def measure(made: plan.Plan, jobs: int) -> tuple[float, float, float]:
    """Wall seconds, this process's processor seconds, the runs' processor seconds."""
    with tempfile.TemporaryDirectory() as folder:
        store, sink = Store(f"{folder}/sweep"), Silent()
        cpu = time.process_time()
        # Wall time ends with the last part, not with the end of the context, which stops workers.
        engine.run(made, store, sink, jobs=jobs)
        cpu = time.process_time() - cpu
        rows = [row for row, _ in store.rows(made.fingerprint)]
        newest = max(path.stat().st_mtime for path in Path(folder).glob("sweep/parts/*"))
        wall = newest - (time.time() - (time.monotonic() - sink.began))
        return wall, cpu, sum(row["cpu_s"] for row in rows)


def main() -> None:
    """Prints the measurements."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--tasks", type=int, default=2000)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    made = plan.make(spec.parse({**TABLE, "seeds": options.runs}, where="scaling"), where="scaling")
    measured: dict[int, list[tuple[float, float, float]]] = {1: [], 2: []}
    for _ in range(options.repeat):
        for jobs, kept in measured.items():
            kept.append(measure(made, jobs))
            wall, engine_cpu, runs_cpu = kept[-1]
            print(f"{jobs} workers: {wall:.2f} s, runs {runs_cpu:.2f} s of processor time, "
                  f"engine {engine_cpu:.2f} s", flush=True)  # fmt: skip
    single, double = (statistics.median(wall for wall, _, _ in measured[jobs]) for jobs in (1, 2))
    ratio = single / double
    print(f"median {single:.2f} s with one worker, {double:.2f} s with two: {ratio:.2f} times")

    work.run = nothing
    Store.has_part = lambda *_: True  # type: ignore[method-assign]
    many = plan.make(spec.parse({**TABLE, "seeds": options.tasks}, where="many"), where="many")
    with tempfile.TemporaryDirectory() as folder:
        sink = Silent()
        cpu = time.process_time()
        with cluster.opened(None, 2) as here:
            dispatcher = engine._Dispatcher(many, Store(folder), sink, here, 0)
            begun = time.monotonic()
            dispatcher.work(iter(range(many.runs)), threading.Event())
            wall, cpu = time.monotonic() - begun, time.process_time() - cpu
    print(f"{options.tasks} runs that do nothing: {1e3 * wall / options.tasks:.2f} ms each, "
          f"{1e3 * cpu / options.tasks:.2f} ms of this process's processor time")  # fmt: skip


if __name__ == "__main__":
    main()
