"""Performance consistency: a long 4 KiB random write, examined second by second.

Source: the method of the AnandTech 2015 client suite: mean of the last 400 s, standard deviation of
the same 1 s samples, and their ratio (the second figure from June 2015 on). Burst and "after the
burst" are this project's interpretation of values that the reviewers read off the scatter plots.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drivebay.analysis.timeline import Spread, Timeline, fall_second, spread

BURST_START_S = 3


@dataclass(frozen=True)
class Consistency:
    """Figures of one consistency run; IOPS of 1 s samples unless the name states another unit.

    `window` has the samples of the last seconds; a short run has fewer than requested.
    `mean_over_sd` is None if all samples are equal. `burst_s` is the number of whole seconds before
    the rate first falls under half of its start, and None if it never does; then `burst` and
    `after` are None too. `after_median` is the median of all later seconds.
    """

    window: Spread
    mean_over_sd: float | None
    lowest: float
    burst_s: int | None
    burst: Spread | None
    after_median: float | None
    after: Spread | None


def consistency(timeline: Timeline, *, window_s: float) -> Consistency | None:
    """Computes the figures; None if there is no full second."""
    window = spread(timeline.ios[timeline.last(window_s)])
    if window is None:
        return None
    burst_s = fall_second(timeline.ios, start_s=BURST_START_S, stay_s=1)
    after = timeline.ios[burst_s:] if burst_s else None
    return Consistency(
        window=window,
        mean_over_sd=window.mean / window.sd if window.sd else None,
        lowest=float(timeline.ios[timeline.last(window_s)].min()),
        burst_s=burst_s or None,
        burst=spread(timeline.ios[:burst_s]) if burst_s else None,
        after_median=float(np.median(after)) if after is not None else None,
        after=spread(after) if after is not None else None,
    )
