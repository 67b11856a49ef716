"""Search for the best values: least squares downhill, CMA-ES over the whole ranges.

CMA-ES (Hansen, "The CMA Evolution Strategy: A Tutorial", arXiv:1604.00772; the package cmaes, on
which optuna's sampler is based) requests whole generations, whose size depends on the number of
parameters alone: so the same seed gives the same fit on any number of workers. It finds the region
of the minimum; least squares with a robust loss (scipy) need a few steps to reach it, and their
derivatives show how well the data determine each value (`identifiability`).

In addition to the figures, each parameter is drawn to its start, as weakly as its range suggests (a
standard deviation of a uniform distribution over the range): values that the data do not determine
stay unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from cmaes import CMA
from scipy.optimize import least_squares

from drivebay.common.errors import Interrupted
from drivebay.lab.evaluator import Evaluator, Made
from drivebay.lab.fit.experiment import FAR, Experiment, Job, Observation, loss
from drivebay.lab.fit.linear import PRIOR, Floats
from drivebay.lab.fit.parameters import Parameter
from drivebay.lab.journal import Evaluation, Journal
from drivebay.lab.validate.values import Figures

# Values of an evaluation, in the order of the parameters.
Values = tuple[float, ...]
# Weight that draws a parameter to its start: inverse standard deviation of a uniform
# distribution.
PRIOR_WEIGHT = math.sqrt(PRIOR)
# Initial step of CMA-ES, in ranges; its authors recommend about a third of a range or less.
SIGMA = 0.2
GENERATION_MIN = 8
# Mean square of the residuals below which a minimum is deep enough.
GOOD = 0.25
# Number of points at which a single parameter is searched; CMA-ES needs at least two parameters.
LINE = 9
STEPS_MAX = 12
# Step of each parameter in the screen, as a share of its range, in both directions.
SCREEN = 0.2
# Least squares end when a step improves the loss, or moves the values, by less than this share.
PATIENCE = 5e-3


class Trials:
    """Evaluates an experiment's jobs with other values. `jobs`: workers; changes no figure.
    `hint`: command for the user after an interruption.
    """

    def __init__(
        self,
        experiment: Experiment,
        parameters: Sequence[Parameter],
        journal: Journal,
        *,
        jobs: int,
        hint: str,
    ) -> None:
        self._experiment = experiment
        self._whole: set[Job] = set()
        self._moving = {
            job: tuple(parameter for parameter in parameters if experiment.moves(job, parameter))
            for job in {*experiment.full, *experiment.tests}
        }
        self._parameters = tuple(parameters)
        interrupted = Interrupted("interrupted; every finished test is kept", hint)
        self._evaluator = Evaluator(
            journal, self._made, experiment.keep, jobs=jobs, interrupted=interrupted
        )

    @property
    def count(self) -> int:
        """Number of drives tried."""
        return self._evaluator.count

    def report_to(self, progress: Callable[[int], None]) -> None:
        """Sets a function that is called now and after each drive, with the number of drives so
        far.
        """
        self._evaluator.report_to(lambda count, _: progress(count))

    def lengthen(self, jobs: Iterable[Job]) -> None:
        """Runs these jobs in their whole length in every later trial."""
        self._whole |= set(jobs)

    def run(
        self, points: Sequence[Values], jobs: Sequence[Job], *, full: bool = False
    ) -> list[dict[Job, Figures]]:
        """Returns the figures of these jobs at each point, in the points' order; raises
        Interrupted.
        """
        return self.run_each([(point, jobs) for point in points], full=full)

    def run_each(
        self, wanted: Sequence[tuple[Values, Iterable[Job]]], *, full: bool = False
    ) -> list[dict[Job, Figures]]:
        """Returns the figures of each point's own jobs."""
        asked = [{job: self._asked(job, point, full) for job in jobs} for point, jobs in wanted]
        figures = self._evaluator.run(evaluation for some in asked for evaluation in some.values())
        return [{job: figures[evaluation] for job, evaluation in some.items()} for some in asked]

    def _asked(self, job: Job, point: Values, full: bool) -> Evaluation:
        """The evaluation of a job at a point, reduced to the values that the job's drive shares
        with the fitted one, so that it need not be run again when others change.
        """
        experiment, tests = self._experiment, self._experiment.tests
        cut = tests.get(job) != experiment.full[job]
        values = dict(zip(self._parameters, point, strict=True))
        at = tuple((parameter.name, values[parameter]) for parameter in self._moving[job])
        return Evaluation(job, at, (full or job in self._whole) and cut, experiment.seed)

    def _made(self, group: Sequence[Evaluation]) -> Made:
        experiment, run = self._experiment, group[0].run
        known = {parameter.name: parameter for parameter in self._parameters}
        profile = experiment.profile(run, {known[name]: value for name, value in group[0].at})
        full, short = experiment.full, experiment.tests
        return [(some, profile, (full if some.full else short)[some.run]) for some in group]


