"""Evaluates drives, with their own or with other values: runs tests and keeps figures, each once.

Validation, fits and derivatives are evaluations of runs. They run in parallel, except that those of
one drive and one prepared state run one after the other. The journal stores the results.

A combination of values that the core refuses as a drive has no figures.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence

from drivebay.analysis import Measured
from drivebay.common.errors import DrivebayError, Interrupted, UserError
from drivebay.definitions.profiles import Profile
from drivebay.definitions.suites import Test
from drivebay.lab.journal import Evaluation, Journal
from drivebay.lab.pool import Pool, Worker
from drivebay.lab.validate.plan import Run
from drivebay.lab.validate.values import Figures
from drivebay.targets.virtual.states import key_of

Made = Sequence[tuple[Evaluation, Profile, Test]]


class Evaluator:
    """Evaluates on a pool of workers.

    Parameters
    ----------
    make : makes the drives and tests of evaluations that have drive, values and seed in common;
        raises UserError if such a drive is not possible.
    keep : selects the figures of a run that are kept.
    part : key of a drive's evaluations; those with equal keys run one after the other.
    jobs : workers; changes no figure.
    interrupted : error that is raised when the user stops it.
    """

    def __init__(
        self,
        journal: Journal,
        make: Callable[[Sequence[Evaluation]], Made],
        keep: Callable[[Run, Measured], Figures],
        *,
        part: Callable[[Evaluation], object] = lambda _: None,
        jobs: int,
        interrupted: Interrupted,
    ) -> None:
        self._journal, self._make, self._keep, self._part = journal, make, keep, part
        self._pool, self._interrupted = Pool(jobs), interrupted
        self._mutex = threading.Lock()
        self._progress: Callable[[int, int], None] = lambda _count, _asked: None
        self.count, self._asked = 0, 0

    def report_to(self, progress: Callable[[int, int], None]) -> None:
        """Sets a function that is called now and after each drive, with the number of drives run
        and the number requested so far.
        """
        self._progress = progress
        progress(self.count, self._asked)

    def run(self, wanted: Iterable[Evaluation]) -> Mapping[Evaluation, Figures]:
        """Returns the figures of all of these evaluations; empty for a drive that is not
        possible. Raises Interrupted on SIGINT, SIGTERM or SIGHUP; finished results are in the
        journal.
        """
        wanted = list(dict.fromkeys(wanted))
        groups: dict[tuple[object, ...], list[Evaluation]] = {}
        for evaluation in wanted:
            if self._journal.get(evaluation) is None:
                key = (evaluation.run.drive, evaluation.at, evaluation.seed, self._part(evaluation))
                groups.setdefault(key, []).append(evaluation)
        self._asked += len(groups)
        self._pool.run(groups.values(), self._evaluate, interrupted=self._interrupted)
        return {evaluation: self._journal.get(evaluation) or {} for evaluation in wanted}

    def _evaluate(self, worker: Worker, group: Sequence[Evaluation]) -> None:
        """Runs tests on a drive, those of one prepared state in succession."""
        for evaluation, figures in self._results(worker, group):
            self._journal.put(evaluation, figures)
        with self._mutex:
            self.count += 1
            self._progress(self.count, self._asked)

    def _results(
        self, worker: Worker, group: Sequence[Evaluation]
    ) -> Iterable[tuple[Evaluation, Figures]]:
        try:
            made = self._make(group)
        # not a possible drive, for example one that throttles below its stop temperature
        except UserError:
            yield from ((evaluation, {}) for evaluation in group)
            return
        by_drive: dict[str, list[tuple[Evaluation, Profile, Test]]] = {}
        for part in sorted(made, key=lambda part: (key_of(part[2]), part[0])):
            by_drive.setdefault(part[1].json(), []).append(part)
        for parts in by_drive.values():
            try:
                tests = [test for _, _, test in parts]
                worker.set_profile(parts[0][1], tests, seed=group[0].seed)
            except UserError:
                yield from ((evaluation, {}) for evaluation, _, _ in parts)
                continue
            for evaluation, _, test in parts:
                try:
                    yield evaluation, self._keep(evaluation.run, worker.run_test(test))
                except DrivebayError as problem:
                    values = ", ".join(f"{name} = {value:g}" for name, value in evaluation.at)
                    raise UserError(
                        f"with {values or 'its own values'}: {problem.message}",
                        "narrow the range: --fit NAME=LOW..HIGH; or leave the test out: --only",
                    ) from None
