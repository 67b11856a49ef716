"""The fewest lost writes with which a state still fails.

Source: delta debugging, ddmin (Zeller and Hildebrandt, IEEE TSE 28(2), 2002), before which each
single write is tried. The parts are what one command has lost, then its units. No part of the
outcome can be left out; where a single part fails it is the smallest there is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

from drivebay import _core

SINGLES = 5
"""Each part is tried alone where that takes at most one in so many of the checks."""

Part = tuple[int, ...]


def minimise(
    states: _core.CrashStates, state: str, fails: Callable[[str], bool], tests_max: int
) -> str:
    """The name of a state of the same cut that fails, and of which no lost part can be left out.

    Parameters
    ----------
    states : the recording.
    state : one that fails.
    fails : whether the check fails on a state as on this one.
    tests_max : how often that is asked; then what has been found so far is the outcome.
    """
    lost = states.lost_units(state)
    known: dict[str, bool] = {}

    def still_fails(parts: Sequence[Part]) -> bool:
        name = states.with_lost(state, [unit for part in parts for unit in part])
        if name not in known:
            known[name] = len(known) < tests_max and fails(name)
        return known[name]

    commands = [tuple(unit for unit, _ in of) for _, of in groupby(lost, lambda one: one[1])]
    singles_max = tests_max // SINGLES
    fewest = _fewest(commands, still_fails, singles_max)
    units: list[Part] = [(unit,) for part in fewest for unit in part]
    if len(units) > len(fewest):
        units = _fewest(units, still_fails, singles_max)
    return states.with_lost(state, [unit for part in units for unit in part])


def _fewest(
    parts: list[Part], fails: Callable[[Sequence[Part]], bool], singles_max: int
) -> list[Part]:
    """Parts that fail together, none of which can be left out; all must fail."""
    if fails([]):
        return []
    if len(parts) <= singles_max:
        for one in parts:
            if fails([one]):
                return [one]
    pieces = 2
    while len(parts) >= 2:
        size = -(-len(parts) // pieces)
        for at in range(0, len(parts), size):
            rest = parts[:at] + parts[at + size :]
            if rest and fails(rest):
                parts, pieces = rest, max(pieces - 1, 2)
                break
        else:
            if size == 1:
                break
            pieces = min(2 * pieces, len(parts))
    return parts
