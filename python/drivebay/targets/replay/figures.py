"""Results of a replay on a real drive: the core's columns as figures and tables.

The figures' definitions: docs/concepts/replay.md.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from drivebay._core import RealReplayResult, ReplayResult
from drivebay.definitions.suites import Replay
from drivebay.results.records import core_histogram, one_second_series

# Figures that the core counts under the same name.
COUNTED = (
    *("outstanding_max", "issued", "completed", "unanswered"),
    *("late", "late_queue_full", "late_not_read"),
)


@dataclass(frozen=True)
class Replayed:
    """A replay, complete or up to its end.

    `ended` is "complete", "time", "stopped", "failures" or "broken", then with a `reason`.
    `figures` are JSON values, with their units in their names. `series` and `histogram` follow the
    schemas of `results.records`; `metrics` are those of a replay on any target.
    """

    ended: str
    reason: str
    figures: dict[str, Any]
    series: pa.Table
    histogram: pa.Table
    metrics: dict[str, float]


def replayed(raw: RealReplayResult) -> Replayed:
    """Converts the core's result to figures and tables."""
    passed_over = {op: getattr(raw, f"skipped_{op}") for op in ("writes", "trims", "flushes")}
    return Replayed(
        ended=raw.ended,
        reason=raw.reason.replace("\n", "; "),
        figures=_figures(raw, passed_over),
        series=_series(raw),
        histogram=core_histogram(
            **{op: found.latency for op, found in raw.ops if op in ("read", "write")}
        ),
        metrics=_metrics(
            raw,
            wall_ns=raw.end_ns,
            latency_ns_sum=raw.latency_ns_sum,
            outstanding_mean=raw.outstanding_ns / raw.busy_ns if raw.busy_ns else 0.0,
            passed_over=sum(passed_over.values()),
        ),
    )


def _figures(raw: RealReplayResult, passed_over: dict[str, int]) -> dict[str, Any]:
    ops = dict(raw.ops)
    reads, writes = (int(ops[op].latency.count.sum()) for op in ("read", "write"))
    ios = reads + writes
    moved = int(raw.read_bytes.sum() + raw.write_bytes.sum())
    latency_ns = ops["read"].latency_ns_sum + ops["write"].latency_ns_sum
    busy_s, wall_s = raw.busy_ns / 1e9, raw.end_ns / 1e9

    def per(value: float, over: float) -> float | None:
        return value / over if over > 0 else None

    iops, mean_s = per(ios, busy_s), per(latency_ns / 1e9, ios)
    return {
        "reads": reads,
        "writes": writes,
        "read_bytes": int(raw.read_bytes.sum()),
        "written_bytes": int(raw.write_bytes.sum()),
        "trims": int(ops["trim"].latency.count.sum()),
        "flushes": int(ops["flush"].latency.count.sum()),
        "busy_s": busy_s,
        "wall_s": wall_s,
        "length_s": raw.length_ns / 1e9,
        "bytes_per_busy_s": per(moved, busy_s),
        "bytes_per_wall_s": per(moved, wall_s),
        "latency_us_mean": None if mean_s is None else mean_s * 1e6,
        "share_over_10_ms": per(raw.over_10_ms, ios),
        "share_over_100_ms": per(raw.over_100_ms, ios),
        "iops_busy": iops,
        "outstanding_mean": per(raw.outstanding_ns / 1e9, busy_s),
        "outstanding_mean_by_littles_law": None
        if iops is None or mean_s is None
        else iops * mean_s,
        **{name: getattr(raw, name) for name in COUNTED},
        "late_share": per(raw.late, raw.issued),
        "lateness_us_p50": _lateness_us(raw, 50),
        "lateness_us_p99": _lateness_us(raw, 99),
        "lateness_us_max": raw.lateness_ns_max / 1e3,
        "passed_over": passed_over,
        "failures": [
            {"op": op, "error": error_name(number), "count": count}
            for op, number, count in raw.failures
        ],
        "failed": [
            {
                "number": number,
                "op": op,
                "offset_bytes": offset,
                "bytes": length,
                "error": error_name(code),
                "at_s": at / 1e9,
            }
            for number, op, offset, length, code, at in raw.failed
        ],
        "direct": raw.direct,
        "fixed_buffers": raw.fixed_buffers,
    }


def error_name(number: int) -> str:
    """Returns the kernel's name of an error; "SHORT" if less was moved than requested.

    >>> error_name(5), error_name(0)
    ('EIO', 'SHORT')
    """
    return "SHORT" if number == 0 else errno.errorcode.get(number, str(number))


def _lateness_us(raw: RealReplayResult, percent: float) -> float | None:
    """Upper edge of the bin that holds the percentile, nearest rank, but never above the largest
    value.
    """
    counts = raw.lateness.count
    if len(counts) == 0:
        return None
    rank = max(1, int(np.ceil(percent / 100 * counts.sum())))
    place = int(np.searchsorted(np.cumsum(counts), rank))
    return float(min(raw.lateness.high_ns[place], raw.lateness_ns_max)) / 1e3


def _series(raw: RealReplayResult) -> pa.Table:
    names = ("reads", "writes", "read_bytes", "write_bytes", "latency_ns_max")
    columns = {name: getattr(raw, name).astype(np.int64) for name in names}
    ios = columns["reads"] + columns["writes"]
    return one_second_series(**columns, latency_ns_mean=raw.latency_ns_sum / np.maximum(ios, 1))


GUESSED_IOS_PER_S = 1000.0  # rate of a recording, for estimates only


def requests(replay: Replay) -> float:
    """Estimated number of requests of a replay."""
    known = replay.source(replay.seed).requests()
    return replay.drive_s * GUESSED_IOS_PER_S if known is None else float(known)


def metrics(replayed: ReplayResult) -> dict[str, float]:
    """Returns the metrics of a replay on a virtual drive, with the same names as on a real one."""
    run = replayed.run
    return _metrics(
        replayed,
        wall_ns=run.end_ns - run.start_ns,
        latency_ns_sum=run.latency_ns_sum,
        outstanding_mean=replayed.outstanding_mean,
        passed_over=replayed.skipped,
    )


def _metrics(
    found: ReplayResult | RealReplayResult,
    *,
    wall_ns: int,
    latency_ns_sum: npt.NDArray[np.uint64],
    outstanding_mean: float,
    passed_over: int,
) -> dict[str, float]:
    """Metrics of a replay in addition to series and histogram.

    busy_s, wall_s: seconds. outstanding_mean over the busy time, outstanding_max. over_10_ms,
    over_100_ms: I/Os. latency_ns_sum over all I/Os. passed_over: requests that were not replayed.
    depth_1 to depth_33: I/Os by the number outstanding at their release, by the least depth of each
    bucket.
    """
    counts = zip((1, 2, 3, 4, 6, 11, 21, 33), found.outstanding_counts, strict=True)
    return {
        "busy_s": found.busy_ns / 1e9,
        "wall_s": wall_ns / 1e9,
        "outstanding_mean": outstanding_mean,
        "outstanding_max": float(found.outstanding_max),
        "over_10_ms": float(found.over_10_ms),
        "over_100_ms": float(found.over_100_ms),
        # As floats: an overloaded drive's sum may pass 2^64 ns.
        "latency_ns_sum": float(latency_ns_sum.astype(float).sum()),
        "passed_over": float(passed_over),
        **{f"depth_{least}": float(count) for least, count in counts},
    }
