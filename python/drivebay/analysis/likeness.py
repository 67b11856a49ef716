"""Kinds of figures whose errors are alike: how a load stresses a drive, from its own parameters.

The same rules serve published rows, figures of a review and results of the library. The first kind
of `KINDS` that some load of the figure has is the figure's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from drivebay.definitions.suites import Phase, Test
from drivebay.definitions.suites.loads import Requests

SATURATED = "saturated 4 KiB or sequential"
BLOCKS = "blocks of several mapping units"
MIXED = "mixed reads and writes"
LOW = "latency at low load"
TAILS = "tails of latency"
BEHIND = "writes behind the cache"
HEAT = "temperature and power"
# Kind of a figure that no published row is about.
OTHER = ""
KINDS = (HEAT, TAILS, MIXED, BEHIND, BLOCKS, SATURATED, LOW)
TAIL = re.compile(r"(^|_)(p9\d|max|longest)")
TIMES = frozenset({"us", "µs", "ms", "s"})
HEATS = frozenset({"W", "mW", "C", "°C"})
# Most outstanding I/Os of a low load: AnandTech's mean of the depths 1, 2 and 4.
LOW_DEPTH = 4
# Smallest block with which one sequential request at a time is limited by the data rate.
STREAM_BYTES = 128 * 1024
# Kinds of tests that write until the drive must collect garbage.
WRITES_ON = frozenset({"ageing", "consistency", "rounds", "saturation", "waf"})


def kind_of(test: Test, key: str, unit: str, unit_bytes: int) -> str:
    """Kind of a test's figure. `key`: its key in a review, or as `drivebay validate` names it
    ("p99_read@PHASE"). `unit_bytes`: the drive's mapping unit.
    """
    if key.startswith("sd_"):
        return OTHER
    if test.kind in ("thermal", "idle") or unit in HEATS:
        return HEAT
    if unit in TIMES and TAIL.search(key.partition("@")[0]):
        return TAILS
    behind = _behind(test, key)
    kinds = {_of_group(group, unit_bytes, behind) for group in _groups(test, key)}
    return next(kind for kind in KINDS if kind in kinds)


def _of_group(group: Iterable[Phase], unit_bytes: int, behind: bool) -> str:
    if any(phase.replay for phase in group):
        return MIXED
    limited = any(phase.rate_of for phase in group)
    loads = [phase.workload for phase in group]
    return kind_of_loads(loads, unit_bytes, behind=behind, limited=limited)


def kind_of_loads(
    loads: Iterable[Requests], unit_bytes: int, *, behind: bool, limited: bool = False
) -> str:
    """Kind of the rate or the mean latency of loads that run together. `behind`: the writes come
    after the fast space (SLC cache or spare flash) is used up. `limited`: a rate is limited.
    """
    loads = tuple(loads)
    shares = {load.read_percent for load in loads}
    if shares not in ({0}, {100}):
        return MIXED
    if behind and shares == {0}:
        return BEHIND
    block = max(load.largest_bytes for load in loads)
    in_order = all(load.pattern == "sequential" for load in loads)
    if block > unit_bytes and not in_order:
        return BLOCKS
    limited |= any(load.rate_iops or load.rate_mb_per_s or load.thinktime_us for load in loads)
    low = limited or sum(load.queue_depth * load.queues for load in loads) <= LOW_DEPTH
    streams = in_order and block >= STREAM_BYTES
    manages = any(load.manages_zones for load in loads)
    return LOW if manages or (low and not streams) else SATURATED


def _behind(test: Test, key: str) -> bool:
    if test.kind == "cache":
        return not key.startswith(("rate_cache", "first_"))
    if key.startswith("burst"):
        return False
    loads = (step.load for step in test.steps if step.load is not None)
    aged = any(load.read_percent < 100 for load in loads)
    return aged or test.kind in WRITES_ON or any(step.kind == "sprandom" for step in test.steps)


def _groups(test: Test, key: str) -> Iterator[tuple[Phase, ...]]:
    """Groups of phases that a figure is about: those that its key names, else all; of a ladder
    those of the metric.
    """
    asked = set(filter(None, key.partition("@")[2].split("&")))
    named = [phase.label for phase in test.phases if key.endswith(f"_{phase.label}")]
    asked |= {max(named, key=len)} if named else set()
    for group in test.groups:
        depths = {phase.workload.queue_depth for phase in group}
        of_metric = not test.metric_queue_depths or depths & set(test.metric_queue_depths)
        if any(phase.label in asked for phase in group) or (not asked and of_metric):
            yield group
