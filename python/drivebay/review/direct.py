"""One workload on one virtual drive, from Python: the small way in, without suites and folders."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from drivebay.suites import Phase, Prepare, Test, Workload
from drivebay.targets.base import PhaseResult, Progress

if TYPE_CHECKING:
    from drivebay.catalog import Profile


def run(
    drive: Profile,
    workload: Workload,
    *,
    prepare: tuple[Prepare, ...] = (Prepare(kind="fill"),),
    seed: int = 1,
) -> PhaseResult:
    """Runs `workload` on a new virtual drive after `prepare` (by default: filled once).

    Parameters
    ----------
    drive : a profile, from `drivebay.drive(name)`.
    workload : the load; its durations are of the drive's time, not of yours.
    seed : the same seed gives the same result bit for bit.

    Returns
    -------
    PhaseResult
        Totals, `series` (one row per second) and `histogram` (latency in ns) as pyarrow tables.
    """
    from drivebay.targets.virtual import VirtualTarget

    test = Test(
        id="direct",
        title="one workload",
        page="direct",
        kind="ladder",
        method="called from Python",
        source="the caller",
        prepare=prepare,
        phases=(Phase(label="run", workload=workload),),
        metric_queue_depths=(workload.queue_depth,),
    )
    with contextlib.closing(VirtualTarget(drive)) as target:
        target.check((test,))
        return target.run_test(test, seed=seed, progress=Progress())[0]
