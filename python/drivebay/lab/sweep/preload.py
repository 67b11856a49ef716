"""Loaded by each worker process at its start: lets only the sweep handle Ctrl-C, and imports the
modules that every run needs before the first one.
"""

from __future__ import annotations

import contextlib
import signal
from typing import Any

import drivebay.lab.sweep.work  # noqa: F401
from drivebay.common import lean

lean.without_pandas()


def dask_setup(_worker: Any) -> None:
    """Called by Dask in the worker's main thread."""
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
