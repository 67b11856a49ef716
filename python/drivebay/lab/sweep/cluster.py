"""The workers of a sweep: processes of this machine, or a Dask cluster by its address.

On this machine every worker is a process with one thread, so that one that dies takes one run with
it. How many runs there may be at once is bounded by memory, too: a run needs what its drive's maps
take ("memory", an abstract resource of Dask), and the engine admits no more of them than fit.
Workers of a cluster say how much memory they have for runs (`drivebay worker`); of those that do
not, every thread gets a run.

Sources: distributed's documentation (worker resources; allowed-failures).
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from drivebay.common.errors import EnvironmentProblem
from drivebay.common.memory import available_bytes
from drivebay.lab.sweep.network import Scheduler, distributed

MEMORY = "memory"
JOBS_MAX = 1024
MEMORY_SHARE = 0.8
"""Of the memory that is free at the start; the rest is for the page cache and what others do."""
WORKER_BYTES = 170_000_000
"""A worker process before its first run: interpreter, Dask, NumPy, Arrow; measured, rounded up."""
CONNECT_S = 10.0
QUIET = ("distributed", "distributed.scheduler", "distributed.nanny", "distributed.worker")


@dataclass(frozen=True)
class Cluster:
    """A connected client.

    `budget_bytes` is what runs may take together, None where the workers' own resources bound it;
    `largest_bytes` what one may take, None where nobody says.
    """

    client: Any
    local: bool
    budget_bytes: int | None
    largest_bytes: int | None
    has_memory_resource: bool
    restart_lost: Callable[[], object] = lambda: None

    def threads(self) -> dict[str, int]:
        """How many runs of virtual drives each worker can do at once, by its address: none if it
        announces no memory where others do. Here, what workers are lost are started again."""
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
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0))


@contextlib.contextmanager
def opened(scheduler: Scheduler | None, jobs: int) -> Iterator[Cluster]:
    """The cluster of a scheduler, or `jobs` processes here that end with the block. Raises
    EnvironmentProblem if the scheduler does not answer."""
    for name in QUIET:  # what goes wrong is told by the engine, in words
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with _connected(scheduler) if scheduler else _local(jobs) as cluster:
        yield cluster


@contextlib.contextmanager
def _local(jobs: int) -> Iterator[Cluster]:
    import dask

    from drivebay.lab.sweep import nodes  # before the settings: importing Dask would undo them

    budget = memory_budget(jobs)
    settings = {
        # A death of a worker is told at once; whether to try again is the engine's to decide.
        "distributed.scheduler.allowed-failures": 0,
        "distributed.comm.timeouts.connect": "60s",
        # On a busy machine a restarted worker takes longer than Dask's 15 s, after which
        # its place would be given up.
        "distributed.deploy.lost-worker-timeout": "300s",
        # The engine bounds memory; Dask's own limit would kill what is just about to fit.
        "distributed.worker.memory.terminate": False,
        "distributed.worker.memory.pause": False,
        "distributed.admin.system-monitor.interval": "5s",
    }
    with contextlib.ExitStack() as stack:
        stack.enter_context(dask.config.set(settings))
        with sigint_ignored():
            cluster = nodes.local_cluster(jobs, {MEMORY: float(budget)})
            stack.enter_context(cluster)
            client = stack.enter_context(distributed().Client(cluster, set_as_default=False))
        yield Cluster(client, True, budget, budget, True, lambda: cluster.scale(jobs))


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
        largest = max((one.get(MEMORY, 0.0) for one in _announced(client)), default=0.0)
        yield Cluster(client, False, None, int(largest) or None, largest > 0)
    finally:
        client.close()


def resources(client: Any) -> dict[str, float]:
    """What the workers announce, all together."""
    found: dict[str, float] = {}
    for worker in _announced(client):
        for name, amount in worker.items():
            found[name] = found.get(name, 0.0) + amount
    return found


def _announced(client: Any) -> list[dict[str, float]]:
    """Each worker's resources."""
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    return [worker.get("resources") or {} for worker in workers]


@contextlib.contextmanager
def sigint_ignored() -> Iterator[None]:
    """Ctrl-C goes to a terminal's whole group; processes started inside inherit that it is ignored,
    so that it is the sweep alone that ends them. Those that replace them later ignore it by
    themselves (`preload`). For the moment that this takes we do not hear it either."""
    before = None
    with contextlib.suppress(ValueError):  # not the main thread: no signals here
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)
