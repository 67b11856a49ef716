"""Runs what the rows ask for, in parallel; keeps figures, no folders."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from drivebay.analysis import Measured
from drivebay.common.errors import Interrupted
from drivebay.definitions import hosts
from drivebay.definitions import profiles as catalog
from drivebay.definitions.modifications import changed
from drivebay.definitions.profiles import Profile
from drivebay.definitions.scaling import scaled, scaled_test
from drivebay.definitions.suites import Test
from drivebay.lab.pool import Pool, Worker
from drivebay.lab.validate.plan import Plan, Run
from drivebay.targets.virtual.states import key_of, workers_with_states
from drivebay.targets.virtual.target import VirtualTarget

SEED = 1


def run_all(
    plan: Plan, *, progress: Callable[[Run, int, int], None] | None = None
) -> dict[Run, Measured]:
    """Every run of the plan, on as many threads as there are processors and memory for.

    Parameters
    ----------
    progress : called from the workers when a run has ended, with how many of how many are done.

    Raises
    ------
    Interrupted
        On SIGINT, SIGTERM or SIGHUP.
    """
    same_as = alike(plan.runs)
    groups = _groups(plan, set(same_as.values()))
    largest = max((VirtualTarget(profile_of(runs[0])).memory_bytes for runs in groups), default=0)
    done: dict[Run, Measured] = {}

    def work(worker: Worker, runs: list[Run]) -> None:
        tests = [test_of(run, plan) for run in runs]
        worker.set_profile(profile_of(runs[0]), tests, seed=SEED)
        for run, test in zip(runs, tests, strict=True):
            done[run] = worker.run_test(test)
            if progress is not None:
                progress(run, len(done), len(set(same_as.values())))

    Pool(workers_with_states(largest)).run(
        groups, work, interrupted=Interrupted("interrupted", "start again: drivebay validate")
    )
    return {run: done[same] for run, same in same_as.items()}


def alike(runs: Iterable[Run]) -> dict[Run, Run]:
    """For each run the one that stands for it: hosts that differ in words alone have one result."""
    first: dict[tuple[str, str, str], Run] = {}

    def key(run: Run) -> tuple[str, str, str]:
        host = hosts.load(run.host)
        return run.drive.partition("@")[0], run.test, _numbers(host)

    return {run: first.setdefault(key(run), run) for run in runs}


def _numbers(host: Any) -> str:
    if isinstance(host, dict) and "value" in host:
        return "" if isinstance(host["value"], str) else str(host["value"])
    parts = host.items() if isinstance(host, dict) else ()
    return " ".join(f"{key}({_numbers(part)})" for key, part in sorted(parts))


def _groups(plan: Plan, chosen: Collection[Run]) -> list[list[Run]]:
    """Runs of one drive that begin from the same prepared state, those that take longest first."""
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in sorted(chosen):
        groups.setdefault((run.drive, key_of(plan.tests[run.test])), []).append(run)

    def estimate_s(runs: list[Run]) -> float:
        target = VirtualTarget(profile_of(runs[0]))
        return sum(target.estimate_s(plan.tests[run.test]) for run in runs)

    return sorted(groups.values(), key=estimate_s, reverse=True)


def test_of(run: Run, plan: Plan) -> Test:
    """The run's test, scaled with its drive."""
    return scaled_test(plan.tests[run.test], 1 / run.smaller)


def profile_of(run: Run) -> Profile:
    """The run's drive, with its variants, in its host, and scaled if the run says so."""
    return as_run(run, whole_of(run))


def whole_of(run: Run) -> Profile:
    """The run's drive, with its variants, in its host, in its whole size."""
    return changed(run.in_its_host(catalog.load(run.profile)), run.variants)


def as_run(run: Run, whole: Profile) -> Profile:
    """A drive of whole size, scaled if the run says so."""
    return whole if run.smaller == 1 else scaled(whole, 1 / run.smaller)
