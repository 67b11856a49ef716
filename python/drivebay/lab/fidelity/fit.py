"""New values of profiles, by least squares from the derivatives: where a fit would put them.

Each parameter is drawn to where it stands, as weakly as a uniform distribution over its range says,
and stays in that range: what the rows do not tell stays as it was. Rows whose publications
contradict each other have no say, hosts stay as they are: they serve all drives.
Leaves out: curvature. So the rows are run again with the new values, and the fit repeated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import lsq_linear

from drivebay.analysis import fidelity
from drivebay.lab.fidelity.derivatives import Bench, Derivatives, coordinate_of
from drivebay.lab.fidelity.posterior import EDGE, Problem

FIXED = frozenset({"host", "trace"})
"""Sections that are no drive's."""
LEAST_MOVE = 0.15
"""A value that would move by less, in standard deviations of its range, stays."""
NAMED = 3
"""Rows that are named with a value: those that draw it most."""


@dataclass(frozen=True)
class Change:
    """A parameter's present and new value (of a list its mean), the drives that share it, the rows
    that it serves most, and whether it was read off a publication."""

    path: str
    drives: tuple[str, ...]
    before: float
    after: float
    rows: tuple[str, ...]
    told: bool


def changes(bench: Bench, found: Derivatives, problem: Problem, chosen: list[int]) -> list[Change]:
    """What the fit would move, by path."""
    names = [bench.rows[i] for i in chosen]
    told = np.array([not row.conflict for row in names])
    free = [
        j
        for j, one in enumerate(found.parameters)
        if one.path.partition(".")[0] not in FIXED and j not in found.stuck
    ]
    jacobian = problem.jacobian[:, free]
    weighted = (jacobian / problem.sigma[:, None])[told]
    missed = ((problem.published - problem.reproduced) / problem.sigma)[told]
    start = problem.start[free]
    moves = lsq_linear(
        np.vstack([weighted, np.eye(len(free))]),
        np.concatenate([missed, np.zeros(len(free))]),
        bounds=(np.minimum(-EDGE - start, -1e-9), np.maximum(EDGE - start, 1e-9)),
    ).x
    out = []
    for k, j in enumerate(free):
        if abs(moves[k]) < LEAST_MOVE:
            continue
        one = found.parameters[j].parameter
        pull = np.abs(jacobian[:, k] * moves[k] / problem.sigma) * told
        most = [int(i) for i in np.argsort(-pull)[:NAMED] if pull[i] > 0]
        after = one.value(coordinate_of(float(start[k] + moves[k])))
        drives = tuple(sorted(set(map(fidelity.profile_of, found.drives[j]))))
        rows = tuple(sorted(names[i].published.id for i in most))
        told_of = found.parameters[j].told
        out.append(Change(one.name, drives, one.start, float(f"{after:.3g}"), rows, told_of))
    return sorted(out, key=lambda change: (change.path, change.drives))
