"""What a replay on a real drive gave: the core's columns as figures and tables.

The figures' definitions: docs/concepts/replay.md.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from drivebay._core import RealReplayResult
from drivebay.results.records import core_histogram, one_second_series
from drivebay.targets.replay.source import metrics_of


@dataclass(frozen=True)
class Replayed:
    """A replay, whole or up to where it ended.

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
    """A replay as figures and tables."""
    return Replayed(
        ended=raw.ended,
        reason=raw.reason.replace("\n", "; "),
        figures=_figures(raw),
        series=_series(raw),
        histogram=core_histogram(
            **{op: found.latency for op, found in raw.ops if op in ("read", "write")}
        ),
        metrics=_metrics(raw),
    )


def _metrics(raw: RealReplayResult) -> dict[str, float]:
    """With the names that a virtual replay has."""
    return metrics_of(
        busy_ns=raw.busy_ns,
        wall_ns=raw.end_ns,
        outstanding_mean=raw.outstanding_ns / raw.busy_ns if raw.busy_ns else 0.0,
        outstanding_max=raw.outstanding_max,
        outstanding_counts=raw.outstanding_counts,
        over_10_ms=raw.over_10_ms,
        over_100_ms=raw.over_100_ms,
        latency_ns_sum=float(raw.latency_ns_sum.astype(float).sum()),
        skipped=raw.skipped_writes + raw.skipped_trims + raw.skipped_flushes,
    )


def _figures(raw: RealReplayResult) -> dict[str, Any]:
    ops = dict(raw.ops)
    reads, writes = (int(ops[op].latency.count.sum()) for op in ("read", "write"))
    ios = reads + writes
    moved = int(raw.read_bytes.sum() + raw.write_bytes.sum())
    latency_ns = ops["read"].latency_ns_sum + ops["write"].latency_ns_sum
    busy_s, wall_s = raw.busy_ns / 1e9, raw.end_ns / 1e9

    def per(value: float, over: float) -> float | None:
        return value / over if over > 0 else None

    iops, mean_s = per(ios, busy_s), per(latency_ns / 1e9, ios)
    outstanding = per(raw.outstanding_ns / 1e9, busy_s)
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
        "outstanding_mean": outstanding,
        "outstanding_mean_by_littles_law": None
        if iops is None or mean_s is None
        else iops * mean_s,
        "outstanding_max": raw.outstanding_max,
        "issued": raw.issued,
        "completed": raw.completed,
        "unanswered": raw.unanswered,
        "late": raw.late,
        "late_queue_full": raw.late_queue_full,
        "late_not_read": raw.late_not_read,
        "late_share": per(raw.late, raw.issued),
        "lateness_us_p50": _lateness_us(raw, 50),
        "lateness_us_p99": _lateness_us(raw, 99),
        "lateness_us_max": raw.lateness_ns_max / 1e3,
        "passed_over": {
            "writes": raw.skipped_writes,
            "trims": raw.skipped_trims,
            "flushes": raw.skipped_flushes,
        },
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
    """The kernel's name of an error; "SHORT" for less moved than asked.

    >>> error_name(5), error_name(0)
    ('EIO', 'SHORT')
    """
    return "SHORT" if number == 0 else errno.errorcode.get(number, str(number))


def _lateness_us(raw: RealReplayResult, percent: float) -> float | None:
    """Upper edge of the bin that holds the percentile, nearest rank, but never over the largest."""
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
