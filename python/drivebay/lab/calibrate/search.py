"""Finds the values: least squares downhill, CMA-ES over the whole ranges.

CMA-ES (Hansen, "The CMA Evolution Strategy: A Tutorial", arXiv:1604.00772; the package cmaes, which
optuna's sampler is made of) asks for whole generations, whose size depends on the number of
parameters alone: so the same seed gives the same fit on any number of workers. It finds the valley;
least squares with a robust loss (scipy) need a few steps to its ground, and their derivatives show
how well the data determine each value (`identifiability`).

Besides the figures each parameter is drawn to where it began, as weakly as its range says (a
standard deviation of a range's uniform distribution): what the data do not tell stays as it was.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from cmaes import CMA
from scipy.optimize import least_squares

from drivebay.lab.calibrate.evaluator import Evaluator
from drivebay.lab.calibrate.experiment import FAR, Experiment, Figures, Job, Observation, loss
from drivebay.lab.calibrate.journal import Values
from drivebay.lab.calibrate.parameters import Parameter

Floats = npt.NDArray[np.float64]

PRIOR_WEIGHT = math.sqrt(12)
"""Of a parameter to its start: one over the standard deviation of a uniform distribution."""
SIGMA = 0.2
"""First step of CMA-ES, in ranges; its authors' advice is about a third of a range or less."""
GENERATION_MIN = 8
GOOD = 0.25
"""A valley is deep enough if the mean square of the residuals is below this."""
LINE = 9
"""A single parameter is searched at so many places of its range; CMA-ES needs two."""
STEPS_MAX = 12
PATIENCE = 5e-3
"""Least squares end when a step improves the loss, or moves the values, by less than this share."""


@dataclass(frozen=True)
class Problem:
    """What is fitted to what: some of the parameters, some of the jobs; the rest stays at `start`.

    `active` are indices into `parameters`.
    """

    experiment: Experiment
    parameters: tuple[Parameter, ...]
    observations: tuple[Observation, ...]
    jobs: tuple[Job, ...]
    active: tuple[int, ...]
    start: Values
    evaluator: Evaluator

    def values(self, at: Sequence[float] | Floats) -> Values:
        """All values, those of `active` at these coordinates."""
        whole = list(self.start)
        for index, coordinate in zip(self.active, at, strict=True):
            whole[index] = self.parameters[index].value(float(coordinate))
        return tuple(whole)

    def coordinates(self, values: Values) -> Floats:
        """Coordinates of `active`."""
        return np.array([self.parameters[i].coordinate(values[i]) for i in self.active])

    def residuals(self, found: Mapping[Job, Figures]) -> dict[str, float]:
        """Of every observation, in its scale."""
        return {
            observation.name: observation.residual(self.experiment.read(observation, found))
            for observation in self.observations
        }

    def many(self, points: Sequence[Values]) -> list[dict[str, float]]:
        """The residuals at these points."""
        return [self.residuals(found) for found in self.evaluator.run(points, self.jobs)]

    def prior(self, values: Values) -> dict[str, float]:
        """How far each active parameter is from its start, as residuals."""
        away = self.coordinates(values) - self.coordinates(self.start)
        return {
            f"prior/{i}": float(PRIOR_WEIGHT * d) for i, d in zip(self.active, away, strict=True)
        }

    def cost(self, values: Values, residuals: Mapping[str, float]) -> float:
        """The value to be minimized: losses of the residuals and of the prior."""
        return loss(residuals) + loss(self.prior(values))


def generation(parameters: int) -> int:
    """How many evaluations CMA-ES makes at a time: its authors' 4 + 3 ln n, made even.

    >>> [generation(n) for n in (2, 6, 20)]
    [8, 10, 12]
    """
    size = 4 + math.floor(3 * math.log(max(parameters, 1)))
    return max(GENERATION_MIN, size + size % 2)


def global_search(problem: Problem, first: Values, *, evaluations: int, seed: int) -> Values:
    """The best values of a search with at most so many evaluations, `first` among them."""
    best = (problem.cost(first, problem.many([first])[0]), first)
    if not problem.active or evaluations < 1:
        return first

    def judged(points: Sequence[Values]) -> list[float]:
        nonlocal best
        found = problem.many(points)
        costs = [problem.cost(p, r) for p, r in zip(points, found, strict=True)]
        best = min(best, *zip(costs, points, strict=True))
        return costs

    if len(problem.active) == 1:
        judged([problem.values([x]) for x in np.linspace(0, 1, LINE)])
        return best[1]
    count = len(problem.active)
    bounds = np.array([[0.0, 1.0]] * count)
    mean = np.clip(problem.coordinates(first), 0.02, 0.98)
    strategy = CMA(
        mean=mean, sigma=SIGMA, bounds=bounds, seed=seed, population_size=generation(count)
    )
    good = GOOD * len(problem.observations)
    for _ in range(max(1, evaluations // strategy.population_size)):
        asked = [strategy.ask() for _ in range(strategy.population_size)]
        costs = judged([problem.values(x) for x in asked])
        strategy.tell(list(zip(asked, costs, strict=True)))
        if best[0] < good or strategy.should_stop():
            break
    return best[1]


def local_search(problem: Problem, first: Values) -> Values:
    """The values at the ground of the valley in which `first` lies; never worse ones."""
    if not problem.active:
        return first
    names = [observation.name for observation in problem.observations]

    def all_of(values: Values, found: Mapping[str, float]) -> Floats:
        return np.array([*(found[name] for name in names), *problem.prior(values).values()])

    seen: dict[Values, float] = {}

    def residuals(x: Floats) -> Floats:
        values = problem.values(x)
        found = problem.many([values])[0]
        seen[values] = problem.cost(values, found)
        return all_of(values, found)

    def jacobian(x: Floats) -> Floats:
        own = derivatives(problem, problem.values(x))
        return np.vstack([own, PRIOR_WEIGHT * np.eye(len(problem.active))])

    residuals(problem.coordinates(first))
    least_squares(
        residuals,
        np.clip(problem.coordinates(first), 1e-6, 1 - 1e-6),
        jac=jacobian,
        bounds=(0.0, 1.0),
        method="trf",
        loss="soft_l1",
        f_scale=FAR,
        ftol=PATIENCE,
        xtol=PATIENCE,
        gtol=None,
        max_nfev=STEPS_MAX,
    )
    return min((cost, values) for values, cost in seen.items())[1]


def derivatives(problem: Problem, at: Values) -> Floats:
    """The residuals' derivatives by the active coordinates, shape (observations, active): central
    differences of `Parameter.step`, one-sided at an end of a range."""
    centre = problem.coordinates(at)
    sides: list[tuple[Values, Values]] = []
    for place, index in enumerate(problem.active):
        step = problem.parameters[index].step
        pair = []
        for sign in (-1, 1):
            moved = centre.copy()
            moved[place] = min(1.0, max(0.0, centre[place] + sign * step))
            pair.append(problem.values(moved))
        sides.append((pair[0], pair[1]))
    found = problem.many([point for pair in sides for point in pair])
    columns = []
    for place, (low, high) in enumerate(sides):
        width = problem.coordinates(high)[place] - problem.coordinates(low)[place]
        below, above = found[2 * place], found[2 * place + 1]
        columns.append(
            [
                (above[observation.name] - below[observation.name]) / width
                for observation in problem.observations
            ]
        )
    return np.array(columns).reshape(len(problem.active), len(problem.observations)).T
