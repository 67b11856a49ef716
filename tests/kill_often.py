"""Runs one review, killed with SIGKILL at random moments and resumed, until it gets through.

A program of its own, so that a child is a fork that starts at once: python kill_often.py DIR SEED.
Prints how many times it killed.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path

from fakes import FakeTarget, small_suite

from drivebay import results, review
from drivebay.results import provenance

TRIES_MAX = 100
WALL_S = 0.02


def child(out: Path, jobs: int) -> None:
    """Starts the review, or goes on with it, and never returns."""
    try:
        review.run(
            lambda: FakeTarget(wall_s=WALL_S),
            small_suite(),
            out=out,
            jobs=jobs,
            resume=out.exists(),
        )
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def main(out: Path, seed: int) -> int:
    """Kills and resumes; the exit code is 1 if a child failed by itself."""
    provenance.git_commit = lambda: None  # type: ignore[assignment]
    draw = random.Random(seed)
    for kills in range(TRIES_MAX):
        pid = os.fork()
        if pid == 0:
            child(out, jobs=draw.choice((1, 2)))
        time.sleep(draw.uniform(0, 0.05 * 1.05**kills))  # ever longer, so that it ends
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        if os.WIFEXITED(status):
            print(kills)
            return os.WEXITSTATUS(status)
        if out.exists():
            results.load(out)  # what is there is readable at once, partial as it is
    return 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
