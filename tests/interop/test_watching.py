"""A served drive as it is watched: its events, its figures over HTTP, and by a service manager."""

from __future__ import annotations

import configparser
import contextlib
import json
import os
import random
import re
import socket
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import here
import nbd_server
import pytest
from nbd_server import PROGRAM, served
from waiting import wait_until

from drivebay.common.errors import EnvironmentProblem, UserError
from drivebay.serving.metrics import CLOSED, CONNECTIONS_MAX, HEAD_MAX, NAMES, Endpoint, _result
from drivebay.serving.notify import notify

SMALL = "sm951-ahci-128"
GET_ENDS = b"\r\n\r\na 1\n"
KINDS = ("counter", "gauge", "histogram")
EXAMPLES = Path(__file__).parents[2] / "examples" / "serve"


def test_events_are_shown_as_text_and_as_json(tmp_path: Path) -> None:
    with served(tmp_path, f"log={SMALL}", drive=f"db={SMALL}") as server:
        server.say("drive log power-cut")
        server.say("drive db power-cut")
        found = [json.loads(line) for line in server.ctl("events", "--json").stdout.splitlines()]
        assert [(one["drive"], one["event"]) for one in found] == [
            ("log", "power-cut"),
            ("db", "power-cut"),
        ]
        (line,) = server.ctl("--drive", "db", "events").stdout.splitlines()
        assert re.fullmatch(r"\d{4}-\d\d-\d\d [\d:.]{12}  db  power-cut  .*lost_bytes=0.*", line)
        refused = server.ctl("status", "--follow")
        assert refused.returncode == 2 and "--follow is only for events" in refused.stderr
        server.process.terminate()
        server.process.communicate()


