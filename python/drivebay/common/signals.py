"""Signals that end long work in an orderly way: SIGINT, SIGTERM and SIGHUP."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any


@contextlib.contextmanager
def heard(stop: Callable[[], object]) -> Iterator[None]:
    """Makes SIGINT, SIGTERM and SIGHUP call `stop` instead of their previous handlers.

    An ignored signal stays ignored: under nohup, work continues when the terminal is closed. Only
    the main thread can handle signals; in other threads nothing changes.
    """

    def hear(_number: int, _frame: FrameType | None) -> None:
        stop()

    before: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, hear)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
