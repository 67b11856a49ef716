"""Similar loads: pairs loads that another tool ran with those of drivebay's tests.

Leaves out: the state of the drives and the span of the addresses, which differ and are not
compared.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from drivebay.analysis.review import Review
from drivebay.common import units
from drivebay.definitions.suites import Workload, spoken

Load = dict[str, Any]
# Largest factor between sizes or depths of similar loads.
NEAR_SIZE = NEAR_DEPTH = 2.0
# Largest difference in the share of reads, in percent of all I/Os.
NEAR_READS = 10.0
# Loads of blocks up to this size are described in IOPS, larger ones in MB/s.
SMALL_BYTES = 8192
RATES = ("IOPS", "MB/s")


def loads(review: Review) -> list[Load]:
    """Every load that ran by itself, except traces and loads by zone: its parameters and its
    rates.
    """
    result = []
    for test_id, measured in review.tests.items():
        ladder = len(measured.phases) < 2 or measured.test.kind == "ladder"
        known = [measured.figures[key] for key in measured.main if key in measured.figures]
        of_rates = all(figure.unit in RATES for figure in known)
        if any(phase.together for phase in measured.test.phases):
            continue
        for phase in measured.phases:
            label = "" if ladder else f", {spoken(phase.label)}"
            load, step = phase.workload, phase.step
            if phase.bench is not None or load.zones or not step.total_ios:
                continue
            title = f"{measured.test.title}{label}" if of_rates else _described(load)
            rates = {"iops": float(f"{step.iops:.5g}"), "rate": float(f"{step.rate_mb_s:.5g}")}
            result.append({"test": test_id, "title": title, **described(load), **rates})
    return result


def described(load: Workload) -> Load:
    """The parameters by which loads are compared."""
    return {
        "pattern": load.pattern,
        "reads": load.read_percent,
        "block": load.block_bytes,
        "depth": load.queue_depth * load.queues,
    }


def _described(load: Workload) -> str:
    """Describes a load whose test is not about its rate."""
    kind = {100: "read", 0: "write"}.get(int(load.read_percent), f"{load.read_percent:g} % reads")
    return f"{units.binary_bytes(load.block_bytes)} {load.pattern} {kind}, QD {load.queue_depth}"


def unit(load: Load) -> str:
    """Unit in which a load's rate is shown."""
    return "IOPS" if load["block"] <= SMALL_BYTES else "MB/s"


def rate(load: Load, unit: str) -> float:
    """The load's rate in one of these units."""
    return float(load["iops" if unit == "IOPS" else "rate"])


def nearest(others: Sequence[Load], load: Load) -> Load | None:
    """The most similar of the other loads; None if none is similar.

    Similar loads have the same pattern, shares of reads that differ by at most `NEAR_READS`
    percent, and sizes and depths within factors of `NEAR_SIZE` and `NEAR_DEPTH`.
    """
    near = [
        (2 * size + depth, at)
        for at, other in enumerate(others)
        if other["pattern"] == load["pattern"]
        and abs(other["reads"] - load["reads"]) <= NEAR_READS
        and (size := abs(math.log2(other["block"] / load["block"]))) <= math.log2(NEAR_SIZE)
        and (depth := abs(math.log2(other["depth"] / load["depth"]))) <= math.log2(NEAR_DEPTH)
    ]
    return others[min(near)[1]] if near else None
