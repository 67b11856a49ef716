"""SQL over results; fio's JSON made into results, from the installed fio, old ones, and garbage."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import made_result
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from loops import sparse

import drivebay.report
from drivebay import results
from drivebay.analysis import review
from drivebay.analysis.replicates import estimate
from drivebay.cli.entry import run
from drivebay.common.errors import UserError
from drivebay.lab.imports import import_files
from drivebay.lab.query import query

FIO = Path(__file__).parent / "data" / "fio"
JOBS = """\
[global]
filename={file}
size=16m
direct=1
time_based=1
runtime=1100ms
ioengine=libaio
write_iops_log={logs}
write_lat_log={logs}
log_avg_msec=250
[one read]
rw=randread
bs=4k
iodepth=2
rate_iops=2000
norandommap=1
[mix]
stonewall
rw=randrw
rwmixread=70
bs=4k
iodepth=4
numjobs=2
group_reporting=1
[clones]
stonewall
new_group
rw=write
bs=128k
ioengine=psync
iodepth=32
numjobs=2
group_reporting=0
"""


@pytest.fixture(scope="module")
def made_by_fio(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the installed fio says of three jobs, with logs beside it; json+ and, cut, json."""
    if shutil.which("fio") is None:
        pytest.skip("fio is not installed")
    folder = tmp_path_factory.mktemp("fio")
    file = sparse(folder / "disk.img", 2**24)
    (folder / "job.fio").write_text(JOBS.format(file=file, logs=folder / "log"))
    command = ["fio", "--output-format=json+", "--output=plus.json", "job.fio"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    file.unlink()
    return folder


def plain(folder: Path) -> str:
    """The same as plain JSON has it: percentiles, no bins."""
    document = json.loads((folder / "plus.json").read_text())
    for job in document["jobs"]:
        for direction in ("read", "write"):
            job[direction]["clat_ns"].pop("bins", None)
    return json.dumps(document, indent=1)


def figures(folder: Path) -> dict[str, float]:
    asked = query("SELECT figure, value FROM figures WHERE value IS NOT NULL", [folder])
    return dict(asked.rows)


def test_what_fio_printed_comes_back_and_the_report_and_bench_take_it(
    made_by_fio: Path, tmp_path: Path
) -> None:
    said = {
        job["jobname"]: job for job in json.loads((made_by_fio / "plus.json").read_text())["jobs"]
    }
    folder = import_files("fio", [made_by_fio / "plus.json"], tmp_path / "old", drive="ACME 512")
    found = figures(folder)
    one = said["one read"]["read"]
    assert found["iops_one-read"] == pytest.approx(one["iops"], rel=0.005)
    assert found["latency_mean_one-read"] == pytest.approx(one["lat_ns"]["mean"] / 1e3)
    mix = said["mix"]
    both = mix["read"]["iops"] + mix["write"]["iops"]
    assert found["iops_mix"] == pytest.approx(both, rel=0.01)
    (step,) = results.load(folder).steps
    loads = {phase.label: phase.workload for phase in step.phases()}
    assert (loads["one-read"].queue_depth, loads["one-read"].offsets) == (2, "uniform")
    assert (loads["mix"].queue_depth, loads["mix"].read_percent) == (8, 70)
    # Two jobs that fio reports apart are clones of one; psync has one request each.
    assert (loads["clones"].queue_depth, loads["clones"].block_bytes) == (2, 131072)
    seconds = step.table("series", "one-read").to_pydict()
    assert sum(seconds["reads"]) == one["total_ios"] and len(seconds["second"]) == 2
    rates = query("SELECT sum(count) FROM histogram WHERE phase = 'mix'", [folder]).rows[0][0]
    assert rates == mix["read"]["total_ios"] + mix["write"]["total_ios"]
    assert (step.folder / "raw" / "plus.json").exists()
    assert "clat" in " ".join(step.conditions()["warnings"])
    bench = drivebay.report.write_bench(
        [folder, made_result.make(tmp_path / "other", suite="quick")], tmp_path / "bench"
    )
    assert "ACME 512" in (bench.parent / "data" / "index.js").read_text()
    assert "ACME 512" in drivebay.report.write([folder]).read_text()


def test_plain_json_has_its_percentiles_and_says_what_is_rough(
    made_by_fio: Path, tmp_path: Path
) -> None:
    (tmp_path / "plain.json").write_text("fio: a warning {of some kind}\n" + plain(made_by_fio))
    folder = import_files("fio", [tmp_path / "plain.json"], tmp_path / "old")
    (step,) = results.load(folder).steps
    said = json.loads(plain(made_by_fio))["jobs"][0]["read"]["clat_ns"]["percentile"]
    (measured,) = review(results.load(folder)).tests.values()
    found = measured.steps[0].percentiles_us
    assert found[99.0] is not None
    assert found[99.0] * 1e3 == pytest.approx(said["99.000000"], rel=0.016)
    warnings = " ".join(step.conditions()["warnings"])
    assert "no distribution" in warnings and "no logs were found" in warnings
    # Nothing is known of single seconds, so nothing is shown of them.
    assert measured.steps[0].rate is None and step.table("series").num_rows == 0
    assert "plain" in drivebay.report.write([folder]).read_text()


def test_a_time_scale_gives_the_served_drives_own_times(made_by_fio: Path, tmp_path: Path) -> None:
    source = made_by_fio / "plus.json"
    whole = results.load(import_files("fio", [source], tmp_path / "whole"))
    for scale in (1 / 4, 2.0):
        folder = import_files("fio", [source], tmp_path / f"{scale}", time_scale=scale)
        before, after = figures(tmp_path / "whole"), figures(folder)
        assert after["iops_mix"] == pytest.approx(before["iops_mix"] / scale, rel=0.01)
        assert after["latency_mean_mix"] == pytest.approx(before["latency_mean_mix"] * scale)
        (one,), (other,) = whole.steps, results.load(folder).steps
        for own, theirs in zip(one.phases(), other.phases(), strict=True):
            assert theirs.duration_s == pytest.approx(own.duration_s * scale)
            assert theirs.workload.duration_s == pytest.approx(theirs.duration_s)
        counts = other.table("series", "mix").to_pydict()
        expected = next(phase for phase in other.phases() if phase.label == "mix")
        if counts["second"]:  # a run of less than a second has none
            assert sum(counts["reads"]) == expected.reads
    p99 = "SELECT max(high_ns) FROM histogram WHERE phase = 'mix'"
    longest = [query(p99, [tmp_path / one]).rows[0][0] for one in ("whole", "0.25")]
    assert longest[1] == pytest.approx(longest[0] / 4, rel=0.02)


def test_logs_of_another_run_are_not_used(made_by_fio: Path, tmp_path: Path) -> None:
    for log in made_by_fio.glob("log_*"):
        shutil.copy(log, tmp_path)
    document = json.loads((made_by_fio / "plus.json").read_text())
    document["jobs"][0]["read"]["total_ios"] *= 3
    (tmp_path / "plus.json").write_text(json.dumps(document))
    (step,) = results.load(import_files("fio", [tmp_path / "plus.json"], tmp_path / "old")).steps
    assert (
        step.table("series", "one-read").num_rows == 0 and step.table("series", "mix").num_rows == 2
    )


@pytest.mark.parametrize("version", ["3.25", "3.33", "3.39", "3.41"])
def test_every_version_is_read_and_the_last_of_several_documents_counts(
    version: str, tmp_path: Path
) -> None:
    path = FIO / f"{version}-answers.json"
    folder = import_files("fio", [path, FIO / f"{version}-stopped.json"], tmp_path / "old")
    made = results.load(folder)
    assert len(made.steps) == 2
    (phase,) = made.steps[0].phases()
    assert phase.reads + phase.writes == pytest.approx(1500, abs=5)
    assert phase.workload.read_percent == 70 and phase.duration_s == pytest.approx(5, abs=0.1)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "has no JSON of fio"),
        (b"\x00\xff{{{[[", "has no JSON of fio"),
        (b'{"jobs": []}', "has no JSON of fio"),
        (b'{"fio version": "fio-3.33", "jobs": [{"jobname": "x", "rea', "is cut off"),
        (b"{" * 100_000, "has no JSON of fio"),
        (b'{"fio version": "fio-3.33", "jobs": []}', "none of its jobs moved any data"),
        (b'{"fio version": "fio-3.33", "jobs": [7]}', "jobs[0]: 7 is not allowed"),
        (b'{"fio version": "fio-3.33", "jobs": [{"jobname": "x", "read": {"total_ios": 5}}]}',
         "cannot be imported: jobs[0].read.io_bytes is missing"),
        (b'{"fio version": "fio-3.33", "jobs": [{"jobname": "x", "error": 5}]}', "error 5"),
    ],
)  # fmt: skip
def test_garbage_is_one_error_and_leaves_nothing(
    content: bytes, words: str, tmp_path: Path
) -> None:
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(UserError) as caught:
        import_files("fio", [tmp_path / "a.json"], tmp_path / "old")
    assert words in caught.value.message and "a.json" in caught.value.message
    assert "\n" not in caught.value.message and not (tmp_path / "old").exists()


