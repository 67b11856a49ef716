"""Mixes of reads and writes, and sizes of requests: one rate for each, and what sums them up.

Source: AnandTech's 2015 client suite: the bar of a mixed test is the mean of its six mixes' data
rates, the line has a point for each. ATTO shows a rate of reads and one of writes for each size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from drivebay.analysis.figures import SD, Figure, PhaseFigures
from drivebay.analysis.ladder import Step
from drivebay.common.units import binary_bytes
from drivebay.definitions.suites import Workload

NAMES = {0: ("write", "writes"), 100: ("read", "reads")}


def mix_words(load: Workload) -> str:
    """A mix as the reviews write it.

    >>> mix_words(Workload(pattern="random", read_percent=60, block_bytes=4096, queue_depth=3,
    ...                    duration_s=1))
    '60/40'
    """
    return f"{load.read_percent}/{100 - load.read_percent}"


def of_mixes(phases: Sequence[PhaseFigures]) -> list[Figure]:
    """Mean and extremes over the mixes, then each one's rate and IOPS."""
    steps = [phase.step for phase in phases]
    rows = [_mean(steps)]
    for key, label, pick in (("lowest", "Lowest", min), ("highest", "Highest", max)):
        if phases:
            one = pick(phases, key=lambda phase: phase.step.rate_mb_s)
            of = f"{label} of the mixes, {mix_words(one.workload)}"
            rows.append(_rate(f"rate_{key}", of, one.step))
    for phase in phases:
        percent, words = phase.workload.read_percent, mix_words(phase.workload)
        rows.append(_rate(f"rate_r{percent}", f"Data rate at {words}", phase.step))
        rows.append(_ios(f"iops_r{percent}", f"IOPS at {words}", phase.step))
    return rows


def of_sizes(phases: Sequence[PhaseFigures]) -> list[Figure]:
    """The highest rate of each direction, then each size's rate."""
    rows = []
    for percent, (name, words) in reversed(NAMES.items()):
        some = [phase for phase in phases if phase.workload.read_percent == percent]
        if not some:
            continue
        best = max(some, key=lambda phase: phase.step.rate_mb_s)
        size = binary_bytes(best.workload.block_bytes)
        rows.append(_rate(f"highest_{name}", f"Highest rate of {words}, at {size}", best.step))
        rows += [
            _rate(
                f"rate_{name}_{phase.workload.block_bytes}",
                f"Data rate of {words} of {binary_bytes(phase.workload.block_bytes)}",
                phase.step,
            )
            for phase in some
        ]
    return rows


def _mean(steps: Sequence[Step]) -> Figure:
    """Mean of the rates; the deviation is that of this mean's 1 s samples: variances added."""
    label = f"Mean of {len(steps)} mixes"
    if not steps:
        return Figure("mean_rate", label, None, "MB/s", note="no mix was run")
    deviations = [step.rate.sd for step in steps if step.rate and step.rate.sd is not None]
    whole = len(deviations) == len(steps)
    return Figure(
        "mean_rate",
        label,
        sum(step.rate_mb_s for step in steps) / len(steps),
        "MB/s",
        math.sqrt(sum(sd * sd for sd in deviations)) / len(steps) if whole else None,
        SD,
        sum(step.rate.n for step in steps if step.rate),
    )


def _rate(key: str, label: str, step: Step) -> Figure:
    some = step.rate
    sd, n = (some.sd, some.n) if some else (None, 0)
    return Figure(key, label, step.rate_mb_s, "MB/s", sd, SD, n)


def _ios(key: str, label: str, step: Step) -> Figure:
    some = step.ios
    sd, n = (some.sd, some.n) if some else (None, 0)
    return Figure(key, label, step.iops, "IOPS", sd, SD, n)
