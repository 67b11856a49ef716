"""Search for the fewest lost writes with which a state still fails.

Source: delta debugging, ddmin (Zeller and Hildebrandt, IEEE TSE 28(2), 2002), after a pass that
tries each single write. The parts are first the losses per command, then their units. No part of
the outcome can be left out; where a single part fails it is the smallest possible.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

from drivebay import _core

# Each part is tried alone only if that takes at most 1/SINGLES of the checks.
SINGLES = 5

Part = tuple[int, ...]


def minimise(
    states: _core.CrashStates, state: str, fails: Callable[[str], bool], tests_max: int
) -> str:
    """Returns the name of a failing state of the same cut whose lost parts are all needed to fail.

    Parameters
    ----------
    states : the recording.
    state : a state that fails.
    fails : returns True if the check fails on a state as on this one.
    tests_max : limit of calls of `fails`; at the limit the smallest state found so far is returned.
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
    """Returns parts that fail together, none of which can be left out; all parts together must
    fail.
    """
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
