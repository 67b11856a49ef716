"""The fio of this machine: where it is, which version, and by which engine it works here.

Sources: fio's HOWTO. io_uring is refused in many containers; libaio then does the same work.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass

from drivebay.common.errors import EnvironmentProblem
from drivebay.targets.fio.job import TARGET_VARIABLE, probe_job
from drivebay.targets.fio.parse import parse_version

ENGINES = ("io_uring", "libaio")
ARGUMENTS = ("--output-format=json+", "--eta=never", "-")


@dataclass(frozen=True)
class Tool:
    """The fio to use: its path, its version as it says it, and the engine that works here."""

    path: str
    version: str
    engine: str


def working_tool(target_path: str, *, shown: str) -> Tool:
    """Find fio, know its version, and the first engine by which it can read the target.

    Raises
    ------
    EnvironmentProblem
        If there is no fio, it is of an unknown version, or it cannot read the target.
    """
    found = shutil.which("fio")
    if found is None:
        raise EnvironmentProblem(
            "fio is not installed; files and block devices are tested through it",
            "apt install fio",
        )
    path = os.path.realpath(found)
    version = _once(path, ["--version"], "", "").stdout.strip()
    parse_version(version)
    complaints = []
    fd = os.open(target_path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for engine in ENGINES:
            job, target = probe_job(engine=engine), f"/proc/{os.getpid()}/fd/{fd}"
            answer = _once(path, list(ARGUMENTS), job, target)
            if answer.returncode == 0:
                return Tool(path, version, engine)
            complaints.append(first_line(answer.stderr))
    finally:
        os.close(fd)
    raise EnvironmentProblem(
        f"fio cannot read {shown} by {' or '.join(ENGINES)}: {complaints[0]}",
        "look for the cause with: dmesg | tail",
    )


def _once(
    fio: str, arguments: list[str], job: str, target: str
) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            [fio, *arguments],
            input=job,
            capture_output=True,
            text=True,
            env={**os.environ, "LC_ALL": "C", TARGET_VARIABLE: target},
            cwd="/",
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as problem:
        raise EnvironmentProblem(f"{fio} cannot be run: {problem}", "apt install fio") from None


def first_line(stderr: str) -> str:
    """The first line of complaint that says something."""
    return next((line.strip() for line in stderr.splitlines() if line.strip()), "no reason given")
