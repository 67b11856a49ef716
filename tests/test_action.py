"""The step of a CI job that serves a drive: it leaves a running server and says where it is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "action.sh"


def step(folder: Path, drive: str, options: str = "") -> subprocess.CompletedProcess[str]:
    program = folder / "drivebay"
    program.write_text(
        f"#!/bin/sh\nexec {sys.executable} -c 'from drivebay.cli import main; main()' \"$@\"\n"
    )
    program.chmod(0o755)
    return subprocess.run(
        [str(SCRIPT)],
        env={
            **os.environ,
            "PATH": f"{folder}:{os.environ['PATH']}",
            "RUNNER_TEMP": str(folder),
            "GITHUB_OUTPUT": str(folder / "outputs"),
            "GITHUB_PATH": str(folder / "path"),
            "DRIVE": drive,
            "OPTIONS": options,
        },
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_step_leaves_a_served_drive(tmp_path: Path) -> None:
    done = step(tmp_path, "sm951-ahci-512", "--pace none --set 'ambient_c = 30'")
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
