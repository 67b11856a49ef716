"""Who can reach what: every listener of a sweep, a worker and a server, and what strangers get.

What was seen: a worker's children listened on all addresses for RPC and HTTP, although its
scheduler was on loopback and the dashboard off; a pickled call from another machine was executed,
with real drives as root. Dask's worker is not told its nanny's address, and its HTTP server starts
whatever `dashboard` says. The fix: `lab.sweep.network` and `lab.sweep.nodes`.

Traffic stays on loopback, and in network namespaces that are made here.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dask
import distributed
import here
import pytest
from listeners import Listener, answers_http, listeners
from loops import run, sparse

from drivebay.cli import entry
from drivebay.common.errors import UserError
from drivebay.lab.sweep import fleet, network, nodes

GIB = 2**30
MAIN = "from drivebay.cli import main; main()"
CONNECT = """import socket, sys
for place in sys.argv[1:]:
    host, port = place.rsplit(":", 1)
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
        print("connected")
    except ConnectionRefusedError:
        print("refused")
"""


class Running:
    """A process that has said that it is ready; it is read on, so that it never waits for us."""

    def __init__(self, process: subprocess.Popen[str], ready: str) -> None:
        assert process.stderr is not None
        self.pid, self.lines = process.pid, []
        for line in process.stderr:
            self.lines.append(line)
            if ready in line:
                break
        else:
            raise AssertionError("".join(self.lines))
        threading.Thread(target=process.stderr.read, daemon=True).start()


@contextlib.contextmanager
def running(
    *arguments: str, ready: str, within: Sequence[str] = (), env: Mapping[str, str] | None = None
) -> Iterator[Running]:
    """A Python process, once a line of its stderr has the word; ended with the block."""
    process = subprocess.Popen(
        [*within, sys.executable, *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **(env or {})},
    )
    try:
        yield Running(process, ready)
    finally:
        process.terminate()
        process.wait()


def a_scheduler(host: str, **more: Any) -> contextlib.AbstractContextManager[Running]:
    """Dask's own, as a user starts it; its address is the last word of its last line."""
    options = ("--host", host, "--port", "0", "--dashboard-address", "127.0.0.1:0")
    return running("-m", "distributed.cli.dask_scheduler", *options, ready="Scheduler at:", **more)


def address_of(scheduler: Running) -> str:
    return scheduler.lines[-1].split()[-1]


def a_worker(
    address: str, tmp_path: Path, *arguments: str, **more: Any
) -> contextlib.AbstractContextManager[Running]:
    """With one virtual job and a file as a drive: both kinds of children."""
    file = sparse(tmp_path / "a.img", GIB)
    options = ("--jobs", "1", "--no-drives", "--file", str(file), *arguments)
    return running("-c", MAIN, "worker", address, *options, ready="runs at once", **more)


def a_sweep(tmp_path: Path, *, seconds: int) -> Path:
    """Two runs that differ by their seeds alone."""
    spec = tmp_path / "sweep.toml"
    spec.write_text(
        f"""name = "small"
drives = ["sm951-ahci-512"]
set = ["drive.capacity_sectors=8000000", "gc.idle.free_mb=200", "gc.threshold_mb=20",
       "nand.blocks_per_plane=16"]
seeds = 2
[workload]
pattern = "random"
read_percent = 0
block_bytes = 4096
queue_depth = 4
duration_s = {seconds}
"""
    )
    return spec


def places(found: Sequence[Listener], main: int) -> list[tuple[str, str, bool]]:
    """Kind, host, and whether it is the first process's."""
    return [(one.kind, one.host, one.pid == main) for one in found]


def strangers() -> Iterator[ssl.SSLContext]:
    """Users of this machine who know no key of a sweep: without a certificate, and with one of
    another sweep's."""
    yield ssl.create_default_context()
    other = distributed.Security.temporary()  # type: ignore[no-untyped-call]
    yield other.get_connection_args("client")["ssl_context"]


def is_refused(listener: Listener, stranger: ssl.SSLContext) -> bool:
    """True if a stranger who trusts any server is refused, and if plain bytes are."""
    stranger.check_hostname, stranger.verify_mode = False, ssl.CERT_NONE
    place = (listener.host, listener.port)
    with socket.create_connection(place, timeout=10) as plain:
        plain.sendall(bytes(16))
        with contextlib.suppress(ConnectionResetError):
            # An alert of TLS, or nothing.
            assert plain.recv(8)[:1] in (b"\x15", b"")
    plain = socket.create_connection(place, timeout=10)
    try:
        with stranger.wrap_socket(plain) as talk:
            return talk.recv(8) == b""
    except OSError as problem:
        return any(word in str(problem) for word in ("certificate required", "unknown ca", "reset"))


# --- a sweep on this machine ----------------------------------------------------------------------


