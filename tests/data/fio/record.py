"""Records fio's output anew: python tests/data/fio/record.py FIO FILE (FILE of 64 MiB or more).

Makes, in this folder, for the fio given (VERSION is "3.33"):
  VERSION-answers.json   what it prints when asked (SIGUSR1) at each full second, and at its end
  VERSION-stopped.json   the same, stopped (SIGTERM) after the second second
  VERSION-status.json    with --status-interval=1 instead of being asked
  VERSION-log.csv        every I/O of the first run, as fio logged it: ms, latency in ns, 0 for read
The loads are held back to some hundred I/Os per second, to keep the files small.
"""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from drivebay.targets.base import Progress
from drivebay.targets.fio import process as fio_run
from drivebay.targets.fio.parse import Recorder
from drivebay.targets.fio.process import Tool

HERE = Path(__file__).resolve().parent
JOB = """\
[global]
filename=${DRIVEBAY_TARGET}
direct=1
allow_file_create=0
fallocate=none
thread=1
refill_buffers=1
norandommap=1
random_generator=tausworthe64
lat_percentiles=1
clat_percentiles=0
slat_percentiles=0
ioengine=io_uring
randseed=7
[mixed]
rw=randrw
rwmixread=70
bs=4096
iodepth=4
rate_iops=210,90
offset=1048576
size=33554432
time_based=1
runtime=5s
"""


def asked(tool: Tool, fd: int, job: str, *, seconds: int) -> str:
    """Standard output of a run that is asked every second and stopped after so many."""

    def each_second(so_far: Recorder) -> bool:
        return so_far.duration_ms > seconds * 1000 - 100

    _, artefacts = fio_run.run(
        tool,
        job,
        fd,
        name="run",
        shown_target="FILE",
        progress=Progress(),
        each_second=each_second,
        asks_until_ms=lambda _: 4750,
    )
    return gzip.decompress(artefacts["run.stdout.gz"]).decode()


def main() -> None:
    """Make the four files."""
    fio, target = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    said = subprocess.run([fio, "--version"], capture_output=True, text=True, check=True).stdout
    version = said.strip().removeprefix("fio-")
    tool = Tool(fio, said.strip(), "io_uring")
    fd = os.open(target, os.O_RDWR)
    with tempfile.TemporaryDirectory() as folder:
        output = asked(tool, fd, JOB + f"write_lat_log={folder}/all\n", seconds=9)
        (HERE / f"{version}-answers.json").write_text(output.replace(folder, "/tmp"))
        lines = (Path(folder) / "all_lat.1.log").read_text().splitlines()
    fields = [line.replace(" ", "").split(",")[:3] for line in lines]
    (HERE / f"{version}-log.csv").write_text("".join(",".join(f) + "\n" for f in fields))
    (HERE / f"{version}-stopped.json").write_text(asked(tool, fd, JOB, seconds=2))
    status = subprocess.run(
        [fio, "--output-format=json+", "--eta=never", "--status-interval=1", "-"],
        input=JOB,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "DRIVEBAY_TARGET": target},
    )
    (HERE / f"{version}-status.json").write_text(status.stdout)


if __name__ == "__main__":
    main()
