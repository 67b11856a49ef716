"""Serving of virtual drives to real hosts, in real time.

Turns profiles and options into a running server of the core. This package does not know how
requests are served or how output is printed.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from drivebay.common.errors import UserError
from drivebay.common.memory import available_bytes
from drivebay.serving import config, images
from drivebay.serving.metrics import Endpoint, prometheus
from drivebay.serving.options import Drive, Namespace, Options

__all__ = ["Drive", "Namespace", "Options", "Report", "Server", "beyond_loopback"]

# Figures of a drive, like the control socket's `status`: docs/concepts/serving-control.md.
Report = Mapping[str, Any]


class Server:
    """Server that listens once created, and answers while `run` runs.

    Each drive has its own thread, clock, state and faults.

    Raises
    ------
    UserError
        For an impossible option.
    EnvironmentProblem
        If an address is in use, a file is locked, or memory is missing.
    """

    def __init__(self, drives: Sequence[Drive], options: Options) -> None:
        from drivebay import _core  # not needed for the help of the command line

        self.metrics = None if options.metrics is None else Endpoint(options.metrics)
        with ExitStack() as resources:
            document: dict[str, object] = {
                "server": options.document(available_bytes()),
                "drives": [_document(drive, resources) for drive in drives],
            }
            self._core = _core.Server([drive.profile.core for drive in drives], document)
        self.addresses: tuple[str, ...] = tuple(self._core.addresses)

    def run(self, tell: Callable[[str], object] = lambda _: None) -> list[Report]:
        """Serves until `stop` is called or a signal arrives; returns the last `status`. `tell` gets
        the warnings of the metrics endpoint."""
        with ExitStack() as resources:
            if self.metrics is not None:
                figures = self.metrics.answering(lambda: prometheus(self.status()), tell)
                resources.enter_context(figures)
            reports: list[Report] = self._core.run()
        return reports

    def stop(self) -> None:
        """Completes running commands, then ends; callable from any thread or signal handler."""
        self._core.stop()

    def status(self) -> list[Report]:
        """Figures of each running drive since its start."""
        reports: list[Report] = self._core.status()
        return reports


def _document(drive: Drive, resources: ExitStack) -> dict[str, Any]:
    image = drive.image
    if image is not None and not drive.has_data:
        folder = None if drive.data is None else drive.data.parent
        image = resources.enter_context(images.as_raw(image, folder))
    return drive.document(image, [] if drive.faults is None else _script(drive.faults))


def beyond_loopback(addresses: Iterable[str]) -> list[str]:
    """HOST:PORT of the `Server.addresses` that other machines may reach.

    >>> beyond_loopback(["unix:/tmp/d.sock", "127.0.0.1:1", "[::]:2", "nvme-tcp:0.0.0.0:3 nqn"])
    ['[::]:2', '0.0.0.0:3']
    """
    found = []
    for address in addresses:
        place = address.removeprefix("nvme-tcp:").partition(" ")[0]
        host = place.rpartition(":")[0].strip("[]")
        is_local = address.startswith(("unix:", "vfio-user:", "ublk:"))
        if not is_local and not ipaddress.ip_address(host).is_loopback:
            found.append(place)
    return list(dict.fromkeys(found))


def _script(path: Path) -> list[dict[str, Any]]:
    """Reads the faults of a script; the core checks their values."""
    example = '[[fault]], kind = "hang", after_s = 10.0, for_s = 5.0'
    script = config.toml(path, "--faults", example)
    faults = script.pop("fault", [])
    if script or not isinstance(faults, list) or not all(isinstance(one, dict) for one in faults):
        raise UserError(f"--faults: {path} must hold [[fault]] tables and nothing else", example)
    return faults
