"""Breakdown of the time of a virtual drive's I/Os by stage.

The drive reports for each second the nanoseconds that its completed I/Os spent in each stage; the
stages of one I/O add up to its latency. A real drive reports no stages.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Floats = npt.NDArray[np.float64]

# Title and meaning of each stage, in the order in which an I/O passes them.
STAGES: dict[str, tuple[str, str]] = {
    "host": ("Host", "host software and protocol"),
    "link": ("Link", "PCIe or SATA transfer"),
    "firmware": ("Firmware", "controller firmware"),
    "buffer": ("Write buffer", "waiting for space in the write buffer"),
    "map": ("Map", "address map lookup"),
    "die": ("Die", "waiting for the flash die"),
    "channel": ("Channel", "flash channel (wait and transfer) with error correction"),
    "nand": ("NAND", "flash read, program or erase"),
    "gc": ("Garbage collection", "waiting for garbage collection"),
    "throttle": ("Throttling", "thermal throttling"),
}
# Largest number of intervals of a phase over time.
INTERVALS_MAX = 120


@dataclass(frozen=True)
class StageShare:
    """One stage of one phase: its share of all latency, and its mean per I/O in microseconds."""

    stage: str
    share_percent: float
    mean_us: float


@dataclass(frozen=True)
class OverTime:
    """The stages of a phase in intervals of equal length.

    `second`: float array, shape (n,), start of each interval. `ios`: I/Os completed in it.
    `mean_us`: stage to float array, shape (n,): mean per I/O of the interval, NaN if none ended.
    """

    second: Floats
    ios: Floats
    mean_us: dict[str, Floats]
    interval_s: int

    def share_percent(self, stage: str) -> Floats:
        """A stage's share of each interval's latency, in percent; NaN if no I/O ended."""
        whole = np.sum(list(self.mean_us.values()), axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(100 * self.mean_us[stage] / whole)


def ordered(names: Iterable[str]) -> list[str]:
    """Sorts stages in the order in which an I/O passes them, unknown ones last.

    >>> ordered({"nand", "host", "zeta"})
    ['host', 'nand', 'zeta']
    """
    known = set(names)
    return [name for name in STAGES if name in known] + sorted(known - STAGES.keys())


def title(stage: str) -> str:
    """Name of a stage in a legend.

    >>> title("nand"), title("zeta")
    ('NAND', 'zeta')
    """
    return STAGES[stage][0] if stage in STAGES else stage


def meaning(stage: str) -> str:
    """Description of a stage.

    >>> meaning("die"), meaning("zeta")
    ('waiting for the flash die', 'zeta')
    """
    return STAGES[stage][1] if stage in STAGES else stage


def shares(stages: pa.Table | None, *, total_ios: int) -> tuple[StageShare, ...]:
    """Shares of every stage that took time, in the order in which an I/O passes them; empty if
    unknown.
    """
    if stages is None or stages.num_rows == 0 or total_ios == 0:
        return ()
    sums: dict[str, int] = {}
    columns = (stages.column(name).to_pylist() for name in ("stage", "ns"))
    for name, ns in zip(*columns, strict=True):
        sums[name] = sums.get(name, 0) + ns
    total = sum(sums.values())
    return tuple(
        StageShare(name, 100 * sums[name] / total, sums[name] / total_ios / 1e3)
        for name in ordered(sums)
        if sums[name] > 0
    )


def heat_percent(stages: pa.Table | None, seconds: int) -> Floats | None:
    """Share of throttling in the latency of each second, in percent; None if unknown."""
    if stages is None or stages.num_rows == 0:
        return None
    second = np.asarray(stages.column("second").to_numpy(), dtype=np.int64)
    ns = np.asarray(stages.column("ns").to_numpy(), dtype=float)
    heat = np.asarray(stages.column("stage").to_pylist()) == "throttle"
    inside = (second >= 0) & (second < seconds)
    every, hot = (
        np.bincount(second[rows], ns[rows], minlength=seconds) for rows in (inside, inside & heat)
    )
    return 100 * hot / np.maximum(every, 1.0)


def over_time(stages: pa.Table | None, ios: Floats) -> OverTime | None:
    """Mean time per I/O of each stage in at most `INTERVALS_MAX` intervals; None if unknown.
    `stages`: columns as in `drivebay.results.records.STAGES_SCHEMA`. `ios`: float array,
    shape (n,): I/Os completed in each full second of the phase.
    """
    n = len(ios)
    if stages is None or stages.num_rows == 0 or n == 0:
        return None
    interval_s = -(-n // INTERVALS_MAX)
    starts = np.arange(0, n, interval_s)
    second = np.asarray(stages.column("second").to_numpy(), dtype=np.int64)
    ns = np.asarray(stages.column("ns").to_numpy(), dtype=float)
    names = np.asarray(stages.column("stage").to_pylist())
    inside = (second >= 0) & (second < n)
    counts = np.add.reduceat(ios, starts)
    mean: dict[str, Floats] = {}
    for name in ordered(set(names[inside].tolist())):
        rows = inside & (names == name)
        sums = np.bincount(second[rows], ns[rows], minlength=n)
        if sums.any():
            with np.errstate(invalid="ignore", divide="ignore"):
                means = np.add.reduceat(sums, starts) / counts / 1e3
                mean[name] = np.where(counts > 0, means, np.nan)
    return OverTime(starts.astype(float), counts, mean, interval_s) if mean else None
