"""Recording a device's I/Os through tracefs. Needs root and tracefs; where the kernel gives none,
what it prints was kept (tests/data/block_rq.txt, Linux 6.18) and is read instead.
"""

from __future__ import annotations

import mmap
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from loops import loop, needs_root, run, sparse

from drivebay import traces
from drivebay.common.errors import DrivebayError, EnvironmentProblem, UserError
from drivebay.targets.replay.run import RealReplay, ReplayOptions, TraceSource
from drivebay.targets.safety.target_device import OverwritePermission
from drivebay.traces import recording

MIB = 2**20
SAMPLE = Path(__file__).parent / "data" / "block_rq.txt"


@pytest.fixture
def tracefs(tmp_path: Path) -> Iterator[Path]:
    """Where tracefs is; mounted for the test if it is not."""
    for place in recording.TRACEFS:
        if (place / "instances").is_dir():
            yield place
            return
    folder = tmp_path / "tracefs"
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tracefs", "nodev", str(folder)], capture_output=True, text=True
    )
    if done.returncode != 0:
        pytest.skip(f"no tracefs here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        run("umount", str(folder))


@pytest.fixture
def device(tmp_path: Path) -> Iterator[str]:
    with loop(sparse(tmp_path / "disk.img", 64 * MIB)) as name:
        yield name


def read_directly(device: str, places: list[int], length: int = 4096) -> None:
    fd = os.open(device, os.O_RDONLY | os.O_DIRECT)
    try:
        with mmap.mmap(-1, length) as memory:
            for place in places:
                assert os.preadv(fd, [memory], place) == length
    finally:
        os.close(fd)


def columns(path: Path) -> dict[str, np.ndarray]:
    parts = list(traces.batches(path))
    return {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("at_ns", "op", "offset_bytes", "bytes", "device", "response_ns")
    }


def is_traced_by(process: int, tracefs: Path) -> bool:
    """Whether the process has a tracing instance; others on the machine may have theirs."""
    return (tracefs / "instances" / f"{recording.PREFIX}{process}").exists()


@needs_root
def test_every_read_is_recorded_once_and_in_its_place(
    tracefs: Path, device: str, tmp_path: Path
) -> None:
    places = [n * 7919 % 16000 * 4096 for n in range(500)]
    begun = threading.Event()

    def work() -> None:
        begun.wait()
        read_directly(device, places)

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    out = tmp_path / "recorded.csv"

    def tell(_seconds: float, _bytes: int) -> None:
        begun.set()
        if not worker.is_alive():
            signal.raise_signal(signal.SIGINT)  # keeps what is there

    done = traces.record(device, out, seconds=600, tracefs=tracefs, tell=tell)
    worker.join()
    assert done.lost_events == 0
    recorded = columns(out)
    assert recorded["offset_bytes"].tolist() == places
    assert set(recorded["bytes"].tolist()) == {4096} and set(recorded["op"].tolist()) == {0}
    assert (recorded["response_ns"] > 0).all()
    assert (np.diff(recorded["at_ns"].astype(np.int64)) >= 0).all()
    assert not is_traced_by(os.getpid(), tracefs)
    # And played again, on another file.
    target = str(sparse(tmp_path / "target.img", 64 * MIB))
    options = ReplayOptions(mode="dependencies", only_reads=True)
    again = RealReplay(TraceSource.file(out), options, target, permission=OverwritePermission())
    again.check()
    figures = again.play().figures
    assert (figures["reads"], figures["read_bytes"]) == (500, 500 * 4096)
    assert figures["failures"] == []


@needs_root
def test_other_devices_are_not_recorded(tracefs: Path, device: str, tmp_path: Path) -> None:
    with loop(sparse(tmp_path / "other.img", 64 * MIB)) as other:
        begun = threading.Event()

        def work() -> None:
            begun.wait()
            read_directly(other, [0, 4096, 8192])

        worker = threading.Thread(target=work, daemon=True)
        worker.start()
        with pytest.raises(UserError, match="no I/O reached"):
            traces.record(
                device,
                tmp_path / "nothing.csv",
                seconds=1,
                tracefs=tracefs,
                tell=lambda _seconds, _bytes: begun.set(),
            )
        worker.join()
    assert not (tmp_path / "nothing.csv").exists()
    assert not is_traced_by(os.getpid(), tracefs)


@needs_root
def test_an_interruption_keeps_what_was_recorded_and_cleans_up(
    tracefs: Path, device: str, tmp_path: Path
) -> None:
    out = tmp_path / "cut.csv"
    script = (
        "import sys; from pathlib import Path; from drivebay import traces\n"
        "said = []\n"
        "def tell(_seconds, _bytes):\n"
        "    said or print('begun', flush=True); said.append(1)\n"
        "traces.record(sys.argv[1], Path(sys.argv[2]), seconds=600, tracefs=Path(sys.argv[3]),"
        " tell=tell)\n"
    )
    recorder = subprocess.Popen(
        [sys.executable, "-c", script, device, str(out), str(tracefs)], stdout=subprocess.PIPE
    )
    assert recorder.stdout is not None and recorder.stdout.readline() == b"begun\n"
    assert is_traced_by(recorder.pid, tracefs)
    read_directly(device, [0, 4096, 8192])
    recorder.send_signal(signal.SIGINT)
    assert recorder.wait() == 0
    assert columns(out)["offset_bytes"].tolist() == [0, 4096, 8192]
    assert not is_traced_by(recorder.pid, tracefs)


@needs_root
def test_what_a_killed_recording_left_is_removed_by_the_next(
    tracefs: Path, device: str, tmp_path: Path
) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left = tracefs / "instances" / f"{recording.PREFIX}{gone.pid}"
    left.mkdir()
    (left / "events/block/block_rq_issue/enable").write_text("1")
    with pytest.raises(UserError):
        traces.record(device, tmp_path / "x.csv", seconds=0.1, tracefs=tracefs)
    assert not left.exists()


@needs_root
def test_a_partition_and_what_is_no_device_are_refused(tmp_path: Path) -> None:
    def refusal(device: str, out: Path) -> DrivebayError:
        with pytest.raises(DrivebayError) as caught:
            traces.record(device, out, seconds=0.1)
        return caught.value

    out = tmp_path / "x.csv"
    assert "is not a block device" in refusal("/dev/null", out).message
    assert "No such file" in refusal("/dev/none-such", out).message
    with loop(sparse(tmp_path / "disk.img", 64 * MIB), "--partscan") as whole:
        run("addpart", whole, "1", "2048", "65536")  # only the kernel knows of it
        number = Path("/sys/class/block", f"{Path(whole).name}p1", "dev").read_text().split(":")
        part = tmp_path / "part"  # udev, which would make the node in /dev, may be missing here
        os.mknod(part, 0o600 | stat.S_IFBLK, os.makedev(int(number[0]), int(number[1])))
        problem = refusal(str(part), out)
        assert "is a partition" in problem.message
        assert problem.hint == f"drivebay trace record {whole}"
        out.write_text("kept")
        assert "exists already" in refusal(whole, out).message
    assert out.read_text() == "kept"


def test_without_tracefs_the_error_says_how(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "TRACEFS", (tmp_path / "nowhere",))
    monkeypatch.setattr(recording, "_device_number", lambda _device: 1)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(EnvironmentProblem) as caught:
        traces.record("/dev/x", tmp_path / "x.csv", seconds=1)
    assert "mount -t tracefs" in caught.value.hint
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(EnvironmentProblem) as caught:
        traces.record("/dev/x", tmp_path / "x.csv", seconds=1)
    assert "sudo" in caught.value.hint


def test_lost_events_are_summed_over_processors(tmp_path: Path) -> None:
    for number, overrun in enumerate((3, 0, 40)):
        folder = tmp_path / "per_cpu" / f"cpu{number}"
        folder.mkdir(parents=True)
        (folder / "stats").write_text(
            f"entries: 12\noverrun: {overrun}\ncommit overrun: 1\nbytes: 936\n"
            "oldest event ts:  3401.123456\ndropped events: 2\nread events: 99\n"
        )
    assert recording._lost(tmp_path) == 43 + 3 + 6


def test_what_the_kernel_prints_is_read() -> None:
    described = traces.info(SAMPLE)
    assert described.summary.format == "ftrace"
    figures = described.figures
    assert (figures["reads"], figures["writes"]) == (6, 3)
    assert figures["read_bytes"] == 4 * 4096 + 2 * 65536
    assert figures["queue_depth_mean"] is not None
