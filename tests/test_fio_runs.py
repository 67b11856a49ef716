"""Runs of the real fio: what is kept of them, when they end, what stops them.

Needs fio (`make test` installs it); a full and a frozen file system need root too.
"""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest
from loops import loop, mounted, needs_root, run, sparse
from real_files import (
    GIB,
    MIB,
    a_test,
    file,
    fios_of,
    keep_the_disk_free,
    lasting_fios_of,
    load,
    refusal,
    results,
)
from waiting import wait_until

from drivebay.common.errors import Cancelled, DrivebayError, EnvironmentProblem
from drivebay.definitions.suites import Prepare, Stable
from drivebay.results.records import PhaseResult
from drivebay.targets.base import Progress
from drivebay.targets.fio.process import installed, working_tool
from drivebay.targets.fio.target import FioTarget

__all__ = ["file", "keep_the_disk_free"]


def test_everything_about_a_run_is_kept(file: Path) -> None:
    prepare = (
        Prepare(kind="purge"),
        Prepare(kind="fill", span_bytes=4 * MIB),
        Prepare(kind="rest", seconds=0.2),
    )
    test = a_test(("qd4", load()), ("qd1", load(queue_depth=1)), prepare=prepare)
    first, second = results(file, test)
    for result, name in ((first, "qd4"), (second, "qd1"), (first, "prepare-2-fill-1")):
        kept = result.artefacts
        assert kept[f"{name}.exit-code.txt"] == b"0\n"
        assert kept["fio-version.txt"].startswith(b"fio-3.")
        assert f"[{name}]" in kept[f"{name}.fio"].decode()
        command = kept[f"{name}.command.txt"].decode()
        assert f"'{file}'".replace(":", "\\:") in command
        assert command.endswith(f"< {name}.fio\n")
        assert f"{name}.stderr.txt" in kept
        assert json.loads(kept[f"{name}.json"])["jobs"][0]["jobname"] == name
        assert gzip.decompress(kept[f"{name}.stdout.gz"]).count(b'"fio version"') >= 1
    records = json.loads(first.artefacts["prepare.json"])
    assert [record["kind"] for record in records] == ["purge", "fill", "rest"]
    assert "prepare.json" not in second.artefacts
    # The kept job can be run again as the command says.
    job, command = first.artefacts["qd4.fio"], first.artefacts["qd4.command.txt"].decode()
    again = file.parent / "again"
    again.mkdir()
    (again / "qd4.fio").write_bytes(job)
    assert '"error" : 0' in run("sh", "-c", f"cd {again} && {command}")


