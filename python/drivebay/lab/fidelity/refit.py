"""The linear leave-one-out prediction beside a real one: the drives run again without the row.

The parameters that are best without a row, less those that are best with it, are added to the
profiles' own, and the row's tests run in their whole length.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from drivebay.common.errors import UserError
from drivebay.lab.fidelity.arrivals import PER_Z, shifted
from drivebay.lab.fidelity.derivatives import Bench, Derivatives, coordinate_of
from drivebay.lab.fidelity.posterior import Found, Problem
from drivebay.lab.pool import Worker
from drivebay.lab.validate.plan import Run
from drivebay.targets.virtual.states import key_of

LEAST_SHIFT = 0.005
"""Rows that a refit moves by less tell nothing about the linear formula."""
NEGLIGIBLE = 0.02
"""A parameter that moves by less, in standard deviations of its range, is not moved."""
MOST_MOVED = 3
"""Parameters that are named with a refit: those that it moves most, in deviations of the range."""


def refits(
    bench: Bench,
    found: Derivatives,
    problem: Problem,
    chosen: list[int],
    known: Found,
    *,
    count: int,
) -> list[dict[str, Any]]:
    """Linear and real prediction of up to `count` rows that the refit moves, spread over leverage;
    both as in the problem: logarithms, or values."""
    shift = known.left_out_value - problem.reproduced
    moving = [k for k in range(len(chosen)) if abs(shift[k]) > LEAST_SHIFT]
    moving.sort(key=lambda k: float(known.leverage[k]))
    step = max(1.0, len(moving) / max(1, count))
    picked = [moving[int(at * step)] for at in range(min(count, len(moving)))]
    tasks = []
    for k in picked:

        def task(worker: Worker, k: int = k) -> Any:
            return _refit(bench, found, known, chosen[k], k, worker)

        row = bench.rows[chosen[k]]
        marks = sorted({bench.marks[bench.same[run].drive] for run in row.needs})
        what = hashlib.sha256(known.left_out[k].tobytes() + known.best.tobytes()).hexdigest()
        tasks.append((f"refit {row.published.id} {marks} {what}", task))
    done = bench.each(tasks, "refits")
    out = []
    for k, (name, _) in zip(picked, tasks, strict=True):
        real = done[name]["value"]
        out.append(
            {
                "id": bench.rows[chosen[k]].published.id,
                "leverage": round(float(known.leverage[k]), 3),
                "fitted": round(float(problem.reproduced[k]), 5),
                "linear": round(float(done[name]["linear"]), 5),
                "real": None if real is None else round(real, 5),
                "moved": done[name]["moved"],
            }
        )
    return out


def _refit(
    bench: Bench, found: Derivatives, known: Found, i: int, k: int, worker: Worker
) -> dict[str, Any]:
    row = bench.rows[i]
    change = known.left_out[k] - known.best
    change[np.abs(change) < NEGLIGIBLE] = 0.0
    inside = found.start + change
    runs = dict(found.full)
    moved_by = np.zeros(len(change))
    for drive in sorted({bench.same[run].drive for run in row.needs}):
        some = [run for run in bench.by_drive[drive] if run in {bench.same[r] for r in row.needs}]
        values = []
        for j, one in enumerate(found.parameters):
            if change[j] and one.key in bench.free[drive]:
                at = coordinate_of(float(inside[j]))
                values.append((one, at, j))
        after, used = _measured(bench, worker, drive, some, values)
        runs |= after
        for j, z in used.items():
            moved_by[j] = z
    for j, one in enumerate(found.parameters):  # arrival is in no drive
        section, _, rest = one.path.partition(".")
        if section == "trace" and change[j]:
            trace, _, figure = rest.partition(".")
            runs = shifted(runs, trace, figure, PER_Z * float(change[j]))
            moved_by[j] = float(change[j])
    real = bench.value(row, runs)
    start = bench.value(row, found.full)
    assert start is not None
    most = sorted(np.flatnonzero(moved_by), key=lambda j: -abs(moved_by[j]))[:MOST_MOVED]
    return {
        "value": real,
        "linear": start + float(found.jacobian[i] @ moved_by),
        "moved": {found.parameters[j].path: round(float(moved_by[j]), 2) for j in most},
    }


def _measured(
    bench: Bench, worker: Worker, drive: str, runs: list[Run], values: list[Any]
) -> tuple[dict[Run, Any], dict[int, float]]:
    """The runs with these values; if the model takes no such drive, with a half of the change."""
    from drivebay.lab.fidelity.derivatives import z_of
    from drivebay.lab.fidelity.free import moved

    for part in (1.0, 0.5, 0.25, 0.0):
        steps = [(one, one.start + part * (at - one.start), j) for one, at, j in values]
        try:
            profile = moved(bench.profiles[drive], [(one, at) for one, at, _ in steps])
            some = sorted(runs, key=lambda run: key_of(bench.plan.tests[run.test]))
            found = bench.measure(worker, some, profile, whole=some)
            return found, {j: z_of(at) - z_of(one.start) for one, at, j in steps}
        except UserError:
            continue
    raise AssertionError("the profile itself is refused")
