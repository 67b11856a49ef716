"""Something done again and again in another thread while this one works."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def repeated(call: Callable[[], object], *, every_s: float) -> Iterator[None]:
    """Inside, another thread calls the function every so many seconds, first after as many."""
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
