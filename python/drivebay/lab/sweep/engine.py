"""Runs a sweep: hands runs to workers, retries lost ones, records those that failed.

The engine holds no figures: each run's worker writes its part, and answers with a short message. It
admits as many runs as there are threads, and on this machine as fit in memory; so a worker that
dies loses only its current run. A run that fails by itself (a drive that is not possible) is
recorded at once; a lost run, or one that failed for reasons that may be transient (memory,
storage), is retried.

Not undone on Ctrl-C: workers of a foreign cluster finish their current run.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import queue
import shlex
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from drivebay.common import provenance, signals
from drivebay.common.errors import EnvironmentProblem, Interrupted, UserError
from drivebay.lab.sweep import cluster as clusters
from drivebay.lab.sweep import fleet, rounds, work
from drivebay.lab.sweep.cluster import MEMORY, Cluster
from drivebay.lab.sweep.network import admitted
from drivebay.lab.sweep.plan import Plan
from drivebay.lab.sweep.store import Store

RETRIES = 2
LOOK_EVERY_S = 0.2
COUNT_THREADS_EVERY_S = 5.0
# Time for reviews of real drives to end when the sweep is stopped.
STOP_S = 90.0
# Number of waiting runs that are searched for one that fits in the free memory.
LOOKAHEAD = 64


class Sink(Protocol):
    """Receives a sweep's progress, from one thread."""

    def begin(self, runs: int, done: int, capacity: int) -> None:
        """The sweep starts: number of runs, and of those that exist already."""

    def ended(self, index: int, error: str | None) -> None:
        """A run has ended, with its last attempt."""

    def warn(self, message: str) -> None:
        """A warning; the sweep continues."""


@dataclass
class _Attempt:
    index: int
    number: int
    memory_bytes: int
    worker: str = ""


def run(
    plan: Plan,
    store: Store,
    sink: Sink,
    *,
    scheduler: str | None = None,
    trust_network: bool = False,
    jobs: int | None = None,
    retries: int = RETRIES,
    resume: bool = False,
) -> dict[int, str]:
    """Runs the missing runs of a sweep; returns the errors of failed runs by number. Raises
    UserError if the store holds another sweep, or one and `resume` is not set, or if connecting to
    the scheduler is not allowed; EnvironmentProblem if no scheduler answers, a run needs more
    memory than there is, a worker is another build, or the store cannot be written or is not
    shared with the workers; Interrupted on SIGINT, SIGTERM or SIGHUP; finished runs are kept.

    Parameters
    ----------
    scheduler : a Dask scheduler's address; without one, workers are started on this machine.
    trust_network : everybody on the way to it may run programs as this user, see
        `network.admitted`.
    jobs : number of workers; by default the number of processors.
    retries : number of retries of a lost run.
    resume : continue the sweep in the store.
    """
    peer = None if scheduler is None else admitted(scheduler, trust_network=trust_network)
    finished = _opened(plan, store, resume=resume)
    left = rounds.missing(plan, store, finished)
    if not left:
        sink.begin(plan.runs, len(finished), 0)
        return {}
    if plan.spec.fleet is not None and scheduler is None:
        raise UserError(
            "a fleet needs a cluster, whose workers have the drives: --scheduler is missing",
            "start one with: dask scheduler; on each host: drivebay worker ADDRESS; then add: "
            "--scheduler ADDRESS",
        )
    stop = threading.Event()
    workers = min(jobs or clusters.default_jobs(), len(left))
    with signals.heard(stop.set), clusters.opened(peer, workers) as cluster:
        if plan.spec.fleet is not None:
            fleet.check_announced(plan.spec.fleet, clusters.resources(cluster.client))
        at_once = plan.runs if plan.spec.fleet is not None else sum(cluster.threads().values())
        sink.begin(plan.runs, len(finished), at_once)
        dispatcher = _Dispatcher(plan, store, sink, cluster, retries)
        while left and not stop.is_set():
            dispatcher.work(iter(left), stop)
            if not stop.is_set():
                store.pack(plan.fingerprint)
            left = rounds.missing(plan, store, store.done(plan.fingerprint), set(dispatcher.failed))
    if stop.is_set():
        raise Interrupted(
            f"interrupted; {len(store.done(plan.fingerprint)):,} of {plan.runs:,} runs have ended "
            "and are kept",
            "go on with the same command and --resume",
        )
    return dispatcher.failed


