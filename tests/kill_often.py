"""Runs one review, killed with SIGKILL at random moments and resumed, until it gets through.

A program of its own, so that a child is a fork that starts at once:
`python kill_often.py KIND DIR SEED [KILLS]`, KIND being fake, virtual or file. It kills KILLS times
(default: until a review ends by itself), lets the last one end, and prints how often it killed.
Given KILLS, they are spread over all of the review's tests.
"""

from __future__ import annotations

import os
import random
import re
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from fakes import FakeTarget, made_test, small_suite, workload
from real_files import fios_of

from drivebay import results, review
from drivebay.common import lean, provenance
from drivebay.definitions import profiles as catalog
from drivebay.definitions.suites import Phase, Prepare, Suite
from drivebay.targets.base import Target
from drivebay.targets.safety import locks
from drivebay.targets.virtual.states import States

TRIES_MAX = 1000
EARLY_SHARE = 0.2
"""Kills at any time from the start on; the others fall into tests."""
INTO_A_TEST = 0.7
"""So long, in lengths of a test, a kill waits at most after a test has begun; where the review is
behind the kills, after the first has ended."""
SPARE = 5
"""Tests that are to be left at the last kill."""
WALL_S = 0.02
MIB = 2**20


def short_tests(count: int, *, duration_s: float, fill_bytes: int) -> Suite:
    """As many tests as asked for: each fills a range, then reads and writes at two depths."""
    fill = Prepare(kind="fill", span_bytes=fill_bytes)
    span = {"duration_s": duration_s, "span_bytes": fill_bytes}
    tests = tuple(
        made_test(
            Phase(label="qd1", workload=workload(**span)),
            Phase(label="qd4", workload=workload(read_percent=0, queue_depth=4, **span)),
            id=f"test-{number}",
            kind="ladder",
            prepare=(Prepare(kind="purge"), fill),
            metric_queue_depths=(1, 4),
        )
        for number in range(count)
    )
    more = {"title": "Killed", "description": "To be killed.", "source": "tests/kill_often.py"}
    return Suite(name="killed", tests=tests, **more)


STATES = States()
"""All tests begin from one prepared state; every child, being a fork, has to prepare it anew."""


def _virtual() -> Target:
    from drivebay.targets.virtual.target import VirtualTarget

    return VirtualTarget(catalog.load("sm951-nvme-256"), STATES)


def what(kind: str, out: Path, kills: int) -> tuple[Callable[[], Target], Suite, float]:
    """The target, the suite, and about how many seconds it takes."""
    if kind == "fake":
        return lambda: FakeTarget(wall_s=WALL_S), small_suite(), 0.05
    if kind == "virtual":
        return _virtual, short_tests(kills // 2 + SPARE, duration_s=1, fill_bytes=512 * MIB), 0.3

    def file() -> Target:
        from drivebay.targets.fio.target import FioTarget

        return FioTarget(out.with_suffix(".img"))

    return file, short_tests(kills // 3 + SPARE, duration_s=0.3, fill_bytes=16 * MIB), 2.0


def wait_for(event: str, pid: int, log: Path) -> float | None:
    """Until this child has logged the event; the seconds that the last test done took, None if
    none is."""
    before = log.stat().st_size if log.exists() else 0
    while Path(f"/proc/{pid}/fd/0").exists():  # gone once it has ended, even if not yet waited for
        text = log.read_bytes().decode(errors="replace") if log.exists() else ""
        if event in text[before:]:
            done = re.findall(r'"step_done".*"seconds": ([0-9.]+)', text)
            return float(done[-1]) if done else None
        time.sleep(0.005)
    return None


def child(kind: str, out: Path, jobs: int, kills: int) -> None:
    """Starts the review, or goes on with it, and never returns."""
    factory, suite, _ = what(kind, out, kills)
    try:
        review.run(
            factory,
            suite,
            out=out,
            jobs=1 if kind == "file" else jobs,
            resume=out.exists(),
        )
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def main(kind: str, out: Path, seed: int, kills_wanted: int | None) -> int:
    """Kills and resumes; the exit code is 1 if a child failed by itself."""
    provenance.git_commit = lambda: None  # type: ignore[assignment]
    # Other people's reviews of drives nearby are not to be waited for.
    os.environ.setdefault(locks.DIRECTORY_VARIABLE, str(out.parent))
    draw = random.Random(seed)
    _, suite, longest_s = what(kind, out, kills_wanted or 0)
    for kills in range(TRIES_MAX):
        pid = os.fork()
        if pid == 0:
            child(kind, out, draw.choice((1, 2)), kills_wanted or 0)
        if kills != kills_wanted:
            if kills_wanted is None:
                time.sleep(draw.uniform(0, longest_s * 1.15**kills))  # ever longer, so that it ends
            elif draw.random() < EARLY_SHARE:
                time.sleep(draw.uniform(0, longest_s))
            else:
                done = len(results.load(out).done) if out.exists() else 0
                behind = done < (len(suite.tests) - SPARE) * kills / kills_wanted
                event = "step_done" if behind else "step_started"
                test_s = wait_for(event, pid, out / "log.jsonl") or longest_s
                time.sleep(draw.uniform(0, INTO_A_TEST * test_s))
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        if os.WIFEXITED(status):
            print(kills)
            return os.WEXITSTATUS(status)
        if out.exists():
            results.load(out)  # what is there is readable at once, partial as it is
        while fios_of(pid):  # it is told to end when its drivebay is killed, and takes a moment
            time.sleep(0.01)
    return 1


if __name__ == "__main__":
    lean.without_pandas()
    kind, out, seed, *more = sys.argv[1:]
    sys.exit(main(kind, Path(out), int(seed), int(more[0]) if more else None))
