"""Runs that a sweep still lacks; with `until` the seeds of each point come in rounds.

A point is checked for enough seeds only when all runs of a round have ended, so the final set of
runs does not depend on the number of workers, or on interruptions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from drivebay.analysis.replicates import FEWEST, Precision, next_look
from drivebay.lab.sweep.plan import Plan
from drivebay.lab.sweep.store import Store


def missing(
    plan: Plan, store: Store, finished: Collection[int], failed: Collection[int] = ()
) -> list[int]:
    """Numbers of the next runs, in order; empty if the sweep is complete. `finished`: runs that
    have ended. `failed`: runs that are not retried now.
    """
    ended = {*finished, *failed}
    if plan.spec.until is None:
        return [index for index in range(plan.runs) if index not in ended]
    precision = Precision.parse(plan.spec.until)
    known = _values(plan, store, precision.figure)
    most = len(plan.spec.seed_list)
    left: list[int] = []
    for first in range(0, plan.runs, most):
        look = FEWEST
        while True:
            wanted = range(first, first + look)
            lacking = [index for index in wanted if index not in ended]
            if lacking or look == most or _is_enough(precision, [known[n] for n in wanted]):
                left += lacking
                break
            look = min(most, next_look(look))
    return left


def _is_enough(precision: Precision, runs: list[dict[str, float]]) -> bool:
    keys = {key for run in runs for key in run}
    columns = [[run[key] for run in runs if key in run] for key in keys]
    return bool(columns) and all(map(precision.is_met, columns))


def _values(plan: Plan, store: Store, figure: str | None) -> defaultdict[int, dict[str, float]]:
    """Values by run of the named figure, or of all main figures."""
    known: defaultdict[int, dict[str, float]] = defaultdict(dict)
    for row, metadata in store.rows(plan.fingerprint):
        for key, (_, _, is_main) in metadata["labels"][row["test"]].items():
            if (key == figure if figure else is_main) and row[key] is not None:
                known[row["run"]][key] = row[key]
    return known
