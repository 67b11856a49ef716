"""Power of a whole test: the mean over all its seconds, and the highest reading.

Source: AnandTech's 2015 client suite logs power once per second. A virtual drive is read ten times
a second for the peak, as the core keeps it; of a real one the highest second is known.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from drivebay.analysis.figures import SAMPLES, SD, Figure, PhaseFigures
from drivebay.analysis.timeline import spread

PEAKS = {"power_w_peak_100ms": "highest 100 ms", "power_w_peak_1s": "highest second"}


def of_power(phases: Sequence[PhaseFigures]) -> list[Figure]:
    """Mean and peak, with value None where the target reports none."""
    watts = np.concatenate([phase.timeline.power_w for phase in phases] or [np.empty(0)])
    known = watts[~np.isnan(watts)]
    some, note = spread(known), "" if len(known) else "not reported by this target"
    finest, words = "", "highest second"
    for name, said in PEAKS.items():
        if phases and all(name in phase.metrics for phase in phases):
            finest, words = name, said
            break
    peak = float(known.max()) if len(known) else None
    if finest:
        peak = max(phase.metrics[finest] for phase in phases)
        note = ""
    mean, sd, n = (some.mean, some.sd, some.n) if some else (None, None, 0)
    absent = "" if some else "not reported by this target"
    return [
        Figure("power_mean", "Mean power", mean, "W", sd, SD, n, note=absent),
        Figure("power_peak", f"Peak power, {words}", peak, "W", n=n, n_kind=SAMPLES, note=note),
    ]
