"""Where the time of a virtual drive's I/Os went, stage by stage.

The drive says for each second how many nanoseconds its completed I/Os spent in each stage; the
stages of one I/O add up to its latency. A real drive gives nothing of the kind.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

# In the order an I/O passes them; what the drive itself does not know by name comes after.
ORDER: tuple[str, ...] = (
    "host",
    "link",
    "firmware",
    "buffer",
    "map",
    "die",
    "channel",
    "nand",
    "collection",
    "throttle",
)
MEANING: dict[str, str] = {
    "host": "host software and protocol",
    "link": "PCIe or SATA transfer",
    "firmware": "controller cores",
    "buffer": "waiting for room in the write buffer",
    "map": "address map lookup",
    "die": "waiting for the flash die",
    "channel": "waiting for and using the flash channel",
    "nand": "flash read, program, erase",
    "collection": "garbage collection in the way",
    "throttle": "slowed by heat",
}


@dataclass(frozen=True)
class StageShare:
    """One stage of one phase: its share of all latency, and its mean per I/O in microseconds."""

    stage: str
    share_percent: float
    mean_us: float


def shares(stages: pa.Table | None, *, total_ios: int) -> tuple[StageShare, ...]:
    """Every stage that took time, in the order an I/O passes them; empty where unknown."""
    if stages is None or stages.num_rows == 0 or total_ios == 0:
        return ()
    sums: dict[str, int] = {}
    for name, ns in zip(
        stages.column("stage").to_pylist(), stages.column("ns").to_pylist(), strict=True
    ):
        sums[name] = sums.get(name, 0) + ns
    total = sum(sums.values())
    names = [name for name in ORDER if name in sums]
    names += sorted(name for name in sums if name not in ORDER)
    return tuple(
        StageShare(name, 100 * sums[name] / total, sums[name] / total_ios / 1e3)
        for name in names
        if sums[name] > 0
    )
