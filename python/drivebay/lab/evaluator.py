"""Evaluates drives, as they are or with other values: runs tests and keeps figures, each once.
once.

Validation, fits and derivatives are evaluations of runs: in parallel, those of a drive and of one
prepared state one after the other. The journal has what came out.

Values that together make no drive that the core accepts have no figures.
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
    make : the drives and tests of evaluations that have drive, values and seed in common; raises
        UserError if there can be no such drive.
    keep : of a run's figures those that are kept.
    part : what evaluations of a drive must have in common to be run one after the other.
    jobs : workers; changes no figure.
    interrupted : what a user is told who stops it.
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
        self._progress: Callable[[int, int], None] | None = None
        self.count, self._asked = 0, 0

    def report_to(self, progress: Callable[[int, int], None]) -> None:
        """Has `progress` called now and after each drive, with how many there were of how many that
        were asked for so far."""
        self._progress = progress
        progress(self.count, self._asked)

    def run(self, wanted: Iterable[Evaluation]) -> Mapping[Evaluation, Figures]:
        """The figures of all of these; none of a drive that is not possible. Raises Interrupted on
        SIGINT, SIGTERM or SIGHUP; what was found is in the journal."""
        wanted = list(dict.fromkeys(wanted))
        groups: dict[tuple[object, ...], list[Evaluation]] = {}
        for one in wanted:
            if self._journal.get(one) is None:
                groups.setdefault((one.run.drive, one.at, one.seed, self._part(one)), []).append(
                    one
                )
        self._asked += len(groups)
        self._pool.run(groups.values(), self._evaluate, interrupted=self._interrupted)
        return {one: self._journal.get(one) or {} for one in wanted}

    def _evaluate(self, worker: Worker, group: Sequence[Evaluation]) -> None:
        """Runs tests on a drive, those of one prepared state in succession."""
        for one, found in self._found(worker, group):
            self._journal.put(one, found)
        with self._mutex:
            self.count += 1
            if self._progress is not None:
                self._progress(self.count, self._asked)

    def _found(
        self, worker: Worker, group: Sequence[Evaluation]
    ) -> Iterable[tuple[Evaluation, Figures]]:
        try:
            made = self._make(group)
        except UserError:  # no possible drive, such as one that throttles below where it stops
            yield from ((one, {}) for one in group)
            return
        by_drive: dict[str, list[tuple[Evaluation, Profile, Test]]] = {}
        for part in sorted(made, key=lambda part: (key_of(part[2]), part[0])):
            by_drive.setdefault(part[1].json(), []).append(part)
        for parts in by_drive.values():
            try:
                tests = [test for _, _, test in parts]
                worker.set_profile(parts[0][1], tests, seed=group[0].seed)
            except UserError:
                yield from ((one, {}) for one, _, _ in parts)
                continue
            for one, _, test in parts:
                try:
                    yield one, self._keep(one.run, worker.run_test(test))
                except DrivebayError as problem:
                    words = ", ".join(f"{name} = {value:g}" for name, value in one.at)
                    raise UserError(
                        f"with {words or 'its own values'}: {problem.message}",
                        "narrow the range: --fit NAME=LOW..HIGH; or leave the test out: --only",
                    ) from None