def test_who_follows_sees_each_event_until_the_server_ends(tmp_path: Path) -> None:
    with served(tmp_path, f"log={SMALL}", drive=f"db={SMALL}") as server:
        server.say("drive log snapshot aged")
        command = [*PROGRAM, "ctl", str(server.control), "events", "--follow", "--json"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as follower:
            assert follower.stdout is not None
            seen = [json.loads(follower.stdout.readline())]
            server.say('drive db fault {"kind": "hang"}')
            seen.append(json.loads(follower.stdout.readline()))
            server.say("drive db no-faults")
            seen.append(json.loads(follower.stdout.readline()))
            server.process.terminate()
            assert follower.stdout.read() == ""
            assert follower.wait() == 0
        server.process.communicate()
    assert [(one["drive"], one["event"]) for one in seen] == [
        ("log", "snapshot"),
        ("db", "fault-begins"),
        ("db", "fault-ends"),
    ]
    assert seen[0]["name"] == "aged" and seen[1]["kind"] == "hang"


@pytest.mark.skipif(
    bool(nbd_server.missing("qemu-io")), reason=nbd_server.missing("qemu-io") or "-"
)
def test_a_host_that_cannot_keep_up_is_an_event(tmp_path: Path) -> None:
    # A hundred times as fast as the drive is, no host keeps up.
    with served(tmp_path, "--time-scale", "100", drive=SMALL) as server:

        def events() -> set[str]:
            reads = [word for n in range(100) for word in ("-c", f"read {n}M 4k")]
            subprocess.run(
                ["qemu-io", "-f", "raw", *reads, server.uri], check=True, capture_output=True
            )
            return {one["event"] for one in server.say("events")["events"]}

        wait_until(lambda: "host-late" in events())
        assert events() >= {"connected", "disconnected"}
        server.end()


def _get(url: str) -> str:
    with urllib.request.urlopen(url) as answer:
        return str(answer.read().decode())


def _families(text: str) -> dict[str, dict[str, float]]:
    """Parses Prometheus' text format 0.0.4: the values of each metric by suffix and labels.

    Fails if a metric lacks HELP or TYPE, is not contiguous, repeats a sample, or has a name that
    does not fit its type; or if a histogram is not cumulative.
    """
    families: dict[str, dict[str, float]] = {}
    kinds: dict[str, str] = {}
    name = ""
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name = line.split(" ")[2]
            assert name not in families and len(line.split(" ", 3)[3]) > 5
            families[name] = {}
        elif line.startswith("# TYPE "):
            assert line.split(" ")[2] == name and not families[name]
            kinds[name] = line.split(" ")[3]
        else:
            found = re.fullmatch(r"([a-z0-9_]+?)(_bucket|_sum|_count|)(\{.*\}|) (\S+)", line)
            assert found and name in kinds, line
            stem, suffix, labels, value = found.groups()
            if kinds[name] != "histogram":
                stem, suffix = stem + suffix, ""
            assert stem == name, line
            pairs = re.findall(r'(\w+)="((?:[^"\\\n]|\\["\\n])*)"', labels)
            assert labels in ("", "{" + ",".join(f'{key}="{one}"' for key, one in pairs) + "}")
            assert suffix + labels not in families[name], line
            families[name][suffix + labels] = float(value)
    for name, kind in kinds.items():
        assert families[name] and re.fullmatch(r"drivebay_[a-z][a-z0-9_]*", name)
        assert (kind == "counter") == name.endswith("_total") and kind in KINDS, name
        if kind == "histogram":
            _check_histogram(families[name])
    return families


def _check_histogram(values: Mapping[str, float]) -> None:
    series: dict[str, list[tuple[float, float]]] = {}
    for sample, count in values.items():
        if sample.startswith("_bucket"):
            labels, bound = re.fullmatch(r'_bucket\{(.*),le="(.*)"\}', sample).groups()  # type: ignore[union-attr]
            series.setdefault(labels, []).append((float(bound), count))
    assert series
    for labels, buckets in series.items():
        assert buckets == sorted(buckets), "cumulative, by bound"
        assert buckets[-1] == (float("inf"), values[f"_count{{{labels}}}"])
        assert values[f"_sum{{{labels}}}"] >= 0


def test_metrics_have_the_health_log_and_latencies_by_operation(tmp_path: Path) -> None:
    if words := nbd_server.missing("qemu-io"):
        pytest.skip(words)
    with served(tmp_path, "--pace", "none", drive="sm951-nvme-256") as server:
        commands = [
            *(word for n in range(9) for word in ("-c", f"write {n}M 64k")),
            *(word for n in range(5) for word in ("-c", f"read {n}M 64k")),
            *("-c", "discard 20M 1M", "-c", "flush"),
        ]
        qemu = ["qemu-io", "-f", "raw", "-d", "unmap", *commands, server.uri]
        subprocess.run(qemu, check=True, capture_output=True)
        server.say('fault {"kind": "read-only"}')
        text = server.ctl("status", "--metrics").stdout
        status = server.say("status")
        server.end()
    found = _families(text)
    drive = '{drive="sm951-nvme-256"}'
    for name, value in (
        ("critical_warning", 8),
        ("available_spare_ratio", 1),
        ("percentage_used_ratio", 0),
        ("media_errors_total", 0),
        ("num_err_log_entries_total", 0),
        ("host_write_commands_total", 9),
        ("data_units_written_total", 2),
        ("power_cycles_total", 1),
        ("unsafe_shutdowns_total", 0),
    ):
        assert found[f"drivebay_{name}"] == {drive: value}, name
    temperatures = found["drivebay_temperature_celsius"]
    # The health log has whole degrees.
    composite = temperatures[f'{drive[:-1]},sensor="composite"}}']
    assert abs(composite - status["temperature_c"]) <= 1
    latencies = found["drivebay_request_duration_seconds"]
    count = {
        operation: latencies[f'_count{drive[:-1]},operation="{operation}"}}']
        for operation in ("read", "write", "discard", "write_zeroes", "flush")
    }
    assert (count["write"], count["discard"]) == (9, 1) and count["flush"] >= 1
    assert count["read"] >= 5, "qemu-io looks at the beginning itself"
    mean = latencies[f'_sum{drive[:-1]},operation="read"}}'] / count["read"]
    assert 5e-6 < mean < 5e-3
    # No figure is forgotten.
    forgotten = {
        "namespaces",
        "ana_states",
        "drive",
        "title",
        "lateness",
        "last_power_cut",
        "health",
        "latency",
    }
    figures = {*status, *status["health"]} - forgotten
    assert figures <= NAMES.keys()
    assert {f"lateness_{key}" for key in status["lateness"]} <= NAMES.keys()


def test_each_metric_of_the_dashboard_is_served(tmp_path: Path) -> None:
    board = json.loads((EXAMPLES / "grafana.json").read_text())
    panels = board["panels"]
    assert len({one["id"] for one in panels}) == len(panels)
    places = [
        (one["gridPos"]["x"] + dx, one["gridPos"]["y"] + dy)
        for one in panels
        for dx in range(one["gridPos"]["w"])
        for dy in range(one["gridPos"]["h"])
    ]
    assert len(set(places)) == len(places), "no two panels overlap"
    queries = [target["expr"] for one in panels for target in one["targets"]]
    queries += [one["query"] for one in board["templating"]["list"]]
    asked = {name for query in queries for name in re.findall(r"drivebay_\w+", query)}
    with served(tmp_path, drive=SMALL) as server:
        text = server.ctl("status", "--metrics").stdout
        server.end()
    _families(text)
    shown = set(re.findall(r"^(drivebay_\w+)\{", text, re.MULTILINE))
    # A drive that has not answered yet has no share.
    shown |= {"drivebay_lateness_kept_up_percent"}
    assert asked <= shown and len(asked) > 20


def test_metrics_over_http_are_those_of_ctl(tmp_path: Path) -> None:
    with served(tmp_path, "--metrics", ":0", drive=SMALL) as server:
        assert server.process.stderr is not None
        lines = iter(server.process.stderr.readline, "")
        url = next(line.split()[1] for line in lines if line.startswith("metrics "))
        assert url.startswith("http://127.0.0.1:")
        text = _get(url)

        families = _families(text)
        of_ctl = _families(server.ctl("status", "--metrics").stdout)
        assert families.pop(f"drivebay_{CLOSED}") == {"": 0}
        assert {name: [*values] for name, values in families.items()} == {
            name: [*values] for name, values in of_ctl.items()
        }
        server.process.terminate()
        assert server.process.wait() == 0
        with pytest.raises(urllib.error.URLError):
            _get(url)


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    one = Endpoint("127.0.0.1:0")
    with one.answering(lambda: "a 1\n"):
        yield one


def _connect(endpoint: Endpoint) -> socket.socket:
    host, port = endpoint.url.removeprefix("http://").removesuffix("/metrics").rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=60)


