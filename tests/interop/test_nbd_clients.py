"""Other people's NBD clients on a served drive: libnbd's tools, QEMU's, and fio."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import nbd_server
import pytest
from nbd_server import Served, served

MIB = 2**20


def needs(*programs: str) -> pytest.MarkDecorator:
    """Skips a test where a program is not installed, and says so."""
    lacking = nbd_server.missing(*programs)
    return pytest.mark.skipif(bool(lacking), reason=lacking or "-")


def _run(*command: str | Path) -> str:
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}: {done.stdout} {done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def drive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    with served(folder, "--pace", "none", "--data", str(folder / "image")) as one:
        yield one
        figures = one.end()
        assert figures["requests"] > 0 and figures["outstanding"] == 0


@needs("nbdinfo")
def test_nbdinfo_sees_the_drive(drive: Served) -> None:
    (export,) = json.loads(_run("nbdinfo", "--json", drive.uri))["exports"]
    assert export["export-size"] == 512_110_190_592
    assert (export["block_size_minimum"], export["block_size_preferred"]) == (512, 4096)
    able = {key for key, value in export.items() if key.startswith("can_") and value}
    assert able >= {"can_flush", "can_fua", "can_trim", "can_zero", "can_fast_zero"}
    assert able >= {"can_multi_conn", "can_cache", "can_df"}
    assert "sm951-ahci-512" in _run("nbdinfo", "--list", drive.uri)


@needs("nbdcopy", "nbdinfo", "qemu-io", "qemu-img")
def test_copies_are_true_and_holes_are_known(drive: Served, tmp_path: Path) -> None:
    source, back = tmp_path / "source", tmp_path / "back"
    content = random.Random(1).randbytes(8 * MIB)
    source.write_bytes(content)
    _run("qemu-io", "-f", "raw", "-c", "discard 0 64M", drive.uri)
    _run("nbdcopy", "--flush", source, drive.uri)
    (start, hole) = json.loads(_run("nbdinfo", "--map", "--json", drive.uri))[:2]
    assert (start["offset"], start["length"], start["type"]) == (0, 8 * MIB, 0)
    assert (hole["offset"], hole["description"]) == (8 * MIB, "hole,zero")
    part = ("bs=1M", "count=8", f"if={drive.uri}", f"of={back}")
    _run("qemu-img", "dd", "-f", "raw", "-O", "raw", *part)
    assert back.read_bytes() == content


@needs("qemu-io", "qemu-img")
def test_qemu_writes_trims_and_compares(drive: Served) -> None:
    steps = (
        "write -P 0x5a 128M 64k",
        "discard 128M 32k",
        "read -P 0 128M 32k",
        "read -P 0x5a 134250496 32k",
        "write -z 134250496 4k",
        "read -P 0 134250496 4k",
        "write -f -P 7 134217728 512",
        "read -P 7 134217728 512",
        "flush",
    )
    words = [word for step in steps for word in ("-c", step)]
    said = _run("qemu-io", "-f", "raw", *words, drive.uri)
    assert "Pattern verification failed" not in said and "error" not in said.lower()
    assert json.loads(_run("qemu-img", "info", "--output=json", drive.uri))["virtual-size"] > 0


@needs("fio")
def test_fio_verifies_what_it_wrote(drive: Served) -> None:
    if "nbd" not in _run("fio", "--enghelp"):
        pytest.skip("this fio has no nbd engine")
    # DRIVEBAY_VERIFY=20g takes as long as it takes, and so much room beside pytest's folders.
    size = os.environ.get("DRIVEBAY_VERIFY")
    job = (
        "--rw=randwrite",
        "--bs=4k",
        "--iodepth=32",
        f"--size={size or '64m'}",
        "--verify=crc32c",
        "--verify_state_save=0",
    )
    _run("fio", "--name=verify", "--ioengine=nbd", f"--uri={drive.uri}", *job)


@needs("openssl", "nbdinfo")
def test_with_a_certificate_tls_is_required(tmp_path: Path) -> None:
    names = ("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost")
    key, cert = tmp_path / "key.pem", tmp_path / "ca-cert.pem"
    make = ("openssl", "req", "-x509", "-nodes", "-newkey", "rsa:2048")
    _run(*make, "-keyout", key, "-out", cert, *names)
    with served(tmp_path, "--tls-cert", str(cert), "--tls-key", str(key)) as one:
        plain = subprocess.run(["nbdinfo", one.uri], capture_output=True, text=True, check=False)
        assert plain.returncode != 0
        tls = f"nbds+unix://localhost/?socket={one.socket}&tls-certificates={tmp_path}"
        assert "with TLS" in _run("nbdinfo", tls)
        one.end()


def test_a_killed_server_leaves_what_was_flushed(tmp_path: Path) -> None:
    if lacking := nbd_server.missing("qemu-io"):
        pytest.skip(lacking)
    image = ("--data", str(tmp_path / "image"))
    with served(tmp_path, *image) as one:
        _run("qemu-io", "-f", "raw", "-c", "write -P 0x42 1M 64k", "-c", "flush", one.uri)
        one.process.send_signal(signal.SIGKILL)
        one.process.wait()
    (tmp_path / "control.sock").unlink()
    with served(tmp_path, *image, "--foreign-data") as one:
        said = _run("qemu-io", "-f", "raw", "-c", "read -P 0x42 1M 64k", one.uri)
        assert "verification failed" not in said
        one.end()
