"""Runs what the rows ask for, side by side, each on a drive as new; keeps figures, no folders."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Mapping

from drivebay import catalog, signals
from drivebay.analysis import Measured
from drivebay.errors import Interrupted
from drivebay.paper.plan import Plan, Run
from drivebay.review.measured import measured
from drivebay.review.seeds import step_seed
from drivebay.targets.base import Cancelled, Progress
from drivebay.targets.virtual import VirtualTarget

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
    targets = {
        run: VirtualTarget(catalog.load(run.profile).with_(*run.variants)) for run in plan.runs
    }
    longest = sorted(plan.runs, key=lambda run: -targets[run].estimate_s(plan.tests[run.test]))
    crew = _Crew(plan, targets, deque(longest), told)
    crew.work(min(os.cpu_count() or 1, max(1, len(longest))))
    return crew.done


class _Crew:
    def __init__(
        self,
        plan: Plan,
        targets: Mapping[Run, VirtualTarget],
        queue: deque[Run],
        told: Callable[[Run, int, int], None] | None,
    ) -> None:
        self._plan, self._targets, self._queue = plan, targets, queue
        self._told, self._all = told, len(queue)
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
            raise Interrupted("interrupted", "begin again: drivebay paper")

    def _cancel(self) -> None:
        with self._mutex:
            self._stopped = True
            self._queue.clear()
            running = list(self._progress)
        for progress in running:
            progress.cancel()

    def _worker(self) -> None:
        with contextlib.suppress(Cancelled):
            while True:
                with self._mutex:
                    if self._stopped or not self._queue:
                        return
                    run = self._queue.popleft()
                    progress = Progress()
                    self._progress.add(progress)
                try:
                    self._run(run, progress)
                except Cancelled:
                    raise
                except BaseException as problem:
                    self._errors.append(problem)
                    self._cancel()
                    return

    def _run(self, run: Run, progress: Progress) -> None:
        test = self._plan.tests[run.test]
        with contextlib.closing(self._targets[run]) as target:
            target.check((test,))
            phases = target.run_test(test, seed=step_seed(SEED, test.id), progress=progress)
        found = measured(test, phases)
        with self._mutex:
            self._progress.discard(progress)
            self.done[run] = found
            count = len(self.done)
        if self._told is not None:
            self._told(run, count, self._all)
