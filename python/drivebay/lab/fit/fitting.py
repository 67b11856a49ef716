"""One fit from top to bottom: screen, search, identifiability, check at full length.

Stages: the screen finds which figures depend on which parameters. The quick tests are solved first,
for the parameters that they depend on; then all tests for all parameters, including steady state
and heat. Solving means descending by least squares; only if that ends in a minimum that is not deep
enough, CMA-ES searches the whole ranges. If a test's short form is met but not the test itself, it
is run whole from then on. At the end every test is run in its measured length, including the
held-out ones. Parameters without effect on any figure are unchanged.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from drivebay.common.errors import EnvironmentProblem, UserError
from drivebay.common.files import refuse_foreign
from drivebay.common.seeds import SEED_MAX
from drivebay.definitions import profiles as catalog
from drivebay.definitions.profiles import Intervals, Profile
from drivebay.lab.fit import search, write
from drivebay.lab.fit.experiment import Experiment, Job, Observation, fingerprint
from drivebay.lab.fit.linear import Z_90, Floats, Identifiability, identifiability, misfit
from drivebay.lab.fit.observed import experiment_for
from drivebay.lab.fit.outcome import Calibration, Estimate, compared, head
from drivebay.lab.fit.parameters import Parameter, select_parameters, with_values
from drivebay.lab.fit.search import Problem, Trials, Values, derivatives
from drivebay.lab.fit.twin import usual_parameters
from drivebay.lab.journal import Journal
from drivebay.targets.virtual.states import workers_with_states

# Evaluations of the search per parameter, unless the user sets a number.
EVALUATIONS_EACH = 25
JOBS_MAX = 256
# Longest total duration of the phases of a quick test, in seconds of the drive's time.
QUICK_S = 60.0
# Smallest relative change of a figure that counts as a dependence on the parameter.
SEEN = 0.001


def fit(
    data: Path | str | Sequence[str],
    *,
    base: Profile | str | Path,
    parameters: Sequence[str] = (),
    only: Sequence[str] = (),
    hold_out: Sequence[str] = (),
    out: Path | str | None = None,
    evaluations: int | None = None,
    jobs: int | None = None,
    seed: int = 1,
    resume: bool = False,
    from_middle: bool = False,
    loads: bool = False,
    wide: bool = False,
    progress: Callable[[str, int], None] | None = None,
) -> Calibration:
    """Fits parameters of a profile to the figures of a review, or to published ones.

    Parameters
    ----------
    data : a result folder (of a real or a virtual drive); or ids of published rows, as a list or
        "S058,S060"; or a drive of the catalog, for all rows about it.
    base : the profile to begin from: a catalog name, a path, or a loaded profile.
    parameters : the values to fit: "nand.read_us"; a section, "energy", for all its values with a
        range; or with a range of your own, "nand.read_us=55..70". No value leaves its range.
    only : tests of the folder (or rows) to fit to, instead of all but traces.
    hold_out : tests (or rows) to keep out of the fit, and to predict with its result.
    out : the profile to write; the fit's journal, NAME.journal.jsonl, is put into the same folder.
    evaluations : most drives tried by the search, default 25 per parameter; derivatives take more.
    jobs : workers, default one per processor; changes no figure.
    seed : 0 to 2**53 - 1, of the search and of the virtual drives; the same seed, the same fit.
    resume : continue with the journal of `out`.
    from_middle : begin in the middle of every range instead of at the profile's values, so that the
        result does not depend on them.
    loads : fit to the rate and the 99th percentile of each phase of the folder's load tests, as for
        `drivebay twin`. Then `parameters` may be empty, for all that such loads may depend on;
        `hold_out` may name phases (TEST/PHASE), and is every fifth phase if it is empty.
    wide : with `loads`, search beyond the ranges of the base, as for a drive of another model.
    progress : called with the current stage and the number of drives tried so far.

    Returns
    -------
    Calibration
        The calibrated profile; parameters with standard errors; figures observed, before and after
        the fit; the parameters that the data identify (`identifiability`).

    Raises
    ------
    UserError
        For an unknown parameter, one without a range, a folder without usable figures, a journal of
        another fit.
    Interrupted
        On SIGINT, SIGTERM or SIGHUP; `resume` continues.

    Examples
    --------
    >>> import drivebay
    >>> twin = drivebay.calibrate.fit(
    ...     "results/mystery", base="sm951-ahci-512", parameters=["nand.read_us", "controller"],
    ...     hold_out=["mixed-random"], out="mystery.toml")  # doctest: +SKIP
    >>> twin.identifiability.sentences  # doctest: +SKIP
    """
    start = base if isinstance(base, Profile) else catalog.load(base)
    _in_range("--evaluations", evaluations, 0, 1_000_000)
    _in_range("--jobs", jobs, 1, JOBS_MAX)
    _in_range("--seed", seed, 0, SEED_MAX)
    wanted = experiment_for(data, start, only=only, hold_out=hold_out, seed=seed, loads=loads)
    if loads:
        named = usual_parameters(wanted.base, parameters, wide=wide)
    else:
        named = select_parameters(start, parameters)
    if from_middle:
        named = tuple(replace(parameter, start=parameter.value(0.5)) for parameter in named)
    path = None if out is None else Path(out)
    journal = Journal()
    if path is not None:
        can_be_written(path, resume=resume)
        head = {**fingerprint(wanted, named), "search_seed": seed}
        journal.open(Journal.beside(path), head, resume=resume)
    elif resume:
        raise UserError("--resume needs --out, whose folder has the journal", "--out PROFILE.toml")
    go_on = "give the same command again with --resume" if path else "give the same command again"
    workers = jobs or workers_with_states(wanted.base.memory_bytes)
    with contextlib.closing(journal):
        trials = Trials(wanted, named, journal, jobs=workers, hint=go_on)
        return _Fit(wanted, named, trials, seed, evaluations, progress).run(path)


def _in_range(option: str, value: int | None, low: int, high: int) -> None:
    if value is not None and not low <= value <= high:
        raise UserError(
            f"{option}: {value} is not allowed; must be from {low} to {high}", f"{option} {low}"
        )


def can_be_written(path: Path, *, resume: bool) -> None:
    """Raises UserError or EnvironmentProblem unless a profile can be written to `path`."""
    if path.suffix != ".toml":
        raise UserError(
            f"--out {path}: a profile's name ends in .toml", f"--out {path.with_suffix('.toml')}"
        )
    if os.path.lexists(path) and not resume:
        raise UserError(f"{path} exists; a profile is never overwritten", "name another --out")
    refuse_foreign(path, write.PROFILE_MARK.encode(), "a fitted profile", within=64)
    if not path.parent.is_dir():
        raise UserError(
            f"folder {path.parent} does not exist", f"mkdir -p {shlex.quote(str(path.parent))}"
        )
    if not os.access(path.parent, os.W_OK):
        raise EnvironmentProblem(f"{path.parent} cannot be written", f"ls -ld {path.parent}")


@dataclass
class _Fit:
    """The stages of a fit, and their shared state."""

    experiment: Experiment
    parameters: tuple[Parameter, ...]
    trials: Trials
    seed: int
    evaluations: int | None
    progress: Callable[[str, int], None] | None

    def __post_init__(self) -> None:
        self.start: Values = tuple(parameter.start for parameter in self.parameters)

    def run(self, out: Path | None) -> Calibration:
        """Screens, fits, repeats with whole tests if short ones were misleading, and reports."""
        whole = self._screened()
        best = self._fitted(whole)
        if long := self._misled(best):
            self._lengthen(long)
            whole = self._screened()
            self._tell("whole tests")
            best = search.local_search(whole, best)
        self._tell("derivatives")
        step = self.experiment.step
        slopes = derivatives(whole, best, step)
        names = [observation.name for observation in whole.observations]
        residuals = whole.many([best])[0]
        kinds = [observation.kind for observation in whole.observations]
        noise = misfit(slopes, np.array([residuals[name] for name in names]), kinds)
        factors = np.array([noise[kind] for kind in kinds])
        known = identifiability(
            [self.parameters[i] for i in whole.active],
            [best[i] for i in whole.active],
            names,
            [one.scale * noise[one.kind] for one in whole.observations],
            slopes / factors[:, None],
        )
        unaffected = tuple(
            f"No figure that was fitted depends on {parameter.name}: it stays as it was."
            for i, parameter in enumerate(self.parameters)
            if i not in whole.active
        )
        known = replace(known, sentences=known.sentences + unaffected)
        spread = _spread(whole.observations, slopes, known, noise)
        if held_out := self._held_out(whole):
            self._tell("intervals")
            spread |= _spread(
                held_out.observations, derivatives(held_out, best, step), known, noise
            )
        self._tell("check at full length")
        return self._result(best, known, spread, whole.active, out)

    def _screened(self) -> Problem:
        """Screens the parameters; returns the problem reduced to parameters with an effect and
        the jobs that they affect.
        """
        self._tell("screen")
        jobs = tuple(sorted(self.experiment.tests))
        problem = Problem(
            self.parameters,
            self.experiment.observations,
            jobs,
            tuple(range(len(self.parameters))),
            self.start,
            self.trials,
        )
        held_out = [one for one in self.experiment.held_out if not set(one.jobs) - set(jobs)]
        steps = [search.SCREEN] * len(problem.active)
        self._seen = [self.start, *search.either_side(problem, self.start, steps)]
        results = self.trials.run(self._seen, jobs)
        self._moves: set[tuple[int, Job]] = set()
        for place, figures in enumerate(results[1:]):
            if not any(figures.values()):
                continue  # not a possible drive
            for observation in (*problem.observations, *held_out):
                if _differ(observation.read(results[0]), observation.read(figures)):
                    self._moves |= {(place // 2, job) for job in observation.jobs}
        seen = {job for _, job in self._moves}
        if not seen:
            names = ", ".join(parameter.name for parameter in self.parameters)
            raise UserError(
                f"no figure depends on {names}",
                "fit to tests that do: --only TEST; or fit other parameters",
            )
        return self._reduced(problem, seen)

    def _fitted(self, whole: Problem) -> Values:
        """The best values after all stages."""
        best = self._first(whole)
        quick = self._reduced(whole, set(filter(self._is_quick, whole.jobs)))
        if quick.observations and quick.jobs != whole.jobs:
            best = self._solved(quick, best, "quick tests", seed=self.seed)
        return self._solved(whole, best, "all tests", seed=self.seed + 1)

    def _first(self, problem: Problem) -> Values:
        """The best of the points that the screen evaluated."""
        residuals = problem.many(self._seen)
        costs = [problem.cost(p, r) for p, r in zip(self._seen, residuals, strict=True)]
        return min(zip(costs, self._seen, strict=True))[1]

    def _solved(self, problem: Problem, first: Values, stage: str, *, seed: int) -> Values:
        """Solves by least squares; if the minimum is not deep enough, searches the whole ranges
        and solves again.
        """
        self._tell(stage)
        best = search.local_search(problem, first)
        usual = EVALUATIONS_EACH * len(problem.active)
        most = usual if self.evaluations is None else self.evaluations
        residuals = problem.many([best])[0].values()
        if most and sum(r * r for r in residuals) > search.GOOD * len(problem.observations):
            self._tell(f"search, {stage}")
            best = search.global_search(problem, best, evaluations=most, seed=seed)
            best = search.local_search(problem, best)
        return best

    def _misled(self, at: Values) -> set[Job]:
        """Tests whose short forms are met, while they themselves are not at their full length:
        the part that was cut off matters.
        """
        self._tell("check at full length")
        experiment = self.experiment
        cut = [job for job in experiment.tests if experiment.tests[job] != experiment.full[job]]
        if not cut:
            return set()
        (results,) = self.trials.run([at], sorted(cut), full=True)
        return {
            job
            for observation in experiment.whole
            for job in observation.jobs
            if job in results
            and abs(100 * np.expm1(observation.error(observation.read(results))))
            > observation.bound_percent
        }

    def _lengthen(self, jobs: set[Job]) -> None:
        """Fits to these tests in their measured length from now on."""
        self.trials.lengthen(jobs)
        experiment = self.experiment

        def touched(observation: Observation) -> bool:
            return not jobs.isdisjoint(observation.jobs)

        kept = itertools.filterfalse(touched, experiment.observations)
        self.experiment = replace(
            experiment,
            tests={**experiment.tests, **{job: experiment.full[job] for job in jobs}},
            observations=(*kept, *filter(touched, experiment.whole)),
        )

    def _reduced(self, problem: Problem, jobs: set[Job]) -> Problem:
        """The problem reduced to these jobs and the parameters that affect them."""
        observations = tuple(one for one in problem.observations if jobs.issuperset(one.jobs))
        active = tuple(sorted({index for index, job in self._moves if job in jobs}))
        moved = {i: frozenset(job for index, job in self._moves if index == i) for i in active}
        needed = tuple(sorted({job for one in observations for job in one.jobs}))
        return replace(problem, observations=observations, jobs=needed, active=active, moved=moved)

    def _held_out(self, whole: Problem) -> Problem | None:
        """The problem with the held-out tests, in their whole length."""
        observations = self.experiment.held_out
        if not observations:
            return None
        jobs = {job for observation in observations for job in observation.jobs}
        new = jobs - set(self.experiment.tests)
        self.trials.lengthen(new)
        moved = {} if new else whole.moved  # the screen did not run new ones
        return replace(whole, observations=observations, jobs=tuple(sorted(jobs)), moved=moved)

    def _is_quick(self, job: Job) -> bool:
        test = self.experiment.tests[job]
        return sum(phase.workload.duration_s for phase in test.phases) <= QUICK_S

    def _result(
        self,
        best: Values,
        known: Identifiability,
        spread: Mapping[str, float],
        active: tuple[int, ...],
        out: Path | None,
    ) -> Calibration:
        experiment = self.experiment
        before, after = self.trials.run([self.start, best], sorted(experiment.full), full=True)
        figures = tuple(
            compared(
                observation,
                observation.read(before),
                observation.read(after),
                held_out=held_out,
                sd=spread.get(observation.name),
            )
            for held_out, observations in ((False, experiment.whole), (True, experiment.held_out))
            for observation in observations
        )
        sd = dict(zip(active, known.sd.tolist(), strict=True))
        open_share = dict(zip(active, known.open_share.tolist(), strict=True))
        away = dict(zip(active, Z_90 * np.sqrt(np.diag(known.covariance)), strict=True))
        fitted = tuple(
            Estimate(p.name, p.start, value, p.low, p.high, sd.get(i), open_share.get(i), ends)
            for i, (p, value) in enumerate(zip(self.parameters, best, strict=True))
            for ends in [p.around(value, float(away[i])) if i in away else None]
        )
        changed = [i for i in active if best[i] != self.start[i]]
        moved = [self.parameters[i] for i in changed]
        source = f"fitted by drivebay calibrate, seed {self.seed}, to {experiment.description}"
        ends = [fitted[i].interval for i in changed]
        sources = [
            f"{source}; 90 % interval {low:.4g} to {high:.4g}" for low, high in filter(None, ends)
        ]
        profile = with_values(experiment.base, moved, [best[i] for i in changed], sources=sources)
        name = write.name_of(out) if out is not None else f"{experiment.base.name}-fitted"[:64]
        intervals = _intervals(experiment, spread)
        names, comment = [parameter.name for parameter in moved], head(experiment, known, figures)
        content = write.text(profile, names, name=name, head=comment, intervals=intervals)
        if out is not None:
            write.save(out, content)
            profile = catalog.load(out)
        else:
            profile = catalog.from_resolved({**profile.raw, "intervals": intervals})
        return Calibration(
            profile, content, out, fitted, figures, known, experiment.description, experiment.notes,
            self.trials.count, self.seed,
        )  # fmt: skip

    def _tell(self, stage: str) -> None:
        if (progress := self.progress) is not None:
            self.trials.report_to(lambda count: progress(stage, count))


def _spread(
    observations: Sequence[Observation],
    slopes: Floats,
    known: Identifiability,
    noise: Mapping[str, float],
) -> dict[str, float]:
    """Standard deviation of each figure's logarithm from the uncertainty of the parameters and the
    errors of its kind (`misfit`), by the observation's name; only for equalities, not for bounds.
    """
    spreads = known.relative_sd(slopes, [observation.scale for observation in observations])
    usual = max(noise.values())
    return {
        observation.name: math.hypot(sd, observation.scale * noise.get(observation.kind, usual))
        for observation, sd in zip(observations, spreads.tolist(), strict=True)
        if observation.relation == "eq"
    }


def _intervals(experiment: Experiment, spread: Mapping[str, float]) -> Intervals:
    """The spreads in the profile's form, by test and key, for the fitted drive's own figures."""
    intervals: Intervals = {}
    for observation in (*experiment.whole, *experiment.held_out):
        jobs = observation.jobs
        own = len(jobs) == 1 and jobs[0].drive.partition("@")[0] in ("", experiment.base.name)
        if own and observation.name in spread:
            key = observation.name.partition("/")[2] or observation.name
            unit = {"us": "µs"}.get(observation.unit, observation.unit)
            sd = float(f"{spread[observation.name]:.4g}")
            intervals.setdefault(jobs[0].test, {})[key] = sd, unit
    return intervals


def _differ(first: float | None, other: float | None) -> bool:
    if first is None or other is None:
        return first is not other
    return abs(first - other) > SEEN * abs(first)
