"""The fewest lost writes with which a state still fails.

Source: delta debugging, ddmin (Zeller and Hildebrandt, IEEE TSE 28(2), 2002), before which each
single write is tried. The parts are what one command has lost, then its units. No part of the
outcome can be left out; where a single part fails it is the smallest there is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

from drivebay import _core

TESTS_MAX = 1000
"""Checks for one state at most; then what has been found so far is the outcome."""
SINGLES_MAX = 200
"""Of more parts than that not each is tried alone."""

Part = tuple[int, ...]


def minimise(states: _core.CrashStates, state: str, fails: Callable[[str], bool]) -> str:
    """The name of a state of the same cut that fails, and of which no lost part can be left out.

    Parameters
    ----------
    states : the recording.
    state : one that fails.
    fails : the check on a state.
    """
    lost = states.lost_units(state)
    known: dict[str, bool] = {}

    def still_fails(parts: Sequence[Part]) -> bool:
        name = states.with_lost(state, [unit for part in parts for unit in part])
        if name not in known:
            known[name] = len(known) < TESTS_MAX and fails(name)
        return known[name]

    commands = [tuple(unit for unit, _ in of) for _, of in groupby(lost, lambda one: one[1])]
    fewest = _fewest(commands, still_fails)
    units: list[Part] = [(unit,) for part in fewest for unit in part]
    if len(units) > len(fewest):
        units = _fewest(units, still_fails)
    return states.with_lost(state, [unit for part in units for unit in part])


def _fewest(parts: list[Part], fails: Callable[[Sequence[Part]], bool]) -> list[Part]:
    """Parts that fail together, none of which can be left out; all must fail."""
    if fails([]):
        return []
    if len(parts) <= SINGLES_MAX:
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
