"""Work in other threads: several tasks in parallel, and a call repeated while this thread works."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence

# Interval at which signals are checked; waking more often costs more than telemetry does.
LOOK_EVERY_S = 0.2


def together(
    works: Sequence[Callable[[], object]],
    *,
    stop: Callable[[], object],
    signalled: threading.Event | None = None,
) -> None:
    """Runs each task in a thread of its own until all have ended, and raises the first error.

    After an error or after `signalled`, `stop` is called repeatedly until all have ended; and once
    more at the end.
    """
    problems: list[BaseException] = []

    def run(work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as problem:
            problems.append(problem)
            stop()

    threads = [threading.Thread(target=run, args=(work,), name="drivebay-work") for work in works]
    for thread in threads:
        thread.start()
    try:
        while alive := [thread for thread in threads if thread.is_alive()]:
            alive[0].join(LOOK_EVERY_S)
            if problems or (signalled is not None and signalled.is_set()):
                stop()
    finally:
        stop()
        for thread in threads:
            thread.join()
    if problems:
        raise problems[0]


@contextlib.contextmanager
def repeated(call: Callable[[], object], *, every_s: float) -> Iterator[None]:
    """Calls a function from another thread every `every_s` seconds, the first time after one
    interval.
    """
    over = threading.Event()

    def repeat() -> None:
        while not over.wait(every_s):
            call()

    thread = threading.Thread(target=repeat, name="drivebay-repeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
