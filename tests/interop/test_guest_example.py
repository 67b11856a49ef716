"""examples/guest/run.py: a command in a guest without KVM, whose drive is a served one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import nvme_guest
import pytest
import served_guest

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "guest" / "run.py"
NVME = shutil.which("nvme", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        [sys.executable, str(SCRIPT), *words],
        cwd=folder,
        env={**os.environ, "PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.long
@pytest.mark.skipif(bool(nvme_guest.missing()), reason=nvme_guest.missing() or "-")
@pytest.mark.skipif(NVME is None, reason="not installed: nvme-cli")
def test_the_command_sees_the_drive_and_its_exit_code_is_the_scripts(tmp_path: Path) -> None:
    scheduler = "grep -o mq-deadline /sys/block/nvme0n1/queue/scheduler > scheduler"
    command = f"{scheduler}; nvme fdp status /dev/nvme0n1 | grep -c RUAMW > handles; exit 3"
    done = run(tmp_path, served_guest.SMALL_DRIVE, "--set", "fdp=5", "--", command)
    assert done.returncode == 3, done.stdout + done.stderr
    assert (tmp_path / "handles").read_text() == "5\n"
    assert (tmp_path / "scheduler").read_text() == "mq-deadline\n"


def test_a_wrong_drive_or_no_command_ends_with_a_message(tmp_path: Path) -> None:
    unknown = run(tmp_path, "no-such-drive", "--", "true")
    assert (unknown.returncode, "error: drive 'no-such-drive'" in unknown.stderr) == (2, True)
    for words in ((), ("pm9a3-960",), ("--", "true"), ("pm9a3-960", "--")):
        assert "Runs a command in a small Linux guest" in run(tmp_path, *words).stderr
