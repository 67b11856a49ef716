"""Evaluates parameter values: makes drives with them, runs tests, keeps the figures.

Values that together make no drive that the core accepts have no figures, which counts as wrong by a
factor of two.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence

from drivebay.common.errors import DrivebayError, Interrupted, UserError
from drivebay.lab.calibrate.experiment import Experiment, Figures, Job
from drivebay.lab.calibrate.journal import Journal, Values
from drivebay.lab.calibrate.parameters import Parameter
from drivebay.lab.pool import Pool, Worker
from drivebay.targets.virtual.states import key_of

Run = tuple[Job, bool]
"""A job, and whether its test is run in its whole length."""


class Evaluator:
    """Evaluates parameter values, each only once.

    Parameters
    ----------
    jobs : workers; changes no figure.
    hint : what an interrupted user is told to type.
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
        self._experiment, self._parameters, self._journal = experiment, tuple(parameters), journal
        self._pool, self._hint = Pool(jobs), hint
        self._mutex = threading.Lock()
        self._whole: set[Job] = set()
        self._moves = {
            job: tuple(experiment.moves(job, one) for one in self._parameters)
            for job in {*experiment.full, *experiment.tests}
        }
        self._progress: Callable[[int], None] | None = None
        self.count = 0

    def report_to(self, progress: Callable[[int], None]) -> None:
        """Has `progress` called now and after each evaluation, with how many there were."""
        self._progress = progress
        progress(self.count)

    def run(
        self, points: Sequence[Values], jobs: Sequence[Job], *, full: bool = False
    ) -> list[dict[Job, Figures]]:
        """The figures of these jobs at each point, in the points' order.

        Raises
        ------
        Interrupted
            On SIGINT, SIGTERM or SIGHUP; what was found is in the journal.
        """
        todo: dict[Values, list[Run]] = {}
        asked: set[tuple[Run, Values]] = set()
        runs = [(job, (full or job in self._whole) and self._is_cut(job)) for job in jobs]
        for point in points:
            for run in runs:
                own = self._own(run[0], point)
                if (run, own) not in asked and self._journal.get(*run, own) is None:
                    asked.add((run, own))
                    todo.setdefault(own, []).append(run)
        self._pool.run(
            todo.items(),
            self._evaluate,
            interrupted=Interrupted("interrupted; every finished test is kept", self._hint),
        )
        found = []
        for point in points:
            figures = {run[0]: self._journal.get(*run, self._own(run[0], point)) for run in runs}
            found.append({job: one for job, one in figures.items() if one is not None})
        return found

    def _is_cut(self, job: Job) -> bool:
        return self._experiment.tests.get(job) != self._experiment.full[job]

    def lengthen(self, jobs: Iterable[Job]) -> None:
        """From now on these are run whole, in every evaluation."""
        self._whole |= set(jobs)

    def _own(self, job: Job, point: Values) -> Values:
        """The point as far as the job's drive has these parameters: a drive of the family with a
        value of its own need not be run again when that of the others moves."""
        pairs = zip(self._parameters, point, self._moves[job], strict=True)
        return tuple(value if moves else one.start for one, value, moves in pairs)

    def _evaluate(self, worker: Worker, task: tuple[Values, list[Run]]) -> None:
        """Runs tests on drives with these values, those of one prepared state in succession."""
        point, runs = task
        experiment = self._experiment
        tests = {run: (experiment.full if run[1] else experiment.tests)[run[0]] for run in runs}
        for drive in sorted({job.drive for job, _ in runs}):
            mine = sorted(
                (run for run in runs if run[0].drive == drive),
                key=lambda run: (key_of(tests[run]), run),
            )
            try:
                profile = experiment.profile(mine[0][0], self._parameters, point)
                worker.set_profile(profile, [tests[run] for run in mine], seed=experiment.seed)
            except UserError:  # no possible drive, such as one that throttles below where it stops
                for run in mine:
                    self._journal.put(*run, point, {})
                continue
            for run in mine:
                try:
                    found = worker.run_test(tests[run])
                except DrivebayError as problem:
                    raise UserError(
                        f"with {self._words(point)}: {problem.message}",
                        "narrow the range: --fit NAME=LOW..HIGH; or leave the test out: --only",
                    ) from None
                self._journal.put(*run, point, experiment.keep(run[0], found))
        with self._mutex:
            self.count += 1
            if self._progress is not None:
                self._progress(self.count)

    def _words(self, point: Values) -> str:
        pairs = zip(self._parameters, point, strict=True)
        return ", ".join(f"{one.name} = {value:g}" for one, value in pairs)
