"""Runs the tests that the rows need, in parallel; keeps only the figures that they use, no
folders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from drivebay.common.errors import Interrupted
from drivebay.definitions import hosts
from drivebay.definitions import profiles as catalog
from drivebay.definitions.modifications import changed
from drivebay.definitions.profiles import Profile
from drivebay.definitions.scaling import scaled, scaled_test
from drivebay.definitions.suites import Test
from drivebay.lab.evaluator import Evaluator
from drivebay.lab.journal import Evaluation, Journal
from drivebay.lab.validate.plan import Plan, Run
from drivebay.lab.validate.values import Figures, kept
from drivebay.lab.validate.verdicts import names_of
from drivebay.targets.virtual.states import key_of, workers_with_states
from drivebay.targets.virtual.target import VirtualTarget

SEED = 1


def run_all(
    plan: Plan, *, progress: Callable[[int, int], None] | None = None
) -> dict[Run, Figures]:
    """Returns the figures of every run of the plan that its rows use; runs on as many threads as
    processors and memory allow. `progress`: called from the workers when a group of runs has
    ended, with the number of finished groups and of all groups. Raises Interrupted on SIGINT,
    SIGTERM or SIGHUP.
    """
    same_as = alike(plan.runs)
    names: dict[Run, set[str]] = {}
    for row in plan.rows:
        for run in row.needs:
            names.setdefault(same_as[run], set()).update(names_of(row))
    targets = {run: VirtualTarget(profile_of(run)) for run in names}
    largest = max((target.memory_bytes for target in targets.values()), default=0)
    evaluator = Evaluator(
        Journal(),
        lambda group: [(some, profile_of(some.run), test_of(some.run, plan)) for some in group],
        lambda run, measured: kept(measured, names[run]),
        part=lambda evaluation: key_of(plan.tests[evaluation.run.test]),
        jobs=workers_with_states(largest),
        interrupted=Interrupted("interrupted", "start again: drivebay validate"),
    )
    if progress is not None:
        evaluator.report_to(progress)
    seconds = {run: target.estimate_s(plan.tests[run.test]) for run, target in targets.items()}
    longest_first = sorted(seconds, key=seconds.__getitem__, reverse=True)
    done = evaluator.run(Evaluation(run, seed=SEED) for run in longest_first)
    return {run: done[Evaluation(same, seed=SEED)] for run, same in same_as.items()}


def alike(runs: Iterable[Run]) -> dict[Run, Run]:
    """Maps each run to its representative: runs in hosts that differ only in texts have the same
    result.
    """
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


def test_of(run: Run, plan: Plan) -> Test:
    """The run's test, scaled with its drive."""
    return scaled_test(plan.tests[run.test], 1 / run.smaller)


def profile_of(run: Run) -> Profile:
    """The run's drive, with its variants, in its host, and scaled if the run is."""
    return as_run(run, whole_of(run))


def whole_of(run: Run) -> Profile:
    """The run's drive, with its variants, in its host, in its whole size."""
    return changed(run.in_its_host(catalog.load(run.profile)), run.variants)


def as_run(run: Run, whole: Profile) -> Profile:
    """Scales a drive of whole size if the run is scaled."""
    return whole if run.smaller == 1 else scaled(whole, 1 / run.smaller)
