"""fio's job files as suites, held against fio's own reading of them, and the ranking of drives."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from drivebay.analysis.ladder import Step
from drivebay.cli.app import app
from drivebay.common.errors import UserError
from drivebay.definitions import profiles, suites
from drivebay.lab import ranking

DATABASE = """
; commits beside reads of pages, then four readers
[global]
direct=1
runtime=2m
time_based
[log]
rw=write
fdatasync=1
size=1g
[pages]
readwrite=randrw
rwmixwrite=30
blocksize=16k
ioengine=libaio
iodepth=16
[global]
bs=8k
[readers]
stonewall
rw=randread
numjobs=4
ramp_time=2
"""


def phases_of(folder: Path, text: str) -> tuple[suites.Phase, ...]:
    """Phases of a job file, which fio accepts as well if it is installed."""
    path = folder / "jobs.fio"
    path.write_text(text)
    if shutil.which("fio"):
        done = subprocess.run(["fio", "--parse-only", path], capture_output=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return suites.load(path).tests[0].phases


ZONES = "zoned:50/5:30/15:20/80"


def job(folder: Path, *options: str) -> suites.Workload:
    """Load of a job with these options."""
    (phase,) = phases_of(folder, "\n".join(["[job]", *options]))
    return phase.workload


def test_jobs_run_together_until_a_stonewall(tmp_path: Path) -> None:
    log, pages, readers = phases_of(tmp_path, DATABASE)
    assert [phase.label for phase in (log, pages, readers)] == ["log", "pages", "readers"]
    assert [phase.together for phase in (log, pages, readers)] == [False, True, False]
    assert {phase.workload.duration_s for phase in (log, pages, readers)} == {120.0}
    assert (log.workload.fsync, log.workload.span_bytes) == (1, 2**30)
    assert (log.workload.pattern, log.workload.queue_depth) == ("sequential", 1)
    assert (pages.workload.read_percent, pages.workload.block_bytes) == (70, 16384)
    assert (pages.workload.queue_depth, pages.workload.fsync) == (16, None)
    assert (readers.workload.queues, readers.workload.queue_depth) == (4, 1)
    assert readers.workload.block_bytes == 8192, "of the later global section"
    method = suites.load(tmp_path / "jobs.fio").tests[0].method
    assert "no effect: ramp_time=2" in method


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        ([], {"pattern": "sequential", "read_percent": 100, "block_bytes": 4096, "once": True}),
        (["rw=randread", "iodepth=32"], {"queue_depth": 1, "offsets": "permutation"}),
        (["rw=randread", "norandommap"], {"offsets": "uniform"}),
        (["rw=randread", "random_generator=lfsr"], {"offsets": "permutation-repeated"}),
        (["rw=randread", "random_distribution=zipf:1.1"], {"offsets": "zipf:1.1"}),
        (["rw=randread", "percentage_random=60"], {"percentage_random": 60, "offsets": "uniform"}),
        (["rw=randwrite", "bssplit=4k/40:64k/60"], {"bssplit": "4096/40:65536/60"}),
        (["rw=randwrite", "bssplit=4k/40:64k/60", "blockalign=4k"], {"block_bytes": 4096}),
        (["rw=randwrite", "bssplit=512/4:4k/96", "blockalign=4k"], {"block_bytes": 4096}),
        (["rw=randread", "bs=4k", "ba=16k"], {"block_bytes": 16384, "bssplit": "4096/100"}),
        (["rw=randwrite", "sync=1"], {"fsync": 1}),
        (["rw=randwrite", "sync=dsync", "fsync=32"], {"fsync": 1}),
        (["rw=randwrite", "sync=none", "fsync=32"], {"fsync": 32}),
        (["rw=randread", "sync=1"], {"fsync": None}),
        (["rw=randread", "threads=1"], {"queues": 1}),
        (["rw=randwrite", "kb_base=1000", "bsrange=4kib-64kib"], {"block_bytes_max": 65536}),
        (["rw=randwrite", "bsrange=4k-64k"], {"block_bytes_max": 65536, "offsets": "uniform"}),
        (["rw=write", "bsrange=4k-4k"], {"block_bytes_max": None, "block_bytes": 4096}),
        (["rw=read ; as it is", "bs=8k # pages"], {"read_percent": 100, "block_bytes": 8192}),
        (["blocksize=16k", "io_limit=3g", "size=1g"], {"block_bytes": 16384, "bytes": 3 * 2**30}),
        (["rw=randread", "random_distribution=zoned:50/5:30/15:20/"], {"offsets": ZONES}),
        (["rw=write", "rate=10m"], {"rate_mb_per_s": 10.48576}),
        (["rw=write", "kb_base=1000", "rate=10m"], {"rate_mb_per_s": 10.0}),
        (["rw=randread", "rate_iops=500", "numjobs=3"], {"rate_iops": 1500.0, "queues": 3}),
        (["rw=randread", "thinktime=2ms"], {"thinktime_us": 2000}),
        (["rw=write", "size=50%"], {"span_percent": 50.0, "span_bytes": None}),
        (["rw=write", "offset=25%", "size=50%"], {"span_start_percent": 25.0}),
        (["rw=write", "offset=0%"], {"span_start_percent": 0.0}),
        (["size=1g", "runtime=5"], {"once": True, "duration_s": 5.0}),
        (["size=1g", "io_size=3g"], {"bytes": 3 * 2**30, "span_bytes": 2**30}),
        (["rw=randread", "numjobs=2", "size=1g"], {"span_bytes": 2**31}),
        (["rw=randread", "numjobs=2", "size=1g", "filename=x"], {"span_bytes": 2**30}),
    ],
)
def test_options_are_kept(tmp_path: Path, options: list[str], fields: dict[str, Any]) -> None:
    options = options if any("size=" in text for text in options) else [*options, "size=100%"]
    load = job(tmp_path, "filename=/tmp/x", *options)
    if not any("filename" in text for text in options) and "numjobs=2" in options:
        load = phases_of(tmp_path, "\n".join(["[job]", *options]))[0].workload
    assert {name: getattr(load, name) for name in fields} == fields


def test_clones_without_queues_are_phases(tmp_path: Path) -> None:
    text = "[a]\nrw=write\nnumjobs=3\nruntime=5\nsize=1g\n[a-2]\nrw=read\nruntime=5\nsize=1g"
    phases = phases_of(tmp_path, text)
    assert [phase.label for phase in phases] == ["a", "a-2", "a-3", "a-2-2"]
    assert [phase.together for phase in phases] == [False, True, True, True]


def test_clones_that_end_by_their_size_run_together(tmp_path: Path) -> None:
    """As fio's example jesd219.fio has them."""
    text = "[a]\nrw=randrw\nnorandommap\nrwmixread=40\niodepth=256\nnumjobs=4\nioengine=libaio\n"
    text += "bssplit=512/4:1024/1:4k/67:8k/10:16k/10:64k/8\nblockalign=4k\n"
    phases = phases_of(tmp_path, f"{text}random_distribution=zoned:50/5:30/15:20/80")
    assert [phase.together for phase in phases] == [False, True, True, True]
    assert {phase.workload.once for phase in phases} == {True}
    assert {phase.workload.block_bytes for phase in phases} == {4096}


