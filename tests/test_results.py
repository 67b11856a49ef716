"""The result folder: whole or not at all, the same bytes for the same data, damage named."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fakes import FakeTarget, small_suite

from drivebay import results, review
from drivebay.common import provenance
from drivebay.common.errors import DrivebayError, EnvironmentProblem, UserError
from drivebay.results import SCHEMA_VERSION, Folder, files, writing
from drivebay.results.records import SERIES_SCHEMA


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A finished review of the fake drive."""
    return review.run(FakeTarget, small_suite(), out=tmp_path / "result")


def manifest_of(folder: Path) -> Any:
    """The manifest as JSON."""
    return json.loads((folder / "manifest.json").read_text())


def change(folder: Path, edit: Callable[[Any], None]) -> None:
    """Edits the manifest as somebody with a text editor might."""
    table = manifest_of(folder)
    edit(table)
    (folder / "manifest.json").write_text(json.dumps(table))


def test_what_was_written_is_read(made: Path) -> None:
    result = results.load(made)
    assert [step.id for step in result.done] == [test.id for test in small_suite().tests]
    assert result.missing == () and result.simulated and result.suite == small_suite()
    step = result.step("random-read")
    phases = FakeTarget().run_test(step.test, seed=step.seed, progress=review_progress())
    for stored, fresh in zip(step.phases(), phases, strict=True):
        assert (stored.label, stored.workload, stored.reads, stored.metrics) == (
            fresh.label,
            fresh.workload,
            fresh.reads,
            fresh.metrics,
        )
        series = step.table("series", fresh.label)
        assert series.drop_columns(["phase"]).equals(fresh.series)
        assert step.table("histogram", fresh.label).drop_columns(["phase"]).equals(fresh.histogram)
        stages = step.table("stages", fresh.label)
        assert stages is not None and stages.drop_columns(["phase"]).equals(fresh.stages)
    assert step.table("series").num_rows == sum(phase.series.num_rows for phase in phases)
    with pytest.raises(KeyError):
        result.step("nonsense")


def review_progress() -> Any:
    """A progress that nobody reads."""
    from drivebay.targets.base import Progress

    return Progress()


def test_a_real_targets_own_files_are_kept(tmp_path: Path) -> None:
    made = review.run(lambda: FakeTarget(kind="file"), small_suite(), out=tmp_path / "result")
    step = results.load(made).step("random-read")
    raw = made / "steps" / "random-read" / "raw"
    kept = {
        str(path.relative_to(raw)): path.read_bytes() for path in raw.rglob("*") if path.is_file()
    }
    assert kept == {
        "qd1.fio": b"[job]\n",
        "qd2.fio": b"[job]\n",
        "qd4.fio": b"[job]\n",
        "version.txt": b"fake-1\n",
        "output.txt": b"qd1",
        "qd2/output.txt": b"qd2",
        "qd4/output.txt": b"qd4",
    }
    assert step.table("stages") is None


def test_manifest_has_no_time_of_day_and_a_stable_form(made: Path) -> None:
    raw = (made / "manifest.json").read_bytes()
    table = manifest_of(made)
    assert raw == files.json_bytes(table), "keys sorted, a newline at the end"
    assert set(table) == {"schema", "tool", "suite", "quick", "seed", "target", "host", "steps"}
    assert table["schema"] == SCHEMA_VERSION and table["target"]["drive"] == "fake-drive"
    assert set(table["tool"]) == {"version", "git_commit", "core", "python"}
    assert b"time" not in raw.replace(b"thinktime", b"") and b"pid" not in raw
    events = [json.loads(line) for line in (made / "log.jsonl").read_text().splitlines()]
    assert [event["event"] for event in events][:2] == ["created", "step_started"]
    assert all("time" in event for event in events)


def test_parquet_is_the_same_for_the_same_rows_however_they_are_chunked() -> None:
    phase = FakeTarget().run_test(small_suite().tests[0], seed=1, progress=review_progress())[0]
    whole = phase.series
    pieces = pa.concat_tables([whole.slice(0, 7), whole.slice(7, 3), whole.slice(10)])
    assert pieces.column(0).num_chunks == 3
    renamed = whole.replace_schema_metadata({"made": "elsewhere"})
    one = writing.parquet_bytes([("run", whole)], SERIES_SCHEMA)
    assert writing.parquet_bytes([("run", pieces)], SERIES_SCHEMA) == one
    assert writing.parquet_bytes([("run", renamed)], SERIES_SCHEMA) == one
    assert writing.parquet_bytes([("walk", whole)], SERIES_SCHEMA) != one


