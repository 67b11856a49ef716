"""Verdict on a run: figures of a steady state, or means over a change.

Source: SNIA Solid State Storage Performance Test Specification 2.0.1 (range and slope over five
rounds). Here the rounds are the fifths of the run. guess: the third criterion. A drive that has
free flash left takes writes at a rate that is constant but ends: in a steady state it erases as
much as it programs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from drivebay.definitions.suites.parts import Steady

RULE = Steady()
# guess: minimum share of the programmed flash that is erased in a steady state; below 1, because
# superblocks are large.
FREED = 0.8
UNKNOWN = f"shorter than {RULE.window_rounds} s"


def fifths(values: npt.NDArray[np.floating] | npt.NDArray[np.integer]) -> list[float]:
    """Means of the fifths of a run, from a value for each whole second; empty if it is too short.

    >>> fifths(np.arange(10))
    [0.5, 2.5, 4.5, 6.5, 8.5]
    """
    if len(values) < RULE.window_rounds:
        return []
    return [float(part.mean()) for part in np.array_split(values, RULE.window_rounds)]


def unsteady(courses: Mapping[str, Sequence[float]], *, freed: float | None) -> str:
    """Reason why a run's figures are not those of a steady state; empty if they are.

    Parameters
    ----------
    courses : by name, `fifths` of what must be steady.
    freed : flash that was erased during the run as a share of what was programmed; None for a run
        without writes, or of media without erases.

    >>> unsteady({"rate": [100, 101, 99, 100, 102]}, freed=0.0)
    'only 0 % of the flash that it filled was erased: it used up free flash'
    >>> unsteady({"rate": [300, 200, 120, 100, 100]}, freed=1.0)
    'rate moved by 122 % of its mean'
    """
    if freed is not None and freed < FREED:
        share = f"only {100 * freed:.0f} % of the flash that it filled was erased"
        return f"{share}: it used up free flash"
    for name, values in courses.items():
        window = RULE.window(values)
        if window is None and freed is not None:
            return UNKNOWN
        if window is not None and not window.steady:
            return f"{name} moved by {window.range_percent:.0f} % of its mean"
    return ""
