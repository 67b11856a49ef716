"""Dask's processes as drivebay starts them: without HTTP, and on this machine for this user alone.

Dask starts an HTTP server in each scheduler and worker even if the dashboard is off; drivebay's do
not.

Whoever reaches a port of Dask can run programs as the user who listens there, and every user of a
machine reaches its loopback. So a sweep on this machine uses TLS with a key of its own, which both
ends of a connection must have. The key stays in the memory of the sweep and its workers; OpenSSL
reads it from a temporary folder of this user's alone.

Source: `distributed.Security.temporary` (key, and certificates on both sides).
"""

from __future__ import annotations

import logging
from typing import Any

import distributed

PRELOAD = "drivebay.lab.sweep.preload"
LOOPBACK = "127.0.0.1"


class _WithoutHttp:
    def start_http_server(self, *_arguments: Any, **_more: Any) -> None:
        """Does nothing: no HTTP server is started."""


class Scheduler(_WithoutHttp, distributed.Scheduler):
    """A scheduler without HTTP."""


class Worker(_WithoutHttp, distributed.Worker):
    """A worker without HTTP."""


def common(host: str, security: Any) -> dict[str, Any]:
    """Options of all nannies; they and their workers listen on `host` only."""
    return {
        "host": host,
        "security": security,
        "worker_class": Worker,
        "memory_limit": 0,
        "preload": [PRELOAD],
        "silence_logs": logging.CRITICAL,
    }


def local_cluster(jobs: int, resources: dict[str, float]) -> Any:
    """Starts a scheduler and single-threaded workers on this machine, for this user alone."""
    security = distributed.Security.temporary()  # type: ignore[no-untyped-call]
    options = {"host": LOOPBACK, "port": 0, "protocol": "tls", "security": security}
    worker = {
        "cls": distributed.Nanny,
        "options": {**common(LOOPBACK, security), "nthreads": 1, "resources": resources},
    }
    return distributed.SpecCluster(  # type: ignore[no-untyped-call]
        scheduler={"cls": Scheduler, "options": {**options, "dashboard": False}},
        workers=dict.fromkeys(range(jobs), worker),
        worker=worker,
        security=security,
        silence_logs=logging.CRITICAL,
    )
