"""The step of a CI job that serves a drive: it leaves a running server and says where it is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "action.sh"


def environment(folder: Path, drive: str, options: str) -> dict[str, str]:
    return {
        **os.environ,
        "PATH": f"{folder}:{os.environ['PATH']}",
        "RUNNER_TEMP": str(folder),
        "GITHUB_OUTPUT": str(folder / "outputs"),
        "GITHUB_PATH": str(folder / "path"),
        "DRIVE": drive,
        "OPTIONS": options,
    }


def step(folder: Path, drive: str, options: str = "") -> subprocess.CompletedProcess[str]:
    program = folder / "drivebay"
    program.write_text(
        f"#!/bin/sh\nexec {sys.executable} -c 'from drivebay.cli import main; main()' \"$@\"\n"
    )
    program.chmod(0o755)
    return subprocess.run(
        [str(SCRIPT)],
        env=environment(folder, drive, options),
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_step_leaves_a_served_drive(tmp_path: Path) -> None:
    done = step(tmp_path, "sm951-ahci-512", "--pace none\r\n\n  --set ambient_c = 30\n--seed=7")
    assert done.returncode == 0, done.stderr
    server = int(done.stdout.split("process ")[1].split(")")[0])
    try:
        outputs = dict(
            line.split("=", 1) for line in (tmp_path / "outputs").read_text().splitlines()
        )
        assert outputs["nbd"] == f"nbd+unix:///?socket={tmp_path / 'drivebay.nbd'}"
        command = [str(tmp_path / "drivebay"), "ctl", outputs["control"], "status", "--json"]
        said = subprocess.run(command, capture_output=True, text=True, check=True)
        assert json.loads(said.stdout)["power_cuts"] == 0
    finally:
        os.kill(server, signal.SIGTERM)


def test_a_server_that_does_not_start_fails_the_step(tmp_path: Path) -> None:
    done = step(tmp_path, "nosuch")
    assert done.returncode == 1
    assert "error: drive 'nosuch' is not in the catalog" in done.stderr


REFUSED = [
    "$(touch canary)",
    "`touch canary`",
    "--pace none\n; touch canary",
    "* ? [a-z]",
    "-x",
    "\x1b[2J--pace",
    "--pace none\n::set-output name=nbd::x",
]
LITERAL = {
    "--serial $(touch canary)": ["--serial", "$(touch canary)"],
    "--serial `touch canary`; touch canary": ["--serial", "`touch canary`; touch canary"],
    '--serial "a" && touch canary': ["--serial", '"a" && touch canary'],
    "--serial *\n--seed  7 ": ["--serial", "*", "--seed", "7 "],
    "--set=a = $IFS": ["--set=a = $IFS"],
    "--set\ta = 'b c'\\": ["--set", "a = 'b c'\\"],
    "\r\n  --ublk\r\n": ["--ublk"],
    "--ublk": ["--ublk"],
    "": [],
}
DRIVES = ["--help", "-x", "$(touch canary)", "a\nb", "; touch canary", ""]


def given(folder: Path, drive: str, options: str) -> tuple[int, list[str], str]:
    """The step's exit code, the words that a drivebay in PATH was started with, and the outputs. It
    makes the control socket and goes on for a moment, as a server does."""
    program = folder / "drivebay"
    program.write_text(
        f"#!{sys.executable}\nimport json, socket, sys, time\n"
        f"json.dump(sys.argv[1:], open({str(folder / 'words')!r}, 'w'))\n"
        f"socket.socket(socket.AF_UNIX).bind({str(folder / 'drivebay.control')!r})\n"
        "time.sleep(1)\n"
    )
    program.chmod(0o755)
    (folder / "outputs").write_text("")
    done = subprocess.run(
        [str(SCRIPT)], env=environment(folder, drive, options), capture_output=True, text=True
    )
    assert not any((place / "canary").exists() for place in (folder, SCRIPT.parents[1]))
    assert not any(line.startswith("::") for line in (done.stdout + done.stderr).splitlines())
    words = folder / "words"
    found = json.loads(words.read_text()) if words.exists() else []
    return done.returncode, found, (folder / "outputs").read_text()


@pytest.mark.parametrize("options", REFUSED)
def test_what_is_no_option_is_refused(tmp_path: Path, options: str) -> None:
    code, words, outputs = given(tmp_path, "a-drive", options)
    assert (code, words, outputs) == (2, [], "")


@pytest.mark.parametrize("options", LITERAL)
def test_options_reach_the_program_as_they_stand(tmp_path: Path, options: str) -> None:
    code, words, outputs = given(tmp_path, "a-drive", options)
    assert code == 0
    assert words[5:] == [*LITERAL[options], "--", "a-drive"]
    assert len(outputs.splitlines()) == 2


@pytest.mark.parametrize("drive", DRIVES)
def test_the_drive_is_one_word_and_no_option(tmp_path: Path, drive: str) -> None:
    code, words, outputs = given(tmp_path, drive, "")
    assert (code, words[-2:], len(outputs.splitlines())) == (0, ["--", drive], 2)


def test_a_folder_with_a_line_break_makes_no_output_of_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "a\nnbd=evil"
    folder.mkdir()
    assert given(folder, "a-drive", "")[0] == 2