def test_bytes_of_fio_that_are_no_utf8_are_skipped_and_kept(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As fio's messages in a locale of one byte are, before its JSON."""
    fake = tmp_path / "bin" / "fio"
    fake.parent.mkdir()
    fake.write_text(f"#!/bin/sh\nprintf 'fio: ger\\344t\\n'\nexec {installed()} \"$@\"\n")
    fake.write_text(fake.read_text().replace("printf", '[ "$1" = --version ] || printf'))
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    (result,) = results(file, a_test(("run", load(span_bytes=4 * MIB))))
    assert result.reads + result.writes > 0
    said = gzip.decompress(result.artefacts["run.stdout.gz"])
    assert said.startswith(b"fio: ger\xe4t\n{")


def test_addresses_are_drawn_as_asked_and_queues_are_threads(file: Path) -> None:
    """fio takes every kind of offsets; several queues are one phase with the sum of their I/Os."""
    small = {"duration_s": 1, "read_percent": 50, "span_bytes": 4 * MIB, "queue_depth": 2}
    limited = {**small, "rate_iops": 2000}
    test = a_test(
        ("map", load(offsets="permutation", **limited)),
        ("register", load(offsets="permutation-repeated", **limited)),
        ("three", load(queues=3, **small)),
        ("streams", load(pattern="sequential", **limited)),
        ("zipf", load(offsets="zipf:1.1", bssplit="4k/50:8k/50", **limited)),
        ("zoned", load(offsets="zoned:80/20:20/80", rate_iops=100, **small)),
        ("scattered", load(offsets="zoned-scattered:80/20:20/80", **limited)),
        ("thinks", load(thinktime_us=20_000, thinktime_blocks=10, **small)),
    )
    for result in results(file, test):
        assert result.duration_s > 0.9, result.label
        assert sum(row["reads"] for row in result.series.to_pylist()) == result.reads > 0
        assert result.reads / (result.reads + result.writes) == pytest.approx(0.5, abs=0.1)
        job = json.loads(result.artefacts[f"{result.label}.json"])["jobs"][0]["job options"]
        assert job.get("numjobs", "1") == str(result.workload.queues)
        permuted = "permutation" in result.workload.offsets
        assert job.get("norandommap") == ("0" if permuted else "1")
        if result.workload.rate_iops is not None:
            most = 1.2 * result.workload.rate_iops * result.duration_s
            assert result.reads + result.writes <= most
        if result.workload.thinktime_us is not None:
            # Ten requests in a pause of 20 ms and the time that they take.
            assert result.reads + result.writes <= 10 * (result.duration_s / 0.02 + 1)


def test_ranks_of_a_scaled_drive_are_none_of_a_real_one(file: Path) -> None:
    scaled = load(offsets="zipf:1.0/64")
    before = (Prepare(kind="load", load=scaled),)
    test = a_test(("run", load()))
    phase = test.phases[0].model_copy(update={"before": before})
    for wrong in (a_test(("run", scaled)), test.model_copy(update={"phases": (phase,)})):
        refused = refusal(file, wrong)
        assert "RANKS are for scaled drives" in refused.message
        assert refused.hint == 'offsets = "zipf:1.0"'


def test_a_flush_follows_so_many_writes(file: Path) -> None:
    # Refused first: fio's random data may look like a file system.
    for more in ({"read_percent": 50, "queue_depth": 1}, {"queue_depth": 2}):
        refused = refusal(file, a_test(("run", load(fsync=4, **more))))
        assert "workload.fsync: 4 is not allowed" in refused.message
    phases = (("plain", load()), ("flushes", load(fsync=4, queue_depth=1)))
    plain, flushed = results(file, a_test(*phases))
    assert "flushes" not in plain.metrics
    assert flushed.metrics["flushes"] == pytest.approx(flushed.writes / 4, abs=1)
    assert flushed.metrics["flush_latency_us_mean"] > 0


def test_a_phase_ends_when_it_is_stable(file: Path) -> None:
    rule = Stable(window_s=2, within_percent=100, min_s=3)
    # So few that a busy disk serves them, too.
    endless = load(duration_s=600, until_stable=rule, rate_iops=40, span_bytes=64 * MIB)
    (result,) = results(file, a_test(("run", endless)))
    assert 2.9 < result.duration_s < 600
    rows = result.series.to_pylist()
    assert sum(row["writes"] for row in rows) == result.writes > 0
    assert sum(row["count"] for row in result.histogram.to_pylist()) == result.writes
    assert result.artefacts["run.exit-code.txt"] in (b"0\n", b"128\n")


def test_a_phase_that_never_is_stable_runs_to_its_bound(file: Path) -> None:
    rule = Stable(window_s=2, within_percent=0.0001, min_s=2)
    (result,) = results(file, a_test(("run", load(duration_s=3, until_stable=rule))))
    assert result.duration_s > 2.8
    assert result.artefacts["run.exit-code.txt"] == b"0\n"


def test_progress_rises_to_what_was_planned(file: Path) -> None:
    fill, rest = Prepare(kind="fill", span_bytes=256 * MIB), Prepare(kind="rest", seconds=0.5)
    prepare = (Prepare(kind="purge"), fill, rest)
    test = a_test(("qd4", load(duration_s=2, rate_iops=1000)), prepare=prepare)
    told: list[float] = []
    # A shared disk may stall for all of two seconds: then the run is repeated.
    for _ in range(5):
        seen: list[tuple[str, float, float, dict[str, float]]] = []
        progress = Progress(lambda *report, seen=seen: seen.append(report))
        target = FioTarget(file)
        (found,) = target.run_test(test, seed=1, progress=progress)
        target.close()
        assert list(dict.fromkeys(what for what, *_ in seen)) == ["purge", "fill", "rest", "qd4"]
        done = [seconds for _, seconds, *_ in seen]
        assert done == sorted(done)
        assert all(0 <= seconds <= planned for _, seconds, planned, _ in seen)
        # The rates shown add up to a part of the total, however uneven the disk was.
        own = [(seconds, figures) for what, seconds, _, figures in seen if what == "qd4"]
        told = [
            figures["data_bytes_per_s"] * (seconds - before)
            for (before, _), (seconds, figures) in pairwise(own)
        ]
        assert sum(told) <= (found.read_bytes + found.write_bytes) * (1 + 1e-9)
        assert found.writes == sum(found.series["writes"].to_pylist())
        assert found.write_bytes == sum(found.series["write_bytes"].to_pylist())
        if sum(told) > 0:
            break
    assert sum(told) > 0


@pytest.mark.parametrize("step", ["fill", "rest", "phase"])
def test_cancel_stops_at_once_and_leaves_no_fio(file: Path, step: str) -> None:
    prepare = {
        "fill": (Prepare(kind="fill", passes=10),),
        "rest": (Prepare(kind="rest", seconds=600),),
        "phase": (),
    }[step]
    target = FioTarget(file)
    progress = Progress()
    ended: list[BaseException] = []

    def work() -> None:
        try:
            target.run_test(
                a_test(("run", load(duration_s=600, rate_iops=100)), prepare=prepare),
                seed=1,
                progress=progress,
            )
        except BaseException as problem:
            ended.append(problem)

    worker = threading.Thread(target=work)
    worker.start()
    if step == "rest":
        time.sleep(1)
    else:
        wait_until(lambda: fios_of(os.getpid()))
        time.sleep(1)
    progress.cancel()
    worker.join()
    assert isinstance(ended[0], Cancelled)
    assert fios_of(os.getpid()) == []
    target.close()
    assert file.stat().st_size == GIB


def test_a_killed_drivebay_leaves_no_fio(file: Path) -> None:
    program = (
        "import sys; sys.path[:0] = sys.argv[2:]\n"
        "from real_files import *\n"
        "results(Path(sys.argv[1]), a_test(('run', load(duration_s=600, rate_iops=100))))"
    )
    paths = [str(Path(__file__).parent), *sys.path]
    other = subprocess.Popen([sys.executable, "-c", program, str(file), *paths])
    try:
        lasting_fios_of(other.pid)
    finally:
        other.kill()
        other.wait()
    wait_until(lambda: not fios_of(other.pid))


def test_a_fio_stopped_by_others_gives_an_error_not_a_result(file: Path) -> None:
    caught: list[DrivebayError] = []

    def work() -> None:
        try:
            results(file, a_test(("run", load(duration_s=600, rate_iops=100))))
        except DrivebayError as problem:
            caught.append(problem)

    worker = threading.Thread(target=work)
    worker.start()
    for pid in lasting_fios_of(os.getpid()):
        os.kill(pid, signal.SIGTERM)
    worker.join()
    assert caught[0].exit_code == 3
    assert "run: fio failed (exit code " in caught[0].message  # 128, or -15 while it still starts


@pytest.fixture
def fake_fio(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts a fio first in the PATH that has its version, and passes `$job` on to the real one
    unless this shell code ends it before."""
    real = working_tool(str(file), shown="file")

    def put(code: str) -> None:
        fake = tmp_path / "bin" / "fio"
        fake.parent.mkdir()
        fake.write_text(
            f'#!/bin/bash\nif [ "$1" = --version ]; then exec {real.path} --version; fi\n'
            f'job=$(cat)\n{code}\nexec {real.path} "$@" <<< "$job"\n'
        )
        fake.chmod(0o755)
        monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")

    return put


def test_fio_failing_in_a_phase_says_why(file: Path, fake_fio: Callable[[str], None]) -> None:
    fails = 'echo; echo "fio: it broke on $DRIVEBAY_TARGET" >&2; echo "more" >&2; exit 1'
    fake_fio(f"if [[ $job == *runtime* ]]; then {fails}; fi")
    with pytest.raises(EnvironmentProblem) as caught:
        results(file, a_test(("run", load())))
    assert caught.value.message == f"run: fio failed (exit code 1): fio: it broke on {file}"


def test_a_fio_that_has_locked_itself_out_is_not_waited_for(
    file: Path, fake_fio: Callable[[str], None]
) -> None:
    """Asked in the moment in which its job ends, on a machine that is busy: before 3.42."""
    stuck = 'echo "fio seems to be stuck grabbing stat_sem, forcibly exiting" >&2'
    waits = f"trap : USR1; {stuck}; while :; do sleep 0.1; done"
    fake_fio(f"if [[ $job == *runtime* ]]; then {waits}; fi")
    with pytest.raises(EnvironmentProblem, match="fio is stuck") as caught:
        results(file, a_test(("run", load(duration_s=2))))
    assert caught.value.hint and "--resume" in caught.value.hint


def test_libaio_stands_in_where_io_uring_is_refused(
    file: Path, fake_fio: Callable[[str], None]
) -> None:
    refuses = 'echo "fio: Operation not permitted" >&2; exit 1'
    fake_fio(f"if [[ $job == *io_uring* ]]; then {refuses}; fi")
    (result,) = results(file, a_test(("run", load())))
    assert b"ioengine=libaio" in result.artefacts["run.fio"]
    assert result.writes > 0


@needs_root
def test_too_little_space_is_told_before_and_a_full_disk_during(tmp_path: Path) -> None:
    image = sparse(tmp_path / "disk.img", 1400 * MIB)
    run("mkfs.ext4", "-q", "-m", "0", str(image))
    with loop(image) as device, mounted(device, tmp_path / "mnt") as folder:
        path = sparse(folder / "drive.img", GIB)
        test = a_test(("run", load()), prepare=(Prepare(kind="fill"),))
        target = FioTarget(path)
        target.check((test,))
        run("fallocate", "-l", "600M", str(folder / "other"))
        problem = refusal(path, test)
        assert problem.exit_code == 3
        assert "of free space are missing" in problem.message
        with pytest.raises(EnvironmentProblem) as caught:
            target.run_test(test, seed=1, progress=Progress())
        assert "the file system of the tested file is full" in caught.value.message
        assert caught.value.exit_code == 3
        target.close()
        assert path.stat().st_size == GIB


def is_blocked(pid: int) -> bool:
    """Whether a thread of the process waits in the kernel and can not be interrupted."""
    stats = (path.read_text() for path in Path("/proc").glob(f"{pid}/task/*/stat"))
    return any(stat.rpartition(")")[2].split()[0] == "D" for stat in stats)


def written_by(pid: int) -> int:
    """Bytes that a process has had written; none of one that has ended."""
    try:
        counts = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    except OSError:
        return 0
    return int(counts["write_bytes"])


def results_of_a_frozen_run(folder: Path, path: Path, run_s: int) -> tuple[PhaseResult, float]:
    """A load of `run_s` seconds whose file system is frozen for a third of them, and how long.

    A freeze writes everything back first, which lasts on a busy machine: a load that had no time
    left for the whole freeze is run again.
    """
    test = a_test(("run", load(duration_s=run_s, queue_depth=2, rate_iops=2000)))
    while True:
        with ThreadPoolExecutor(1) as worker:
            running = worker.submit(results, path, test)
            # The load itself, and neither a probe nor the file system's own writes.
            wait_until(lambda: any(written_by(pid) > 2 * MIB for pid in fios_of(os.getpid())))
            loaded = time.monotonic()
            time.sleep(2.5)
            begun = time.monotonic()
            run("fsfreeze", "--freeze", str(folder))
            try:
                time.sleep(run_s / 3)  # so long that late samples leave two seconds without any
                is_running = any(map(is_blocked, fios_of(os.getpid())))
            finally:
                run("fsfreeze", "--unfreeze", str(folder))
            ended = time.monotonic()
        if is_running and ended - loaded < 0.8 * run_s:
            return running.result()[0], ended - begun


@needs_root
def test_a_frozen_file_system_shows_as_seconds_without_io(tmp_path: Path) -> None:
    """A drive that stalls: nothing completes for some seconds, and the series must show it."""
    image = sparse(tmp_path / "disk.img", 1400 * MIB)
    run("mkfs.ext4", "-q", "-m", "0", str(image))
    with loop(image) as device, mounted(device, tmp_path / "mnt") as folder:
        path = sparse(folder / "drive.img", GIB)
        result, frozen_s = results_of_a_frozen_run(folder, path, 16)
    rows = result.series.to_pylist()
    quiet = [row["second"] for row in rows if row["writes"] <= 2]
    assert 2 <= len(quiet) <= frozen_s + 1 and quiet == list(range(quiet[0], quiet[-1] + 1))
    assert max(row["latency_ns_max"] or 0 for row in rows) > 3_000_000_000
    assert sum(row["writes"] for row in rows) == result.writes
