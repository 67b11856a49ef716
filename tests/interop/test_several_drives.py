"""Several drives in one server: named on the command line or in a file, reached and told apart."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path

import here
import nbd_server
import pytest
from nbd_server import PROGRAM, Served, served

from drivebay.cli.target import is_virtual
from drivebay.common.errors import UserError
from drivebay.serving import config

SMALL = "sm951-ahci-128"
EXAMPLES = Path(__file__).parents[2] / "examples" / "serve"
DASHBOARD = EXAMPLES / "grafana.json"

clients = pytest.mark.skipif(
    bool(nbd_server.missing("qemu-io", "nbdinfo")),
    reason=nbd_server.missing("qemu-io", "nbdinfo") or "-",
)


def _qemu_io(server: Served, export: str, *steps: str) -> str:
    uri = f"nbd+unix:///{export}?socket={server.socket}"
    words = [word for step in steps for word in ("-c", step)]
    command = ["qemu-io", "-f", "raw", "-t", "none", *words, uri]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def _refused(*words: str) -> str:
    done = here.drivebay("serve", *words, cwd=Path())
    assert done.returncode == 2 and done.stderr.count("error: ") == 1 and "\nhint: " in done.stderr
    return done.stderr


@clients
def test_drives_of_the_command_line_have_names_data_and_figures_of_their_own(
    tmp_path: Path,
) -> None:
    with served(tmp_path, f"log={SMALL}", SMALL, drive=SMALL) as server:
        names = [SMALL, "log", f"{SMALL}-2"]
        listed = subprocess.run(
            ["nbdinfo", "--list", "--json", server.uri], capture_output=True, check=True
        )
        assert [one["export-name"] for one in json.loads(listed.stdout)["exports"]] == names
        for number, name in enumerate(names):
            assert "wrote" in _qemu_io(server, name, f"write -P {number + 1} 0 64k")
        for number, name in enumerate(names):
            said = _qemu_io(server, name, f"read -P {number + 1} 0 64k")
            assert "read 65536" in said and "failed" not in said
        figures = json.loads(server.ctl("status", "--json").stdout)
        assert [(one["drive"], one["bytes_written"]) for one in figures] == [
            (name, 65536) for name in names
        ]
        assert all(name in server.ctl("status").stdout for name in names)
        metrics = server.ctl("status", "--metrics").stdout.splitlines()
        assert all(f'drivebay_power_cuts_total{{drive="{name}"}} 0' in metrics for name in names)
        drawn = set(re.findall(r"drivebay_[a-z0-9_]+", DASHBOARD.read_text(encoding="utf-8")))
        assert drawn <= {line.split("{")[0] for line in metrics}
        unnamed = server.ctl("power-cut")
        assert unnamed.returncode == 2 and "which drive?" in unnamed.stderr
        assert "lost_bytes" in json.loads(server.ctl("--drive", "log", "power-cut").stdout)
        one = json.loads(server.ctl("--drive", "log", "status", "--json").stdout)
        assert (one["drive"], one["power_cuts"]) == ("log", 1)
        server.process.terminate()
        said, _ = server.process.communicate()
    assert [json.loads(line)["drive"] for line in said.splitlines()] == names


@clients
def test_a_file_gives_each_drive_options_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "sub" / "serve.toml"
    path.parent.mkdir()
    path.write_text(
        f"""
        [drive.db]
        profile = "{SMALL}"
        data = "db.img"
        state = "db.state"
        time-scale = 0.5
        [drive.base]
        profile = "{SMALL}"
        read-only = true
        set = ["heatsink"]
        """,
        encoding="utf-8",
    )
    with served(tmp_path, "--config", str(path), drive=f"more={SMALL}") as server:
        assert "wrote" in _qemu_io(server, "db", "write -P 1 0 64k", "flush")
        assert "Permission denied" in _qemu_io(server, "base", "write -P 1 0 64k")
        figures = json.loads(server.ctl("status", "--json").stdout)
        found = {one["drive"]: one["time_scale"] for one in figures}
        assert found == {"more": 1.0, "db": 0.5, "base": 1.0}
        server.process.terminate()
        server.process.communicate()
    names = sorted(one.name for one in path.parent.iterdir())
    beside = [f"db.state{end}" for end in ("", ".identity", ".logs", ".namespaces")]
    assert names == ["db.img", *beside, "serve.toml"]


def test_the_example_is_a_server_of_three_drives() -> None:
    example = config.read(EXAMPLES / "serve.toml")
    assert list(example.drives) == ["db", "log", "base"]
    assert all(is_virtual(drive["profile"]) for drive in example.drives.values())
    assert example.drives["db"]["data"] == EXAMPLES / "data/db.img"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[drive.a]", "drive.a has no profile"),
        ("drive = 3", "drive: not a table for each drive"),
        ('[drive.a]\nprofile = "b"\ncolour = "red"', "drive.a: colour is no option"),
        ('[drive.a]\nprofile = "b"\npace = "fast"', "drive.a: pace: fast"),
        ('[drive.a]\nprofile = "b"\nread-only = "yes"', "'yes' is not true or false"),
        ('[drive.a]\nprofile = "b"\nseed = -1', "-1 is not a whole number"),
        ('[drive.a]\nprofile = ["b"]', "['b'] is not a text"),
        ('pace = "none"', "pace is no option"),
        ("nbd = 10809", "10809 is not a text, or a list of texts"),
        ("=", "is not TOML"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "serve.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError) as caught:
        config.read(path)
    assert message in caught.value.message and caught.value.hint


def test_what_two_drives_cannot_share_is_refused(tmp_path: Path) -> None:
    address = ("--nbd", f"unix:{tmp_path / 'no.sock'}")
    data = str(tmp_path / "data")
    assert "is for one drive, not for 2" in _refused(SMALL, SMALL, *address, "--data", data)
    assert "two drives have the name a" in _refused(f"a={SMALL}", f"a={SMALL}", *address)
    assert "is not a valid name of a drive" in _refused(f"a b={SMALL}", *address)
    assert "DRIVE is missing" in _refused(*address)
    assert "no address to listen on" in _refused(SMALL, SMALL)
    assert not (tmp_path / "data").exists()


@pytest.mark.skipif(Path("/dev/ublk-control").exists(), reason="this kernel has ublk")
def test_block_devices_need_ublk_in_the_kernel() -> None:
    command = [*PROGRAM, "serve", SMALL, "--ublk"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = "error: --ublk: there is no /dev/ublk-control\nhint: sudo modprobe ublk_drv"
    assert done.returncode == 3 and said in done.stderr


def test_the_example_needs_no_folder_that_it_does_not_bring() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--others", "--cached", "--", "examples/serve"],
        cwd=EXAMPLES.parents[1],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    brought = {(EXAMPLES.parents[1] / one).parent for one in listed}
    text = tomllib.loads((EXAMPLES / "serve.toml").read_text())
    named = [one[key] for one in text["drive"].values() for key in ("data", "state") if key in one]
    assert named and not {"control", "nbd"} & set(text)
    assert {(EXAMPLES / one).parent for one in named} <= brought
