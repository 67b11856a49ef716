"""How tests wait: for a condition, never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(holds: Callable[[], object]) -> None:
    """Returns when the condition holds; if it never does, pytest's own limit ends the test."""
    while not holds():
        time.sleep(0.01)