def _opened(plan: Plan, store: Store, *, resume: bool) -> set[int]:
    """Runs that exist already; creates the store if there is none."""
    known = store.read_manifest()
    if known is None:
        if not store.is_empty():
            raise UserError(
                f"{store.url} is not empty, and holds no sweep", "choose another place: --out DIR"
            )
        store.create(plan.fingerprint, plan.as_json(), plan.runs)
        return set()
    if known["fingerprint"] != plan.fingerprint:
        made = known["plan"].get("build", {})
        other = (
            f"by another build, {provenance.build_line(made)}; this is "
            f"{provenance.build_line(plan.build)}"
        )
        why = other if made != dict(plan.build) else "from another specification"
        raise UserError(
            f"{store.url} holds a sweep made {why}",
            "choose another place: --out DIR; or return to the build and file it was made with",
        )
    if not resume:
        raise UserError(
            f"{store.url} holds this sweep already",
            "go on with it: add --resume; or choose another place: --out DIR",
        )
    return store.done(plan.fingerprint)


class _Dispatcher:
    """State of a sweep under way: waiting, running and finished runs."""

    def __init__(
        self, plan: Plan, store: Store, sink: Sink, cluster: Cluster, retries: int
    ) -> None:
        self._plan, self._store, self._sink = plan, store, sink
        self._cluster, self._retries = cluster, retries
        self.failed: dict[int, str] = {}
        self._waiting: deque[_Attempt] = deque()
        self._running: dict[Any, _Attempt] = {}
        self._memory_bytes = 0
        self._seen_a_part = False
        self._ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._warned: set[str] = set()
        self._threads: dict[str, int] = {}
        self._failed_before = store.failures(plan.fingerprint)
        self._token = f"{plan.fingerprint}-{time.time_ns()}"
        # A task like any other, so that its result can be recomputed if its worker dies.
        text = json.dumps(plan.as_json(), sort_keys=True)
        self._shared = cluster.client.submit(str, text, key=f"plan-{self._token}")

    def work(self, left: Any, stop: threading.Event) -> None:
        """Works until no run is left, or `stop` is set."""
        capacity, counted = 0, -COUNT_THREADS_EVERY_S
        while not stop.is_set():
            if time.monotonic() - counted > COUNT_THREADS_EVERY_S:
                capacity, counted = self._capacity(), time.monotonic()
            wanted = max(LOOKAHEAD, capacity) - len(self._waiting)
            for index in itertools.islice(left, max(0, wanted)):
                self._waiting.append(_Attempt(index, 0, self._memory_of(index)))
            while len(self._running) < capacity and (attempt := self._next()) is not None:
                self._submit(attempt)
            if not self._running and not self._waiting:
                return
            with contextlib.suppress(queue.Empty):
                self._finish(self._ended.get(timeout=LOOK_EVERY_S))
        self._give_up()

    def _capacity(self) -> int:
        """Number of runs that may be under way: for a fleet, all drives at once. Warns about
        workers that are waited for.
        """
        self._threads, spec = self._cluster.threads(), self._plan.spec
        capacity = sum(self._threads.values())
        if spec.fleet is None:
            self._warn_once("there are no workers yet: waiting for some", when=capacity == 0)
            return capacity
        announced = clusters.resources(self._cluster.client)
        for attempt in self._running.values():
            drive = spec.fleet.drives[attempt.index].id
            gone = fleet.resource(drive) not in announced
            self._warn_once(f"the worker of the drive {drive} is gone: waiting for it", when=gone)
        return self._plan.runs

    def _warn_once(self, message: str, *, when: bool) -> None:
        """Warns once while the condition holds."""
        if when and message not in self._warned:
            self._sink.warn(message)
        (self._warned.add if when else self._warned.discard)(message)

    def _give_up(self) -> None:
        """Ends reviews of real drives in an orderly way; runs in virtual time are dropped."""
        running = self._running
        if self._plan.spec.fleet is not None:
            fleet.stop(self._cluster.client, self._token)
            deadline = time.monotonic() + STOP_S
            while running and time.monotonic() < deadline:
                with contextlib.suppress(queue.Empty):
                    running.pop(self._ended.get(timeout=LOOK_EVERY_S), None)
        for future in list(running):
            future.cancel()

    def _memory_of(self, index: int) -> int:
        if self._plan.spec.fleet is not None:
            return 0
        need = self._plan.memory_bytes(self._plan.point(index))
        largest = self._cluster.largest_bytes
        if largest is not None and need > largest:
            raise EnvironmentProblem(
                f"run {index} needs {need / 1e9:.1f} GB of memory, and a worker has at most "
                f"{largest / 1e9:.1f} GB for runs",
                "use fewer workers (--jobs 1), a machine with more memory, or smaller drives",
            )
        return need

    def _next(self) -> _Attempt | None:
        """The first of the next runs that fits in the free memory."""
        budget = self._cluster.budget_bytes
        for place, attempt in enumerate(self._waiting):
            if place >= LOOKAHEAD:
                break
            if budget is None or self._memory_bytes + attempt.memory_bytes <= budget:
                del self._waiting[place]
                return attempt
        return None

    def _submit(self, attempt: _Attempt) -> None:
        plan = self._plan
        key = f"run-{self._token}-{attempt.index}-{attempt.number}"
        task: Callable[..., work.Outcome] = work.run
        needs: dict[str, float] = {}
        if plan.spec.fleet is not None:
            task = functools.partial(fleet.run, stop_name=self._token)
            needs = {fleet.resource(plan.spec.fleet.drives[attempt.index].id): 1.0}
        elif self._cluster.has_memory_resource:
            needs = {MEMORY: float(attempt.memory_bytes)}
        attempt.worker = self._idle()
        future = self._cluster.client.submit(
            task,
            self._shared,
            self._store.url,
            attempt.index,
            key=key,
            pure=False,
            resources=needs or None,
            # A worker without other runs, so that this run does not wait for another and is not
            # lost with it.
            workers=[attempt.worker] if attempt.worker else None,
            allow_other_workers=bool(attempt.worker),
        )
        self._running[future] = attempt
        self._memory_bytes += attempt.memory_bytes
        future.add_done_callback(self._ended.put)

    def _idle(self) -> str:
        """A worker with a free thread; "" if Dask has to choose."""
        # If the chosen worker is gone, Dask takes any, even one without the memory resource, which
        # it then drops (KeyError in acquire_resources): if there are such workers, Dask chooses.
        if self._plan.spec.fleet is not None or 0 in self._threads.values():
            return ""
        at_work = Counter(attempt.worker for attempt in self._running.values())
        free = (name for name, threads in self._threads.items() if at_work[name] < threads)
        return next(free, "")

    def _finish(self, future: Any) -> None:
        attempt = self._running.pop(future, None)
        if attempt is None:
            return
        self._memory_bytes -= attempt.memory_bytes
        if future.status == "finished":
            answer: work.Outcome = future.result()
        else:
            problem = future.exception() if future.status == "error" else None
            answer = {"error": _lost(problem), "again": True}
        future.release()
        error = answer.get("error")
        if "hint" in answer:
            raise EnvironmentProblem(str(error), answer["hint"])
        if error is None:
            self._check_shared_store(attempt.index)
            if attempt.index in self._failed_before:
                self._store.forget_failure(attempt.index, self._plan.fingerprint)
            for sentence in answer.get("warnings", ()):
                self._warn_once(sentence, when=True)
            self._sink.ended(attempt.index, None)
        elif answer.get("again") and attempt.number < self._retries:
            self._sink.warn(f"run {attempt.index}: {error}; it is started again")
            self._waiting.appendleft(
                _Attempt(attempt.index, attempt.number + 1, attempt.memory_bytes)
            )
        else:
            self.failed[attempt.index] = error
            failure = {"run": attempt.index, "error": error, "attempts": attempt.number + 1}
            self._store.write_failure(attempt.index, self._plan.fingerprint, failure)
            self._sink.ended(attempt.index, error)

    def _check_shared_store(self, index: int) -> None:
        """Checks from here that the first part exists: separate folders on the workers are not a
        dataset.
        """
        if self._seen_a_part:
            return
        if not self._store.has_part(index, self._plan.fingerprint):
            raise EnvironmentProblem(
                f"a worker wrote its part to its own {self._store.url}, which is not seen here",
                "give a place that all hosts share: --out s3://bucket/sweep or a shared folder",
            )
        self._seen_a_part = True


def _lost(problem: BaseException | None) -> str:
    name = type(problem).__name__
    if name == "KilledWorker":
        return "its worker died"
    if problem is None:
        return "it was lost on its way"
    return f"{name}: {' '.join(str(problem).split())}"


def resume_command(
    spec_path: str, url: str, scheduler: str | None, *, trust_network: bool = False
) -> str:
    """Command to continue a sweep."""
    where = f" --scheduler {shlex.quote(scheduler)}" if scheduler else ""
    where += " --trust-network" if trust_network else ""
    return f"drivebay sweep {shlex.quote(spec_path)} --out {shlex.quote(url)}{where} --resume"
