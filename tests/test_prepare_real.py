"""`drivebay prepare` on real drives: what is judged behind a preparation, what is refused before
anything is written, and, with the real fio, a whole file.

The fast tests have a drive that only says its rates; the refusals meet real files and loop devices.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeTarget, workload
from loops import digest, loop, mounted, needs_root, sparse
from loops import run as run_command
from real_files import data_extents, lasting_fios_of

from drivebay.cli.entry import run
from drivebay.common.errors import EnvironmentProblem, Interrupted
from drivebay.definitions.suites import Test
from drivebay.lab import prepare_real as lab
from drivebay.lab.prepare import Method
from drivebay.results.records import PhaseResult
from drivebay.targets.base import Progress
from drivebay.targets.fio import job, process

GIB = 2**30
STEADY = [200.0, 150.0, 100.0, 100.0, 100.0, 100.0, 100.0]
NEVER = [200.0, 100.0] * 50


class Drive(FakeTarget):
    """Says the rates that it was given, one a slice; each slice writes a tenth of the capacity."""

    def __init__(self, rates: list[float], grew: dict[str, float] | None = None) -> None:
        super().__init__(kind="file", capacity_bytes=GIB)
        self.rates, self.grew = iter(rates), grew or {}
        self.written_bytes = 0
        self.steps: list[str] = []

    def prepare(self, test: Test, *, seed: int, progress: Progress) -> list[dict[str, Any]]:
        self.steps = [step.kind for step in test.prepare]
        spare = test.prepare[0].spare_percent
        self.written_bytes += 3 * GIB if spare is None else int((1 + spare / 100) * GIB)
        return [{"took_s": 7.0} for _ in test.prepare]

    def run_test(self, test: Test, *, seed: int, progress: Progress) -> list[PhaseResult]:
        progress.check()
        self.written_bytes += GIB // 10
        short = workload(read_percent=0, duration_s=1)
        made = self._phase(test.phases[0].model_copy(update={"workload": short}), seed)
        conditions = {"smart": {"grew": self.grew}, "warnings": ["others used 61 %"]}
        made = replace(made, duration_s=10.0, conditions=conditions)
        return [replace(made, writes=int(next(self.rates) * 10), write_bytes=GIB // 10)]


def prepared(drive: Drive, method: Method = "random", **more: float) -> lab.PreparedReal:
    plan = lab.Plan(method, more.get("spare", 0.15), more.get("most", 3.0))
    return lab.prepare(drive, plan, seed=1, progress=Progress())  # type: ignore[arg-type]


def test_the_rate_just_after_is_judged_by_the_last_five_slices_once_they_are_steady() -> None:
    drive = Drive(STEADY)
    found = prepared(drive)
    assert drive.steps == ["fill", "load"] and found.slices_iops == tuple(STEADY)
    assert (found.rate_iops, found.steady_iops, found.error_percent) == (200, 100, 100)
    assert found.more == pytest.approx(0.2, rel=0.01)  # the two slices before those five
    assert (found.drive_s, found.written) == (14, 3)
    assert found.warnings == ("others used 61 %",)


def test_a_drive_that_never_is_steady_is_given_up_at_the_cap() -> None:
    found = prepared(Drive(NEVER), "two-fills", most=1.0)
    assert len(found.slices_iops) == 11  # a tenth, rounded down to bytes
    assert (found.steady_iops, found.error_percent, found.more) == (None, None, None)


def test_sprandom_is_told_of_the_spare_flash_that_was_given() -> None:
    drive = Drive(STEADY)
    assert prepared(drive, "sprandom", spare=0.25).written == 1.25
    assert drive.steps == ["sprandom"]
    text = job.sprandom_job(length=GIB, spare=0.25, engine="io_uring", seed=1)
    for line in ("rw=randwrite", "bs=4096", f"size={GIB}", "sprandom=1", "spr_op=0.25"):
        assert f"\n{line}\n" in text
    assert "norandommap=0" not in text and "time_based" not in text  # fio refuses, or begins again


def test_write_amplification_is_told_where_smart_counts_both_sorts_of_pages() -> None:
    pages = {"attribute_247_host_program_page_count": 100.0}
    assert prepared(Drive(STEADY, pages)).steady_waf is None
    pages["attribute_248_ftl_program_page_count"] = 250.0
    found = prepared(Drive(STEADY, pages))
    assert (found.waf, found.steady_waf) == (3.5, 3.5)


def test_an_interruption_says_what_was_written() -> None:
    progress = Progress()
    progress.cancel()
    plan = lab.Plan("random", 0.15, 3.0)
    with pytest.raises(Interrupted, match=r"at least 3.2 GB were written, 3.00 x the capacity"):
        lab.prepare(Drive(STEADY), plan, seed=1, progress=progress)  # type: ignore[arg-type]


# --- the command line -----------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return sparse(tmp_path / "disk.img", GIB)


def refused(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """The error of a command that must be refused before it announces anything."""
    assert run(["prepare", *map(str, words)]) in (2, 3)
    error, hint = capsys.readouterr().err.splitlines()
    assert error.startswith("error: ") and hint.startswith("hint: ")
    return error.removeprefix("error: ")


@pytest.fixture
def old_fio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fio first in the PATH that answers about options as 3.33 does."""
    fake = tmp_path / "bin" / "fio"
    fake.parent.mkdir()
    fake.write_text(
        '#!/bin/sh\nif [ "$1" = --version ]; then echo fio-3.33; else '
        "echo No such command: sprandom >&2; fi\n"
    )
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "--method is missing"),
        (["--method", "random", "--method", "two-fills"], "--method may be given only once"),
        (["--method", "three-fills"], "--method: 'three-fills' is not allowed"),
        (["--method", "random", "--spare-percent", "7"], "--spare-percent has no meaning"),
        (["--method", "sprandom", "--spare-percent", "100"], "--spare-percent: 100 is not"),
        (["--method", "random", "--most", "0.4"], "--most: 0.4 is not allowed"),
        (["--method", "random", "--capacity", "4G"], "--capacity has no meaning for the real"),
        (["--method", "sprandom"], "sprandom needs fio 3.41 or later; installed is fio-3.33"),
    ],
)
def test_what_is_asked_wrongly_neither_makes_nor_changes_a_file(
    file: Path, words: list[str], said: str, old_fio: None, capsys: pytest.CaptureFixture[str]
) -> None:
    before, new = digest(file), file.with_name("new.img")
    assert refused(capsys, file, *words).startswith(said)
    assert refused(capsys, new, "--size", "1G", *words).startswith(said)
    assert digest(file) == before and not new.exists()


