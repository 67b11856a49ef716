"""Figures that reviewers rank drives by, of any result: rank_keys.toml describes them.

Sources: Tom's Hardware's hierarchy of SSDs (2025) ranks by the geometric mean of the IOPS of reads
and writes at queue depth 1; TechPowerUp prints the rate of filling the whole drive; AnandTech's
reviews of drives for servers use the lowest depth with 95 % of the peak. Leaves out: the state of
the drive before a load; intervals.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from drivebay.analysis.figures import PhaseFigures
from drivebay.analysis.review import Review
from drivebay.common import documents
from drivebay.definitions.suites import Content, LoadFields, spoken

# A test without charts on the Bench.
TABLE = documents.beside(__file__, "rank_keys.toml")
BLOCK = 4096
# Share of the highest rate from which a depth counts, and of a drive from which it counts as full.
PEAK = FULL = 0.95
# Shortest run of durable writes that counts as sustained.
SUSTAINED_S = 30.0
# Fields in which loads of the keys may differ; all others have their defaults.
FREE = {"pattern", "offsets", "read_percent", "block_bytes", "queue_depth", "queues", "fsync"}
FIXED = {name: field.default for name, field in LoadFields.model_fields.items() if name not in FREE}
# Warning of importers about jobs that share the drive.
NOT_ALONE = "some of the jobs ran at the same time"
NAMED_SIZE = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)[ _-]?([GT])(i?)B", re.IGNORECASE)

# A value, the load that it is of, and what is printed before the value.
Key = tuple[float, str, str]
# Pattern, share of reads, block and flushes of a load.
What = tuple[str, float, int, int | None]


class _Load(NamedTuple):
    test: str
    words: str
    depth: int
    phase: PhaseFigures


def rank_keys(review: Review) -> dict[str, Key]:
    """The keys that a result has the loads for."""
    loads, keys = _loads(review), dict[str, Key]()
    reads = loads["random", 100, BLOCK, None]
    ones = [[one for one in loads["random", n, BLOCK, None] if one.depth == 1] for n in (100, 0)]
    if all(ones):
        pair = [max(side, key=lambda one: one.phase.workload.span_bytes or 2**63) for side in ones]
        words = " and ".join(dict.fromkeys(one.words for one in pair))
        keys["qd1"] = math.prod(math.sqrt(one.phase.step.iops) for one in pair), words, ""
    size = drive_bytes(review)
    used = int(review.result.target["capacity_bytes"] or size)
    for what, some in loads.items():
        for _, words, _, phase in some if what[:2] == ("sequential", 0) else ():
            moved = phase.step.rate_mb_s * 1e6 * phase.timeline.seconds_total
            if 0 < FULL * size <= min(moved, phase.workload.span(used)[1]):
                keys.setdefault("fill", (phase.step.rate_mb_s, words, ""))
    durable = loads["random", 0, BLOCK, 1] + loads["sequential", 0, BLOCK, 1]
    for one in sorted(durable, key=lambda one: -one.depth):
        if one.phase.timeline.seconds_total >= SUSTAINED_S:
            keys["durable"] = one.phase.step.iops, one.words, ""
    return keys | _of_depth(reads)


def _of_depth(reads: Sequence[_Load]) -> dict[str, Key]:
    """Keys of the test with most depths."""
    tests: defaultdict[str, dict[int, _Load]] = defaultdict(dict)
    for one in sorted(reads, key=lambda one: one.phase.step.iops):
        tests[one.test][one.depth] = one
    depths: dict[int, _Load] = max(tests.values(), key=len, default={})
    if len(depths) < 2:
        return {}
    enough = PEAK * max(one.phase.step.iops for one in depths.values())
    lowest = min(depth for depth, one in depths.items() if one.phase.step.iops >= enough)
    words, step = depths[lowest].words, depths[lowest].phase.step
    if lowest == max(depths):
        return {"depth": (lowest, words, "≥ ")}
    watt = step.iops / step.power.mean if step.power and step.power.mean > 0 else None
    values: dict[str, float | None] = {"depth": lowest, "depth_per_watt": watt}
    values["depth_latency"] = step.latency_mean_us
    return {key: (value, words, "") for key, value in values.items() if value and value < math.inf}


def _loads(review: Review) -> defaultdict[What, list[_Load]]:
    """Loads at full speed that ran by themselves, of random data. All files of an imported result
    are one test.
    """
    loads: defaultdict[What, list[_Load]] = defaultdict(list)
    for done in review.result.done:
        measured, warnings = review.tests[done.id], done.conditions().get("warnings", ())
        shared = any(phase.together for phase in measured.test.phases)
        test = "" if "imported" in review.result.target else done.id
        for phase in measured.phases:
            load, words, alone = phase.workload, measured.test.title, len(measured.phases) < 2
            known = not {"pattern", "queue_depth"} & set(load.unknown) and ":" not in load.offsets
            plain = all(getattr(load, name) == value for name, value in FIXED.items())
            fits = phase.step.iops and known and plain and load.content == Content()
            if fits and not shared and not any(NOT_ALONE in warning for warning in warnings):
                words = words if alone else f"{words}, {spoken(phase.label)}"
                what = (load.pattern, load.read_percent, load.block_bytes, load.fsync)
                loads[what].append(_Load(test, words, load.queue_depth * load.queues, phase))
    return loads


def drive_bytes(review: Review) -> float:
    """Capacity of the drive; 0 if it is not known. A file and an imported result have only the
    size of what was used: then the drive's name may tell.
    """
    target = review.result.target
    if review.result.simulated or (target["kind"] == "block" and "imported" not in target):
        return float(target["capacity_bytes"])
    found = NAMED_SIZE.search(str(target.get("model") or target["name"]))
    base = 1024 if found and found[3] else 1000
    return float(found[1]) * base ** (4 if found[2] in "tT" else 3) if found else 0.0
