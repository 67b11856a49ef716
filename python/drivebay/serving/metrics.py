"""Figures of served drives for Prometheus, as text and over HTTP.

Sources: Prometheus' text format 0.0.4; RFC 9112. The server answers only GET /metrics, once per
connection.
"""

from __future__ import annotations

import contextlib
import errno
import json
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any

from drivebay.common import documents
from drivebay.common.errors import EnvironmentProblem, UserError

# Limit of open connections. A further one closes the oldest whose request is not complete; guess:
# each costs a thread for at most `PATIENCE_S`.
CONNECTIONS_MAX = 64
# Counter of connections that were closed for a newer one.
CLOSED = "metrics_connections_closed_total"
# Connections that wait to be accepted; beyond it, Linux lets a client try again after a second.
BACKLOG = 1024
# Time limit of a whole request with its answer.
PATIENCE_S = 5.0
# Limit of a request in bytes.
HEAD_MAX = 8192
# Errors of a wait for connections after the socket was shut down.
NO_LISTENER = (errno.EINVAL, errno.EBADF)
# The histogram.
LATENCY = "request_duration_seconds"
HELP: Mapping[str, str] = documents.beside(__file__, "metrics.toml")
# Names of metrics by figure of `status`.
NAMES = {name.removesuffix("_total"): name for name in HELP}
# Name of the metric, suffix, further labels, value.
Sample = tuple[str, str, Mapping[str, str], float]


def prometheus(drives: Iterable[Mapping[str, Any]]) -> str:
    """The figures of `status` as Prometheus reads them.

    >>> first = {"drive": "a", "requests": 3, "is_off": False, "lateness": {"us_p99": 1.5}}
    >>> print(prometheus([first, {"drive": "b", "title": "B", "requests": 4}]), end="")
    # HELP drivebay_drive_info Name and title of the drive.
    # TYPE drivebay_drive_info gauge
    drivebay_drive_info{drive="b",title="B"} 1
    # HELP drivebay_is_off 1 if the power is off since the last power cut.
    # TYPE drivebay_is_off gauge
    drivebay_is_off{drive="a"} 0
    # HELP drivebay_lateness_us_p99 99th percentile of the lateness, microseconds.
    # TYPE drivebay_lateness_us_p99 gauge
    drivebay_lateness_us_p99{drive="a"} 1.5
    # HELP drivebay_requests_total Requests of all hosts.
    # TYPE drivebay_requests_total counter
    drivebay_requests_total{drive="a"} 3
    drivebay_requests_total{drive="b"} 4
    """
    lines: dict[str, list[str]] = {}
    for figures in drives:
        for name, suffix, labels, value in _samples(figures):
            pairs = {"drive": figures["drive"], **labels}.items()
            shown = ",".join(f"{key}={json.dumps(text, ensure_ascii=False)}" for key, text in pairs)
            number = json.dumps(int(value) if isinstance(value, bool) else value)
            lines.setdefault(name, _about(name)).append(
                f"drivebay_{name}{suffix}{{{shown}}} {number}"
            )
    return "".join(f"{line}\n" for name in sorted(lines) for line in lines[name])


def _about(name: str) -> list[str]:
    """HELP and TYPE of a metric."""
    kind = "counter" if name.endswith("_total") else "histogram" if name == LATENCY else "gauge"
    return [f"# HELP drivebay_{name} {HELP[name]}", f"# TYPE drivebay_{name} {kind}"]


def _samples(figures: Mapping[str, Any]) -> Iterator[Sample]:
    if "title" in figures:
        yield "drive_info", "", {"title": figures["title"]}, 1
    health = figures.get("health", {})
    groups = {"": {**figures, **health}}
    groups |= {f"{key}_": figures.get(key) or {} for key in ("lateness", "last_power_cut")}
    for prefix, group in groups.items():
        for key, value in group.items():
            if prefix + key in NAMES and isinstance(value, int | float):
                yield NAMES[prefix + key], "", {}, value
    for sensor, celsius in health.get("temperature_celsius", {}).items():
        yield "temperature_celsius", "", {"sensor": sensor}, celsius
    for operation, latency in figures.get("latency", {}).items():
        counts = list(accumulate(latency["buckets"]))
        bounds = [*(str(2**power / 1e6) for power in range(len(counts) - 1)), "+Inf"]
        for bound, count in zip(bounds, counts, strict=True):
            yield LATENCY, "_bucket", {"operation": operation, "le": bound}, count
        yield LATENCY, "_sum", {"operation": operation}, latency["sum_seconds"]
        yield LATENCY, "_count", {"operation": operation}, counts[-1]