def test_a_virtual_drive_takes_no_word_of_real_ones(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("xp941-512", "--no-wait")
    assert "--no-wait has no meaning for the virtual drive" in refused(capsys, *words)


def test_yes_does_no_harm_to_a_virtual_drive(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("drivebay.lab.prepare.prepare", lambda *_, **__: [])
    words = "prepare xp941-512 --yes --capacity 1G --method random --json"
    assert run(words.split()) == 0
    assert json.loads(capsys.readouterr().out)["drive"] == "xp941-512"


def test_a_files_data_is_written_over_only_by_its_name(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with file.open("r+b") as data:
        data.write(b"a letter")
    before = digest(file)
    random = (file, "--method", "random")
    assert "holds data that drivebay did not write" in refused(capsys, *random)
    assert "names 'other'" in refused(capsys, *random, "--destroy-data", "other")
    assert digest(file) == before


@needs_root
def test_a_device_needs_its_serial_number_and_must_not_be_mounted(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with loop(file) as device:
        before, random = digest(file), (device, "--method", "random")
        assert "its serial number was not given" in refused(capsys, *random)
        assert "names 'other'" in refused(capsys, *random, "--destroy-data", "other")
        assert digest(file) == before
        run_command("mkfs.ext4", "-q", device)
        named = (*random, "--destroy-data", file)
        assert "bears the signature of ext4" in refused(capsys, *named)
        with mounted(device, tmp_path / "place"):
            assert "is mounted at" in refused(capsys, *named, "--overwrite-signature")


@pytest.fixture
def drive(file: Path, monkeypatch: pytest.MonkeyPatch) -> Drive:
    """Stands for every file."""
    drive = Drive(STEADY)
    monkeypatch.setattr("drivebay.targets.fio.target.FioTarget", lambda *_, **__: drive)
    return drive


def test_the_figures_have_the_names_of_a_virtual_drives(
    file: Path, drive: Drive, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["prepare", str(file), "--method", "random", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document.keys() == {"drive", "title", "capacity_bytes", "methods"}
    (found,) = document["methods"]
    virtual = {"method", "drive_s", "written", "waf", "steady_waf", "more", "error_percent"}
    assert virtual < found.keys()
    assert (found["waf"], found["steady_iops"], found["error_percent"]) == (None, 100, 100)
    assert drive.closed


def test_long_work_needs_consent(
    file: Path, drive: Drive, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    drive._capacity_bytes = 10**12
    assert run(["prepare", str(file), "--method", "random"]) == 2
    said = capsys.readouterr().err
    assert "this will take about 8 h 20 min, and there is no terminal" in said
    assert drive.steps == []
    assert run(["prepare", str(file), "--method", "random", "--yes"]) == 0


# --- with the real fio ----------------------------------------------------------------------------


PROGRAM = [sys.executable, "-c", "from drivebay.cli import main; main()", "prepare"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


@pytest.mark.long
@pytest.mark.parametrize(("method", "written"), [("two-fills", 2.0), ("sprandom", 1.15)])
def test_a_file_is_prepared_whole(
    tmp_path: Path, method: str, written: float, capsys: pytest.CaptureFixture[str]
) -> None:
    if method == "sprandom":
        try:
            process.must_have("sprandom", since="3.41", instead="")
        except EnvironmentProblem as problem:
            pytest.skip(problem.message)
    image = tmp_path / "new.img"
    words = ["--size", "1G", "--method", method, "--most", "0.5", "--json"]
    assert run(["prepare", str(image), *words]) == 0
    (found,) = json.loads(capsys.readouterr().out)["methods"]
    assert found["written"] == pytest.approx(written, rel=0.01)
    assert len(found["slices_iops"]) >= 5 and min(found["slices_iops"]) > 0
    # fio 3.42's sprandom leaves some blocks out: 28 of 262,144.
    covered = sum(end - begin for begin, end in data_extents(image))
    assert covered == pytest.approx(GIB, rel=1e-3) and image.stat().st_size == GIB
    image.unlink()


@pytest.mark.long
def test_ctrl_c_ends_fio_and_says_what_was_written(tmp_path: Path) -> None:
    image = tmp_path / "new.img"
    words = [str(image), "--size", "2G", "--method", "random"]
    with subprocess.Popen(
        [*PROGRAM, *words], env=ENVIRONMENT, stderr=subprocess.PIPE, text=True
    ) as program:
        fios = lasting_fios_of(program.pid)
        program.send_signal(signal.SIGINT)
        _, said = program.communicate()
    assert program.returncode == 130
    assert re.search(r"error: interrupted; at least .* were written, .* x the capacity\n", said)
    assert fios and not any(Path(f"/proc/{pid}").exists() for pid in fios)
    image.unlink()
