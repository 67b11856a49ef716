"""Runs what the rows ask for, side by side, each on a drive as new or as prepared for several;
keeps figures, no folders."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Sequence

from drivebay.analysis import Measured
from drivebay.analysis.measure import measure
from drivebay.common import signals
from drivebay.common.errors import Interrupted
from drivebay.definitions import profiles as catalog
from drivebay.definitions.profiles import Profile
from drivebay.lab.validate.plan import Plan, Run
from drivebay.review.seeds import step_seed
from drivebay.targets.base import Cancelled, Progress
from drivebay.targets.virtual.states import Kept, key_of, workers_with_states
from drivebay.targets.virtual.target import VirtualTarget

SEED = 1
LOOK_EVERY_S = 0.2


def run_all(
    plan: Plan, *, told: Callable[[Run, int, int], None] | None = None
) -> dict[Run, Measured]:
    """Every run of the plan, on as many threads as there are processors.

    Parameters
    ----------
    told : called from the workers when a run has ended, with how many of how many are done.

    Raises
    ------
    Interrupted
        On SIGINT, SIGTERM or SIGHUP.
    """
    groups = _groups(plan)
    largest = max((VirtualTarget(_profile(runs[0])).memory_bytes for runs in groups), default=0)
    crew = _Crew(plan, groups, told)
    crew.work(min(workers_with_states(largest), max(1, len(groups))))
    return crew.done


def _groups(plan: Plan) -> list[list[Run]]:
    """Runs of one drive that begin from the same prepared state, those that take longest first."""
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in plan.runs:
        groups.setdefault((run.drive, key_of(plan.tests[run.test])), []).append(run)

    def estimate_s(runs: list[Run]) -> float:
        target = VirtualTarget(_profile(runs[0]))
        return sum(target.estimate_s(plan.tests[run.test]) for run in runs)

    return sorted(groups.values(), key=estimate_s, reverse=True)


def _profile(run: Run) -> Profile:
    return catalog.load(run.profile).with_(*run.variants)


class _Crew:
    def __init__(
        self,
        plan: Plan,
        groups: Sequence[list[Run]],
        told: Callable[[Run, int, int], None] | None,
    ) -> None:
        self._plan, self._queue = plan, deque(groups)
        self._told, self._all = told, sum(map(len, groups))
        self._mutex = threading.Lock()
        self._progress: set[Progress] = set()
        self._stopped = False
        self._errors: list[BaseException] = []
        self.done: dict[Run, Measured] = {}

    def work(self, workers: int) -> None:
        threads = [threading.Thread(target=self._worker) for _ in range(workers)]
        stop = threading.Event()
        with signals.heard(stop.set):
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads):
                for thread in threads:
                    thread.join(LOOK_EVERY_S)
                if stop.is_set():
                    self._cancel()
        if self._errors:
            raise self._errors[0]
        if stop.is_set():
            raise Interrupted("interrupted", "begin again: drivebay validate")

    def _cancel(self) -> None:
        with self._mutex:
            self._stopped = True
            self._queue.clear()
            running = list(self._progress)
        for progress in running:
            progress.cancel()

    def _worker(self) -> None:
        states = Kept()
        target: VirtualTarget | None = None
        with contextlib.suppress(Cancelled):
            while True:
                with self._mutex:
                    if self._stopped or not self._queue:
                        return
                    runs = self._queue.popleft()
                try:
                    profile = _profile(runs[0])
                    target = target or VirtualTarget(profile, states)
                    target.become(profile)
                    states.begin([self._plan.tests[run.test] for run in runs], seed=SEED)
                    for run in runs:
                        self._run(target, run)
                except Cancelled:
                    raise
                except BaseException as problem:
                    self._errors.append(problem)
                    self._cancel()
                    return

    def _run(self, target: VirtualTarget, run: Run) -> None:
        test = self._plan.tests[run.test]
        progress = Progress()
        with self._mutex:
            if self._stopped:
                raise Cancelled
            self._progress.add(progress)
        target.check((test,))
        phases = target.run_test(test, seed=step_seed(SEED, test.id), progress=progress)
        found = measure(test, phases)
        with self._mutex:
            self._progress.discard(progress)
            self.done[run] = found
            count = len(self.done)
        if self._told is not None:
            self._told(run, count, self._all)
