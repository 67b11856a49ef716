"""The free parameters of the synthesized traces, which no drive has: when requests arrive.

Each trace's were set so that one drive's data rate and mean latency come out as published
(docs/concepts/synthesis.md), for all drives alike. So each trace has two parameters here, a factor
on either figure of all of its runs, known to a factor of two: derivatives are closed.
Leaves out: how arrival moves the shares over 10 and 100 ms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from drivebay.analysis import Measured
from drivebay.lab.calibrate.parameters import Parameter
from drivebay.lab.fidelity.free import OPEN_FACTOR, Free
from drivebay.lab.fidelity.posterior import EDGE
from drivebay.lab.validate.plan import Run

KEYS = ("rate", "latency_mean")
PER_Z = math.log(OPEN_FACTOR) / EDGE
"""Change of the factor's logarithm by z, a standard deviation of its range."""
SOURCE = "guess: arrival, set with the SM951 with heatsink (docs/concepts/synthesis.md)"


def arrivals(traces: set[str]) -> dict[tuple[str, str], Free]:
    """The parameters of these traces, by trace and figure."""
    found = {}
    for trace in sorted(traces):
        for key in KEYS:
            path = f"trace.{trace}.{key}"
            parameter = Parameter(path, 1.0, 1 / OPEN_FACTOR, OPEN_FACTOR)
            found[trace, key] = Free(path, path, parameter, True, SOURCE)
    return found


def trace_of(found: Measured) -> str:
    """The trace that a run replays; empty for other tests."""
    replayed = (phase.replay.trace for phase in found.test.phases if phase.replay is not None)
    return next(replayed, "")


def shifted(
    runs: Mapping[Run, Measured], trace: str, key: str, change: float
) -> dict[Run, Measured]:
    """The runs with the logarithm of this figure changed in all runs of the trace."""
    return {
        run: _shifted(one, key, change) if trace_of(one) == trace else one
        for run, one in runs.items()
    }


def _shifted(found: Measured, key: str, change: float) -> Measured:
    figure = found.figures.get(key)
    if figure is None or figure.value is None:
        return found
    moved = replace(figure, value=figure.value * math.exp(change))
    return replace(found, figures={**found.figures, key: moved})