@dataclass(frozen=True)
class Problem:
    """Problem of a fit: some of the parameters and some of the jobs; other parameters stay at
    `start`.

    `active` are indices into `parameters`. `moved` has the jobs that each of them moves; if it is
    empty, all jobs are run for each.
    """

    parameters: tuple[Parameter, ...]
    observations: tuple[Observation, ...]
    jobs: tuple[Job, ...]
    active: tuple[int, ...]
    start: Values
    trials: Trials
    moved: Mapping[int, frozenset[Job]] = field(default_factory=dict)

    def values(self, at: Sequence[float] | Floats) -> Values:
        """All values, with those of `active` at these coordinates."""
        whole = list(self.start)
        for index, coordinate in zip(self.active, at, strict=True):
            whole[index] = self.parameters[index].value(float(coordinate))
        return tuple(whole)

    def coordinates(self, values: Values) -> Floats:
        """Coordinates of the active parameters."""
        return np.array([self.parameters[i].coordinate(values[i]) for i in self.active])

    def residuals(self, figures: Mapping[Job, Figures]) -> dict[str, float]:
        """Residuals of every observation, in its scale."""
        return {one.name: one.residual(one.read(figures)) for one in self.observations}

    def many(self, points: Sequence[Values]) -> list[dict[str, float]]:
        """The residuals at these points."""
        return [self.residuals(figures) for figures in self.trials.run(points, self.jobs)]

    def prior(self, values: Values) -> dict[str, float]:
        """Distance of each active parameter from its start, as residuals."""
        away = PRIOR_WEIGHT * (self.coordinates(values) - self.coordinates(self.start))
        return {f"prior/{i}": float(d) for i, d in zip(self.active, away, strict=True)}

    def cost(self, values: Values, residuals: Mapping[str, float]) -> float:
        """The value to be minimized: losses of the residuals and of the prior."""
        return loss(residuals) + loss(self.prior(values))


def generation(parameters: int) -> int:
    """Number of evaluations per generation of CMA-ES: its authors' 4 + 3 ln n, made even.

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
        residuals = problem.many(points)
        costs = [problem.cost(p, r) for p, r in zip(points, residuals, strict=True)]
        best = min(best, *zip(costs, points, strict=True))
        return costs

    if len(problem.active) == 1:
        judged([problem.values([x]) for x in np.linspace(0, 1, LINE)])
        return best[1]
    count = len(problem.active)
    bounds = np.array([[0.0, 1.0]] * count)
    mean = np.clip(problem.coordinates(first), 0.02, 0.98)
    size, good = generation(count), GOOD * len(problem.observations)
    strategy = CMA(mean=mean, sigma=SIGMA, bounds=bounds, seed=seed, population_size=size)
    for _ in range(max(1, evaluations // size)):
        asked = [strategy.ask() for _ in range(size)]
        costs = judged([problem.values(x) for x in asked])
        strategy.tell(list(zip(asked, costs, strict=True)))
        if best[0] < good or strategy.should_stop():
            break
    return best[1]


def local_search(problem: Problem, first: Values) -> Values:
    """The values at the local minimum near `first`; never worse ones."""
    if not problem.active:
        return first
    names = [observation.name for observation in problem.observations]

    seen: dict[Values, float] = {}

    def residuals(x: Floats) -> Floats:
        values = problem.values(x)
        by_name = problem.many([values])[0]
        seen[values] = problem.cost(values, by_name)
        return np.array([*(by_name[name] for name in names), *problem.prior(values).values()])

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


def derivatives(problem: Problem, at: Values, step: float = 0.0) -> Floats:
    """Derivatives of the residuals by the active coordinates, shape (observations, active):
    central differences of `Parameter.step`, at least of `step`, one-sided at an end of a range.
    """
    steps = [max(step, problem.parameters[i].step) for i in problem.active]
    points = either_side(problem, at, steps)
    jobs = [problem.moved.get(i, frozenset(problem.jobs)) for i in problem.active for _ in "-+"]
    wanted = [sorted(some.intersection(problem.jobs)) for some in jobs]
    here, *there = problem.trials.run_each([(at, problem.jobs), *zip(points, wanted, strict=True)])
    residuals = [problem.residuals({**here, **figures}) for figures in there]
    names = [observation.name for observation in problem.observations]
    slopes = np.zeros((len(problem.active), len(names)))
    for place in range(len(problem.active)):
        low, high = (problem.coordinates(point)[place] for point in points[2 * place :][:2])
        below, above = residuals[2 * place :][:2]
        if high > low:  # equal if no other integer is near
            slopes[place] = [(above[name] - below[name]) / (high - low) for name in names]
    return slopes.T


def either_side(problem: Problem, at: Values, steps: Sequence[float]) -> list[Values]:
    """Points before and after `at` in each active coordinate: it is moved by its step, at most to
    an end of its range.
    """
    centre = problem.coordinates(at)
    points = []
    for place, step in enumerate(steps):
        for moved in (centre[place] - step, centre[place] + step):
            coordinates = centre.copy()
            coordinates[place] = min(1.0, max(0.0, moved))
            points.append(problem.values(coordinates))
    return points
