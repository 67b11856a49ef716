"""A suite's TRIM validation on a real drive: one half of it as a phase, in the house's tables.

The figures are of the reads alone, 4 KiB at queue depth 1; a pause between two rounds of them is no
part of their latencies.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from drivebay.common.errors import EnvironmentProblem
from drivebay.definitions.suites import Phase
from drivebay.results.records import PhaseResult, histogram, measured_series
from drivebay.targets.fio.trim import Check, Step, Timed
from drivebay.targets.trim_verdict import BLOCK_BYTES

BIN_BITS = 6
"""Bins are at most 1/64 of their start wide: under 1.6 %, as everywhere."""


@contextlib.contextmanager
def errors_told(shown: str) -> Iterator[None]:
    """An I/O error of the drive `shown` as one of ours."""
    try:
        yield
    except OSError as problem:
        raise EnvironmentProblem(
            f"{shown}: TRIM cannot be validated: {problem.strerror}",
            "look for the cause with: dmesg | tail",
        ) from None


def read(phase: Phase, check: Check, step: Step) -> tuple[PhaseResult, float]:
    """The phase's result, and when its first read began (monotonic clock); raises as `Check`."""
    timed = check.read(step)
    zero = timed.ended_s[0] - timed.took_ns[0] / 1e9
    reads = len(timed.took_ns)
    result = PhaseResult(
        label=phase.label,
        workload=phase.workload,
        duration_s=timed.ended_s[-1] - zero,
        reads=reads,
        writes=0,
        read_bytes=reads * BLOCK_BYTES,
        write_bytes=0,
        series=_series(timed, zero),
        histogram=histogram(
            ("read", *one, count)
            for one, count in sorted(Counter(map(bin_of, timed.took_ns)).items())
        ),
    )
    return result, zero


def _series(timed: Timed, zero: float) -> pa.Table:
    seconds = (np.array(timed.ended_s) - zero).astype(int)
    took = np.array(timed.took_ns)
    rows = int(seconds[-1]) + 1
    count = np.bincount(seconds, minlength=rows)
    total = np.bincount(seconds, weights=took, minlength=rows)
    highest = np.zeros(rows, dtype=np.int64)
    np.maximum.at(highest, seconds, took)
    none = np.zeros(rows, dtype=np.int64)
    return measured_series(
        reads=count,
        writes=none,
        read_bytes=count * BLOCK_BYTES,
        write_bytes=none,
        latency_ns_mean=total / np.maximum(count, 1),
        latency_ns_max=highest,
    )


def bin_of(ns: int) -> tuple[int, int]:
    """The bin of a latency: from, and to before, in ns.

    >>> bin_of(100), bin_of(1_000_000)
    ((100, 101), (999424, 1007616))
    """
    shift = max(0, ns.bit_length() - 1 - BIN_BITS)
    low = ns >> shift << shift
    return low, low + (1 << shift)
