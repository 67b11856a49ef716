"""Runs a suite on a target and stores every test as soon as it finishes.

Tests of a virtual drive run in parallel, each on a target of its own; a real drive runs one at a
time, in the suite's order. The main thread only waits and handles signals; workers run and write,
so that Ctrl-C never interrupts a write. A test's measurements depend on its data and seed alone,
never on the number of workers or on interruptions.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import shlex
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from drivebay.analysis.modified import changes
from drivebay.common import errors, provenance, signals, threads
from drivebay.common.errors import DrivebayError, EnvironmentProblem, Interrupted, UserError
from drivebay.common.seeds import SEED_MAX, derived_seed
from drivebay.definitions.suites import Suite, Test
from drivebay.results import Folder, Manifest, StepEntry
from drivebay.results.manifest import Tool
from drivebay.results.records import PhaseResult
from drivebay.results.writing import Taken
from drivebay.review import resume as resuming
from drivebay.review.plan import Plan, Planned, Silent, Sink, copies_max, default_jobs, make_plan
from drivebay.targets.base import Progress, Target

DEFAULT_OUT = Path("drivebay-results")
JOBS_MAX = 256


def run(
    target_factory: Callable[[], Target],
    suite: Suite,
    *,
    out: Path | None = None,
    seed: int = 1,
    quick: bool = False,
    resume: bool = False,
    drive: str = "",
    sink: Sink | None = None,
    jobs: int | None = None,
    modified: tuple[str, ...] = (),
) -> Path:
    """Runs a review, or continues one, and returns its result folder.

    Parameters
    ----------
    target_factory : makes the target; called once per worker.
    suite : the tests; with `quick`, its shortened form is run.
    out : the folder to create, or with `resume` the one to continue; by default
        ./drivebay-results/DRIVE-SUITE[-quick]-N with the first free N.
    seed : 0 to SEED_MAX; the same seed gives a virtual drive the same result bit for bit.
    drive : the user's name for the target, stored in the manifest for `resume`.
    jobs : virtual tests to run in parallel, by default from processors and memory.
    modified : changes that a person has made to a real drive, as the tests' `what_if` names them;
        tests that need others stay pending, and are named.

    Raises
    ------
    UserError, EnvironmentProblem
        Nothing was started; or, if the disk fills up or a test fails on the way, finished tests are
        kept and `resume` continues.
    Interrupted
        On SIGINT, SIGTERM or SIGHUP; finished tests are kept.
    """
    _must_be_in_range("seed", seed, 0, SEED_MAX)
    if jobs is not None:
        _must_be_in_range("jobs", jobs, 1, JOBS_MAX)
    sink = sink or Silent()
    if quick and not resume:
        _must_have_short_forms(suite)
    suite = suite.shortened() if quick else suite
    with contextlib.closing(target_factory()) as target:
        if target.kind != "virtual":
            suite = _on_a_real_drive(suite, jobs, sink)
        suite = suite.within(target.capacity_bytes)
        now = suite.tests if target.kind == "virtual" else suite.with_modified(modified)
        if not resume:
            target.check(now)
            if larger := suite.larger_than(target.capacity_bytes):
                sink.warn(f"{', '.join(larger)}: made for larger drives; their loads use all of it")
        content = Manifest(
            tool=Tool(**provenance.build()),
            suite=suite,
            quick=quick,
            seed=seed,
            target=resuming.target_block(target, drive),
            host=provenance.host(),
            steps=tuple(
                StepEntry(id=test.id, title=test.title, seed=derived_seed(seed, test.id))
                for test in suite.tests
            ),
        )
        with _reopened(out, content, sink) if resume else _created(out, content) as folder:
            target.recorded_in(folder.path)
            states = {entry.id: entry.state for entry in folder.manifest.steps}
            tests = tuple(test for test in now if states[test.id] != "done")
            if resume and tests:
                target.check(tests)
            _work(target_factory, target, folder, tests, jobs=jobs, sink=sink)
            for line in _waiting_for_modification(folder, modified):
                sink.warn(line)
            folder.log("finished")
            return folder.path


def _on_a_real_drive(suite: Suite, jobs: int | None, sink: Sink) -> Suite:
    """Returns the suite's form for a real drive, which runs one test at a time."""
    if jobs is not None and jobs > 1:
        raise UserError(
            f"--jobs: {jobs} is not allowed for a real drive; must be 1",
            "leave out --jobs: tests that share a drive would disturb one another",
        )
    real = suite.in_real_time()
    if left_out := [test.id for test in suite.tests if test.id not in real.ids]:
        sink.warn(f"left out: {', '.join(left_out)}: only for virtual drives")
    return real


