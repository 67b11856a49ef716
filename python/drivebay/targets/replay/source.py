"""Replays on any target: estimates, and metrics with the same names on every one, so that
`analysis.storage_bench` need not know where they come from."""

from __future__ import annotations

from collections.abc import Sequence

from drivebay._core import ReplayResult
from drivebay.definitions.suites import Replay

GUESSED_IOS_PER_S = 1000.0  # of a recording, for estimates only


def requests(replay: Replay) -> float:
    """About how many requests it has, for estimates."""
    known = replay.source(replay.seed).requests()
    return replay.drive_s * GUESSED_IOS_PER_S if known is None else float(known)


def metrics(replayed: ReplayResult) -> dict[str, float]:
    """The metrics of a replay on a virtual drive, see `metrics_of`."""
    run = replayed.run
    return metrics_of(
        busy_ns=replayed.busy_ns,
        wall_ns=run.end_ns - run.start_ns,
        outstanding_mean=replayed.outstanding_mean,
        outstanding_max=replayed.outstanding_max,
        outstanding_counts=replayed.outstanding_counts,
        over_10_ms=replayed.over_10_ms,
        over_100_ms=replayed.over_100_ms,
        # As floats: an overloaded drive's sum may pass 2^64 ns.
        latency_ns_sum=float(run.latency_ns_sum.astype(float).sum()),
        skipped=replayed.skipped,
    )


def metrics_of(
    *,
    busy_ns: int,
    wall_ns: int,
    outstanding_mean: float,
    outstanding_max: int,
    outstanding_counts: Sequence[int],
    over_10_ms: int,
    over_100_ms: int,
    latency_ns_sum: float,
    skipped: int,
) -> dict[str, float]:
    """What a replay knows besides series and histogram.

    busy_s, wall_s: seconds. outstanding_mean over the busy time, outstanding_max. over_10_ms,
    over_100_ms: I/Os. latency_ns_sum over all I/Os. passed_over: requests that were not replayed.
    depth_1 to depth_33: I/Os by the number outstanding at their release, by the least depth of each
    bucket.
    """
    counts = zip((1, 2, 3, 4, 6, 11, 21, 33), outstanding_counts, strict=True)
    return {
        "busy_s": busy_ns / 1e9,
        "wall_s": wall_ns / 1e9,
        "outstanding_mean": outstanding_mean,
        "outstanding_max": float(outstanding_max),
        "over_10_ms": float(over_10_ms),
        "over_100_ms": float(over_100_ms),
        "latency_ns_sum": latency_ns_sum,
        "passed_over": float(skipped),
        **{f"depth_{least}": float(count) for least, count in counts},
    }
