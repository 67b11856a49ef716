"""Makes result folders with plausible, invented figures, so that reports are tested without runs.

The shapes follow the reviews (a burst, a steady state, a rate that falls under heat), the numbers
are made by formula and a fixed seed: nothing here says anything about a drive.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from drivebay import analysis, results
from drivebay.analysis import Review
from drivebay.analysis.measure import measure
from drivebay.definitions import suites
from drivebay.definitions.suites import Rounds, Suite, Test, Workload
from drivebay.results import Folder, Manifest, StepEntry
from drivebay.results.manifest import Tool
from drivebay.results.records import HISTOGRAM_SCHEMA, SERIES_SCHEMA, STAGES_SCHEMA, PhaseResult
from drivebay.targets.trim_verdict import Claims, Validation

COUNTS = ("reads", "writes", "read_bytes", "write_bytes")
Floats = npt.NDArray[np.float64]
STAGES = ("host", "link", "firmware", "buffer", "map", "die", "channel", "nand", "gc")

VIRTUAL: dict[str, Any] = {
    "kind": "virtual",
    "name": "sm951-ahci-512",
    "drive": "sm951-ahci-512",
    "title": "Samsung SM951 512 GB (AHCI)",
    "capacity_bytes": 512_110_190_592,
    "profile": {
        "name": {"value": "sm951-ahci-512", "source": "this catalog"},
        "capacity_bytes": {"value": 512_110_190_592, "source": "kernel log of an MZHPV512HDGL"},
        "link": {
            "generation": {"value": 3, "source": "AnandTech 8979"},
            "lanes": {"value": 4, "source": "AnandTech 8979"},
        },
        "nand": {
            "dies": {"value": 64, "source": "computed: 512 GB of 64 Gbit dies"},
            "read_ns": {"value": 58_500, "source": "guess: fitted to 108 MB/s, mean of QD1/2/4"},
        },
    },
}
REAL: dict[str, Any] = {
    "kind": "block",
    "name": "ACME <b>Bold</b> SSD",
    "drive": "/dev/nvme9n1",
    "model": "ACME <b>Bold</b> SSD",
    "serial": "S1<script>",
    "firmware": "1.0",
    "capacity_bytes": 256_060_514_304,
}


def make(
    path: Path,
    *,
    suite: str | Suite = "anandtech-2015",
    target: dict[str, Any] | None = None,
    quick: bool = False,
    only: tuple[str, ...] | None = None,
    failed: dict[str, str] | None = None,
    seed: int = 1,
    speed: float = 1.0,
    cut_s: float | None = None,
) -> Path:
    """A result folder at `path`.

    Parameters
    ----------
    only : ids of the tests that are done (all where None); the others stay pending.
    failed : test id to error, for tests that failed.
    speed : factor on every rate, to tell two results apart.
    cut_s : every phase ends after that long, as when a target stops early.
    """
    target = VIRTUAL if target is None else target
    what = suites.load(suite) if isinstance(suite, str) else suite
    what = what.shortened() if quick else what
    steps = tuple(StepEntry(id=test.id, title=test.title, seed=seed) for test in what.tests)
    manifest = Manifest(
        tool=Tool(version="0.2.0", git_commit=None),
        suite=what,
        quick=quick,
        seed=seed,
        target=target,
        host={"kernel": "Linux 6.1", "cpu_model": "a CPU", "cpu_count": 2},
        steps=steps,
    )
    with Folder.create(path, manifest) as folder:
        for number, test in enumerate(what.tests):
            if only is not None and test.id not in only:
                continue
            if failed and test.id in failed:
                folder.fail_step(test.id, failed[test.id])
                continue
            random = np.random.default_rng([seed, number])
            virtual = target["kind"] == "virtual"
            phases = _phases(test, random, speed, virtual=virtual)
            folder.write_step(test.id, [_cut(phase, cut_s) for phase in phases])
    return path


TRIM_WORKS = Validation(
    claims=Claims(True, "zeros", True, "DLFEAT"),
    offered=True,
    why_not="",
    blocks=3072,
    old_blocks=0,
    reads_after="zeros",
    deterministic=True,
    neighbours_intact=True,
)


def _cut(phase: PhaseResult, cut_s: float | None) -> PhaseResult:
    """The beginning of a phase; its last second is a partial one, none if nothing is left."""
    if cut_s is None or cut_s >= phase.duration_s:
        return phase
    series = phase.series.slice(0, math.ceil(cut_s))
    sums = {name: sum(series.column(name).to_pylist()) for name in COUNTS}
    histogram = phase.histogram if cut_s else phase.histogram.slice(0, 0)
    stages = phase.stages if cut_s or phase.stages is None else phase.stages.slice(0, 0)
    return replace(
        phase, duration_s=cut_s, series=series, histogram=histogram, stages=stages, **sums
    )


def _phases(
    test: Test, random: np.random.Generator, speed: float, *, virtual: bool
) -> list[PhaseResult]:
    heat = 25.0
    made = []
    for phase in test.phases:
        result, heat = _phase(test, phase.label, phase.workload, random, speed, heat, virtual)
        made.append(result)
    if test.kind == "trim-check":
        made[0] = replace(made[0], conditions={"trim": TRIM_WORKS.record()})
    return made


def _rates(test: Test, load: Workload, n: int, random: np.random.Generator) -> Floats:
    """Blocks per second for each second."""
    t = np.arange(n)
    if test.kind == "consistency":
        spare = load.span_percent < 100
        steady = np.where(t < 268, 10_900.0, 7_780.0) * (4.6 if spare else 1.0)
        burst = 100_000.0
        rates = np.where(t < (326 if spare else 12), burst, steady)
        return rates * (1 + random.normal(0, 0.006, n))
    depth = load.queue_depth
    if load.block_bytes == 4096 and load.read_percent == 100:
        top, one = 181_000.0, 11_400.0
    elif load.block_bytes == 4096:
        top, one = 100_000.0, 50_000.0
    elif load.read_percent == 100:
        top, one = 2_248e6 / load.block_bytes, 931e6 / 131_072
    else:
        top, one = 1_550e6 / load.block_bytes, 1_100e6 / 131_072
    rates = np.full(n, min(top, one * depth**0.93)) * (1 + random.normal(0, 0.002, n))
    if test.kind == "thermal":
        rates[113:] = 75e6 / 131_072
    return rates


def _phase(
    test: Test,
    label: str,
    load: Workload,
    random: np.random.Generator,
    speed: float,
    heat: float,
    virtual: bool,
) -> tuple[PhaseResult, float]:
    longest = {"thermal": 433, "trace": 600}.get(test.kind, 10**9)
    n = max(1, min(round(load.duration_s), longest))
    ios = np.rint(_rates(test, load, n, random) * speed).astype(np.int64)
    read = load.read_percent == 100
    power = 1.6 + ios * load.block_bytes * 3e-9
    temperature = np.empty(n)
    for second in range(n):
        heat += (power[second] - (heat - 25) / 10) / 8
        temperature[second] = heat
    mean = load.queue_depth / np.maximum(ios, 1) * 1e9
    none = [None] * n
    zero = np.zeros(n, dtype=np.int64)
    series = {
        "second": np.arange(n, dtype=np.int32),
        "reads": ios if read else zero,
        "writes": zero if read else ios,
        "read_bytes": ios * load.block_bytes if read else zero,
        "write_bytes": zero if read else ios * load.block_bytes,
        "latency_ns_mean": mean,
        "latency_ns_max": (mean * 3).astype(np.int64),
        "temperature_c": temperature if virtual else none,
        "power_w": power if virtual else none,
        "throttle_stage": (temperature > 57).astype(np.int32) if virtual else none,
    }
    total = int(ios.sum())
    parts = random.dirichlet(np.linspace(9, 2, len(STAGES)))
    stages = {
        "second": [0] * len(STAGES),
        "stage": list(STAGES),
        "ns": [int(part * float(mean.mean()) * total) for part in parts],
    }
    return (
        PhaseResult(
            label=label,
            workload=load,
            duration_s=float(n),
            reads=total if read else 0,
            writes=0 if read else total,
            read_bytes=total * load.block_bytes if read else 0,
            write_bytes=0 if read else total * load.block_bytes,
            series=pa.table(series, schema=SERIES_SCHEMA),
            histogram=_histogram("read" if read else "write", float(mean.mean()), total, random),
            stages=pa.table(stages, schema=STAGES_SCHEMA) if virtual else None,
            metrics=({"waf": 7.5} if virtual and not read else {})
            | (_bench(total, load.queue_depth) if test.kind in ("trace", "ageing") else {})
            | (_rounds(test.rounds, total / n, float(mean.mean())) if test.rounds else {}),
        ),
        heat,
    )


def _rounds(rule: Rounds, iops: float, mean_ns: float) -> dict[str, float]:
    """Rounds that come to rest: half of the rate, then the whole of it."""
    found = {}
    for number in range(1, rule.window_rounds + 3):
        part = 0.5 if number < 3 else 1.0
        found[f"round_{number}_iops"] = iops * part
        found[f"round_{number}_latency_us"] = mean_ns / 1e3 / part
        found[f"round_{number}_latency_max_us"] = 3 * mean_ns / 1e3 / part
    return found


def _bench(total: int, depth: int) -> dict[str, float]:
    """What a replay says of itself; Little's law holds: 200 us, always `depth` outstanding."""
    return {
        "busy_s": total * 200e-6 / depth,
        "wall_s": total * 200e-6 * 20,
        "latency_ns_sum": total * 200e3,
        "outstanding_mean": float(depth),
        "outstanding_max": 40.0,
        "over_10_ms": total * 0.02,
        "over_100_ms": 0.0,
        "depth_1": float(total),
    }


