"""Figures of a replayed trace: rate, latency, long I/Os, the host's queue, and Little's law.

Definitions: docs/concepts/replay.md. Every I/O has the same weight. The mean number outstanding is
counted independently of the latencies; their agreement is itself a figure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# Largest plausible difference between the two sides of Little's law.
LITTLE_PERCENT = 1.0
# Least depth of each bucket, and its name in the published tables.
DEPTHS = {1: "1", 2: "2", 3: "3", 4: "4-5", 6: "6-10", 11: "11-20", 21: "21-32", 33: ">32"}


@dataclass(frozen=True)
class StorageBench:
    """Figures of one replay of the Storage Bench.

    Rates in MB/s (10^6 bytes), times in seconds, latencies in microseconds, shares in percent of
    all I/Os. `little` is the rate of I/Os over busy time, times the mean latency: it must equal
    `outstanding_mean`. `depth_percent`: I/Os by the number outstanding at their release.
    """

    ios: int
    busy_s: float
    wall_s: float
    rate_busy: float
    rate_wall: float
    latency_mean_us: float
    over_10_ms_percent: float
    over_100_ms_percent: float
    outstanding_mean: float
    outstanding_max: int
    little: float
    depth_percent: Mapping[str, float]

    @property
    def little_holds(self) -> bool:
        """True if rate, latency and outstanding agree."""
        return abs(self.outstanding_mean - self.little) * 100 <= LITTLE_PERCENT * self.little


def storage_bench(
    *, ios: int, moved_bytes: int, metrics: Mapping[str, float]
) -> StorageBench | None:
    """Computes the figures from a phase's totals and its target's metrics; None if nothing was
    issued.

    >>> metrics = {"busy_s": 2.0, "wall_s": 10.0, "latency_ns_sum": 3e9, "outstanding_mean": 1.5,
    ...            "outstanding_max": 4.0, "over_10_ms": 5.0, "over_100_ms": 0.0, "depth_1": 1000.0}
    >>> bench = storage_bench(ios=1000, moved_bytes=4_000_000, metrics=metrics)
    >>> bench.rate_busy, bench.latency_mean_us, bench.little, bench.over_10_ms_percent
    (2.0, 3000.0, 1.5, 0.5)
    """
    busy_s, wall_s = metrics.get("busy_s", 0.0), metrics.get("wall_s", 0.0)
    if not ios or busy_s <= 0 or wall_s <= 0:
        return None
    latency_us = metrics["latency_ns_sum"] / ios / 1e3
    return StorageBench(
        ios=ios,
        busy_s=busy_s,
        wall_s=wall_s,
        rate_busy=moved_bytes / busy_s / 1e6,
        rate_wall=moved_bytes / wall_s / 1e6,
        latency_mean_us=latency_us,
        over_10_ms_percent=metrics["over_10_ms"] / ios * 100.0,
        over_100_ms_percent=metrics["over_100_ms"] / ios * 100.0,
        outstanding_mean=metrics["outstanding_mean"],
        outstanding_max=int(metrics["outstanding_max"]),
        little=ios / busy_s * latency_us / 1e6,
        depth_percent={
            name: metrics.get(f"depth_{least}", 0.0) / ios * 100.0 for least, name in DEPTHS.items()
        },
    )
