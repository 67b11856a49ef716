"""Hosts: listed, laid under profiles, chosen by name, named by results and published rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from here import drivebay as drivebay_cli

import drivebay
from drivebay.analysis import published
from drivebay.analysis.modified import changes
from drivebay.common.errors import UserError
from drivebay.definitions import hosts
from drivebay.definitions import profiles as catalog
from drivebay.definitions.modifications import changed
from drivebay.lab.sweep import plan, spec
from drivebay.targets.virtual.target import VirtualTarget

TOP = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("name", hosts.names())
def test_every_host_takes_a_drive_of_each_protocol_that_it_has_a_driver_for(name: str) -> None:
    host = hosts.load(name)
    assert host["name"] == name
    drives = {"nvme": "sm951-nvme-512", "ahci": "sm951-ahci-512"}
    for protocol, drive in drives.items():
        profile = catalog.load(drive)
        if protocol in host:
            assert profile.in_host(name).host == name
        else:
            with pytest.raises(UserError, match=rf"host\.{protocol}: missing") as refused:
                profile.in_host(name)
            assert "drivebay hosts" in refused.value.hint


def test_a_drive_runs_in_the_host_of_its_reviews_unless_another_is_asked_for() -> None:
    drive = catalog.load("sm951-nvme-256")
    assert drive.host == "windows-8.1-z97" and changes({"profile": drive.raw}) == ()
    other = changed(drive, ["host=linux-io-uring", "ambient_c=30"])
    assert other.host == "linux-io-uring"
    names = changes({"profile": other.raw})
    assert names == ("host = linux-io-uring", "thermal.ambient_c = 30")
    assert VirtualTarget(other).identity()["host"] == "Linux with io_uring (server, 2023)"
    assert drivebay.drive("sm951-nvme-256", host="spdk").host == "spdk"


def test_a_slower_host_makes_the_same_drive_slower_by_what_it_costs() -> None:
    def latency_us(host: str) -> float:
        drive = drivebay.drive("sm951-nvme-512", host=host).scaled(1 / 32)
        reads = drivebay.Workload(read_percent=100, queue_depth=1, ios=2000)
        result = drivebay.run(drive, reads, fill=False)
        return float(result.latency.mean_us)

    # io_uring: 3.3 + 2.3 + 2 x 0.15 + 2.5 us, and two round trips of 0.5 us. SPDK: 0.06 + 2 x 0.02.
    assert latency_us("linux-io-uring") - latency_us("spdk") == pytest.approx(8.3, abs=0.05)


def test_a_host_of_the_users_own_says_only_what_differs(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    text = """base = "spdk"
[host]
name = "mine"
title = "Mine"
[host.slot]
generation = { value = 1, source = "manual" }
"""
    path.write_text(text)
    mine = catalog.load("sm951-nvme-512").in_host(path)
    assert mine.host == "mine" and mine.raw["host"]["nvme"]["interrupt_us"]["value"] == 0
    for wrong, said in (
        (text.replace("spdk", "spkd"), "base 'spkd' is not in the catalog"),
        (text.replace("generation = { value = 1", "generation = { value = 9"), "1 to 5"),
        (text.replace("generation =", "speed ="), "unknown field `speed`"),
        (text + "[nand]\n", "has 'nand'"),
        ("", "has no \\[host\\]"),
    ):
        path.write_text(wrong)
        with pytest.raises(UserError, match=said):
            catalog.load("sm951-nvme-512").in_host(path)


def test_every_published_row_names_a_host() -> None:
    for row in published.figures().values():
        assert row.host in hosts.names(), row.id
    assert published.figures()["S140"].host == "windows-8.1-z87"
    assert published.figures()["S148"].host == "centos-7-z87"


def test_a_sweep_varies_the_host() -> None:
    table = {
        "name": "hosts",
        "drives": ["sm951-nvme-256"],
        "suite": "quick",
        "tests": ["random-read"],
        "parameters": [{"name": "bench", "change": "host={}", "values": ["spdk", "laptop"]}],
    }
    made = plan.make(spec.parse(table, where="a.toml"), where="a.toml")
    assert [made.profile(made.point(i)).host for i in range(made.runs)] == ["spdk", "laptop"]


def test_the_list_of_hosts_is_for_people_and_scripts(tmp_path: Path) -> None:
    done = drivebay_cli("hosts", cwd=tmp_path)
    assert done.returncode == 0 and "5.5 us serial" not in done.stderr
    assert "windows-8.1-z97" in done.stdout and "5.5 serial" in done.stdout
    listed = json.loads(drivebay_cli("hosts", "--json", cwd=tmp_path).stdout)["hosts"]
    assert [host["name"] for host in listed] == list(hosts.names())


def test_a_review_in_another_host_says_so_and_is_not_compared(tmp_path: Path) -> None:
    words = ["review", "sm951-nvme-256", "--suite", "quick", "--quick", "--only", "random-read"]
    done = drivebay_cli(*words, "--host", "spdk", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / json.loads(done.stdout)["result"]
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["target"]["host"] == "SPDK (server, 2023)"
    assert manifest["target"]["profile"]["host"]["name"] == "spdk"
    wrong = drivebay_cli(*words, "--host", "spkd", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "error: --host spkd: host 'spkd' is not in the catalog" in wrong.stderr
    assert "hint: did you mean spdk?" in wrong.stderr