# --- SQL ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A virtual review, a real one, and a sweep."""
    base = tmp_path_factory.mktemp("query")
    sweep = base / "sweep"
    (sweep / "parts").mkdir(parents=True)
    (sweep / "manifest.json").write_text('{"kind": "sweep"}')
    for run_, (spare, extra) in enumerate([(0.0, "iops"), (25.0, "rate")]):
        part = pa.table({"run": [run_], "spare": [spare], extra: [10.0 * (run_ + 1)]})
        name = sweep / "parts" / f"run-{run_:06d}-00000000"
        if run_:  # not packed yet
            with pa.ipc.new_file(name.with_suffix(".arrow"), part.schema) as writer:
                writer.write_table(part)
        else:
            pq.write_table(part, name.with_suffix(".parquet"))
    virtual = made_result.make(base / "it's virtual", suite="quick")
    real = made_result.make(base / "real", suite="quick", target=made_result.REAL, only=("trim",))
    return [virtual, real, sweep]


def test_the_examples_of_the_documentation_run(folders: list[Path]) -> None:
    page = Path(__file__).parent.parent / "docs" / "concepts" / "data.md"
    examples = [part.partition("```")[0] for part in page.read_text().split("```sql\n")[1:]]
    assert len(examples) >= 5
    for example in examples:
        assert query(example, folders).columns, example


