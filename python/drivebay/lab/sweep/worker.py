"""Workers of a host for a remote scheduler: its processors for virtual drives, its real drives.

Every run of a virtual drive has a process of its own, which announces its memory. The host's real
drives belong to one more process, with a thread for each and no memory for virtual runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
from collections.abc import Callable, Sequence
from typing import Any

from drivebay.common.errors import EnvironmentProblem
from drivebay.lab.sweep.cluster import CONNECT_S, MEMORY, QUIET, memory_budget, sigint_ignored
from drivebay.lab.sweep.fleet import ANNOUNCED, resource
from drivebay.lab.sweep.network import Scheduler, admitted, distributed


def serve(
    address: str,
    *,
    trust_network: bool,
    jobs: int,
    drives: Sequence[str],
    say: Callable[[str], None],
) -> None:
    """Runs the workers until SIGINT, SIGTERM, or the scheduler is gone. Raises UserError if
    connecting to the scheduler is not allowed; EnvironmentProblem if no scheduler answers at the
    address.

    Parameters
    ----------
    trust_network : everybody on it may run programs as this user, see `network.admitted`.
    jobs : number of parallel runs of virtual drives; 0 for none.
    drives : ids of the real drives to announce, see `fleet.testable`.
    say : called with a line when all workers are ready.
    """
    scheduler = admitted(address, trust_network=trust_network)
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    asyncio.run(_serve(scheduler, jobs, drives, say))


async def _serve(
    scheduler: Scheduler, jobs: int, drives: Sequence[str], say: Callable[[str], None]
) -> None:
    from drivebay.lab.sweep import nodes

    share = memory_budget(jobs) // jobs if jobs else 0
    common = nodes.common(await _facing(scheduler), scheduler.security)

    def nanny(**own: Any) -> Any:
        return distributed().Nanny(scheduler.address, **common, **own)

    wanted = [nanny(nthreads=1, resources={MEMORY: float(share)}) for _ in range(jobs)]
    if drives:
        has = {resource(drive): 1.0 for drive in drives}
        env = {ANNOUNCED: json.dumps(list(drives))}
        wanted.append(nanny(nthreads=len(drives), resources=has, env=env))
    with sigint_ignored():
        workers = await asyncio.gather(*wanted)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    say(f"worker: {jobs} runs at once, {share / 1e9:.1f} GB each; drives: "
         f"{', '.join(drives) or 'none'}")  # fmt: skip
    ends = [asyncio.create_task(worker.finished()) for worker in workers]
    ends.append(asyncio.create_task(stop.wait()))
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    say("worker: stopping")
    for worker in workers:
        with contextlib.suppress(OSError, asyncio.TimeoutError):
            await worker.close(timeout=5)


async def _facing(scheduler: Scheduler) -> str:
    """The address of this machine from which it connects to the scheduler."""
    comms, address = distributed().comm, scheduler.address
    try:
        arguments = scheduler.security.get_connection_args("worker")
        comm = await comms.connect(address, timeout=CONNECT_S, **arguments)
    except (OSError, ValueError, TimeoutError) as problem:
        text = " ".join(str(problem).split())
        raise EnvironmentProblem(
            f"{address}: no scheduler answers there: {text}",
            "start one with: dask scheduler, and give the address that it prints",
        ) from None
    host = comms.get_address_host(comm.local_address)
    await comm.close()
    return f"[{host}]" if ":" in host else str(host)