def test_clones_of_a_random_load_are_queues_unless_it_is_skewed(tmp_path: Path) -> None:
    text = "[a]\nrw=randread\nnumjobs=2\nruntime=5\nsize=1g\n"
    (lfsr,) = phases_of(tmp_path, f"{text}random_generator=lfsr")
    assert (lfsr.workload.queues, lfsr.workload.offsets) == (2, "uniform")
    skewed = phases_of(tmp_path, f"{text}random_distribution=zipf:1.1")
    assert [phase.workload.offsets for phase in skewed] == ["zipf:1.1", "zipf:1.1"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no job"),
        ("rw=read", "line 1 cannot be read"),
        ("[a]\nrw=${MODE}", "line 2 needs the environment variable MODE"),
        ("[a]\nzonemode=zbd", "job a: zonemode=zbd is not supported"),
        ("[a]\nrw=randtrim", "rw=randtrim is not supported"),
        ("[a]\nrw=randread:8", "rw=randread:8 is not supported"),
        ("[a]\nbs=4k,8k", "bs=4k,8k is not supported"),
        ("[a]\noffset=1g", "only in per cent"),
        ("[a]\nrw=write\nnumjobs=64\nruntime=1", "beyond 16"),
        ("[a]\nruntime=1\n[b]\nruntime=2", "job b: jobs that run at the same time"),
        ("[a]\nsize=1g\n[b]\nsize=1g", "job a: jobs that run at the same time"),
        ("[a]\nrw=randread\nbsrange=4k-8k\nba=16k", "blockalign=16k is supported only as"),
        ("[a]\nrw=randwrite\nbssplit=500/4:4k/96\nba=4k", "bssplit"),
        ("[a]\nbs=4k\nba=1000", "block_bytes"),
        ("[a]\nof_fio_4=7", "of_fio_4=7 is not supported"),
        ("[a]\nbs=100", "block_bytes"),
    ],
)
def test_what_a_suite_cannot_have_is_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "a.fio"
    path.write_text(text)
    with pytest.raises(UserError, match=r"a\.fio") as raised:
        suites.load(path)
    assert words in raised.value.message and raised.value.hint


