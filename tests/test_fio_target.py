"""Files under test, through the real fio: what is written where, what is counted, what is kept.

Needs fio (`make test` installs it); the tests with a full or a frozen file system need root too.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from loops import digest, loop, mounted, needs_root, run, sparse

from drivebay.errors import DrivebayError, EnvironmentProblem, UserError
from drivebay.suites import Phase, Prepare, Stable, Test, Workload
from drivebay.targets import fio_job, fio_tool, purge, storage
from drivebay.targets.base import HISTOGRAM_SCHEMA, SERIES_SCHEMA, Cancelled, PhaseResult, Progress
from drivebay.targets.fio import FioTarget
from drivebay.targets.fio_steps import START_S

MIB = 2**20
GIB = 2**30


def load(**changes: Any) -> Workload:
    """A short load on little, as a file of 100,000 extents takes half a minute to delete."""
    given = {"pattern": "random", "read_percent": 0, "block_bytes": 4096, "queue_depth": 4}
    return Workload.model_validate({**given, "duration_s": 0.4, "span_bytes": 16 * MIB, **changes})


def a_test(*phases: tuple[str, Workload], prepare: tuple[Prepare, ...] = ()) -> Test:
    return Test(
        id="made",
        title="made",
        page="none",
        kind="ladder",
        method="of this test",
        source="this test",
        prepare=prepare,
        phases=tuple(Phase(label=label, workload=work) for label, work in phases),
        metric_queue_depths=(phases[0][1].queue_depth,),
    )


def results(path: Path, test: Test, *, seed: int = 1) -> list[PhaseResult]:
    """The test's phases on this file, checked first, let go of after."""
    target = FioTarget(path)
    try:
        target.check((test,))
        return target.run_test(test, seed=seed, progress=Progress())
    finally:
        target.close()


def data_stretches(path: Path) -> list[tuple[int, int]]:
    """Where the file has data, as (begin, end)."""
    found: list[tuple[int, int]] = []
    with path.open("rb") as file:
        os.fsync(file.fileno())
        at, size = 0, path.stat().st_size
        while at < size:
            try:
                begin = os.lseek(file.fileno(), at, os.SEEK_DATA)
            except OSError:
                break
            at = os.lseek(file.fileno(), begin, os.SEEK_HOLE)
            found.append((begin, at))
    return found


