"""The client of a served drive's control socket: a line out, a line of JSON in.

Sources: docs/concepts/serving.md, "The control socket"; Prometheus' text format 0.0.4.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from typing import Any

from drivebay.common import documents
from drivebay.common.errors import EnvironmentProblem, UserError

PATIENCE_S = 30.0
"""A power cut waits for the store to be written back."""
COPY_PATIENCE_S = 3600.0
"""What copies data waits for the disk."""
COPIES = ("restore ", "forget ", "clone ")
LINE_MAX = 1 << 20
COUNTERS = frozenset(
    {"requests", "refused", "bytes_read", "bytes_written", "power_cuts", "answers", "late"}
)


def ask(address: str, line: str) -> dict[str, Any]:
    """The server's answer.

    Parameters
    ----------
    address : the socket, `unix:PATH` or a path.
    line : status, power-cut, power-on, ambient CELSIUS, fault JSON, no-faults, snapshot NAME,
        restore NAME, forget NAME or clone NAME FOLDER.

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
            talk.settimeout(COPY_PATIENCE_S if line.startswith(COPIES) else PATIENCE_S)
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


def prometheus(figures: Mapping[str, Any]) -> str:
    """The figures of `status` as Prometheus reads them.

    >>> print(prometheus({"requests": 3, "is_off": False, "lateness": {"us_p99": 1.5}}), end="")
    # TYPE drivebay_requests_total counter
    drivebay_requests_total 3
    # TYPE drivebay_is_off gauge
    drivebay_is_off 0
    # TYPE drivebay_lateness_us_p99 gauge
    drivebay_lateness_us_p99 1.5
    """
    lines = []
    for key, value in figures.items():
        if isinstance(value, Mapping):
            inner = {f"{key}_{name}": one for name, one in value.items()}
            lines.append(prometheus(inner).rstrip("\n"))
        elif isinstance(value, bool | int | float):
            is_counter = key.rpartition("lateness_")[2] in COUNTERS
            name = f"drivebay_{key}" + "_total" * is_counter
            lines += [
                f"# TYPE {name} {'counter' if is_counter else 'gauge'}",
                f"{name} {json.dumps(int(value) if isinstance(value, bool) else value)}",
            ]
    return "".join(f"{line}\n" for line in lines)