def test_a_variable_comes_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIO_BS", "16k")
    assert job(tmp_path, "bs=${FIO_BS}", "size=1g").block_bytes == 16384


def test_a_damaged_file_gives_one_error_or_a_suite(tmp_path: Path) -> None:
    draw, path = random.Random(1), tmp_path / "a.fio"
    for _ in range(200):
        data = bytearray(DATABASE.encode())
        for _ in range(draw.randrange(1, 6)):
            at = draw.randrange(len(data))
            data[at : at + draw.randrange(4)] = draw.randbytes(draw.randrange(4))
        path.write_bytes(data)
        try:
            assert suites.load(path).tests
        except UserError as problem:
            assert problem.hint


def test_drives_are_ranked_by_rate_as_far_as_it_is_known(tmp_path: Path) -> None:
    path = tmp_path / "reads.fio"
    path.write_text("[reads]\nrw=randread\nioengine=libaio\niodepth=32\nruntime=1\ntime_based")
    names = "xp941-512,sm951-nvme-512,980-pro-1tb,pm9a3-960"
    command = ["rank", str(path), "--fresh", "--drives", names]
    done = CliRunner().invoke(app, [*command, "--json"])
    document = json.loads(done.stdout)
    (rows,) = document["loads"]
    order = [row["drive"] for row in rows]
    rates = [row["figures"]["iops"] for row in rows]
    assert order.index("980-pro-1tb") < order.index("sm951-nvme-512") < order.index("xp941-512")
    assert rates == sorted(rates, reverse=True)
    by_name = {row["drive"]: row for row in rows}
    assert by_name["pm9a3-960"]["rank"] is None and by_name["pm9a3-960"]["stand_in"]
    assert by_name["980-pro-1tb"]["rank"] == by_name["sm951-nvme-512"]["rank"] == [1, 2]
    assert by_name["xp941-512"]["rank"] == [3, 3], "below the others' intervals"
    assert all(row["interval"][0] < row["figures"]["iops"] < row["interval"][1] for row in rows)
    assert document["left"] == {}
    path.write_text("[writes]\nrw=randwrite\nruntime=1\ntime_based")
    done = CliRunner().invoke(app, ["rank", str(path), "--drives", "zn540-1tb,xp941-512"])
    assert done.exit_code == 0 and "zn540-1tb is left out" in done.stderr
    for names, words in (("zn540-1tb", "no drive can run it; zn540-1tb: "), (",", "drive ''")):
        refusal = CliRunner().invoke(app, ["rank", str(path), "--drives", names])
        assert isinstance(refusal.exception, UserError) and words in refusal.exception.message


def test_a_job_with_syncs_runs_beside_others(tmp_path: Path) -> None:
    path = tmp_path / "jobs.fio"
    path.write_text(DATABASE.replace("runtime=2m", "runtime=1"))
    small = profiles.load("sm951-nvme-128")
    (log, pages, readers), refused = ranking.rank(suites.load(path), [small], fresh=True)
    assert refused == {}
    assert log[0].figures.percentiles_us == {} != pages[0].figures.percentiles_us
    assert log[0].figures.iops < readers[0].figures.iops


def test_drives_whose_intervals_overlap_share_ranks() -> None:
    def row(name: str, iops: float, *, stand_in: bool = False) -> ranking.Ranked:
        step = Step("l", 1, 1.0, iops, None, None, 100, None, {}, None, None)
        return ranking.Ranked(name, "t", "l", step, (0.9 * iops, 1.1 * iops), "", stand_in)

    rows = [row("a", 100.0), row("b", 115.0), row("c", 200.0), row("d", 300.0, stand_in=True)]
    ranked = {row.drive: row.rank for row in ranking._in_order(rows)}
    assert ranked == {"d": None, "c": (1, 1), "b": (2, 3), "a": (2, 3)}
