"""Free parameters of the synthesized traces, which belong to no drive: arrival times of requests.

Each trace's parameters were set so that one drive's data rate and mean latency come out as
published (docs/concepts/synthesis.md), for all drives alike. So each trace has two parameters here,
factors on these two figures of all of its runs, known to a factor of two: their derivatives have a
closed form. Leaves out: the effect of arrival times on the shares over 10 and 100 ms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from drivebay.lab.fit.linear import EDGE
from drivebay.lab.fit.parameters import OPEN_FACTOR, Parameter
from drivebay.lab.validate.plan import Run
from drivebay.lab.validate.values import Figures

KEYS = ("rate", "latency_mean")
# Change of the factor's logarithm per z, a standard deviation of its range.
PER_Z = math.log(OPEN_FACTOR) / EDGE
SOURCE = "guess: arrival, set with the SM951 with heatsink (docs/concepts/synthesis.md)"


def arrivals(traces: set[str]) -> dict[tuple[str, str], Parameter]:
    """The parameters of these traces, by trace and figure."""
    names = {(trace, key): f"trace.{trace}.{key}" for trace in sorted(traces) for key in KEYS}
    return {
        place: Parameter(
            name, 1.0, 1 / OPEN_FACTOR, OPEN_FACTOR, read_off=True, source=SOURCE, key=name
        )
        for place, name in names.items()
    }


def shifted(runs: Mapping[Run, Figures], key: str, change: float) -> dict[Run, Figures]:
    """Returns the runs of a trace with the logarithm of one figure changed."""
    return {
        run: {**figures, key: figures[key] * math.exp(change)}
        if isinstance(figures.get(key), float)
        else figures
        for run, figures in runs.items()
    }
