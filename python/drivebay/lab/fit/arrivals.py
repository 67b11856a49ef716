"""The free parameters of the synthesized traces, which no drive has: when requests arrive.

Each trace's were set so that one drive's data rate and mean latency come out as published
(docs/concepts/synthesis.md), for all drives alike. So each trace has two parameters here, a factor
on either figure of all of its runs, known to a factor of two: derivatives are closed.
Leaves out: how arrival moves the shares over 10 and 100 ms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from drivebay.lab.fit.linear import EDGE
from drivebay.lab.fit.parameters import OPEN_FACTOR, Parameter
from drivebay.lab.validate.plan import Run
from drivebay.lab.validate.values import Figures

KEYS = ("rate", "latency_mean")
PER_Z = math.log(OPEN_FACTOR) / EDGE
"""Change of the factor's logarithm by z, a standard deviation of its range."""
SOURCE = "guess: arrival, set with the SM951 with heatsink (docs/concepts/synthesis.md)"


def arrivals(traces: set[str]) -> dict[tuple[str, str], Parameter]:
    """The parameters of these traces, by trace and figure."""
    found = {}
    for trace in sorted(traces):
        for key in KEYS:
            name = f"trace.{trace}.{key}"
            found[trace, key] = Parameter(
                name, 1.0, 1 / OPEN_FACTOR, OPEN_FACTOR, read_off=True, source=SOURCE, key=name
            )
    return found


def shifted(runs: Mapping[Run, Figures], key: str, change: float) -> dict[Run, Figures]:
    """The runs of a trace with the logarithm of this figure changed."""
    return {
        run: {**one, key: one[key] * math.exp(change)} if isinstance(one.get(key), float) else one
        for run, one in runs.items()
    }
