"""Inference of parameters from figures by linear algebra: leverage, intervals, identifiability.

Rows y depend on parameters z, in standard deviations of their ranges around the middle: y = y0 + J
(z - z0). The best parameters minimize the rows' squared errors in units of their bounds plus the
squares of z, within the ranges; Gauss-Newton with one step, which is Laplace's approximation of the
posterior. Source: Gelman et al., Bayesian Data Analysis, chapters 4 and 14; the leverage is the hat
matrix' diagonal (Hoaglin and Welsch, 1978), of a row without those that state the same. A row that
the model misses by far has less weight, by Cauchy's formula: it indicates an error of the model,
not the parameters' values.

For a single fit (`identifiability`) the derivatives S are by coordinates from 0 to 1 over each
range: the values' covariance is (S'S + 12 I)^-1, where 12 I is the information of the range alone.
Correlations near one identify parameters that only have a joint effect; singular values give the
number of combinations that the data determine. Leaves out: curvature; a real refit shows its size
(`refit.py`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import lsq_linear

from drivebay.lab.fit.parameters import Parameter

Floats = npt.NDArray[np.float64]

# Error in bounds at which a row counts half.
CAUCHY = 2.0
# Ends of a range, in standard deviations of a uniform distribution over it.
EDGE = math.sqrt(3.0)
# Correlation from which on two parameters cannot be distinguished.
CORRELATED = 0.95
# Inverse of the variance of a uniform distribution from 0 to 1.
PRIOR = 12.0
# Fewer figures of a kind share the errors of all.
OWN_ERRORS = 8
# Quantile of a normal distribution at 95 %, the end of a two-sided interval of 90 %.
Z_90 = 1.645
# Share of its range up to which a value counts as determined by the data.
OPEN = 0.5


@dataclass(frozen=True)
class Problem:
    """Rows and parameters; arrays are in the rows' order, (m,), or the parameters', (n,).

    `jacobian` (m, n): by z. `reproduced`, `published`, `bound`, `noise`: logarithms, or values
    where one may be below 0; bounds are half widths. `same` (m sets): for each row, the rows to
    leave out with it, and itself.
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
        """Errors of the rows: their bounds, wider where the model misses them."""
        missed = (self.published - self.reproduced) / self.bound
        return np.asarray(self.bound * np.sqrt(1 + (missed / CAUCHY) ** 2))


@dataclass(frozen=True)
class Posterior:
    """For each row: leverage, the leave-one-out prediction and its standard deviation; `sd` of
    the figure given all rows. `best` are the parameters, `left_out` (m, n) those without each
    row, `covariance` (n, n) that of the parameters.
    """

    leverage: Floats
    left_out_value: Floats
    left_out_sd: Floats
    sd: Floats
    best: Floats
    left_out: Floats
    covariance: Floats


def posterior(problem: Problem) -> Posterior:
    """Estimates the parameters from the rows, and predicts each row without itself."""
    count = len(problem.reproduced)
    sigma = problem.sigma
    everything = np.ones(count, dtype=bool)
    best = fitted(problem, everything)
    known_of = _covariance(problem, everything)
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
    sd = np.hypot(spread(problem.jacobian, known_of), problem.noise)
    return Posterior(leverage, value, left_sd, sd, best, left_out, known_of)


def fitted(problem: Problem, kept: npt.NDArray[np.bool_]) -> Floats:
    """The best parameters for these rows, within their ranges."""
    weight = 1 / problem.sigma[kept]
    rows = problem.jacobian[kept]
    target = problem.published[kept] - problem.reproduced[kept] + rows @ problem.start
    count = problem.jacobian.shape[1]
    solution = lsq_linear(
        np.vstack([rows * weight[:, None], np.eye(count)]),
        np.concatenate([target * weight, np.zeros(count)]),
        bounds=(-EDGE, EDGE),
    )
    return np.asarray(solution.x)


def _covariance(problem: Problem, kept: npt.NDArray[np.bool_]) -> Floats:
    return covariance(problem.jacobian[kept] / problem.sigma[kept][:, None])


def covariance(slopes: Floats, prior: float = 1.0) -> Floats:
    """Covariance of parameters, from the derivatives of figures in units of their errors, and
    from the prior information of the ranges: the inverse of their variance.
    """
    return np.asarray(np.linalg.inv(slopes.T @ slopes + prior * np.eye(slopes.shape[1])))


def spread(slopes: Floats, known: Floats) -> Floats:
    """Standard deviations of figures with these derivatives, given the covariance of the
    parameters.
    """
    return np.asarray(np.sqrt(np.einsum("ij,jk,ik->i", slopes, known, slopes)))


def groups(names: Sequence[str], same_as: Sequence[Sequence[str]]) -> tuple[frozenset[int], ...]:
    """For each row its own number and those of the rows that state the same."""
    number = {name: i for i, name in enumerate(names)}
    return tuple(
        frozenset({i, *(number[other] for other in others if other in number)})
        for i, others in enumerate(same_as)
    )