def test_views_join_and_say_what_is_simulated(folders: list[Path]) -> None:
    rows = query(
        "SELECT result, simulated, count(*) FROM runs WHERE state = 'done' GROUP BY ALL ORDER BY 1",
        folders,
    ).rows
    assert rows == (("it's virtual", True, 6), ("real", False, 1))
    made = results.load(folders[0])
    whole = sum(sum(step.table("series").column("reads").to_pylist()) for step in made.done)
    asked = query("SELECT sum(reads) FROM series WHERE result = 'it''s virtual'", folders)
    assert asked.rows == ((whole,),)
    (key, row) = next(iter(review(made).tests["random-read"].figures.items()))
    sql = f"SELECT value FROM figures WHERE test = 'random-read' AND figure = '{key}'"
    assert query(sql, folders[:1]).rows == ((row.value,),)
    assert query("SELECT spare, iops, rate FROM sweep ORDER BY run", folders).rows == (
        (0.0, 10.0, None),
        (25.0, None, 20.0),
    )
    assert query("SELECT count(*) FROM telemetry", folders[:1]).rows == ((0,),)
    values = [10.0, 12.0, 11.0, 13.0]
    (answer,) = query(f"SELECT ci95(x) FROM (SELECT unnest({values}) x)", folders[:1]).rows
    assert answer == (pytest.approx(estimate(values).half_width),)


def test_the_command_prints_tables_json_and_csv_and_names_mistakes(
    folders: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    def printed(*arguments: str, code: int = 0) -> tuple[str, str]:
        assert run(["query", *arguments]) == code
        out, err = capsys.readouterr()
        return out, err

    here = [str(folder) for folder in folders]
    sql = "SELECT test, seed, 1.5 AS x, NULL AS y FROM runs WHERE result = 'real' AND test = 'trim'"
    assert json.loads(printed(sql, *here, "--json")[0]) == [
        {"test": "trim", "seed": 1, "x": "1.5", "y": None}
    ]
    assert printed(sql, *here, "--csv")[0] == "test,seed,x,y\ntrim,1,1.5,\n"
    assert printed(sql, *here)[0].split() == ["test", "seed", "x", "y", "trim", "1", "1.5", "–"]
    out, err = printed("SELECT nothing FROM runs", *here, code=2)
    assert not out and err.startswith("error: the query is not right") and "hint: views" in err
    assert "holds no result" in printed("FROM runs", str(folders[0].parent), code=2)[1]