def test_parquet_bytes_do_not_depend_on_the_process(tmp_path: Path) -> None:
    """Two processes with different hash seeds write the same folder."""
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from fakes import FakeTarget, small_suite\n"
        "from drivebay import review\n"
        "from pathlib import Path\n"
        "from drivebay.common import provenance\n"
        "provenance.git_commit = lambda: None\n"
        "review.run(FakeTarget, small_suite(), out=Path(sys.argv[2]))\n"
    )
    here = Path(__file__).parent
    for name in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": name}
        environment["PYTHONPATH"] = str(here.parent / "python")
        subprocess.run(
            [sys.executable, "-c", script, str(here), str(tmp_path / name)],
            env=environment,
            check=True,
        )
    assert content(tmp_path / "1") == content(tmp_path / "2")


def content(folder: Path) -> dict[str, bytes]:
    """Every file of a result but the log, by its path."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "log.jsonl"
    }


def test_a_partial_review_loads_and_says_what_is_missing(tmp_path: Path) -> None:
    def refuse(test: Any) -> None:
        if test.id == "sequential-read":
            raise EnvironmentProblem("the cable fell out", "put it back")

    with pytest.raises(EnvironmentProblem, match="sequential-read: the cable fell out"):
        review.run(
            lambda: FakeTarget(kind="file", before=refuse), small_suite(), out=tmp_path / "r"
        )
    result = results.load(tmp_path / "r")
    assert [step.id for step in result.missing] == ["sequential-read", "thermal-write"]
    assert result.step("sequential-read").state == "failed"
    assert result.step("sequential-read").error == "the cable fell out"
    assert result.step("thermal-write").state == "pending"
    with pytest.raises(ValueError, match="has not been run"):
        result.step("thermal-write").table("series")


def corrupt(path: Path) -> None:
    """Flips one bit in the middle."""
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (lambda f: corrupt(f / "steps/random-read/series.parquet"), "series.parquet: has changed"),
        (lambda f: (f / "steps/random-read/step.json").unlink(), "step.json: is missing"),
        (lambda f: (f / "steps/random-read/step.json").write_bytes(b""), "step.json: has changed"),
        (lambda f: shutil.rmtree(f / "steps/random-read"), "is missing"),
        (lambda f: change(f, lambda m: m["steps"][1]["files"].clear()), "has no files"),
    ],
)
def test_a_damaged_step_is_named_and_run_again(
    made: Path, spoil: Callable[[Path], None], expected: str
) -> None:
    whole = content(made)
    spoil(made)
    with pytest.raises(EnvironmentProblem, match=expected) as caught:
        results.load(made)
    assert f"drivebay review --resume {made}" in caught.value.hint
    runs = FakeTarget()
    review.run(lambda: runs, small_suite(), out=made, resume=True)
    assert runs.ran == ["random-read"]
    assert content(made) == whole


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (lambda f: (f / "manifest.json").write_text("{"), "not valid JSON"),
        (lambda f: (f / "manifest.json").write_bytes(b"\xff\x00"), "not valid JSON"),
        (lambda f: (f / "manifest.json").write_text("[]"), "not a manifest of drivebay"),
        (lambda f: (f / "manifest.json").write_text('{"name": "x"}'), "not a manifest"),
        (lambda f: (f / "manifest.json").unlink(), "has no manifest.json"),
        (
            lambda f: change(f, lambda m: m.update(schema=SCHEMA_VERSION + 1)),
            "schema 3, made by a newer",
        ),
        (lambda f: change(f, lambda m: m.update(schema=1)), "schema 1, made by an older"),
        (lambda f: change(f, lambda m: m.pop("seed")), "seed: Field required"),
        (lambda f: change(f, lambda m: m.update(colour=1)), "colour"),
        (lambda f: change(f, lambda m: m["steps"].pop()), "steps are not the suite's tests"),
        (lambda f: change(f, lambda m: m["steps"][0].update(state="?")), "steps.0.state"),
        (lambda f: change(f, lambda m: m["target"].pop("drive")), "target.drive: Field required"),
        (lambda f: change(f, lambda m: m["suite"]["tests"][0].pop("phases")), "phases"),
    ],
)
def test_a_damaged_or_foreign_manifest_is_named(
    made: Path, spoil: Callable[[Path], None], expected: str
) -> None:
    spoil(made)
    for attempt in (results.load, lambda folder: Folder.reopen(folder)):
        with pytest.raises(DrivebayError, match=expected) as caught:
            attempt(made)
        assert caught.value.exit_code == (3 if "is damaged" in caught.value.message else 2)
        assert caught.value.hint
        assert "\n" not in caught.value.message


def test_what_is_no_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        results.load(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="is a file"):
        results.load(tmp_path / "file")


def test_results_are_never_overwritten(made: Path, tmp_path: Path) -> None:
    before = content(made)
    with pytest.raises(UserError, match="never overwritten") as caught:
        review.run(FakeTarget, small_suite(), out=made)
    assert "--resume" in caught.value.hint
    assert content(made) == before
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match="not empty"):
        review.run(FakeTarget, small_suite(), out=other)
    assert [path.name for path in other.iterdir()] == ["thesis.tex"]
    with pytest.raises(UserError, match="is a file"):
        review.run(FakeTarget, small_suite(), out=other / "thesis.tex")


def test_an_empty_folder_may_be_given(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    made = review.run(FakeTarget, small_suite(), out=tmp_path / "empty")
    assert results.load(made).missing == ()


def test_one_review_at_a_time(made: Path) -> None:
    folder, damages = Folder.reopen(made)
    assert damages == ()
    with pytest.raises(UserError, match="another review is writing"):
        Folder.reopen(made)
    folder.close()
    Folder.reopen(made)[0].close()


def test_leftovers_of_a_kill_are_removed(made: Path) -> None:
    whole = content(made)
    (made / ".partial-random-read").mkdir()
    (made / ".partial-random-read" / "step.json").write_text("{")
    (made / ".partial-manifest.json").write_text("{")
    (made / "steps" / "never-heard-of").mkdir()
    with (made / "log.jsonl").open("a") as log:
        log.write('{"time": "cut of')
    review.run(FakeTarget, small_suite(), out=made, resume=True)
    assert content(made) == whole
    lines = (made / "log.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["event"] == "finished"


def test_a_step_that_was_moved_but_not_recorded_is_run_again(made: Path) -> None:
    """Killed between the step's rename and the manifest's: the manifest alone decides."""
    whole = content(made)
    change(made, lambda m: m["steps"][1].update(state="pending", files={}))
    runs = FakeTarget()
    review.run(lambda: runs, small_suite(), out=made, resume=True)
    assert runs.ran == ["random-read"]
    assert content(made) == whole


WRITE_ERRORS = [
    (errno.ENOSPC, "disk is full"),
    (errno.EDQUOT, "disk is full"),
    (errno.EROFS, "read-only"),
    (errno.EACCES, "no permission"),
    (errno.EIO, "failed: Input/output error"),
]


@pytest.mark.parametrize(("number", "expected"), WRITE_ERRORS)
@pytest.mark.parametrize("failing_write", range(1, 22, 4))
def test_a_write_that_fails_keeps_what_had_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, expected: str, failing_write: int
) -> None:
    """From any write on, the disk is full: words and exit 3; when there is space again, resume."""
    whole = content(review.run(FakeTarget, small_suite(), out=tmp_path / "whole"))
    writes = 0
    real = files.write_new

    def write_new(path: Path, raw: bytes) -> None:
        nonlocal writes
        writes += 1
        if writes < failing_write:
            real(path, raw)
            return
        path.write_bytes(raw[: len(raw) // 2])
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(files, "write_new", write_new)
    out = tmp_path / "result"
    with pytest.raises(EnvironmentProblem, match=expected) as caught:
        review.run(FakeTarget, small_suite(), out=out, jobs=1)
    assert caught.value.exit_code == 3
    monkeypatch.setattr(files, "write_new", real)
    if failing_write == 1:
        assert not out.exists(), "no manifest, no folder"
        assert [path.name for path in tmp_path.iterdir()] == ["whole"], "nothing left beside it"
        return
    assert "--resume" in caught.value.hint
    assert not list(out.glob(".partial*"))
    done = results.load(out).done
    assert len(done) == (failing_write - 2) // 5, "four files and a manifest per test"
    runs = FakeTarget()
    review.run(lambda: runs, small_suite(), out=out, resume=True)
    assert len(runs.ran) == 4 - len(done)
    assert content(out) == whole


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_really_full_disk(tmp_path: Path) -> None:
    """The same on a file system of 64 KiB."""
    small = tmp_path / "small"
    small.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(small)]
    if subprocess.run(mounting, capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine does not let us mount")
    try:
        with pytest.raises(EnvironmentProblem, match="disk is full") as caught:
            review.run(FakeTarget, small_suite(), out=small / "r", jobs=1)
        assert caught.value.exit_code == 3
        result = results.load(small / "r")
        assert result.missing, "64 KiB cannot hold the whole review"
        subprocess.run(["mount", "-o", "remount,size=4m", str(small)], check=True)
        review.run(FakeTarget, small_suite(), out=small / "r", resume=True)
        assert results.load(small / "r").missing == ()
        with pytest.raises(EnvironmentProblem, match="read-only"):
            subprocess.run(["mount", "-o", "remount,ro", str(small)], check=True)
            review.run(FakeTarget, small_suite(), out=small / "another")
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_host_and_tool_are_the_same_at_every_call() -> None:
    assert provenance.host() == provenance.host()
    assert provenance.host()["memory_bytes"] > 2**20 and provenance.host()["cpu_model"]