def _work(
    target_factory: Callable[[], Target],
    first: Target,
    folder: Folder,
    tests: tuple[Test, ...],
    *,
    jobs: int | None,
    sink: Sink,
) -> None:
    """Runs the tests; the first worker uses the existing target."""
    signalled = threading.Event()
    with signals.heard(signalled.set):  # from here on there is something to resume
        plan = make_plan(first, tests)
        workers = min(jobs or default_jobs(first, len(tests)), max(1, len(tests)))
        copies = copies_max(first, workers)

        def make(target: Target) -> Target:
            target.expect(tests, seed=folder.manifest.seed, copies_max=copies)
            return target

        sink.begin(plan, jobs=workers)
        try:
            pool = _Pool(lambda: make(target_factory()), make(first), folder, plan, sink)
            pool.work(workers, signalled)
        finally:
            sink.end()


def _reopened(out: Path | None, now: Manifest, sink: Sink) -> Folder:
    """Opens the folder of an interrupted review, which `now` must equal but for its progress."""
    assert out is not None, "resume needs the folder"
    folder, damages = Folder.reopen(out)
    try:
        warnings = resuming.must_be_same(
            folder.manifest, suite=now.suite, seed=now.seed, quick=now.quick, target=now.target
        )
    except BaseException:
        folder.close()
        raise
    for damage in damages:
        sink.warn(f"{damage}; test {damage.step_id} will be run again")
    for warning in warnings:
        sink.warn(warning)
    for entry in folder.manifest.steps if now.target["kind"] != "virtual" else ():
        if entry.state != "done" and (cut := folder.interruptions(entry.id)):
            how = "the host went down" if cut[-1]["host_rebooted"] else cut[-1]["ended"]
            again = "it starts again with its preparation"
            sink.warn(f"test {entry.id} was cut short ({how}); {again}")
    return folder


def _created(out: Path | None, content: Manifest) -> Folder:
    """Creates a new folder, by default the first free one of `DEFAULT_OUT`."""
    if out is not None:
        return Folder.create(out, content)
    name = "-".join([content.target["name"], *changes(content.target)])
    stem = f"{_slug(name)}-{content.suite.name}{'-quick' if content.quick else ''}"
    for number in itertools.count(1):
        path = DEFAULT_OUT / f"{stem}-{number}"
        if not path.exists():
            with contextlib.suppress(Taken):  # another review has just taken the name
                return Folder.create(path, content)
    raise AssertionError("unreachable: numbers do not end")


class _Pool:
    """The workers of one review and their shared state."""

    def __init__(
        self, factory: Callable[[], Target], first: Target, folder: Folder, plan: Plan, sink: Sink
    ) -> None:
        self._factory = factory
        self._first = first
        self._folder = folder
        self._sink = sink
        side_by_side = first.kind == "virtual"
        self._queue = deque(plan.longest_first() if side_by_side else plan.steps)
        self._mutex = threading.Lock()
        self._stop = threading.Event()
        self._running: dict[str, Progress] = {}

    def work(self, workers: int, signalled: threading.Event) -> None:
        """Runs all tests of the queue, or until a signal; raises the first failing worker's
        error.
        """
        announced = threading.Event()

        def stop() -> None:
            self._cancel()
            if signalled.is_set() and not announced.is_set():
                announced.set()
                self._sink.stopping()

        works: list[Callable[[], object]] = [partial(self._run_queue, self._first)]
        works += [self._worker] * (workers - 1)
        threads.together(works, stop=stop, signalled=signalled)
        if signalled.is_set() and any(step.state != "done" for step in self._folder.manifest.steps):
            self._folder.log("interrupted")
            raise Interrupted("interrupted", f"go on with: {self._resume_command()}")

    def _worker(self) -> None:
        with contextlib.closing(self._factory()) as target:
            self._run_queue(target)

    def _run_queue(self, target: Target) -> None:
        while (step := self._next(target)) is not None:
            progress = Progress(partial(self._sink.progressed, step.test.id))
            with self._mutex:
                self._running[step.test.id] = progress
            if self._stop.is_set():
                progress.cancel()
            self._sink.started(step.test.id)
            state = "failed"
            try:
                self._run_step(target, step, progress)
                state = "done"
            except errors.Cancelled:
                state = "cancelled"
            finally:
                with self._mutex:
                    del self._running[step.test.id]
                self._sink.ended(step.test.id, state)

    def _run_step(self, target: Target, step: Planned, progress: Progress) -> None:
        name = step.test.id
        entry = next(entry for entry in self._folder.manifest.steps if entry.id == name)
        self._folder.log("step_started", step=name)
        begun, worked = time.monotonic(), time.thread_time()
        try:
            phases = target.run_test(step.test, seed=entry.seed, progress=progress)
            progress.check()
        except errors.Cancelled:
            self._folder.log("step_cancelled", step=name, seconds=_since(begun))
            raise
        except BaseException as problem:
            self._folder.log("step_failed", step=name, seconds=_since(begun), error=str(problem))
            with contextlib.suppress(DrivebayError):  # the first problem is the one to report
                self._folder.fail_step(name, _one_line(problem))
            raise self._in_words(problem, name) from problem
        labels = [phase.label for phase in phases]
        assert labels == [phase.label for phase in step.test.phases], (name, labels)
        if target.kind != "virtual" and (cut := self._folder.interruptions(name)):
            phases = [_with_interruptions(phases[0], step.test, cut), *phases[1:]]
        self._folder.write_step(name, phases)
        cpu_s = round(time.thread_time() - worked, 3)
        self._folder.log("step_done", step=name, seconds=_since(begun), cpu_seconds=cpu_s)

    def _in_words(self, problem: BaseException, test_id: str) -> BaseException:
        """Returns the target's error with the test's name and the command to continue."""
        if not isinstance(problem, DrivebayError):
            return problem
        hint = f"{problem.hint}; then: {self._resume_command()}"
        kind = EnvironmentProblem if isinstance(problem, EnvironmentProblem) else UserError
        return kind(f"test {test_id}: {problem.message}", hint, problem.exit_code)

    def _next(self, target: Target) -> Planned | None:
        """Takes the first test in the queue that need not wait for another's preparation; if
        there is none, the first one.
        """
        with self._mutex:
            if self._stop.is_set() or not self._queue:
                return None
            ready = (step for step in self._queue if target.claim(step.test))
            step = next(ready, self._queue[0])
            self._queue.remove(step)
            return step

    def _cancel(self) -> None:
        self._stop.set()
        with self._mutex:
            running = list(self._running.values())
        for progress in running:
            progress.cancel()

    def _resume_command(self) -> str:
        target = self._folder.manifest.target
        command = f"drivebay review --resume {shlex.quote(_short(self._folder.path))}"
        if target["kind"] == "block" and target.get("serial"):
            command += f" --destroy-data {shlex.quote(str(target['serial']))}"
            command += " --overwrite-signature" if target.get("overwrite_signature") else ""
        return command