def _asked(endpoint: Endpoint, request: bytes) -> bytes:
    with _connect(endpoint) as talk:
        with contextlib.suppress(ConnectionError):
            talk.sendall(request)
            talk.shutdown(socket.SHUT_WR)
        answer = b""
        with contextlib.suppress(ConnectionError):
            while came := talk.recv(4096):
                answer += came
        return answer


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", b"200"),
        (b"GET /metrics?a=b HTTP/1.0\r\n\r\n", b"200"),
        (b"GET / HTTP/1.1\r\n\r\n", b"404"),
        (b"GET /metrics/../../etc/passwd HTTP/1.1\r\n\r\n", b"404"),
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 5\r\n\r\n", b"405"),
        (b"GET /metrics HTTP/2.0\r\n\r\n", b"400"),
        (b"GET /metrics\r\n\r\n", b"400"),
        (b"GET /metrics HTTP/1.1\r\n", b"400"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"400"),
        (bytes(HEAD_MAX), b"400"),
        (b"", b"400"),
    ],
)
def test_only_get_metrics_is_answered(endpoint: Endpoint, request_: bytes, status: bytes) -> None:
    head, _, body = _asked(endpoint, request_).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 " + status)
    assert body.startswith(b"a 1\n") == (status == b"200")
    assert f"Content-Length: {len(body)}".encode() in head


