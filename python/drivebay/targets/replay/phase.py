"""A suite's trace on a real drive: the phase of a test, played and put into the house's tables.

The drive is held by the test already. What made the figures suspect (late or failed requests) is
said in sentences; the figures in full are kept beside the result, in `replay.json`.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator

from drivebay.common.errors import Cancelled, EnvironmentProblem
from drivebay.common.threads import repeated
from drivebay.definitions.suites import Phase, Replay
from drivebay.results.records import PhaseResult
from drivebay.targets.base import Progress
from drivebay.targets.replay.figures import Replayed
from drivebay.targets.replay.run import Job
from drivebay.targets.safety.target_device import ExclusiveHandle

LOOK_EVERY_S = 0.25
LATE_SHARE = 0.01
"""From this share of late requests on the machine, not the drive, is part of what was measured."""


def play(
    phase: Phase,
    load: Replay,
    handle: ExclusiveHandle,
    *,
    seed: int,
    progress: Progress,
    at: Callable[..., None],
    warn: Callable[[str], None],
) -> tuple[PhaseResult, float]:
    """The phase's result, and when it began on this process's monotonic clock.

    Parameters
    ----------
    at : told how many seconds are done, with figures.
    warn : told what makes the figures suspect.

    Raises
    ------
    Cancelled
        When asked to stop; nothing is out by then.
    UserError, EnvironmentProblem
        If the trace is damaged, or the replay cannot begin or ends early.
    """
    job = Job(load.source(load.seed), load.options(seed=seed))
    progress.on_cancel(job.control.stop)
    job.survey()
    progress.check()
    with repeated(_Look(job, at), every_s=LOOK_EVERY_S):
        done = job.play(handle.target, handle.fd(to_write=True))
    zero = time.monotonic() - done.figures["length_s"]
    progress.check()
    if done.ended != "complete":
        raise EnvironmentProblem(
            f"{phase.label}: the replay ended early: {done.reason or done.ended}",
            "look for the cause with: dmesg | tail",
        )
    for sentence in validity_warnings(done):
        warn(sentence)
    figures = done.figures
    return (
        PhaseResult(
            label=phase.label,
            workload=phase.workload,
            duration_s=figures["wall_s"],
            reads=figures["reads"],
            writes=figures["writes"],
            read_bytes=figures["read_bytes"],
            write_bytes=figures["written_bytes"],
            series=done.series,
            histogram=done.histogram,
            metrics=done.metrics,
            artefacts={"replay.json": json.dumps(figures, indent=1).encode()},
        ),
        zero,
    )


def validity_warnings(done: Replayed) -> Iterator[str]:
    """What makes a replay's figures suspect, in sentences."""
    figures = done.figures
    own = figures["late"] - figures["late_queue_full"]
    if figures["issued"] and own / figures["issued"] > LATE_SHARE:
        yield (
            f"{own:,} of {figures['issued']:,} requests were issued late because of this machine, "
            f"the latest by {figures['lateness_us_max'] / 1e3:.1f} ms; latencies include it"
        )
    for failure in figures["failures"]:
        yield f"{failure['count']:,} x {failure['op']} failed with {failure['error']}"
    if figures["unanswered"]:
        yield f"{figures['unanswered']:,} requests never came back"


class _Look:
    """Tells how far the replay is, each time that it is called."""

    def __init__(self, job: Job, at: Callable[..., None]) -> None:
        self._job, self._at = job, at
        self._before = (0.0, 0, 0)

    def __call__(self) -> None:
        now, (seconds_before, done_before, moved_before) = (
            self._job.control.progress(),
            self._before,
        )
        seconds = now.elapsed_ns / 1e9
        if (passed := seconds - seconds_before) < LOOK_EVERY_S / 2:
            return
        self._before = seconds, now.done, now.bytes
        rates = {
            "iops": (now.done - done_before) / passed,
            "data_bytes_per_s": (now.bytes - moved_before) / passed,
        }
        with contextlib.suppress(Cancelled):  # the core has been told as well
            self._at(seconds, **rates)
