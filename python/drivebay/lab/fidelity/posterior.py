"""Leverage, leave-one-out predictions and intervals, by linear algebra.

Rows y depend on parameters z, in standard deviations of their ranges around the middle:
y = y0 + J (z - z0). The best parameters minimize the rows' squared errors in units of their bounds
plus the squares of z, within the ranges; Gauss-Newton with one step, which is Laplace's
approximation of the posterior. Source: Gelman et al., Bayesian Data Analysis, chapters 4 and 14;
the leverage is the hat matrix' diagonal (Hoaglin and Welsch, 1978), of a row without those that
state the same. A row that the model misses by far counts less, by Cauchy's weight: it says that the
model is wrong there, not where its parameters lie.
Leaves out: curvature; a real refit shows how much (`refit.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import lsq_linear

Floats = npt.NDArray[np.float64]

CAUCHY = 2.0
"""A row that is missed by so many bounds counts half."""
EDGE = math.sqrt(3.0)
"""A range's ends, in standard deviations of a uniform distribution over it."""
Z_90 = 1.645
"""Half of a 90 % interval, in standard deviations."""


@dataclass(frozen=True)
class Problem:
    """Rows and parameters; arrays are in the rows' order, (m,), or the parameters', (n,).

    `jacobian` (m, n): by z. `reproduced`, `published`, `bound`, `noise`: logarithms, or values
    where one may be below 0; bounds are half widths. `same` (m sets): rows left out with each, and
    itself.
    """

    jacobian: Floats
    start: Floats
    reproduced: Floats
    published: Floats
    bound: Floats
    noise: Floats
    same: tuple[frozenset[int], ...]

    @property
    def sigma(self) -> Floats:
        """The rows' errors: their bounds, wider where the model misses them."""
        missed = (self.published - self.reproduced) / self.bound
        return np.asarray(self.bound * np.sqrt(1 + (missed / CAUCHY) ** 2))


@dataclass(frozen=True)
class Found:
    """For each row: leverage, the leave-one-out prediction and its standard deviation; `sd` of the
    figure with all rows known. `best` are the parameters, `left_out` (m, n) those without each row,
    `covariance` (n, n) that of the parameters.
    """

    leverage: Floats
    left_out_value: Floats
    left_out_sd: Floats
    sd: Floats
    best: Floats
    left_out: Floats
    covariance: Floats


def posterior(problem: Problem) -> Found:
    """What the rows tell of the parameters, and of each row without itself."""
    count = len(problem.reproduced)
    sigma = problem.sigma
    everything = np.ones(count, dtype=bool)
    best = fitted(problem, everything)
    covariance = _covariance(problem, everything)
    leverage, value, left_sd = np.zeros(count), problem.reproduced.copy(), np.zeros(count)
    left_out = np.tile(best, (count, 1))
    known: dict[frozenset[int], tuple[Floats, Floats]] = {}
    for i, group in enumerate(problem.same):
        if group not in known:
            kept = everything.copy()
            kept[sorted(group)] = False
            known[group] = fitted(problem, kept), _covariance(problem, kept)
        left_out[i], cov = known[group]
        row = problem.jacobian[i]
        variance = float(row @ cov @ row)
        leverage[i] = variance / (variance + sigma[i] ** 2)
        value[i] += row @ (left_out[i] - best)
        left_sd[i] = math.hypot(math.sqrt(variance), problem.noise[i])
    sd = np.sqrt(
        np.einsum("ij,jk,ik->i", problem.jacobian, covariance, problem.jacobian) + problem.noise**2
    )
    return Found(leverage, value, left_sd, sd, best, left_out, covariance)


def fitted(problem: Problem, kept: npt.NDArray[np.bool_]) -> Floats:
    """The best parameters by these rows, within their ranges."""
    weight = 1 / problem.sigma[kept]
    rows = problem.jacobian[kept]
    target = problem.published[kept] - problem.reproduced[kept] + rows @ problem.start
    count = problem.jacobian.shape[1]
    found = lsq_linear(
        np.vstack([rows * weight[:, None], np.eye(count)]),
        np.concatenate([target * weight, np.zeros(count)]),
        bounds=(-EDGE, EDGE),
    )
    return np.asarray(found.x)


def _covariance(problem: Problem, kept: npt.NDArray[np.bool_]) -> Floats:
    scaled = problem.jacobian[kept] / problem.sigma[kept][:, None]
    return np.asarray(np.linalg.inv(np.eye(problem.jacobian.shape[1]) + scaled.T @ scaled))


def groups(names: Sequence[str], same_as: Sequence[Sequence[str]]) -> tuple[frozenset[int], ...]:
    """For each row its own number and those of the rows that state the same."""
    number = {name: i for i, name in enumerate(names)}
    return tuple(
        frozenset({i, *(number[one] for one in others if one in number)})
        for i, others in enumerate(same_as)
    )