class Endpoint:
    """HTTP endpoint that listens once created, and answers inside `answering`.

    `address` is `HOST:PORT`, `[HOST]:PORT`, or `:PORT` for this machine only. Raises UserError for
    a bad address, and EnvironmentProblem if it cannot be used.
    """

    def __init__(self, address: str) -> None:
        host, colon, port = address.rpartition(":")
        host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
        if not (colon and port.isascii() and port.isdigit() and int(port) < 1 << 16):
            raise UserError(f"--metrics {address}: not HOST:PORT", "--metrics 127.0.0.1:9464")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._socket = socket.create_server((host, int(port)), family=family, backlog=BACKLOG)
        except (OSError, UnicodeError) as problem:
            why = getattr(problem, "strerror", None) or problem
            raise EnvironmentProblem(
                f"--metrics {address} cannot be listened on: {why}", "another port, or an own host"
            ) from None
        found, number = self._socket.getsockname()[:2]
        self.address = f"[{found}]:{number}" if ":" in found else f"{found}:{number}"
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{number}/metrics"
        self.closed = 0
        """Connections that were closed for a newer one."""
        self._open: dict[socket.socket, bool] = {}  # oldest first; True if the request is complete
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def answering(
        self, text: Callable[[], str], tell: Callable[[str], object] = lambda _: None
    ) -> Iterator[None]:
        """Context in which GET /metrics returns `text()`, called from other threads. `tell`
        gets a line when the first connection is closed for a newer one."""

        def figures() -> str:
            closed = [*_about(CLOSED), f"drivebay_{CLOSED} {self.closed}", ""]
            return text() + "\n".join(closed)

        thread = threading.Thread(target=self._accept, args=(figures, tell), daemon=True)
        thread.start()
        try:
            yield
        finally:
            # This ends the wait for connections; closing the socket does not.
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            thread.join()
            self._socket.close()

    def _accept(self, text: Callable[[], str], tell: Callable[[str], object]) -> None:
        while True:
            try:
                talk, _ = self._socket.accept()
            except OSError as problem:
                if problem.errno in NO_LISTENER:
                    return
                time.sleep(0.1)  # limit of open files reached
                continue
            with self._lock:
                if len(self._open) == CONNECTIONS_MAX:
                    self._close_oldest()
                    if self.closed == 1:
                        tell(
                            f"warning: metrics: over {CONNECTIONS_MAX} connections are open; a "
                            f"new one closes the oldest without a whole request (drivebay_{CLOSED})"
                        )
                self._open[talk] = False
            threading.Thread(target=self._answer, args=(talk, text), daemon=True).start()

    def _close_oldest(self) -> None:
        """Ends the oldest connection, of those without a complete request if there is one; the
        thread that waits for it then closes it."""
        oldest = min(self._open, key=self._open.__getitem__)
        del self._open[oldest]
        with contextlib.suppress(OSError):  # the client has gone
            oldest.shutdown(socket.SHUT_RDWR)
        self.closed += 1

    def _answer(self, talk: socket.socket, text: Callable[[], str]) -> None:
        """Reads a request, writes the answer, and closes the connection; without an answer if the
        client is too slow or gone."""
        end = time.monotonic() + PATIENCE_S
        with talk:
            with contextlib.suppress(OSError):
                head = _head(talk, end)
                with self._lock:
                    if talk in self._open:
                        self._open[talk] = True
                talk.settimeout(max(end - time.monotonic(), 0.001))
                talk.sendall(_response(*_result(head, text)))
            with self._lock:
                self._open.pop(talk, None)


def _head(talk: socket.socket, end: float) -> bytes:
    """Bytes of the request up to the empty line, the end of the stream or `HEAD_MAX`; raises
    OSError if that takes longer than `end`."""
    head = b""
    while b"\r\n\r\n" not in head:
        talk.settimeout(max(end - time.monotonic(), 0.001))
        came = talk.recv(HEAD_MAX - len(head))
        if not came:
            break
        head += came
    return head


def _response(status: str, body: bytes) -> bytes:
    lines = (
        f"HTTP/1.1 {status}",
        "Content-Type: text/plain; version=0.0.4; charset=utf-8",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *(["Allow: GET"] if status.startswith("405") else []),
    )
    return "\r\n".join((*lines, "", "")).encode() + body


def _result(head: bytes, text: Callable[[], str]) -> tuple[str, bytes]:
    """Returns status and body of the answer to a request.

    >>> _result(b"GET /metrics HTTP/1.1\\r\\n\\r\\n", lambda: "a 1\\n")
    ('200 OK', b'a 1\\n')
    >>> _result(b"POST /metrics HTTP/1.1\\r\\n\\r\\n", str)[0]
    '405 Method Not Allowed'
    """
    line = head.partition(b"\r\n")[0].split(b" ")
    match line:
        case _ if b"\r\n\r\n" not in head:
            return "400 Bad Request", b""
        case [b"GET", path, b"HTTP/1.0" | b"HTTP/1.1"]:
            if path.partition(b"?")[0] != b"/metrics":
                return "404 Not Found", b"see /metrics\n"
            return "200 OK", text().encode()
        case [method, _, b"HTTP/1.0" | b"HTTP/1.1"] if method.isalpha():
            return "405 Method Not Allowed", b""
        case _:
            return "400 Bad Request", b""
