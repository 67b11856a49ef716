"""A run second by second, and single I/Os of it, as arrays."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Series:
    """A run second by second; every array has shape (n,). An I/O counts in the second in which it
    completes. The last second may be a part of one: rates are per second of what it lasted.

    Attributes
    ----------
    time_s
        End of each second, from the start of the run.
    iops, read_iops, write_iops
        I/Os per second.
    mb_per_s, read_mb_per_s, write_mb_per_s
        10^6 bytes per second.
    latency_us
        Mean, in microseconds; NaN where nothing completed.
    latency_us_max
        Largest, in microseconds.
    temperature_c, power_w
        Degrees Celsius at the end of the second, watt over it. NaN for a part of a second.
    throttle_stage
        0 for none; -1 for a part of a second.
    waf
        Write amplification, 4 KiB pages programmed per page the host wrote; NaN without writes.
    """

    time_s: Floats
    iops: Floats
    read_iops: Floats
    write_iops: Floats
    mb_per_s: Floats
    read_mb_per_s: Floats
    write_mb_per_s: Floats
    latency_us: Floats
    latency_us_max: Floats
    temperature_c: Floats
    power_w: Floats
    throttle_stage: Ints
    waf: Floats

    def __len__(self) -> int:
        return len(self.time_s)

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """All of them by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True, eq=False)
class Samples:
    """Every n-th I/O of a run, in the order in which the drive served them; arrays of shape (m,).

    Attributes
    ----------
    at_s
        When the host asked, in seconds from the start of the run.
    latency_us
        Until it was done, in microseconds.
    offset_bytes, bytes
        Where and how much; uint64.
    is_write
        Whether it was a write; bool.
    """

    at_s: Floats
    latency_us: Floats
    offset_bytes: npt.NDArray[np.uint64]
    bytes: npt.NDArray[np.uint64]
    is_write: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.at_s)
