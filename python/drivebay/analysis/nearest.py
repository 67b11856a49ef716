"""Loads that are not the same but near: what another tool ran beside what drivebay's tests run.

Left out: the state of the drives and the span of the addresses, which differ and are not compared.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from drivebay.analysis.review import Review
from drivebay.common import units
from drivebay.definitions.suites import Workload, spoken

Load = dict[str, Any]
NEAR_SIZE = NEAR_DEPTH = 2.0
"""A load of half or twice the size or the depth is still near."""
NEAR_READS = 10.0
"""In percent of all I/Os."""
SMALL_BYTES = 8192
"""Loads of blocks up to this size are told in IOPS, larger ones in MB/s."""
RATES = ("IOPS", "MB/s")


def loads(review: Review) -> list[Load]:
    """Every load that ran by itself, but for traces and loads by zone: what it was, and what came
    of it."""
    found = []
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
            title = f"{measured.test.title}{label}" if of_rates else _words(load)
            found.append(
                {
                    "test": test_id,
                    "title": title,
                    "pattern": load.pattern,
                    "reads": load.read_percent,
                    "block": load.block_bytes,
                    "depth": load.queue_depth * load.queues,
                    "iops": float(f"{step.iops:.5g}"),
                    "rate": float(f"{step.rate_mb_s:.5g}"),
                }
            )
    return found


def _words(load: Workload) -> str:
    """What a load is called whose test is not about its rate."""
    kind = {100: "read", 0: "write"}.get(int(load.read_percent), f"{load.read_percent:g} % reads")
    return f"{units.binary_bytes(load.block_bytes)} {load.pattern} {kind}, QD {load.queue_depth}"


def unit(load: Load) -> str:
    """What its rate is told in."""
    return "IOPS" if load["block"] <= SMALL_BYTES else "MB/s"


def rate(load: Load, unit: str) -> float:
    """Its rate in one of these units."""
    return float(load["iops" if unit == "IOPS" else "rate"])


def nearest(others: Sequence[Load], load: Load) -> Load | None:
    """The nearest of the others; None where none is near.

    Near is: of the same pattern, with `NEAR_READS` percent of reads more or less, and at most
    `NEAR_SIZE` and `NEAR_DEPTH` times larger, deeper or less.
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
