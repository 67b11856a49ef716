"""What fio writes and reads for us, on real files and devices: where, what, how much of it.

Needs fio (`make test` installs it).
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import zlib
from pathlib import Path

import pytest
from loops import loop, needs_root, run, sparse
from real_files import (
    GIB,
    MIB,
    a_test,
    data_extents,
    file,
    keep_the_disk_free,
    load,
    results,
)

from drivebay.definitions.suites import Prepare, Workload
from drivebay.results.records import HISTOGRAM_SCHEMA, SERIES_SCHEMA, PhaseResult
from drivebay.targets.base import Progress
from drivebay.targets.fio import job as fio_job
from drivebay.targets.fio.steps import START_S
from drivebay.targets.fio.target import FioTarget
from drivebay.targets.safety import purge

__all__ = ["file", "keep_the_disk_free"]


def enough(file: Path, work: Workload, *prepare: Prepare, seed: int = 1) -> PhaseResult:
    """The load on an empty file; ten times as long if a busy machine did too little."""
    for longer in (1, 10, 100):
        file.unlink()
        again = work.model_copy(update={"duration_s": work.duration_s * longer})
        test = a_test(("run", again), prepare=prepare)
        result = results(sparse(file, GIB), test, seed=seed)[-1]
        if result.read_bytes + result.write_bytes >= 4 * MIB:
            return result
    raise AssertionError("fio does next to nothing here")


def test_counts_histogram_and_seconds_agree(file: Path) -> None:
    mixed = load(read_percent=70, duration_s=2, span_bytes=64 * MIB)
    large = load(pattern="sequential", block_bytes=128 * 1024, span_bytes=64 * MIB, duration_s=1)
    test = a_test(("mixed", mixed), ("large", large), prepare=(Prepare(kind="purge"),))
    for result, seconds in zip(results(file, test), (2, 1), strict=True):
        assert result.series.schema == SERIES_SCHEMA
        assert result.histogram.schema == HISTOGRAM_SCHEMA
        assert result.stages is None
        assert result.duration_s > seconds - 0.2
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
        # A machine under load may stall for a second, which then has no latency.
        busy = [row for row in rows if row["reads"] + row["writes"]]
        assert all(row["latency_ns_max"] >= row["latency_ns_mean"] > 0 for row in busy)
        assert all(row[name] is None for row in rows for name in SERIES_SCHEMA.names[7:])
        mean = sum(row["latency_ns_mean"] * (row["reads"] + row["writes"]) for row in busy)
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
        for offset in (0, 511 * MIB, 576 * MIB, GIB - 4096, GIB, GIB + 300_000):
            file.seek(offset)
            file.write(b"mark" * 16)
    outside = [(0, 512 * MIB), (576 * MIB, GIB + 300_077)]

    def kept() -> list[tuple[int, bytes]]:
        found = []
        with path.open("rb") as file:
            for begin, end in data_extents(path):
                for low, high in outside:
                    a, b = max(begin, low), min(end, high)
                    if a < b:
                        file.seek(a)
                        found.append((a, file.read(b - a)))
        return found

    before = kept()
    assert len(before) >= 5
    span = {"span_start_percent": 50.0, "span_percent": 6.25, "span_bytes": None}
    test = a_test(
        ("random", load(**span, queue_depth=32)),
        ("sequential", load(**span, pattern="sequential", block_bytes=MIB)),
        ("mixed", load(**span, read_percent=50, pattern="sequential")),
        prepare=(Prepare(kind="fill", span_start_percent=50, span_percent=6.25, passes=2),),
    )
    results(path, test, destroy_data="odd.img")
    assert path.stat().st_size == GIB + 300_077
    assert kept() == before
    written = [min(b, 576 * MIB) - max(a, 512 * MIB) for a, b in data_extents(path)]
    assert sum(max(0, size) for size in written) == 64 * MIB, "and the span to its last byte"
    assert sorted(os.listdir(tmp_path)) == ["neighbour", "odd.img"]
    assert neighbour.read_bytes() == b"mine"


def test_random_writes_cover_their_span_evenly(file: Path) -> None:
    begin, pages = 256 * MIB, 64 * MIB // 4096
    span = {"span_start_percent": 25.0, "span_percent": 50.0, "span_bytes": 64 * MIB}
    writes = enough(file, load(**span)).writes
    eighths = [0] * 8
    for low, high in data_extents(file):
        assert begin <= low < high <= begin + 64 * MIB
        for page in range((low - begin) // 4096, (high - begin) // 4096):
            eighths[page * 8 // pages] += 1
    # Distinct pages after `writes` draws with replacement of n: n (1 - (1 - 1/n)^writes).
    expected = pages * (1 - (1 - 1 / pages) ** writes) / 8
    assert expected > 100
    assert eighths == pytest.approx([expected] * 8, abs=5 * math.sqrt(expected))
    assert sum(eighths) == pytest.approx(8 * expected, abs=5 * math.sqrt(8 * expected))


def test_written_data_is_incompressible_and_differs(file: Path) -> None:
    size = 8 * MIB
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
        enough(file, phase, prepare, seed=seed)
        with file.open("rb") as written:
            pages = [written.read(4096) for _ in range(size // 4096)]
        seen.append([page for page in pages if any(page)])
        assert len(seen[-1]) > 100
        assert len(zlib.compress(b"".join(seen[-1]), 1)) > least * len(seen[-1]) * 4096
        sectors = {page[at : at + 512] for page in seen[-1] for at in range(0, 4096, 512)}
        assert len(sectors) == len(seen[-1]) * 8, "no sector twice: nothing to deduplicate"
    assert not set(seen[0]) & set(seen[1])


def test_the_seed_decides_the_addresses(file: Path) -> None:
    """The first 4 KiB writes of two runs go to the same places if and only if the seed is the same.

    Found by this test: fio 3.33 draws the same addresses for every `randseed` unless it is told
    `randrepeat=0`, so that all queue depths of a ladder wrote the same blocks.
    """
    places = []
    for seed in (1, 1, 2):
        run("fallocate", "--punch-hole", "--offset", "0", "--length", str(GIB), str(file))
        parts = [("run", load(duration_s=5, queue_depth=1), 0, GIB)]
        jobs = fio_job.jobs_together(parts, engine="libaio", seed=seed)
        job = jobs.replace("time_based=1", "number_ios=50")
        subprocess.run(
            ["fio", "--output-format=json", "-"],
            input=job.encode(),
            env={**os.environ, "DRIVEBAY_TARGET": str(file).replace(":", "\\:")},
            check=True,
            capture_output=True,
        )
        places.append(data_extents(file))
    assert places[0] == places[1] != places[2]


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
    assert data_extents(file) == []
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

    assert filled(span_percent=6.25)
    assert not filled(span_percent=6.25)
    assert not filled(span_percent=3.125, span_start_percent=1.5625)
    assert filled(span_percent=6.25, span_start_percent=3.125)
    assert not filled(span_percent=9.375), "two fills together cover it"
    assert filled(span_percent=12.5)
    purged = a_test(("r", load(read_percent=100)), prepare=(Prepare(kind="purge"),))
    target.run_test(purged, seed=1, progress=Progress())
    assert filled(span_percent=3.125), "after a purge nothing counts as written"
    target.close()


@needs_root
def test_a_loop_device_is_tested_like_a_file(tmp_path: Path) -> None:
    backing = sparse(tmp_path / "disk.img", GIB + 4096)
    with loop(backing, "--direct-io=on") as device:
        target = FioTarget(device, destroy_data=str(backing))
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