@dataclass(frozen=True)
class Identifiability:
    """Identifiability of parameters from a fit's data; arrays are in the order of `parameters`.

    `sensitivity`, shape (figures, parameters): percent by which a figure changes per percent of the
    parameter. `singular_values`, shape (parameters,), largest first, of the derivatives in scales
    per range; `directions`, shape (parameters, parameters), one row each. `correlation`, shape
    (parameters, parameters). `sd`, shape (parameters,): standard errors, in the parameters' units.
    `covariance`, shape (parameters, parameters), is that of their coordinates. `determined` counts
    the combinations that the data narrow to under half of their range.
    """

    parameters: tuple[str, ...]
    figures: tuple[str, ...]
    sensitivity: Floats
    singular_values: Floats
    directions: Floats
    correlation: Floats
    sd: Floats
    open_share: Floats
    determined: int
    sentences: tuple[str, ...]
    covariance: Floats

    def relative_sd(self, derivatives: Floats, scales: Sequence[float]) -> Floats:
        """Standard deviations of figures' logarithms, shape (figures,), from the uncertainty of the
        parameters.

        Parameters
        ----------
        derivatives, scales : of the figures, as for `identifiability`.
        """
        return np.asarray(spread(derivatives, self.covariance) * np.asarray(scales))


def misfit(slopes: Floats, residuals: Floats, kinds: Sequence[str]) -> dict[str, float]:
    """Standard error of each kind of figure, in scales: nine tenths of the residuals, each left out
    by the linear formula, are within 1.645 of it. At least one scale.
    """
    leverage = np.einsum("ij,jk,ik->i", slopes, covariance(slopes, PRIOR), slopes)
    errors = np.abs(residuals) / np.sqrt(np.maximum(1 - leverage, 0.05))
    own = {kind: errors[[other == kind for other in kinds]] for kind in set(kinds)}
    return {
        kind: max(1.0, float(np.quantile(some if len(some) >= OWN_ERRORS else errors, 0.9)) / Z_90)
        for kind, some in own.items()
    }


def identifiability(
    parameters: Sequence[Parameter],
    values: Sequence[float],
    figures: Sequence[str],
    scales: Sequence[float],
    derivatives: Floats,
) -> Identifiability:
    """Evaluates derivatives of shape (figures, parameters), in scales per range."""
    count = len(parameters)
    known = covariance(derivatives, PRIOR)
    sd = np.sqrt(np.diag(known))
    correlation = known / np.outer(sd, sd)
    _, singular, rows = np.linalg.svd(derivatives, full_matrices=True)
    singular = np.concatenate([singular, np.zeros(count - len(singular))])
    pairs = zip(parameters, values, strict=True)
    widths = np.array([parameter.width(parameter.coordinate(value)) for parameter, value in pairs])
    relative = np.array([abs(value) or 1.0 for value in values]) / widths
    # Residuals are errors over scales, coordinates shares of a range: converted to percent by
    # percent.
    sensitivity = derivatives * np.asarray(scales)[:, None] * relative[None, :]
    open_share = sd * math.sqrt(PRIOR)
    determined = int(np.sum(np.sqrt(PRIOR / (singular**2 + PRIOR)) < OPEN))
    names = tuple(parameter.name for parameter in parameters)
    return Identifiability(
        names,
        tuple(figures),
        sensitivity,
        singular,
        rows,
        correlation,
        sd * widths,
        open_share,
        determined,
        tuple(_sentences(names, correlation, open_share, derivatives, determined)),
        known,
    )


def _sentences(
    names: Sequence[str],
    correlation: Floats,
    open_share: Floats,
    derivatives: Floats,
    determined: int,
) -> list[str]:
    """Describes the number of known combinations, correlated parameters, and undetermined ones."""
    count = len(names)
    if not count:
        return []
    all_of = "all" if determined == count else f"{determined} of"
    sentences = [
        f"The data determine {all_of} {count} independent combinations of the {count} parameters."
        if count > 1
        else f"The data {'determine' if determined else 'do not determine'} {names[0]}."
    ]
    insensitive = np.abs(derivatives).max(axis=0, initial=0.0) < 0.1
    for i, j in itertools.combinations(np.flatnonzero(~insensitive).tolist(), 2):
        r = float(correlation[i, j])
        if abs(r) > CORRELATED:
            combination = "their sum or product" if r < 0 else "their difference or ratio"
            sentences.append(
                f"{names[i]} and {names[j]} cannot be told apart (r = {r:+.3f}): the data fix "
                f"little more than {combination}."
            )
    for i, name in enumerate(names):
        share = 100 * min(1.0, float(open_share[i]))
        if insensitive[i]:
            sentences.append(
                f"No figure changes with {name} around the value found: it stays open."
            )
        elif open_share[i] > OPEN:
            sentences.append(f"{name} stays open over {share:.0f} % of its range.")
    return sentences
