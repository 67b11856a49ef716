"""A host that kills drivebay for its memory, or whose clock is set back: files keep their marks.

Source: Linux, admin-guide/cgroup-v1/memory.rst and cgroup-v2.rst; proc(5), oom_score_adj;
libfaketime. Leaves out quotas on a real file system (test_fio_refusals.py has fio's words for
them), and a clock that is set while a step writes.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from loops import needs_root, sparse
from waiting import wait_until

pytestmark = pytest.mark.long
GIB = 2**30
PROGRAM = (sys.executable, "-c", "from drivebay.cli import main; main()")
V1 = Path("/sys/fs/cgroup/memory")
HOG = """import sys
held = [b"x" * 2**20 for _ in range(40)]
print("held", flush=True)
sys.stdin.read()
"""


def drivebay(*arguments: str, within: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    command = [*within, *PROGRAM, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


class Group:
    """A control group for memory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        is_v1 = folder.is_relative_to(V1)
        self._limit = folder / ("memory.limit_in_bytes" if is_v1 else "memory.max")
        self._usage = folder / ("memory.usage_in_bytes" if is_v1 else "memory.current")

    def start(self, *command: str) -> subprocess.Popen[str]:
        """A process in the group from its first instruction on."""
        enter = f'echo $$ >{self.folder}/cgroup.procs; exec "$@"'
        return subprocess.Popen(
            ["/bin/sh", "-c", enter, "sh", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def allow(self, more_bytes: int) -> None:
        """Lets the group have so much more than now."""
        self._limit.write_text(str(int(self._usage.read_text()) + more_bytes))


@pytest.fixture
def group() -> Iterator[Group]:
    folder = (V1 if V1.is_dir() else V1.parent) / f"drivebay-test-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as problem:
        pytest.skip(f"no control group can be made: {problem}")
    try:
        if not list(folder.glob("memory.*")):
            pytest.skip("control groups have no memory controller here")
        with contextlib.suppress(OSError):
            (folder / "memory.swap.max").write_text("0")
        yield Group(folder)
    finally:

        def is_gone() -> bool:
            for pid in (folder / "cgroup.procs").read_text().split():
                os.kill(int(pid), signal.SIGKILL)
            with contextlib.suppress(OSError):
                folder.rmdir()
            return not folder.exists()

        wait_until(is_gone)


@needs_root
@pytest.mark.skipif(shutil.which("fio") is None, reason="not installed: fio")
def test_the_oom_killer_leaves_a_mark_and_a_review_to_go_on_with(
    tmp_path: Path, group: Group
) -> None:
    file, result = sparse(tmp_path / "v.img", GIB), str(tmp_path / "r")
    suite = ("--suite", "quick", "--quick", "--only", "random-write", "--yes", "--out", result)
    with group.start(*PROGRAM, "review", str(file), *suite) as review:
        wait_until(lambda: file.stat().st_blocks > 100_000)
        Path(f"/proc/{review.pid}/oom_score_adj").write_text("1000")
        group.allow(20 << 20)
        with group.start(sys.executable, "-c", HOG) as hog:
            assert hog.stdout is not None and hog.stdout.readline() == "held\n"
            assert review.wait() == -signal.SIGKILL
    refused = drivebay("check-trim", str(file))
    assert refused.returncode == 2 and "drivebay did not write" in refused.stderr
    allowed = ("--destroy-data", file.name, "--yes")
    assert drivebay("review", "--resume", result, *allowed).returncode == 0
    assert drivebay("check-trim", str(file)).returncode == 0, "its own again"


@pytest.mark.skipif(shutil.which("faketime") is None, reason="not installed: faketime")
@pytest.mark.parametrize("offset", ["-1d", "+1d"])
def test_a_clock_that_is_set_changes_nothing_of_whose_a_file_is(
    tmp_path: Path, offset: str
) -> None:
    file = sparse(tmp_path / "v.img", GIB)
    assert drivebay("check-trim", str(file)).returncode == 0
    with_clock = ("env", "NO_FAKE_STAT=1", "faketime", "-f", offset)
    assert drivebay("check-trim", str(file), within=with_clock).returncode == 0, "its own"
    with file.open("r+b") as other:
        other.seek(GIB // 2 + 5)
        other.write(b"precious")
    refused = drivebay("check-trim", str(file), within=with_clock)
    assert refused.returncode == 2 and "drivebay did not write" in refused.stderr
    with file.open("rb") as kept:
        kept.seek(GIB // 2 + 5)
        assert kept.read(8) == b"precious"
