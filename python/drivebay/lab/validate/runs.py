"""Runs what the rows ask for, in parallel; keeps the figures that they look at, no folders."""

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
    """The figures of every run of the plan that its rows look at, on as many threads as there are
    processors and memory for. Raises Interrupted on SIGINT, SIGTERM or SIGHUP. `progress`: called
    from the workers when a group of runs has ended, with how many of how many groups are done."""
    same_as = alike(plan.runs)
    names: dict[Run, set[str]] = {}
    for row in plan.rows:
        for run in row.needs:
            names.setdefault(same_as[run], set()).update(names_of(row))
    targets = {run: VirtualTarget(profile_of(run)) for run in names}
    largest = max((one.memory_bytes for one in targets.values()), default=0)
    evaluator = Evaluator(
        Journal(),
        lambda group: [(one, profile_of(one.run), test_of(one.run, plan)) for one in group],
        lambda run, found: kept(found, names[run]),
        part=lambda one: key_of(plan.tests[one.run.test]),
        jobs=workers_with_states(largest),
        interrupted=Interrupted("interrupted", "start again: drivebay validate"),
    )
    if progress is not None:
        evaluator.report_to(progress)
    longest_first = sorted(
        names, key=lambda run: targets[run].estimate_s(plan.tests[run.test]), reverse=True
    )
    done = evaluator.run(Evaluation(run, seed=SEED) for run in longest_first)
    return {run: done[Evaluation(same, seed=SEED)] for run, same in same_as.items()}


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
