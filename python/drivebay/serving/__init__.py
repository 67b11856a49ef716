"""Serving: virtual drives attached to real hosts, in real time, until somebody stops them.

Turns profiles and options into a running server of the core. This room
must not know how a request is served, nor how anything is printed.
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

Report = Mapping[str, Any]
"""Figures of a drive, as the control socket's `status` has them: docs/concepts/serving.md."""


class Server:
    """Drives that listen from the moment this is made, and answer while `run` runs.

    Each has a thread, a clock, a state and faults of its own.

    Raises
    ------
    UserError
        If an option is not possible.
    EnvironmentProblem
        If an address is in use, a file is locked, or memory is lacking.
    """

    def __init__(self, drives: Sequence[Drive], options: Options) -> None:
        from drivebay import _core  # not for the help of the command line

        self.metrics = None if options.metrics is None else Endpoint(options.metrics)
        with ExitStack() as resources:
            document: dict[str, object] = {
                "server": options.document(available_bytes()),
                "drives": [_document(drive, resources) for drive in drives],
            }
            self._core = _core.Server([drive.profile.core for drive in drives], document)
        self.addresses: tuple[str, ...] = tuple(self._core.addresses)

    def run(self, tell: Callable[[str], object] = lambda _: None) -> list[Report]:
        """Serves until `stop` is called or a signal comes; returns the last `status`. `tell` gets
        the warnings of the metrics' endpoint."""
        with ExitStack() as resources:
            if self.metrics is not None:
                figures = self.metrics.answering(lambda: prometheus(self.status()), tell)
                resources.enter_context(figures)
            reports: list[Report] = self._core.run()
        return reports

    def stop(self) -> None:
        """Completes what is under way, then ends; from any thread or signal handler."""
        self._core.stop()

    def status(self) -> list[Report]:
        """Figures since the start of each drive that runs."""
        reports: list[Report] = self._core.status()
        return reports


def _document(drive: Drive, resources: ExitStack) -> dict[str, Any]:
    image = drive.image
    if image is not None and not drive.has_data:
        folder = None if drive.data is None else drive.data.parent
        image = resources.enter_context(images.as_raw(image, folder))
    return drive.document(image, [] if drive.faults is None else _script(drive.faults))


def beyond_loopback(addresses: Iterable[str]) -> list[str]:
    """HOST:PORT of those `Server.addresses` that other machines may reach.

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
    """The faults of a script; what each may be is checked by the core."""
    example = '[[fault]], kind = "hang", after_s = 10.0, for_s = 5.0'
    script = config.toml(path, "--faults", example)
    faults = script.pop("fault", [])
    if script or not isinstance(faults, list) or not all(isinstance(one, dict) for one in faults):
        raise UserError(f"--faults: {path} must hold [[fault]] tables and nothing else", example)
    return faults
