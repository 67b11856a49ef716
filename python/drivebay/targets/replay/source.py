"""Traces as loads: what both kinds of target need to replay one.

A suite's `Replay` becomes the core's source and plan; the core's columns become metrics with the
same names on every target, so that `analysis.storage_bench` need not know where they come from.
The virtual target is `targets.virtual`; a real one calls `core_source`, and gives `metrics` the
same columns.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drivebay import _core
from drivebay.common.errors import UserError
from drivebay.definitions.suites import Replay

DEPTHS = ("1", "2", "3", "4-5", "6-10", "11-20", "21-32", ">32")
"""Buckets of queue depth, as in the published tables and in `drivebay trace info`."""
GUESSED_IOS_PER_S = 1000.0  # of a recording, for estimates only


def check(replay: Replay, *, where: str) -> None:
    """Raises UserError if there is no such trace."""
    path = Path(replay.trace)
    if replay.trace not in _core.synth_names() and (path.is_dir() or not path.exists()):
        raise UserError(
            f"{where}: there is no trace '{replay.trace}': neither a file nor one of "
            f"{', '.join(_core.synth_names())}",
            "name a file that drivebay trace info can read",
        )


def core_source(replay: Replay) -> dict[str, Any]:
    """The source of requests, as the core's `What`."""
    if replay.trace in _core.synth_names():
        return {"synth": {"name": replay.trace, "scale": replay.scale, "seed": replay.seed}}
    return {"file": {"path": replay.trace}}


def core_pace(replay: Replay) -> dict[str, Any]:
    """When requests are due, as the core's `Pace`."""
    if replay.mode == "dependencies":
        return {"mode": "dependencies"}
    idle = replay.idle_ms_max
    return {
        "mode": "recorded",
        "idle_max_ns": None if idle is None else round(idle * 1e6),
        "time_percent": replay.time_percent,
    }


def core_plan(replay: Replay) -> tuple[str, str]:
    """Source and plan of a virtual replay, as JSON."""
    what = json.dumps(core_source(replay))
    plan = {
        "pace": core_pace(replay),
        "rule": replay.rule,
        "recorded_bytes": recorded_bytes(replay),
        "trim": replay.trim,
    }
    return what, json.dumps(plan)


def recorded_bytes(replay: Replay) -> int:
    """Where the highest address may end, in bytes; of a file 0, for not known, unless it is needed
    to scale: then the file is read through once."""
    if replay.trace in _core.synth_names():
        return _core.synth_size(json.dumps(core_source(replay)))[1]
    if replay.rule != "scale":
        return 0
    highest = 0
    trace = _core.TraceBatches(replay.trace, None, False)
    while (columns := trace.next()) is not None:
        highest = max(highest, int((columns["offset_bytes"] + columns["bytes"]).max()))
    return highest


def requests(replay: Replay) -> float:
    """About how many requests it has, for estimates."""
    if replay.trace in _core.synth_names():
        return float(_core.synth_size(json.dumps(core_source(replay)))[0])
    return replay.drive_s * GUESSED_IOS_PER_S


def metrics(columns: Mapping[str, Any]) -> dict[str, float]:
    """What a replay knows besides series and histogram, from the core's columns.

    busy_s, wall_s: seconds. outstanding_mean over the busy time, outstanding_max. over_10_ms,
    over_100_ms: I/Os. latency_ns_sum over all I/Os. left_out: trims and flushes. depth_1 to
    depth_33: I/Os by the number outstanding at their release, by the least depth of each bucket.
    """
    counts = zip((1, 2, 3, 4, 6, 11, 21, 33), columns["outstanding_counts"], strict=True)
    return {
        "busy_s": columns["busy_ns"] / 1e9,
        "wall_s": (columns["end_ns"] - columns["start_ns"]) / 1e9,
        "outstanding_mean": float(columns["outstanding_mean"]),
        "outstanding_max": float(columns["outstanding_max"]),
        "over_10_ms": float(columns["over_10_ms"]),
        "over_100_ms": float(columns["over_100_ms"]),
        # As floats: an overloaded drive's sum may pass 2^64 ns.
        "latency_ns_sum": float(columns["latency_ns_sum"].astype(float).sum()),
        "left_out": float(columns["left_out"]),
        **{f"depth_{least}": float(count) for least, count in counts},
    }
