"""The client of a served drive's control socket: a line out, a line of JSON in.

Sources: docs/concepts/serving.md, "The control socket"; Prometheus' text format 0.0.4.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable, Mapping
from typing import Any

from drivebay.common import documents
from drivebay.common.errors import EnvironmentProblem, UserError

PATIENCE_S = 30.0
"""A power cut waits for the store to be written back."""
COPY_PATIENCE_S = 3600.0
"""What copies data waits for the disk."""
COPIES = frozenset({"restore", "forget", "clone"})
LINE_MAX = 1 << 20
COUNTERS = frozenset(
    {
        "requests",
        "refused",
        "memory_waits",
        "bytes_read",
        "bytes_written",
        "power_cuts",
        "answers",
        "late",
    }
)


def ask(address: str, line: str) -> dict[str, Any]:
    """The server's answer.

    Parameters
    ----------
    address : the socket, `unix:PATH` or a path.
    line : drives, status, power-cut, power-on, ambient CELSIUS, fault JSON, no-faults, snapshot
        NAME, restore NAME, forget NAME or clone NAME FOLDER; before it `drive NAME` where a server
        has several.

    Raises
    ------
    UserError
        If it is no command.
    EnvironmentProblem
        If nobody listens there, or what listens is no drive.
    """
    path = address.removeprefix("unix:")
    if "\n" in line:
        raise UserError("a command is one line", "one command at a time")
    try:
        with socket.socket(socket.AF_UNIX) as talk:
            talk.settimeout(PATIENCE_S)
            talk.connect(path)
            talk.settimeout(COPY_PATIENCE_S if COPIES.intersection(line.split()) else PATIENCE_S)
            talk.sendall(f"{line}\n".encode())
            answer = talk.makefile("rb").readline(LINE_MAX)
    except (OSError, ValueError) as problem:
        why = getattr(problem, "strerror", None) or problem
        raise EnvironmentProblem(
            f"no served drive answers at {path}: {why}",
            f"drivebay serve DRIVE --nbd unix:/tmp/drive.sock --control unix:{path}",
        ) from None
    try:
        found = documents.from_json(answer)
        assert isinstance(found, dict)
    except (ValueError, AssertionError):
        raise EnvironmentProblem(
            f"what listens at {path} is no served drive", "name what --control was given"
        ) from None
    if "error" in found:
        raise UserError(str(found["error"]), str(found.get("hint", "drivebay ctl --help")))
    return found


def status(address: str, drive: str | None = None) -> list[dict[str, Any]]:
    """The figures of each drive that a server has, or of one of them; raises as `ask`."""
    names = [drive] if drive else ask(address, "drives").get("drives", [])
    return [ask(address, f"drive {name} status") for name in names]


def prometheus(drives: Iterable[Mapping[str, Any]]) -> str:
    """The figures of `status` as Prometheus reads them.

    >>> first = {"drive": "a", "requests": 3, "is_off": False, "lateness": {"us_p99": 1.5}}
    >>> print(prometheus([first, {"drive": "b", "requests": 4}]), end="")
    # TYPE drivebay_requests_total counter
    drivebay_requests_total{drive="a"} 3
    drivebay_requests_total{drive="b"} 4
    # TYPE drivebay_is_off gauge
    drivebay_is_off{drive="a"} 0
    # TYPE drivebay_lateness_us_p99 gauge
    drivebay_lateness_us_p99{drive="a"} 1.5
    """
    samples: dict[str, list[str]] = {}
    for figures in drives:
        label = json.dumps(figures["drive"])
        inner = {k: v for k, v in figures.items() if isinstance(v, Mapping)}
        for key, value in [
            *figures.items(),
            *((f"{key}_{name}", one) for key, more in inner.items() for name, one in more.items()),
        ]:
            if isinstance(value, bool | int | float):
                is_counter = key.rpartition("lateness_")[2] in COUNTERS
                name = f"drivebay_{key}" + "_total" * is_counter
                number = json.dumps(int(value) if isinstance(value, bool) else value)
                kind = "counter" if is_counter else "gauge"
                samples.setdefault(f"# TYPE {name} {kind}", []).append(
                    f"{name}{{drive={label}}} {number}"
                )
    return "".join(f"{line}\n" for head, found in samples.items() for line in (head, *found))
