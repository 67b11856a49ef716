"""Comparison of the linear leave-one-out prediction with a real one: the drives run again without
the row.

The difference between the best parameters without a row and those with it is added to the profiles'
own values, and the row's tests are run in their whole length.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from drivebay.common.errors import UserError
from drivebay.lab.fit.arrivals import PER_Z, shifted
from drivebay.lab.fit.linear import Floats, Posterior, Problem
from drivebay.lab.fit.sensitivity import At, Bench, Derivatives, coordinate_of, z_of
from drivebay.lab.journal import Evaluation
from drivebay.lab.validate.plan import Row, Run
from drivebay.lab.validate.values import Figures

# Smallest effect of a refit on a row that says something about the linear formula.
LEAST_SHIFT = 0.005
# Smallest change of a parameter that is applied, in standard deviations of its range.
NEGLIGIBLE = 0.02
# Number of parameters named with a refit: those that it moves most, in deviations of the range.
MOST_MOVED = 3


def refits(
    bench: Bench,
    derivatives: Derivatives,
    problem: Problem,
    chosen: list[int],
    known: Posterior,
    *,
    count: int,
) -> list[dict[str, Any]]:
    """Linear and real predictions of up to `count` rows that the refit moves, spread over
    leverage; both as in the problem: logarithms, or values.
    """
    shift = known.left_out_value - problem.reproduced
    moving = [k for k in range(len(chosen)) if abs(shift[k]) > LEAST_SHIFT]
    moving.sort(key=lambda k: float(known.leverage[k]))
    step = max(1.0, len(moving) / max(1, count))
    picked = [moving[int(i * step)] for i in range(min(count, len(moving)))]
    wanted: dict[int, list[Evaluation]] = {}
    moved_by = {k: np.zeros(len(derivatives.start)) for k in picked}
    for k in picked:
        change = known.left_out[k] - known.best
        change[np.abs(change) < NEGLIGIBLE] = 0.0
        runs = sorted({bench.same[run] for run in bench.rows[chosen[k]].needs})
        drives = {run.drive for run in runs}
        at = {drive: _possible(bench, derivatives, change, drive) for drive in drives}
        wanted[k] = [bench.evaluation(run, at[run.drive], full=True) for run in runs]
        for j, parameter in enumerate(derivatives.parameters):
            if parameter.name.startswith("trace."):  # arrival times belong to no drive
                moved_by[k][j] = change[j]
            for drive in set(derivatives.drives[j]) & set(at):
                end = dict(at[drive]).get(parameter.name, parameter.at)
                moved_by[k][j] = z_of(end) - z_of(parameter.at)
    out = []
    for k, done in bench.run_each(wanted, "refits").items():
        row, z = bench.rows[chosen[k]], moved_by[k]
        after = {evaluation.run: figures for evaluation, figures in done.items() if figures}
        real, start = _real(bench, derivatives, row, after, z), bench.value(row, derivatives.full)
        assert start is not None
        most = sorted(np.flatnonzero(z), key=lambda j: -abs(z[j]))[:MOST_MOVED]
        out.append(
            {
                "id": row.published.id,
                "leverage": round(float(known.leverage[k]), 3),
                "fitted": round(float(problem.reproduced[k]), 5),
                "linear": round(float(start + derivatives.jacobian[chosen[k]] @ z), 5),
                "real": None if real is None else round(real, 5),
                "moved": {derivatives.parameters[j].name: round(float(z[j]), 2) for j in most},
            }
        )
    return out


def _real(
    bench: Bench, derivatives: Derivatives, row: Row, after: Mapping[Run, Figures], z: Floats
) -> float | None:
    """The row's figure with the drives run again, and the traces' arrivals moved."""
    runs = {**derivatives.full, **after}
    for j, parameter in enumerate(derivatives.parameters):
        section, _, rest = parameter.name.partition(".")
        if section == "trace" and z[j]:
            trace, _, figure = rest.partition(".")
            some = {run: runs[run] for run in runs if bench.trace_of(run) == trace}
            runs |= shifted(some, figure, PER_Z * float(z[j]))
    return bench.value(row, runs)


def _possible(bench: Bench, derivatives: Derivatives, change: Floats, drive: str) -> At:
    """The drive's parameters with this change, or with a part of it if the model refuses the
    drive.
    """
    for part in (1.0, 0.5, 0.25):
        at = []
        for j, parameter in enumerate(derivatives.parameters):
            if change[j] and drive in derivatives.drives[j]:
                whole = coordinate_of(float(derivatives.start[j] + change[j]))
                at.append((parameter.name, parameter.at + part * (whole - parameter.at)))
        try:
            bench.drive_at(drive, tuple(at))
        except UserError:
            continue
        return tuple(at)
    return ()
