"""What a replay on a real drive gave: the core's columns as figures and tables.

The figures' definitions: docs/concepts/replay.md.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from drivebay.results.records import HISTOGRAM_SCHEMA, SERIES_SCHEMA


@dataclass(frozen=True)
class Replayed:
    """A replay, whole or up to where it ended.

    `ended` is "complete", "time", "stopped", "failures" or "broken", then with a `reason`.
    `figures` are JSON values, with their units in their names. `series` and `histogram` follow the
    schemas of `results.records`; `columns` are those that `targets.replay.metrics` takes.
    """

    ended: str
    reason: str
    figures: dict[str, Any]
    series: pa.Table
    histogram: pa.Table
    columns: Mapping[str, Any]


def replayed(raw: Mapping[str, Any]) -> Replayed:
    """The columns of `_core.replay_real` as figures and tables."""
    return Replayed(
        ended=raw["ended"],
        reason=raw["reason"].replace("\n", "; "),
        figures=_figures(raw),
        series=_series(raw),
        histogram=_histogram(raw),
        columns=_columns(raw),
    )


def _columns(raw: Mapping[str, Any]) -> dict[str, Any]:
    """With the names that a virtual replay has."""
    left_out = raw["passed_writes"] + raw["passed_trims"] + raw["passed_flushes"]
    mean = raw["outstanding_ns"] / raw["busy_ns"] if raw["busy_ns"] else 0.0
    return {**raw, "start_ns": 0, "outstanding_mean": mean, "left_out": left_out}


def _figures(raw: Mapping[str, Any]) -> dict[str, Any]:
    reads, writes = int(raw["read_count"].sum()), int(raw["write_count"].sum())
    ios = reads + writes
    moved = int(raw["read_bytes"].sum() + raw["write_bytes"].sum())
    latency_ns = raw["read_latency_ns_sum"] + raw["write_latency_ns_sum"]
    busy_s, wall_s = raw["busy_ns"] / 1e9, raw["end_ns"] / 1e9

    def per(value: float, over: float) -> float | None:
        return value / over if over > 0 else None

    iops, mean_s = per(ios, busy_s), per(latency_ns / 1e9, ios)
    outstanding = per(raw["outstanding_ns"] / 1e9, busy_s)
    return {
        "reads": reads,
        "writes": writes,
        "read_bytes": int(raw["read_bytes"].sum()),
        "written_bytes": int(raw["write_bytes"].sum()),
        "trims": int(raw["trim_count"].sum()),
        "flushes": int(raw["flush_count"].sum()),
        "busy_s": busy_s,
        "wall_s": wall_s,
        "length_s": raw["length_ns"] / 1e9,
        "bytes_per_busy_s": per(moved, busy_s),
        "bytes_per_wall_s": per(moved, wall_s),
        "latency_us_mean": None if mean_s is None else mean_s * 1e6,
        "share_over_10_ms": per(raw["over_10_ms"], ios),
        "share_over_100_ms": per(raw["over_100_ms"], ios),
        "iops_busy": iops,
        "outstanding_mean": outstanding,
        "outstanding_mean_by_littles_law": None
        if iops is None or mean_s is None
        else iops * mean_s,
        "outstanding_max": raw["outstanding_max"],
        "issued": raw["issued"],
        "completed": raw["completed"],
        "unanswered": raw["unanswered"],
        "late": raw["late"],
        "late_queue_full": raw["late_queue_full"],
        "late_not_read": raw["late_not_read"],
        "late_share": per(raw["late"], raw["issued"]),
        "lateness_us_p50": _percentile_us(raw, "lateness", 50),
        "lateness_us_p99": _percentile_us(raw, "lateness", 99),
        "lateness_us_max": raw["lateness_ns_max"] / 1e3,
        "passed_over": {
            "writes": raw["passed_writes"],
            "trims": raw["passed_trims"],
            "flushes": raw["passed_flushes"],
        },
        "failures": [
            {"op": op, "error": error_name(number), "count": count}
            for op, number, count in raw["failures"]
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
            for number, op, offset, length, code, at in raw["failed"]
        ],
        "direct": raw["direct"],
        "fixed_buffers": raw["fixed_buffers"],
    }


def error_name(number: int) -> str:
    """The kernel's name of an error; "SHORT" for less moved than asked.

    >>> error_name(5), error_name(0)
    ('EIO', 'SHORT')
    """
    return "SHORT" if number == 0 else errno.errorcode.get(number, str(number))


def _percentile_us(raw: Mapping[str, Any], name: str, percent: float) -> float | None:
    """Upper edge of the bin that holds the percentile, nearest rank, but never over the largest."""
    counts = raw[f"{name}_count"]
    if len(counts) == 0:
        return None
    rank = max(1, int(np.ceil(percent / 100 * counts.sum())))
    place = int(np.searchsorted(np.cumsum(counts), rank))
    return float(min(raw[f"{name}_high_ns"][place], raw["lateness_ns_max"])) / 1e3


def _series(raw: Mapping[str, Any]) -> pa.Table:
    seconds = len(raw["reads"])
    ios = (raw["reads"] + raw["writes"]).astype(np.int64)
    busy = ios > 0
    unknown = [None] * seconds
    columns = {
        "second": np.arange(seconds, dtype=np.int32),
        **{
            name: raw[name].astype(np.int64)
            for name in ("reads", "writes", "read_bytes", "write_bytes")
        },
        "latency_ns_mean": pa.array(raw["latency_ns_sum"] / np.maximum(ios, 1), mask=~busy),
        "latency_ns_max": pa.array(raw["latency_ns_max"].astype(np.int64), mask=~busy),
        "temperature_c": unknown,
        "power_w": unknown,
        "throttle_stage": unknown,
    }
    return pa.table(columns, schema=SERIES_SCHEMA)


def _histogram(raw: Mapping[str, Any]) -> pa.Table:
    parts = []
    for direction in ("read", "write"):
        low = raw[f"{direction}_low_ns"].astype(np.int64)
        columns = {
            "direction": [direction] * len(low),
            "low_ns": low,
            "high_ns": raw[f"{direction}_high_ns"].astype(np.int64),
            "count": raw[f"{direction}_count"].astype(np.int64),
        }
        parts.append(pa.table(columns, schema=HISTOGRAM_SCHEMA))
    return pa.concat_tables(parts)
