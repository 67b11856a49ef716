"""Workers of a sweep: processes of this machine, or a Dask cluster by its address.

On this machine every worker is a process with one thread, so that a crash loses only one run.
Memory limits the number of parallel runs, too: a run needs the memory of its drive's maps
("memory", an abstract resource of Dask), and the engine admits only as many runs as fit. Workers of
a cluster announce their memory for runs (`drivebay worker`); workers that do not get one run per
thread.

Sources: distributed's documentation (worker resources; allowed-failures).
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from drivebay.common.errors import EnvironmentProblem
from drivebay.common.memory import available_bytes
from drivebay.lab.sweep.network import Scheduler, distributed

MEMORY = "memory"
# Share of the free memory that runs may take; the rest is for the page cache and other processes.
MEMORY_SHARE = 0.8
# Memory of a worker process before its first run: interpreter, Dask, NumPy, Arrow; measured,
# rounded up.
WORKER_BYTES = 170_000_000
CONNECT_S = 10.0
QUIET = ("distributed", "distributed.scheduler", "distributed.nanny", "distributed.worker")


@dataclass(frozen=True)
class Cluster:
    """A connected client.

    `budget_bytes` is the memory limit of all runs together, None if the workers' own resources
    limit it; `largest_bytes` the limit of one run, None if unknown.
    """

    client: Any
    budget_bytes: int | None
    largest_bytes: int | None
    has_memory_resource: bool
    restart_lost: Callable[[], object] = lambda: None

    def threads(self) -> dict[str, int]:
        """Number of parallel runs of virtual drives of each worker, by its address: 0 if it
        announces no memory while others do. On this machine, lost workers are restarted.
        """
        self.restart_lost()

        def runs(worker: dict[str, Any]) -> int:
            has_memory = (worker.get("resources") or {}).get(MEMORY, 0.0) > 0
            return worker["nthreads"] if has_memory or not self.has_memory_resource else 0

        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        return {address: runs(worker) for address, worker in workers.items()}


def memory_budget(workers: int) -> int:
    """Bytes that the runs of so many workers on this machine may take together."""
    return max(0, int(available_bytes() * MEMORY_SHARE) - workers * WORKER_BYTES)


def default_jobs() -> int:
    """Number of processors that this process may use."""
    return len(os.sched_getaffinity(0))


@contextlib.contextmanager
def opened(scheduler: Scheduler | None, jobs: int) -> Iterator[Cluster]:
    """Connects to the cluster of a scheduler, or starts `jobs` processes here that end with the
    block. Raises EnvironmentProblem if the scheduler does not answer.
    """
    for name in QUIET:  # the engine reports problems
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with _connected(scheduler) if scheduler else _local(jobs) as cluster:
        yield cluster


@contextlib.contextmanager
def _local(jobs: int) -> Iterator[Cluster]:
    import dask

    from drivebay.lab.sweep import nodes  # before the settings: importing Dask would undo them

    budget = memory_budget(jobs)
    settings = {
        # A worker's death is reported at once; the engine decides about another attempt.
        "distributed.scheduler.allowed-failures": 0,
        "distributed.comm.timeouts.connect": "60s",
        # On a busy machine a restarted worker takes longer than Dask's 15 s, after which its place
        # would be given up.
        "distributed.deploy.lost-worker-timeout": "300s",
        # The engine limits memory; Dask's own limit would kill runs that just fit.
        "distributed.worker.memory.terminate": False,
        "distributed.worker.memory.pause": False,
        "distributed.admin.system-monitor.interval": "5s",
    }
    with dask.config.set(settings), contextlib.ExitStack() as stack:
        with sigint_ignored():
            cluster = nodes.local_cluster(jobs, {MEMORY: float(budget)})
            stack.enter_context(cluster)
            client = stack.enter_context(distributed().Client(cluster, set_as_default=False))
        yield Cluster(client, budget, budget, True, lambda: cluster.scale(jobs))


@contextlib.contextmanager
def _connected(scheduler: Scheduler) -> Iterator[Cluster]:
    address, security = scheduler.address, scheduler.security
    try:
        client = distributed().Client(
            address, timeout=CONNECT_S, set_as_default=False, security=security
        )
    except (OSError, ValueError, TimeoutError) as problem:
        text = " ".join(str(problem).split())
        raise EnvironmentProblem(
            f"--scheduler {address}: no scheduler answers there: {text}",
            "start one with: dask scheduler; and on each host: drivebay worker ADDRESS",
        ) from None
    try:
        largest = max((announced.get(MEMORY, 0.0) for announced in _announced(client)), default=0.0)
        yield Cluster(client, None, int(largest) or None, largest > 0)
    finally:
        client.close()


def resources(client: Any) -> dict[str, float]:
    """Sum of the resources that the workers announce."""
    total: Counter[str] = Counter()
    for worker in _announced(client):
        total.update(worker)
    return dict(total)


def _announced(client: Any) -> list[dict[str, float]]:
    """Resources of each worker."""
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    return [worker.get("resources") or {} for worker in workers]


@contextlib.contextmanager
def sigint_ignored() -> Iterator[None]:
    """Ignores SIGINT while processes are started. Ctrl-C reaches a terminal's whole process
    group; processes started inside inherit that it is ignored, so that only the sweep ends
    them. Processes that replace them later ignore it by themselves (`preload`). Meanwhile
    this process ignores it too.
    """
    before = None
    with contextlib.suppress(ValueError):  # not the main thread: no signals here
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)