def _with_interruptions(first: PhaseResult, test: Test, cut: list[dict[str, Any]]) -> PhaseResult:
    """Adds to a test's first phase that this is a repeated attempt, and its new precondition."""
    again = ", ".join(step.kind for step in test.prepare) or "nothing: the test asks for none"
    record = {"interruptions": cut, "precondition_established_again": again}
    return replace(first, conditions={**first.conditions, **record})


def _waiting_for_modification(folder: Folder, modified: tuple[str, ...]) -> Iterator[str]:
    """Yields a message about tests that wait for a person to change the drive, for each change."""
    waiting: dict[tuple[str, ...], list[str]] = {}
    left = {entry.id for entry in folder.manifest.steps if entry.state == "pending"}
    for test in folder.manifest.suite.tests:
        if test.id in left and set(test.what_if) != set(modified):
            waiting.setdefault(test.what_if, []).append(test.id)
    command = f"drivebay review --resume {shlex.quote(_short(folder.path))}"
    for changed, ids in waiting.items():
        names = ", ".join(changed)
        what = f"change the drive ({names})" if changed else "put the drive back as it was"
        options = "".join(f" --modified {shlex.quote(name)}" for name in changed)
        yield f"not run yet: {', '.join(ids)}; {what}, then: {command}{options}"


def _must_have_short_forms(suite: Suite) -> None:
    """Refuses --quick for tests without a short form, so that the label "quick" is always true."""
    for test in suite.tests:
        if test.quick is None:
            raise UserError(
                f"suite {suite.name}: test {test.id} has no short form",
                f"leave out --quick, or leave that test out with --skip {test.id}, or add to it in "
                "the suite's file: quick = { duration_s = 5 }",
            )


def _must_be_in_range(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise UserError(
            f"--{name}: {value} is not allowed; must be from {low} to {high}",
            f"choose a number in that range, for example: --{name} {max(low, 1)}",
        )


def _slug(name: str) -> str:
    """Converts a name to one that is safe for a folder.

    >>> _slug("Samsung SSD 970 EVO/1TB")
    'samsung-ssd-970-evo-1tb'
    """
    return re.sub(r"[^a-z0-9._]+", "-", name.lower()).strip("-.")[:60] or "drive"


def _short(path: Path) -> str:
    """The path relative to the current directory if it is below it."""
    with contextlib.suppress(ValueError, OSError):
        return str(path.relative_to(Path.cwd()))
    return str(path)


def _since(begun: float) -> float:
    return round(time.monotonic() - begun, 3)


def _one_line(problem: BaseException) -> str:
    return " ".join(str(problem).split()) or type(problem).__name__