def fios_of(pid: int) -> list[int]:
    """Processes that run fio for a drivebay of this process number."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment = (process / "environ").read_bytes()
            state = (process / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if f"DRIVEBAY_TARGET=/proc/{pid}/fd/".encode() in environment and state != "Z":
            found.append(int(process.name))
    return found


def wait_until(holds: Callable[[], object], *, seconds: float) -> float:
    """How long it took until the condition held; fails after `seconds`."""
    begun = time.monotonic()
    while not holds():
        assert time.monotonic() - begun < seconds, "it did not happen in time"
        time.sleep(0.02)
    return time.monotonic() - begun


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return sparse(tmp_path / "drive under test: 100%.img", GIB)


@pytest.fixture(autouse=True)
def keep_the_disk_free(tmp_path: Path) -> Iterator[None]:
    """pytest keeps the folders of several runs; gigabytes are not worth keeping."""
    yield
    for image in tmp_path.glob("*.img"):
        image.unlink()


def test_counts_histogram_and_seconds_agree(file: Path) -> None:
    mixed = load(read_percent=70, duration_s=3, span_bytes=64 * MIB)
    large = load(pattern="sequential", block_bytes=128 * 1024, span_bytes=64 * MIB, duration_s=2)
    test = a_test(("mixed", mixed), ("large", large), prepare=(Prepare(kind="purge"),))
    for result, seconds in zip(results(file, test), (3, 2), strict=True):
        assert result.series.schema == SERIES_SCHEMA
        assert result.histogram.schema == HISTOGRAM_SCHEMA
        assert result.stages is None
        assert result.duration_s == pytest.approx(seconds, abs=0.2)
        rows, bins = result.series.to_pylist(), result.histogram.to_pylist()
        assert [row["second"] for row in rows] == list(range(seconds))
        for way, ios, moved in (
            ("read", result.reads, result.read_bytes),
            ("write", result.writes, result.write_bytes),
        ):
            assert sum(row[f"{way}s"] for row in rows) == ios
            assert sum(row[f"{way}_bytes"] for row in rows) == moved
            assert sum(row["count"] for row in bins if row["direction"] == way) == ios
            assert moved == ios * result.workload.block_bytes
        assert all(row["latency_ns_max"] >= row["latency_ns_mean"] > 0 for row in rows)
        assert all(row[name] is None for row in rows for name in SERIES_SCHEMA.names[7:])
        mean = sum(row["latency_ns_mean"] * (row["reads"] + row["writes"]) for row in rows)
        outstanding = mean / 1e9 / result.duration_s
        assert 2 < outstanding < 4.4, "Little's law: at most four are outstanding"
        if result.label == "mixed":
            ios = result.reads + result.writes
            assert result.reads / ios == pytest.approx(0.7, abs=5 * math.sqrt(0.7 * 0.3 / ios))


def test_nothing_outside_the_span_is_written_and_the_size_stays(tmp_path: Path) -> None:
    """A file that is no multiple of 1 MiB, with marks around the span and in its odd end."""
    path = sparse(tmp_path / "odd.img", GIB + 300_077)
    neighbour = tmp_path / "neighbour"
    neighbour.write_bytes(b"mine")
    with path.open("r+b") as file:
        for offset in (0, 511 * MIB, 768 * MIB, GIB - 4096, GIB, GIB + 300_000):
            file.seek(offset)
            file.write(b"mark" * 16)
    outside = [(0, 512 * MIB), (768 * MIB, GIB + 300_077)]

    def kept() -> list[tuple[int, bytes]]:
        found = []
        with path.open("rb") as file:
            for begin, end in data_stretches(path):
                for low, high in outside:
                    a, b = max(begin, low), min(end, high)
                    if a < b:
                        file.seek(a)
                        found.append((a, file.read(b - a)))
        return found

    before = kept()
    assert len(before) >= 5
    span = {"span_start_percent": 50.0, "span_percent": 25.0, "span_bytes": None}
    test = a_test(
        ("random", load(**span, queue_depth=32)),
        ("sequential", load(**span, pattern="sequential", block_bytes=MIB)),
        ("mixed", load(**span, read_percent=50, pattern="sequential")),
        prepare=(Prepare(kind="fill", span_start_percent=50, span_percent=25, passes=2),),
    )
    results(path, test)
    assert path.stat().st_size == GIB + 300_077
    assert kept() == before
    written = [min(b, 768 * MIB) - max(a, 512 * MIB) for a, b in data_stretches(path)]
    assert sum(max(0, size) for size in written) == 256 * MIB, "and the span to its last byte"
    assert sorted(os.listdir(tmp_path)) == ["neighbour", "odd.img"]
    assert neighbour.read_bytes() == b"mine"


def test_random_writes_cover_their_span_evenly(file: Path) -> None:
    begin, pages = 256 * MIB, 64 * MIB // 4096
    span = {"span_start_percent": 25.0, "span_percent": 50.0, "span_bytes": 64 * MIB}
    writes = results(file, a_test(("run", load(**span))))[0].writes
    eighths = [0] * 8
    for low, high in data_stretches(file):
        assert begin <= low < high <= begin + 64 * MIB
        for page in range((low - begin) // 4096, (high - begin) // 4096):
            eighths[page * 8 // pages] += 1
    # Distinct pages after `writes` draws with replacement of n: n (1 - (1 - 1/n)^writes).
    expected = pages * (1 - (1 - 1 / pages) ** writes) / 8
    assert expected > 100
    assert eighths == pytest.approx([expected] * 8, abs=5 * math.sqrt(expected))
    assert sum(eighths) == pytest.approx(8 * expected, abs=5 * math.sqrt(8 * expected))


def test_written_data_is_incompressible_and_differs(file: Path) -> None:
    size = 16 * MIB
    read = load(read_percent=100)
    write = load(pattern="sequential", block_bytes=128 * 1024, span_bytes=size)
    fill, purged = Prepare(kind="fill", span_bytes=size), Prepare(kind="purge")
    seen = []
    # Two fills, measured writes small and large, and a load that reads holes between its writes.
    for seed, prepare, phase, least in (
        (1, fill, read, 0.99),
        (2, fill, read, 0.99),
        (1, purged, load(span_bytes=size, queue_depth=8), 0.99),
        (1, purged, write, 0.88),
        (1, purged, load(read_percent=50, span_bytes=size, queue_depth=8), 0.99),
    ):
        results(file, a_test(("run", phase), prepare=(prepare,)), seed=seed)
        with file.open("rb") as written:
            pages = [written.read(4096) for _ in range(size // 4096)]
        seen.append([page for page in pages if any(page)])
        assert len(seen[-1]) > 100
        assert len(zlib.compress(b"".join(seen[-1]))) > least * len(seen[-1]) * 4096
        sectors = {page[at : at + 512] for page in seen[-1] for at in range(0, 4096, 512)}
        assert len(sectors) == len(seen[-1]) * 8, "no sector twice: nothing to deduplicate"
    assert not set(seen[0]) & set(seen[1])


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


def test_a_phase_ends_when_it_is_stable(file: Path) -> None:
    rule = Stable(window_s=2, within_percent=100, min_s=3)
    endless = load(duration_s=600, until_stable=rule, span_bytes=64 * MIB)
    begun = time.monotonic()
    (result,) = results(file, a_test(("run", endless)))
    assert time.monotonic() - begun < 90
    assert 2.9 < result.duration_s < 60
    rows = result.series.to_pylist()
    assert sum(row["writes"] for row in rows) == result.writes > 0
    assert sum(row["count"] for row in result.histogram.to_pylist()) == result.writes
    assert result.artefacts["run.exit-code.txt"] in (b"0\n", b"128\n")


def test_a_phase_that_never_is_stable_runs_to_its_bound(file: Path) -> None:
    rule = Stable(window_s=4, within_percent=0.0001, min_s=4)
    (result,) = results(file, a_test(("run", load(duration_s=5, until_stable=rule))))
    assert result.duration_s == pytest.approx(5, abs=0.2)
    assert result.artefacts["run.exit-code.txt"] == b"0\n"


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
                a_test(("run", load(duration_s=600)), prepare=prepare), seed=1, progress=progress
            )
        except BaseException as problem:
            ended.append(problem)

    worker = threading.Thread(target=work)
    worker.start()
    if step == "rest":
        time.sleep(1)
    else:
        wait_until(lambda: fios_of(os.getpid()), seconds=10)
        time.sleep(1)
    progress.cancel()
    worker.join(10)
    assert not worker.is_alive()
    assert isinstance(ended[0], Cancelled)
    assert fios_of(os.getpid()) == []
    target.close()
    assert file.stat().st_size == GIB


def test_a_killed_drivebay_leaves_no_fio(file: Path) -> None:
    program = (
        "import sys; sys.path[:0] = sys.argv[2:]\n"
        "from test_fio_target import *\n"
        "results(Path(sys.argv[1]), a_test(('run', load(duration_s=600))))"
    )
    paths = [str(Path(__file__).parent), *sys.path]
    other = subprocess.Popen([sys.executable, "-c", program, str(file), *paths])
    wait_until(lambda: fios_of(other.pid), seconds=30)
    time.sleep(1)
    assert fios_of(other.pid)
    other.send_signal(signal.SIGKILL)
    other.wait()
    wait_until(lambda: not fios_of(other.pid), seconds=10)


def test_a_fio_stopped_by_others_gives_an_error_not_a_result(file: Path) -> None:
    caught: list[DrivebayError] = []

    def work() -> None:
        try:
            results(file, a_test(("run", load(duration_s=600))))
        except DrivebayError as problem:
            caught.append(problem)

    worker = threading.Thread(target=work)
    worker.start()
    wait_until(lambda: fios_of(os.getpid()), seconds=10)
    time.sleep(1)
    for pid in fios_of(os.getpid()):
        os.kill(pid, signal.SIGTERM)
    worker.join(10)
    assert not worker.is_alive()
    assert caught[0].exit_code == 3
    assert "run: fio failed (exit code 128)" in caught[0].message


def test_the_purge_makes_holes_and_sees_that_it_did(file: Path) -> None:
    target = FioTarget(file)
    target.run_test(
        a_test(("r", load(read_percent=100)), prepare=(Prepare(kind="fill", span_bytes=64 * MIB),)),
        seed=1,
        progress=Progress(),
    )
    assert file.stat().st_blocks * 512 >= 64 * MIB
    (result,) = target.run_test(
        a_test(("r", load(read_percent=100)), prepare=(Prepare(kind="purge"),)),
        seed=1,
        progress=Progress(),
    )
    target.close()
    assert data_stretches(file) == []
    assert file.stat().st_size == GIB
    (record,) = json.loads(result.artefacts["prepare.json"])
    assert record["supported"] is True
    assert record["marks_gone"] == record["marks"] == 16


@pytest.mark.parametrize("case", ["refused", "ignored"])
def test_a_purge_that_does_not_purge_is_told(
    file: Path, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def discard(*_: object) -> None:
        if case == "refused":
            raise OSError(95, "Operation not supported")

    monkeypatch.setattr(purge, "_discard", discard)
    test = a_test(("r", load(read_percent=100)), prepare=(Prepare(kind="purge"),))
    (record,) = json.loads(results(file, test)[0].artefacts["prepare.json"])
    assert record["supported"] is (case == "ignored")
    assert record["marks_gone"] == (0 if case == "ignored" else None)


def test_a_fill_is_skipped_only_where_all_of_it_was_written(file: Path) -> None:
    target = FioTarget(file)

    def filled(**span: float) -> bool:
        """Whether a fill of this span, if needed, was carried out."""
        fill = Prepare.model_validate({"kind": "fill", "if_needed": True, **span})
        test = a_test(("r", load(read_percent=100)), prepare=(fill,))
        before = target.estimate_s(test)
        (result,) = target.run_test(test, seed=1, progress=Progress())
        (record,) = json.loads(result.artefacts["prepare.json"])
        assert ("skipped" in record) == (before == pytest.approx(START_S + 0.4))
        return "skipped" not in record

    assert filled(span_percent=50.0)
    assert not filled(span_percent=50.0)
    assert not filled(span_percent=25.0, span_start_percent=12.5)
    assert filled(span_percent=50.0, span_start_percent=25.0)
    assert not filled(span_percent=75.0), "two fills together cover it"
    assert filled(span_percent=100.0)
    purged = a_test(("r", load(read_percent=100)), prepare=(Prepare(kind="purge"),))
    target.run_test(purged, seed=1, progress=Progress())
    assert filled(span_percent=25.0), "after a purge nothing counts as written"
    target.close()


def test_progress_rises_to_what_was_planned(file: Path) -> None:
    seen: list[tuple[str, float, float, dict[str, float]]] = []
    prepare = (Prepare(kind="purge"), Prepare(kind="fill"), Prepare(kind="rest", seconds=0.5))
    test = a_test(("qd4", load(duration_s=2)), prepare=prepare)
    target = FioTarget(file)
    target.run_test(test, seed=1, progress=Progress(lambda *report: seen.append(report)))
    target.close()
    assert list(dict.fromkeys(what for what, *_ in seen)) == ["purge", "fill", "rest", "qd4"]
    done = [seconds for _, seconds, *_ in seen]
    assert done == sorted(done)
    assert all(0 <= seconds <= planned for _, seconds, planned, _ in seen)
    figures = [figures for what, *_, figures in seen if what == "qd4" and figures]
    assert figures and all(each["iops"] > 0 for each in figures)


def refusal(path: str | Path, test: Test | None = None) -> DrivebayError:
    with pytest.raises(DrivebayError) as caught:
        FioTarget(path).check((test or a_test(("run", load())),))
    assert "\n" not in caught.value.message + caught.value.hint
    return caught.value


def test_what_cannot_be_tested(tmp_path: Path) -> None:
    missing = refusal(tmp_path / "nothing.img")
    assert missing.exit_code == 2
    assert "there is no such file" in missing.message
    assert f"truncate -s 4G {tmp_path}/nothing.img" in missing.hint
    folder = refusal(tmp_path)
    assert "is a directory" in folder.message and folder.exit_code == 2
    assert f"truncate -s 4G {tmp_path}/drivebay.img" in folder.hint
    os.mkfifo(tmp_path / "pipe")
    assert "is a special file" in refusal(tmp_path / "pipe").message
    assert "is a special file" in refusal("/dev/zero").message
    assert "there is no such file" in refusal(f"{tmp_path}/file/").message
    small = refusal(sparse(tmp_path / "small.img", GIB - 1))
    assert "1.1 GB is too small; must be at least 1 GiB" in small.message
    assert f"truncate -s 4G {tmp_path}/small.img" in small.hint
    assert small.exit_code == 2
    (tmp_path / "circle").symlink_to("circle")
    assert refusal(tmp_path / "circle").exit_code == 2


def test_spans_and_blocks_that_do_not_fit(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = load(span_bytes=MIB, block_bytes=2 * MIB)
    assert "not one block fits" in refusal(file, a_test(("run", tiny))).message
    monkeypatch.setattr(storage, "block_facts", lambda _: {"logical_block_bytes": 4096})
    small = refusal(file, a_test(("run", load(block_bytes=512))))
    assert "blocks of 512 bytes are not allowed" in small.message
    assert "multiples of 4096" in small.message


def test_a_link_leads_to_its_file(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.img"
    link.symlink_to(file)
    target = FioTarget(link)
    target.check((a_test(("run", load())),))
    assert target.identity()["path"] == str(file)
    assert (target.kind, target.name, target.capacity_bytes) == ("file", file.name, GIB)


def test_a_file_that_others_write_is_refused(file: Path) -> None:
    holder = "import sys; f = open(sys.argv[1], sys.argv[2]); print('open', flush=True); input()"
    for mode, refused in (("r+b", True), ("rb", False)):
        other = subprocess.Popen(
            [sys.executable, "-c", holder, str(file), mode],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert other.stdout is not None and other.stdout.readline() == b"open\n"
        try:
            if refused:
                assert "in use by python" in refusal(file).message
            else:
                FioTarget(file).check((a_test(("run", load())),))
        finally:
            other.communicate(b"\n")


def test_two_reviews_cannot_have_the_same_file(file: Path) -> None:
    first, second = FioTarget(file), FioTarget(file)
    test = a_test(("run", load()))
    first.run_test(test, seed=1, progress=Progress())
    with pytest.raises(UserError, match="is being tested by another drivebay"):
        second.run_test(test, seed=1, progress=Progress())
    first.close()
    second.run_test(test, seed=1, progress=Progress())
    second.close()


def test_a_file_that_changes_meanwhile_is_refused(file: Path, tmp_path: Path) -> None:
    test = a_test(("run", load()))
    target = FioTarget(file)
    target.run_test(test, seed=1, progress=Progress())
    with file.open("r+b") as grown:
        grown.truncate(2 * GIB)
    with pytest.raises(UserError, match="no longer what it was"):
        target.run_test(test, seed=1, progress=Progress())
    target.close()
    target = FioTarget(file)
    target.check((test,))
    file.rename(tmp_path / "moved.img")
    other = sparse(file, 2 * GIB)
    with pytest.raises(UserError, match="no longer what it was"):
        target.run_test(test, seed=1, progress=Progress())
    assert other.stat().st_blocks == 0


def test_the_seed_decides_the_addresses(file: Path) -> None:
    """The first 4 KiB writes of two runs go to the same places if and only if the seed is the same.

    Found by this test: fio 3.33 draws the same addresses for every `randseed` unless it is told
    `randrepeat=0`, so that all queue depths of a ladder wrote the same blocks.
    """
    places = []
    for seed in (1, 1, 2):
        run("fallocate", "--punch-hole", "--offset", "0", "--length", str(GIB), str(file))
        jobs = fio_job.phase_job(
            load(duration_s=5, queue_depth=1),
            label="run",
            start=0,
            length=GIB,
            engine="libaio",
            seed=seed,
        )
        job = jobs.replace("time_based=1", "number_ios=50")
        subprocess.run(
            ["fio", "--output-format=json", "-"],
            input=job.encode(),
            env={**os.environ, "DRIVEBAY_TARGET": str(file).replace(":", "\\:")},
            check=True,
            capture_output=True,
        )
        places.append(data_stretches(file))
    assert places[0] == places[1] != places[2]


def test_identity_tells_the_storage_and_stays_the_same(file: Path) -> None:
    first, second = FioTarget(file).identity(), FioTarget(file).identity()
    assert first == second == json.loads(json.dumps(first))
    assert first["kind"] == "file" and first["size_bytes"] == GIB
    found = run("findmnt", "--noheadings", "--output", "FSTYPE,TARGET", "--target", str(file))
    assert [first["filesystem"], first["mount_point"]] == found.split(maxsplit=1)


def test_without_fio(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    problem = refusal(file)
    assert isinstance(problem, EnvironmentProblem)
    assert problem.exit_code == 3
    assert problem.message.startswith("fio is not installed")
    assert problem.hint == "apt install fio"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo fio-4.0", "fio 4.0 is not known"),
        ("echo fio-3.1", "fio 3.1 is not known"),
        ("exit 1", "which is no version of fio"),
        ('case $1 in --version) echo fio-3.33;; *) echo "fio: bad thing" >&2; exit 3;; esac',
         "fio cannot read"),
    ],
)  # fmt: skip
def test_a_fio_that_is_no_good(
    file: Path, tmp_path: Path, script: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "bin" / "fio"
    fake.parent.mkdir()
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(fake.parent))
    problem = refusal(file)
    assert problem.exit_code == 3
    assert words in problem.message
    assert "bad thing" in problem.message or "bad thing" not in script


def test_libaio_stands_in_where_io_uring_is_refused(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = fio_tool.working_tool(str(file), shown="file")
    fake = tmp_path / "bin" / "fio"
    fake.parent.mkdir()
    fake.write_text(
        f'#!/bin/bash\nif [ "$1" = --version ]; then exec {real.path} --version; fi\n'
        "job=$(cat)\n"
        'if [[ $job == *io_uring* ]]; then echo "fio: Operation not permitted" >&2; exit 1; fi\n'
        f'exec {real.path} "$@" <<< "$job"\n'
    )
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    (result,) = results(file, a_test(("run", load())))
    assert b"ioengine=libaio" in result.artefacts["run.fio"]
    assert result.writes > 0


def test_fio_failing_in_a_phase_says_why(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = fio_tool.working_tool(str(file), shown="file")
    fake = tmp_path / "bin" / "fio"
    fake.parent.mkdir()
    fake.write_text(
        f'#!/bin/bash\nif [ "$1" = --version ]; then exec {real.path} --version; fi\n'
        'job=$(cat)\nif [[ $job == *runtime* ]]; then echo; echo "fio: it broke" >&2; '
        f'echo "more" >&2; exit 1; fi\nexec {real.path} "$@" <<< "$job"\n'
    )
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    with pytest.raises(EnvironmentProblem) as caught:
        results(file, a_test(("run", load())))
    assert caught.value.message == "run: fio failed (exit code 1): fio: it broke"


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


@needs_root
def test_a_frozen_file_system_shows_as_seconds_without_io(tmp_path: Path) -> None:
    """A drive that stalls: nothing completes for some seconds, and the series must show it."""
    image = sparse(tmp_path / "disk.img", 1400 * MIB)
    run("mkfs.ext4", "-q", "-m", "0", str(image))
    with loop(image) as device, mounted(device, tmp_path / "mnt") as folder:
        path = sparse(folder / "drive.img", GIB)
        found: list[PhaseResult] = []
        test = a_test(("run", load(duration_s=8, queue_depth=2, span_bytes=16 * MIB)))
        worker = threading.Thread(target=lambda: found.extend(results(path, test)))
        worker.start()
        wait_until(lambda: fios_of(os.getpid()), seconds=10)
        time.sleep(2.5)
        run("fsfreeze", "--freeze", str(folder))
        time.sleep(3.2)
        run("fsfreeze", "--unfreeze", str(folder))
        worker.join(30)
    rows = found[0].series.to_pylist()
    quiet = [row["second"] for row in rows if row["writes"] <= 2]
    assert 2 <= len(quiet) <= 4 and quiet == list(range(quiet[0], quiet[-1] + 1))
    assert max(row["latency_ns_max"] or 0 for row in rows) > 3_000_000_000
    assert sum(row["writes"] for row in rows) == found[0].writes


@needs_root
def test_no_permission(tmp_path: Path, file: Path) -> None:
    program = (
        "import os, sys; sys.path[:0] = sys.argv[2:]\n"
        "from test_fio_target import *\n"
        "target = FioTarget(sys.argv[1])\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "try: target.check((a_test(('run', load())),))\n"
        "except DrivebayError as problem: print(problem.exit_code, problem.message)\n"
    )
    file.chmod(0o644)
    paths = [str(Path(__file__).parent), *sys.path]
    words = run(sys.executable, "-c", program, str(file), *paths)
    assert words.startswith("3 ")
    assert "no permission" in words


@needs_root
def test_a_file_behind_a_loop_device_is_refused(file: Path) -> None:
    before = digest(file)
    with loop(file) as device:
        assert f"in use by {device}" in refusal(file).message
    assert digest(file) == before


@needs_root
def test_a_loop_device_is_tested_like_a_file(tmp_path: Path) -> None:
    backing = sparse(tmp_path / "disk.img", GIB + 4096)
    with loop(backing, "--direct-io=on") as device:
        target = FioTarget(device, destroy_serial=str(backing))
        fill = Prepare(kind="fill", span_bytes=64 * MIB)
        test = a_test(
            ("read", load(read_percent=100)),
            ("write", load()),
            prepare=(Prepare(kind="purge"), fill),
        )
        target.check((test,))
        read, write = target.run_test(test, seed=1, progress=Progress())
        target.close()
        assert (target.kind, target.capacity_bytes) == ("block", GIB)
        identity = target.identity()
        assert identity["serial"] == identity["backing_file"] == str(backing)
        assert identity["backing_file_past_page_cache"] is True
        assert identity["logical_block_bytes"] == 512 or identity["logical_block_bytes"] == 4096
    assert read.reads > 0 and read.writes == 0
    assert write.writes > 0 and write.reads == 0
    purged, filled = json.loads(read.artefacts["prepare.json"])
    assert purged["supported"] and purged["marks_gone"] == 16
    assert filled["bytes"] == 64 * MIB
    assert backing.stat().st_size == GIB + 4096
