"""Namespaces of a served drive with NBD clients: exports of their own, and a size that changes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import nbd_server
import pytest
from nbd_server import PROGRAM, Served, served

from drivebay.common.errors import UserError
from drivebay.serving import Namespace

SMALL = "sm951-ahci-128"
MIB = 1 << 20

clients = pytest.mark.skipif(
    bool(nbd_server.missing("qemu-io", "nbdinfo")),
    reason=nbd_server.missing("qemu-io", "nbdinfo") or "-",
)


def _uri(server: Served, export: str) -> str:
    return f"nbd+unix:///{export}?socket={server.socket}"


def _said(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def _qemu_io(server: Served, export: str, *steps: str, mode: str = "--") -> str:
    words = [word for step in steps for word in ("-c", step)]
    return _said("qemu-io", "-f", "raw", *words, mode, _uri(server, export))


def _ctl(server: Served, *words: str) -> str:
    return _said(*PROGRAM, "ctl", str(server.control), *words)


@clients
def test_nbd_clients_see_parts_of_a_drive_and_the_new_size_of_one(tmp_path: Path) -> None:
    parts = ("--namespace", "64M", "--namespace", "32M@128M,read-only", "--namespace", "1M")
    with served(tmp_path, "--pace", "none", *parts, drive=SMALL) as server:
        listed = json.loads(_said("nbdinfo", "--list", "--json", server.uri))["exports"]
        assert [
            (one["export-name"], one["export-size"] // MIB, one["is_read_only"]) for one in listed
        ] == [(f"{SMALL}/1", 64, False), (f"{SMALL}/2", 32, True), (f"{SMALL}/3", 1, False)]
        assert "wrote" in _qemu_io(server, f"{SMALL}/1", "write -P 1 0 1M", "write -P 1 63M 1M")
        assert "wrote" in _qemu_io(server, f"{SMALL}/3", "write -P 3 0 1M")
        assert "Permission denied" in _qemu_io(server, f"{SMALL}/2", "write 0 4k")
        checked = _qemu_io(server, f"{SMALL}/3", "read -P 3 0 1M")
        assert "read 1048576" in checked and "failed" not in checked
        answer = json.loads(_ctl(server, "resize", "1", "32M"))
        assert (answer["nsid"], answer["bytes"]) == (1, 32 * MIB)
        assert _said("nbdinfo", "--size", server.uri).strip() == str(32 * MIB)
        _ctl(server, "resize", "1", "128M")
        checked = _qemu_io(server, SMALL, "read -P 1 0 1M", "read -P 0 63M 1M", "read -P 0 127M 1M")
        assert checked.count("read 1048576") == 3 and "failed" not in checked
        refused = _ctl(server, "resize", "1", "129M")
        assert refused.startswith("error: namespace 1 cannot have") and "\nhint: " in refused
        shown = _ctl(server, "status")
        assert "namespace 2, read-only" in shown and "namespace 1 " in shown
        assert "resized" in _ctl(server, "events")


def test_what_is_no_namespace_is_refused() -> None:
    for text in ("", "4G@", "4G,ro", "4G,", "4G@x", "@4G"):
        with pytest.raises(UserError) as refused:
            Namespace.parse(text)
        assert refused.value.hint
