"""Short forms of tests, where the measured data itself shows that they give the same figures.

A phase may be cut to its first seconds if their rate is that of the whole phase. A phase that slows
down over time (heat, garbage collection) leaves the drive in another state than a cut one would, so
the short form omits the phases after it. A consistency test is cut to the length after which
nothing changed any more. If too little is left, the test is run whole. Cutting affects only the
path of a fit: at its end every test is run in its measured length.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from drivebay.analysis import Measured
from drivebay.analysis.figures import PhaseFigures
from drivebay.analysis.timeline import Floats
from drivebay.definitions.scaling import with_load
from drivebay.definitions.suites import Phase, Test
from drivebay.lab.fit.experiment import KINDS_OF_PHASES

# Lengths to which a phase may be cut.
LENGTHS_S = (1, 2, 5, 20, 60)
# Largest relative difference of a cut phase; half of the scale of a figure.
SAME = 0.005
# Share of a test's phases that must give the same figures, otherwise the test is run whole.
KEPT_PART = 1 / 3
# Lengths to which a consistency test may be cut; their last third is the window.
CONSISTENCY_S = (60, 120, 300, 600, 900, 1200, 1800, 2700)


def shortened(whole: Measured) -> tuple[Test, dict[str, float] | None]:
    """Returns the test as evaluations run it, and the measured values of its figures, by key;
    None if it is run whole, with all figures.
    """
    test = whole.test
    if test.kind == "consistency":
        return _short_consistency(whole)
    bound = any(phase.before or phase.replay is not None or phase.rest_s for phase in test.phases)
    if bound or test.kind not in KINDS_OF_PHASES:
        return test, None
    needed = math.ceil(KEPT_PART * len(test.phases))
    forms = [(_leading(whole, seconds), seconds) for seconds in LENGTHS_S]
    for enough in (len(test.phases), needed):
        for same, seconds in forms:
            if len(same) >= enough:
                return _cut(whole, same, seconds)
    return test, None


def _leading(whole: Measured, seconds: int) -> list[PhaseFigures]:
    """The phases before the first one whose first seconds differ from the whole phase."""

    def same(phase: PhaseFigures) -> bool:
        return phase.workload.duration_s <= seconds or _steady(phase, seconds)

    return list(itertools.takewhile(same, whole.phases))


def _steady(phase: PhaseFigures, seconds: int) -> bool:
    rates, throttled = phase.timeline.rate_mb_s, phase.timeline.throttle_stage[:seconds]
    if len(rates) < seconds or np.nansum(throttled) > 0:
        return False
    return _same(rates[:seconds], phase.step.rate_mb_s)


def _same(samples: Floats, mean: float) -> bool:
    """True if the samples' mean equals the given one, within their scatter."""
    if mean <= 0:
        return False
    scatter = float(samples.std(ddof=1)) / math.sqrt(len(samples)) if len(samples) > 1 else 0.0
    return bool(abs(samples.mean() / mean - 1) <= max(SAME, min(2 * scatter / mean, 2 * SAME)))


def _cut(whole: Measured, same: list[PhaseFigures], seconds: int) -> tuple[Test, dict[str, float]]:
    labels = {phase.label for phase in same}
    phases = tuple(_phase(phase, seconds) for phase in whole.test.phases if phase.label in labels)
    present = [phase.workload.queue_depth for phase in phases]
    wanted = whole.test.metric_queue_depths
    depths = tuple(depth for depth in wanted if depth in present)
    if wanted and not depths:
        depths = (present[0],)
    changes = {"phases": phases, "scores": (), "metric_queue_depths": depths}
    measured = {f"rate@{phase.label}": phase.step.rate_mb_s for phase in same}
    for phase in same:  # power over the same seconds: it rises over the first one, and with heat
        power = phase.timeline.power_w[:seconds]
        if phase.step.power is not None and not np.isnan(power).any():
            measured[f"power@{phase.label}"] = float(power.mean())
    return whole.test.model_copy(update=changes), measured


def _phase(phase: Phase, seconds: float) -> Phase:
    load = phase.workload
    return with_load(phase, duration_s=min(float(seconds), load.duration_s), until_stable=None)


def _short_consistency(whole: Measured) -> tuple[Test, dict[str, float] | None]:
    test, line = whole.test, whole.phases[0].timeline if whole.phases else None
    if line is None or whole.consistency is None:
        return test, None
    steady = whole.consistency.window.mean
    for seconds in CONSISTENCY_S:
        window = min(round(test.metric_window_s or 0), seconds // 3)
        if seconds >= line.n or window < 1:
            break
        ends = range(seconds, line.n + 1, window)
        if all(_same(line.ios[end - window : end], steady) for end in ends):
            cut = {"phases": (_phase(test.phases[0], seconds),), "metric_window_s": float(window)}
            measured = {
                key: figure.value
                for key in ("mean_iops", "mean_rate", "burst_iops", "burst_s")
                if (figure := whole.figures.get(key)) and figure.value is not None
            }
            power = line.power_w[:seconds]
            if not np.isnan(power).any():
                measured["power@run"] = float(power.mean())
            return test.model_copy(update=cut), measured
    return test, None