def test_a_sweep_here_listens_on_loopback_and_refuses_whoever_lacks_its_key(tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ("sweep", str(a_sweep(tmp_path, seconds=3600)), "--out", str(out), "--jobs", "2")
    with running("-c", MAIN, *arguments, ready="2 at once") as sweep:
        found = listeners(sweep.pid)
        # The scheduler, two nannies; each of two workers.
        assert places(found, sweep.pid).count(("tcp", "127.0.0.1", True)) == 3
        assert places(found, sweep.pid).count(("tcp", "127.0.0.1", False)) == 2
        assert len(found) == 5 and len({one.pid for one in found}) == 3
        assert not any(answers_http(one.host, one.port) for one in found)
        for stranger in strangers():
            assert [is_refused(one, stranger) for one in found] == [True] * 5


def test_a_sweep_here_does_not_connect_to_the_scheduler_of_another() -> None:
    with nodes.local_cluster(0, {}) as ours, nodes.local_cluster(0, {}) as other:
        for address, may in ((ours.scheduler_address, True), (other.scheduler_address, False)):
            assert address.startswith("tls://127.0.0.1:")
            with contextlib.nullcontext() if may else pytest.raises(OSError):
                distributed.Client(  # type: ignore[no-untyped-call]
                    address, security=ours.security, timeout=10, set_as_default=False
                ).close()


# --- a worker -------------------------------------------------------------------------------------


@pytest.fixture
def hosts() -> Iterator[SimpleNamespace]:
    """Two network namespaces, `here` and `there`, with a cable between; `here` has one address
    more."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root: run this as root, e.g. sudo make test")
    names = [f"drivebay-{os.getpid()}-{end}" for end in ("here", "there")]
    with contextlib.ExitStack() as made:
        for name in names:
            try:
                done = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
            except FileNotFoundError:
                pytest.skip("ip is not installed: apt-get install iproute2")
            if done.returncode != 0:
                pytest.skip(f"no network namespaces here: {done.stderr.strip()}")
            made.callback(run, "ip", "netns", "del", name)
        here, there = names
        cable = f"ip link add veth netns {here} type veth peer name veth netns {there}"
        run(*cable.split())
        # Addresses for documentation, RFC 5737.
        ours = {here: ("192.0.2.2/24", "198.51.100.2/24"), there: ("192.0.2.1/24",)}
        for name, addresses in ours.items():
            for link in ("lo", "veth"):
                run("ip", "-n", name, "link", "set", link, "up")
            for address in addresses:
                run("ip", "-n", name, "address", "add", address, "dev", "veth")
        run("ip", "-n", there, "route", "add", "198.51.100.0/24", "dev", "veth")
        enter = ("ip", "netns", "exec")
        yield SimpleNamespace(here=(*enter, here), there=(*enter, there))


def connect(within: tuple[str, ...], *to: str) -> list[str]:
    """What comes of connecting from a namespace."""
    return run(*within, sys.executable, "-c", CONNECT, *to).split()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_worker_of_a_scheduler_on_loopback_listens_there_only(
    host: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """As root in a network namespace, where another machine tries to connect."""
    if host == "::1":
        try:
            socket.create_server((host, 0), family=socket.AF_INET6).close()
        except OSError as problem:
            pytest.skip(f"this machine has no IPv6: {problem}")
    hosts = request.getfixturevalue("hosts") if os.geteuid() == 0 and host != "::1" else None
    within = {"within": hosts.here} if hosts else {}
    with (
        a_scheduler(f"[{host}]" if ":" in host else host, **within) as scheduler,
        a_worker(address_of(scheduler), tmp_path, **within) as worker,
    ):
        found = listeners(worker.pid)
        kind = "tcp6" if ":" in host else "tcp"
        # Two nannies; a worker for virtual drives and one for the file.
        assert sorted(places(found, worker.pid)) == [
            (kind, host, False),
            (kind, host, False),
            (kind, host, True),
            (kind, host, True),
        ]
        if hosts:
            attacks = [f"192.0.2.2:{listener.port}" for listener in found]
            assert connect(hosts.there, *attacks) == ["refused"] * 4
        else:
            assert not any(answers_http(one.host, one.port) for one in found)


def test_a_worker_elsewhere_needs_the_word_and_listens_at_the_facing_address(
    hosts: SimpleNamespace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with a_scheduler("192.0.2.1", within=hosts.there) as scheduler:
        address = address_of(scheduler)
        for verb in (["worker", address, "--jobs", "1", "--no-drives"],
                     ["sweep", str(a_sweep(tmp_path, seconds=1)), "--scheduler", address,
                      "--out", str(tmp_path / "out")]):  # fmt: skip
            assert entry.run(verb) == 2
            error, hint = capsys.readouterr().err.splitlines()
            assert error.startswith(f"error: {address} is not on this machine and has no TLS")
            assert hint.startswith("hint: ") and "--trust-network" in hint
        assert not (tmp_path / "out").exists()
        with a_worker(address, tmp_path, "--trust-network", within=hosts.here) as worker:
            found = listeners(worker.pid)
            assert [(one.kind, one.host) for one in found] == [("tcp", "192.0.2.2")] * 4
            there = [f"192.0.2.2:{one.port}" for one in found]
            assert connect(hosts.there, *there) == ["connected"] * 4
            elsewhere = [f"198.51.100.2:{one.port}" for one in found]
            assert connect(hosts.there, *elsewhere) == ["refused"] * 4


# --- a server -------------------------------------------------------------------------------------


def a_server(
    tmp_path: Path, *addresses: str, **more: Any
) -> contextlib.AbstractContextManager[Running]:
    return running("-c", MAIN, "serve", "sm951-nvme-256", *addresses, ready="Ctrl-C", **more)


def test_a_server_listens_where_it_is_told_and_warns_of_nothing_on_loopback(
    tmp_path: Path,
) -> None:
    control = tmp_path / "control"
    addresses = ("--nbd", "127.0.0.1:0", "--nvme-tcp", ":0", "--metrics", ":0",
                 "--control", f"unix:{control}")  # fmt: skip
    with a_server(tmp_path, *addresses) as server:
        found = listeners(server.pid)
        assert [(one.kind, one.host) for one in found] == [
            *[("tcp", "127.0.0.1")] * 3,
            ("unix", str(control)),
        ]
        (metrics,) = [one.port for one in found if one.port and answers_http(one.host, one.port)]
        assert f"http://127.0.0.1:{metrics}/metrics" in "".join(server.lines)
        assert "warning" not in "".join(server.lines)


def test_a_secret_that_others_can_read_is_warned_of(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:\n")
    arguments = ("--nvme-tcp", ":0", "--dhchap-secret", str(secret))
    for mode, warned in ((0o644, True), (0o640, True), (0o600, False)):
        secret.chmod(mode)
        with a_server(tmp_path, *arguments) as server:
            lines = [line for line in server.lines if line.startswith("warning:")]
        assert (f"warning: {secret} holds a secret" in "".join(lines)) == warned


def test_unix_sockets_are_their_owner_s_whatever_the_umask(tmp_path: Path) -> None:
    sockets = [tmp_path / name for name in ("nbd", "control")]
    addresses = ("--nbd", f"unix:{sockets[0]}", "--control", f"unix:{sockets[1]}")
    before = os.umask(0)
    try:
        with a_server(tmp_path, *addresses):
            assert [one.stat().st_mode & 0o777 for one in sockets] == [0o600, 0o600]
    finally:
        os.umask(before)


def test_a_server_that_others_reach_warns_with_one_line(
    hosts: SimpleNamespace, tmp_path: Path
) -> None:
    addresses = ("--nbd", "[::]:1", "--nbd", ":0", "--nbd", f"unix:{tmp_path / 'nbd'}",
                 "--nvme-tcp", "192.0.2.2:2", "--metrics", "0.0.0.0:3")  # fmt: skip
    with a_server(tmp_path, *addresses, within=hosts.here) as server:
        (warning,) = [line for line in server.lines if line.startswith("warning:")]
        assert "everybody who reaches [::]:1, 192.0.2.2:2 can read and write the drives" in warning
        assert "everybody who reaches 0.0.0.0:3 can read the figures" in warning
        reached = sorted(
            (one.kind, one.host) for one in listeners(server.pid) if one.port in (1, 2, 3)
        )
        assert reached == [("tcp", "0.0.0.0"), ("tcp", "192.0.2.2"), ("tcp6", "::")]
        assert (
            connect(hosts.there, *(f"192.0.2.2:{port}" for port in (1, 2, 3))) == ["connected"] * 3
        )


# --- which schedulers are talked to ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "found", "admitted"),
    [
        ("127.0.0.1:8786", ["127.0.0.1"], "tcp://127.0.0.1:8786"),
        ("tcp://[::1]:8786", ["::1"], "tcp://[::1]:8786"),
        ("tcp://lab:8786", ["::1", "127.0.0.1"], "tcp://127.0.0.1:8786"),
        ("tcp://lab:8786", ["127.0.0.1", "192.0.2.1"], None),
        ("tcp://lab:8786", ["2001:db8::1"], None),
        ("tcp://0.0.0.0:8786", ["0.0.0.0"], None),
    ],
)
def test_a_name_is_on_loopback_if_all_of_its_addresses_are(
    address: str, found: list[str], admitted: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [(0, 0, 0, "", (one, 8786)) for one in found]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_a, **_m: answers)
    if admitted is not None:
        assert network.admitted(address, trust_network=False).address == admitted
        return
    with pytest.raises(UserError, match="is not on this machine and has no TLS"):
        network.admitted(address, trust_network=False)
    assert network.admitted(address, trust_network=True).address == address


@pytest.mark.parametrize(
    ("address", "settings", "words"),
    [
        ("tls://127.0.0.1:1", {}, "TLS is not set up: Dask's settings have no ca-file"),
        ("tls://127.0.0.1:1", {"ca-file": "/no.pem"}, "have no client.cert"),
        (
            "tls://127.0.0.1:1",
            {"ca-file": "/no.pem", "client.cert": "/no.pem"},
            "TLS of client: /no.pem, /no.pem: [Errno 2] No such file or directory",
        ),
        ("tls://127.0.0.1:1", {"min-version": "x"}, "min-version='x' is not supported"),
        ("tcp://127.0.0.1:1", {"require": True}, "is not encrypted, which Dask's settings require"),
        ("ws://127.0.0.1:1", {}, "is not the address of a scheduler"),
    ],
)
def test_settings_of_tls_that_are_not_whole_are_named(
    address: str, settings: dict[str, Any], words: str
) -> None:
    assert distributed  # its import sets Dask's defaults
    given = {f"distributed.comm.tls.{key}": value for key, value in settings.items()}
    given["distributed.comm.require-encryption"] = settings.get("require")
    with dask.config.set(given), pytest.raises(UserError) as caught:
        network.admitted(address, trust_network=True)
    assert words in caught.value.message and caught.value.hint
    assert "\n" not in caught.value.message + caught.value.hint


# --- TLS ------------------------------------------------------------------------------------------


def certificates(folder: Path) -> dict[str, str]:
    """A CA, and a certificate of it for all; returns Dask's settings."""
    ca, ca_key, cert, key = (str(folder / name) for name in ("ca", "ca.key", "cert", "key"))
    kind = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2"
    try:
        run(*f"openssl req -x509 {kind} -subj /CN=ca -keyout {ca_key} -out {ca}".split())
    except FileNotFoundError:
        pytest.skip("openssl is not installed: apt-get install openssl")
    request = f"openssl req -x509 {kind} -subj /CN=lab -CA {ca} -CAkey {ca_key}"
    run(*f"{request} -keyout {key} -out {cert}".split())
    tls = "distributed.comm.tls"
    roles = {f"{tls}.{role}.{name}": file for role in ("client", "scheduler", "worker")
             for name, file in (("cert", cert), ("key", key))}  # fmt: skip
    return {f"{tls}.ca-file": ca, **roles}


def test_a_sweep_goes_over_tls_and_a_stranger_without_a_certificate_gets_nothing(
    tmp_path: Path,
) -> None:
    settings = certificates(tmp_path)
    env = {f"DASK_{key.upper().replace('.', '__').replace('-', '_')}": value
           for key, value in settings.items()}  # fmt: skip
    with (
        dask.config.set(settings),
        distributed.LocalCluster(  # type: ignore[no-untyped-call]
            n_workers=0, host="127.0.0.1", protocol="tls", dashboard_address="127.0.0.1:0",
            security=distributed.Security(require_encryption=True),  # type: ignore[no-untyped-call]
            silence_logs=60,
        ) as cluster,
    ):  # fmt: skip
        address = cluster.scheduler_address
        assert address.startswith("tls://")
        with a_worker(address, tmp_path, env=env) as worker:
            found = listeners(worker.pid)
            assert [(one.kind, one.host) for one in found] == [("tcp", "127.0.0.1")] * 4
            assert not any(answers_http(one.host, one.port) for one in found)
            words = ("sweep", str(a_sweep(tmp_path, seconds=1)), "--scheduler", address)
            out = str(tmp_path / "out")
            sweep = here.drivebay(*words, "--out", out, "--json", cwd=tmp_path)
            assert sweep.returncode == 0, sweep.stderr
            assert json.loads(sweep.stdout)["runs"] == 2
            assert "2 runs, 1 at once" in sweep.stderr, "none for the process that has the drive"
            # The worker itself connects as a client, to hear whether a review is to stop.
            security = network.admitted(address, trust_network=False).security
            with distributed.Client(  # type: ignore[no-untyped-call]
                address, security=security, set_as_default=False
            ) as client:
                fleet.stop(client, "token")
                asked = [client.submit(fleet._stop_requested, "token", workers=[one], pure=False)
                         for one in client.nthreads()]  # fmt: skip
                assert client.gather(asked) == [True, True]
            stranger = ssl.create_default_context(cafile=settings["distributed.comm.tls.ca-file"])
            stranger.check_hostname = False
            for one in found:
                plain = socket.create_connection((one.host, one.port), timeout=10)
                with (
                    pytest.raises(OSError, match=r"certificate required|reset"),
                    stranger.wrap_socket(plain) as talk,
                ):
                    talk.recv(8)
