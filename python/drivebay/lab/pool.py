"""Pool of workers that test virtual drives in parallel, for validation and calibration.

A worker is a thread: the core runs without the interpreter's lock. It tests one drive after the
other in the same memory; tests that begin from the same prepared state share it.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

from drivebay.analysis import Measured
from drivebay.analysis.measure import measure
from drivebay.common import signals, threads
from drivebay.common.errors import Cancelled, Interrupted
from drivebay.common.seeds import derived_seed
from drivebay.definitions.profiles import Profile
from drivebay.definitions.suites import Test
from drivebay.targets.base import Progress
from drivebay.targets.virtual.states import Kept
from drivebay.targets.virtual.target import VirtualTarget

Task = TypeVar("Task")


class Worker:
    """The drive under test of one thread; its memory is reused."""

    def __init__(self) -> None:
        self._target: VirtualTarget | None = None
        self._states = Kept()
        self._progress = Progress()

    def set_profile(self, profile: Profile, tests: Sequence[Test], *, seed: int) -> None:
        """Sets the drive under test; `tests` are all that will be run on it, in their order."""
        self._target = self._target or VirtualTarget(profile, self._states)
        self._target.set_profile(profile)
        self._states.begin(tests, seed=seed)
        self._seed = seed

    def run_test(self, test: Test) -> Measured:
        """Runs a test on the present drive and returns its figures."""
        assert self._target is not None, "set_profile comes first"
        self._progress = Progress()
        self._target.check((test,))
        seed = derived_seed(self._seed, test.id)
        return measure(test, self._target.run_test(test, seed=seed, progress=self._progress))

    def cancel(self) -> None:
        """Stops the running test; called repeatedly until the thread has ended."""
        self._progress.cancel()


class Pool:
    """Workers that keep their drives from one `run` to the next."""

    def __init__(self, workers: int) -> None:
        self._workers = [Worker() for _ in range(workers)]

    def run(
        self,
        tasks: Iterable[Task],
        work: Callable[[Worker, Task], None],
        *,
        interrupted: Interrupted,
    ) -> None:
        """Calls `work` for each task, in the tasks' order; raises its first error, or
        `interrupted` on SIGINT, SIGTERM or SIGHUP.
        """
        queue = deque(tasks)
        used = self._workers[: len(queue)]
        stopped, signalled = threading.Event(), threading.Event()

        def loop(worker: Worker) -> None:
            with contextlib.suppress(Cancelled):
                while not stopped.is_set():
                    try:
                        task = queue.popleft()
                    except IndexError:
                        return
                    work(worker, task)

        def stop() -> None:
            stopped.set()
            for worker in used:
                worker.cancel()

        with signals.heard(signalled.set):
            loops = [partial(loop, worker) for worker in used]
            threads.together(loops, stop=stop, signalled=signalled)
        if signalled.is_set():
            raise interrupted