def test_any_bytes_get_an_answer() -> None:
    dice = random.Random(1)
    right = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"
    found = set()
    for _ in range(5000):
        bytes_ = bytearray(right)
        for _ in range(dice.randrange(4)):
            at = dice.randrange(len(bytes_))
            bytes_[at : at + dice.randrange(3)] = dice.randbytes(dice.randrange(3))
        found.add(_result(bytes(bytes_), str)[0][:3])
    assert found == {"200", "400", "404", "405"}


def test_no_more_connections_are_kept_than_may_be(endpoint: Endpoint) -> None:
    with contextlib.ExitStack() as open_:
        silent = [open_.enter_context(_connect(endpoint)) for _ in range(3 * CONNECTIONS_MAX)]
        # The newest close the oldest; the last ones end once they have been silent for long.
        assert all(talk.recv(1) == b"" for talk in silent[: 2 * CONNECTIONS_MAX])
        assert threading.active_count() < 3 * CONNECTIONS_MAX
        assert all(talk.recv(1) == b"" for talk in silent)
    assert 0 < endpoint.closed <= 2 * CONNECTIONS_MAX
    assert GET_ENDS in _asked(endpoint, b"GET /metrics HTTP/1.1\r\n\r\n")


def test_a_scrape_is_answered_while_3000_half_open_requests_are_held() -> None:
    one = Endpoint("127.0.0.1:0")
    told: list[str] = []
    with one.answering(lambda: "a 1\n", told.append), contextlib.ExitStack() as open_:
        for number in range(3000):
            talk = open_.enter_context(_connect(one))
            with contextlib.suppress(ConnectionError):
                talk.sendall(b"GET /metr")
            if number % 500 == 499:
                assert GET_ENDS in _asked(one, b"GET /metrics HTTP/1.1\r\n\r\n")
        text = _get(one.url)
    assert 0 < int(text.split()[-1]) == one.closed <= 3000
    assert len(told) == 1 and CLOSED in told[0]


def test_an_address_that_is_none_or_taken_is_refused(endpoint: Endpoint) -> None:
    for wrong in ("9464", "a:b", ":", "localhost", ":70000", ":-1"):
        with pytest.raises(UserError):
            Endpoint(wrong)
    with pytest.raises(EnvironmentProblem):
        Endpoint(endpoint.url.removeprefix("http://").removesuffix("/metrics"))


@pytest.mark.parametrize("is_abstract", [False, True])
def test_a_service_manager_hears_that_it_is_ready_and_that_it_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_abstract: bool
) -> None:
    name = f"@drivebay-test-{os.getpid()}" if is_abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(name.replace("@", "\0", 1) if is_abstract else name)
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        with served(tmp_path, drive=SMALL) as server:
            assert manager.recv(100) == b"READY=1"
            assert server.say("status")["is_off"] is False
            server.end()
            assert manager.recv(100) == b"STOPPING=1"


def test_without_a_service_manager_nothing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for address in ("", "relative", str(tmp_path / "none"), "@none", "/" + "x" * 200):
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        notify("READY=1")
    monkeypatch.delenv("NOTIFY_SOCKET")
    notify("READY=1")


def test_the_unit_starts_what_there_is() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(EXAMPLES / "drivebay@.service")
    service = unit["Service"]
    assert service["Type"] == "notify"
    said = here.drivebay("serve", "--help", cwd=Path())
    for option in re.findall(r"--[a-z-]+", service["ExecStart"]):
        assert option in said.stdout