def _histogram(direction: str, mean_ns: float, total: int, random: np.random.Generator) -> pa.Table:
    """A skewed distribution around the mean, on the recorder's grid, scaled to `total` counts."""
    drawn = random.lognormal(np.log(mean_ns), 0.18, 20_000)
    drawn[:200] *= random.uniform(1.5, 4, 200)
    values = np.maximum(drawn, 64).astype(np.int64)
    shift = np.floor(np.log2(values)).astype(np.int64) - 6
    low, first, count = np.unique((values >> shift) << shift, return_index=True, return_counts=True)
    count = np.maximum(np.rint(count * total / len(values)), 1).astype(np.int64)
    columns = {
        "direction": [direction] * len(count),
        "low_ns": low,
        "high_ns": low + (1 << shift[first]),
        "count": count,
    }
    return pa.table(columns, schema=HISTOGRAM_SCHEMA)


def reviewed(path: Path, suite: str) -> Review:
    """A review of every test of a shortened suite, without the files of its steps."""
    result = results.load(make(path, suite=suite, quick=True, only=()))
    tests = {}
    for number, test in enumerate(result.suite.tests):
        random = np.random.default_rng([1, number])
        tests[test.id] = measure(test, _phases(test, random, 1.0, virtual=True))
    return replace(analysis.review(result), tests=tests)
