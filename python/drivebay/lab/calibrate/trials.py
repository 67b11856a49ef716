"""Runs trials: drives with trial values, tests on them, figures; side by side, each remembered.

A worker is a thread, as in reviews: the core runs without the interpreter's lock. It tests one
drive after the other in the same memory, and tests that begin from the same state share it. Values
that together make no drive that the core accepts have no figures, which counts as wrong by a factor
of two.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

from drivebay.analysis.measure import measure
from drivebay.common import signals
from drivebay.common.errors import DrivebayError, Interrupted, UserError
from drivebay.definitions.suites import Test
from drivebay.lab.calibrate.goals import Figures, Goal, Job
from drivebay.lab.calibrate.journal import Journal, Values
from drivebay.lab.calibrate.parameters import Parameter
from drivebay.review.seeds import step_seed
from drivebay.targets.base import Cancelled, Progress
from drivebay.targets.virtual.states import Kept, key_of
from drivebay.targets.virtual.target import VirtualTarget

LOOK_EVERY_S = 0.1

Run = tuple[Job, bool]
"""A job, and whether its test is run in its whole length."""


class Trials:
    """The fit's bench: many drives with trial values, tested by several workers.

    Parameters
    ----------
    jobs : workers; changes no figure.
    go_on : what an interrupted user is told to type.
    """

    def __init__(
        self,
        goal: Goal,
        parameters: Sequence[Parameter],
        journal: Journal,
        *,
        jobs: int,
        go_on: str,
    ) -> None:
        self._goal, self._parameters, self._journal = goal, tuple(parameters), journal
        self._workers = [_Worker(goal, self._parameters) for _ in range(jobs)]
        self._go_on = go_on
        self._whole: set[Job] = set()
        self._moves = {
            job: tuple(goal.moves(job, one) for one in self._parameters)
            for job in {*goal.full, *goal.tests}
        }
        self._told: Callable[[int], None] | None = None
        self.count = 0

    def tell(self, told: Callable[[int], None]) -> None:
        """Has `told` called now and after each trial, with how many there were."""
        self._told = told
        told(self.count)

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
        if todo:
            self._work(deque(todo.items()))
        found = []
        for point in points:
            figures = {run[0]: self._journal.get(*run, self._own(run[0], point)) for run in runs}
            found.append({job: one for job, one in figures.items() if one is not None})
        return found

    def _is_cut(self, job: Job) -> bool:
        return self._goal.tests.get(job) != self._goal.full[job]

    def lengthen(self, jobs: Iterable[Job]) -> None:
        """From now on these are run whole, in every trial."""
        self._whole |= set(jobs)

    def _own(self, job: Job, point: Values) -> Values:
        """The point as far as the job's drive has these parameters: a drive of the family with a
        value of its own need not be run again when that of the others moves."""
        pairs = zip(self._parameters, point, self._moves[job], strict=True)
        return tuple(value if moves else one.start for one, value, moves in pairs)

    def _work(self, queue: deque[tuple[Values, list[Run]]]) -> None:
        stop, mutex = threading.Event(), threading.Lock()
        errors: list[BaseException] = []

        def work(worker: _Worker) -> None:
            with contextlib.suppress(Cancelled):
                while not stop.is_set():
                    with mutex:
                        if not queue:
                            return
                        point, runs = queue.popleft()
                    try:
                        for run, found in worker.run(point, runs):
                            self._journal.put(*run, point, found)
                    except Cancelled:
                        raise
                    except BaseException as problem:
                        errors.append(problem)
                        stop.set()
                        return
                    with mutex:
                        self.count += 1
                    if self._told is not None:
                        self._told(self.count)

        signalled = threading.Event()
        used = self._workers[: len(queue)]
        with signals.heard(signalled.set):
            threads = [threading.Thread(target=work, args=(worker,)) for worker in used]
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads):
                for thread in threads:
                    thread.join(LOOK_EVERY_S)
                if signalled.is_set() or errors:
                    stop.set()
                    for worker in used:
                        worker.cancel()
        if errors:
            raise errors[0]
        if signalled.is_set():
            raise Interrupted("interrupted; every finished test is kept", self._go_on)


class _Worker:
    """One thread's drive under test, whose memory is used again and again."""

    def __init__(self, goal: Goal, parameters: Sequence[Parameter]) -> None:
        self._goal, self._parameters = goal, parameters
        self._target: VirtualTarget | None = None
        self._states = Kept()
        self._progress = Progress()

    def cancel(self) -> None:
        self._progress.cancel()

    def run(self, point: Values, runs: Sequence[Run]) -> Iterator[tuple[Run, Figures]]:
        """Runs them, those of one drive and one prepared state one after the other."""
        self._progress.check()
        tests = {run: (self._goal.full if run[1] else self._goal.tests)[run[0]] for run in runs}
        for drive in sorted({job.drive for job, _ in runs}):
            mine = sorted(
                (run for run in runs if run[0].drive == drive),
                key=lambda run: (key_of(tests[run]), run),
            )
            try:
                target = self._at(mine[0][0], point, [tests[run] for run in mine])
            except UserError:  # no possible drive, such as one that throttles below where it stops
                yield from ((run, {}) for run in mine)
                continue
            for run in mine:
                yield run, self._test(target, run[0], tests[run], point)

    def _test(self, target: VirtualTarget, job: Job, test: Test, point: Values) -> Figures:
        self._progress = Progress()
        try:
            target.check((test,))
            seed = step_seed(self._goal.seed, test.id)
            phases = target.run_test(test, seed=seed, progress=self._progress)
        except DrivebayError as problem:
            raise UserError(
                f"with {self._words(point)}: {problem.message}",
                "narrow the range: --fit NAME=LOW..HIGH; or leave the test out: --only",
            ) from None
        return self._goal.keep(job, measure(test, phases))

    def _at(self, job: Job, point: Values, tests: Sequence[Test]) -> VirtualTarget:
        profile = self._goal.profile(job, self._parameters, point)
        if self._target is None:
            self._target = VirtualTarget(profile, self._states)
        self._target.become(profile)
        self._states.begin(tests, seed=self._goal.seed)
        return self._target

    def _words(self, point: Values) -> str:
        pairs = zip(self._parameters, point, strict=True)
        return ", ".join(f"{one.name} = {value:g}" for one, value in pairs)
