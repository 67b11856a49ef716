"""Signals that call a function, as those that end long work in an orderly way."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def heard(call: Callable[[], object], numbers: Iterable[signal.Signals] = ENDING) -> Iterator[None]:
    """Makes signals call `call` instead of their previous handlers.

    An ignored signal stays ignored: under nohup, work continues when the terminal is closed. Only
    the main thread can handle signals; in other threads nothing changes.
    """
    before: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for number in numbers:
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, lambda _number, _frame: call())
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
