"""`drivebay doctor` on machines that lack things, and what shells offer for names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from drivebay.cli import complete, target
from drivebay.cli.entry import run
from drivebay.common import programs
from drivebay.targets import doctor
from drivebay.targets.doctor import basics, drives


def by_name() -> dict[str, doctor.Finding]:
    return {finding.name: finding for finding in doctor.everything()}


def test_where_the_tests_run_the_basics_stand(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] is True
    assert {finding["group"] for finding in report["findings"]} == set(doctor.GROUPS)
    for finding in report["findings"]:
        assert finding["state"] == "ok" or finding["get"], finding["name"]
        assert finding["found"] and finding["needed_for"], finding["name"]


def test_a_machine_without_programs_is_told_how_to_get_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    found = by_name()
    assert found["fio"].state == "missing"
    assert found["fio"].get == "apt install fio"
    assert found["QEMU, vfio-user-pci"].state == "missing"
    assert not any(finding.state == "missing" for finding in found.values() if finding.basic)


@pytest.mark.parametrize(
    ("says", "state", "words"),
    [
        ("fio-3.33", "note", "timed replay"),
        ("fio-3.38", "note", "randseed"),
        ("fio-3.41", "ok", ""),
        ("fio-3.1", "missing", ""),
        ("something else", "missing", "apt install fio"),
    ],
)
def test_fio_is_known_by_its_version(
    monkeypatch: pytest.MonkeyPatch, says: str, state: str, words: str
) -> None:
    monkeypatch.setattr("shutil.which", lambda *_, **__: "/usr/bin/fio")
    monkeypatch.setattr(basics, "said", lambda *_: says)
    finding = next(finding for finding in basics.look(drives.CHECKS) if finding.name == "fio")
    assert finding.state == state
    assert words in finding.get


def test_a_missing_core_is_an_answer_and_exit_code_3(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "drivebay._core", None)
    assert run(["doctor"]) == 3
    out, err = capsys.readouterr()
    assert "Rust core" in out and "make setup" in out
    assert err.startswith("error: missing, and needed for every use: Rust core")


def test_a_core_that_is_older_than_its_python_part_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from drivebay import _core

    monkeypatch.delattr(_core, "replay_survey")
    finding = next(finding for finding in basics.look() if finding.name == "Rust core")
    assert finding.state == "missing"
    assert "replay_survey" in finding.found


def test_too_little_memory_names_a_smaller_drive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(basics, "available_bytes", lambda: 400_000_000)
    assert by_name()["memory"].state == "note"
    monkeypatch.setattr(basics, "available_bytes", lambda: 1_000)
    finding = by_name()["memory"]
    assert finding.state == "missing"
    assert "drivebay review sm951-ahci-128" in finding.get


def test_a_full_disk_and_a_folder_that_is_not_ours(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("shutil.disk_usage", lambda _: _Full())
    assert by_name()["disk space"].state == "missing"
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert "not writable" in by_name()["disk space"].found


class _Full:
    free = 1000


def completed(line: str) -> list[str]:
    """What bash is offered for the last word of this line."""
    words = line.split(" ")
    done = subprocess.run(
        [sys.executable, "-c", "from drivebay.cli import main; main()"],
        env={
            **os.environ,
            "_DRIVEBAY_COMPLETE": "complete_bash",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(words) - 1),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_a_shell_is_offered_drives_and_tests() -> None:
    assert completed("drivebay review sm951-n") == [
        "sm951-nvme-128",
        "sm951-nvme-256",
        "sm951-nvme-512",
    ]
    assert completed("drivebay review --suite quick --only ran") == ["random-read", "random-write"]
    assert "serve" in completed("drivebay se")


class _Line:
    """As much of a parsed line as completion asks for."""

    def __init__(self, **params: object) -> None:
        self.params = params


def test_names_come_with_titles_and_from_the_users_own_suite(tmp_path: Path) -> None:
    assert ("quick", "Quick look") in complete.suites("q")
    own = tmp_path / "own.toml"
    own.write_text('[[tests]]\nid = "log-writes"\ntitle = "Log"\n[[tests]]\ntitle = "no id"\n')
    line = _Line(suite=str(own))
    assert complete.tests(line, "") == [("log-writes", "Log")]  # type: ignore[arg-type]
    own.write_text("not = [toml")
    assert complete.tests(line, "") == []  # type: ignore[arg-type]
    (tmp_path / "steps/random-read").mkdir(parents=True)
    assert complete.tests_of_result(_Line(folder=tmp_path), "ra") == ["random-read"]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("{root}/bin", []),
        ("{root}/none", []),
        ("{root}/bin:", ["an empty part means the current folder"]),
        ("bin:{root}/bin:./x", ["bin is relative", "./x is relative"]),
        ("{root}/loose/bin", ["{root}/loose can be written by others"]),
        ("{root}/sticky/bin", []),
        ("{root}/sticky", ["{root}/sticky can be written by others"]),
        ("{root}/theirs", ["{root}/theirs can be written by others"]),
        ("{root}/link", ["{root}/loose can be written by others"]),
        ("{root}/loose/link", ["{root}/loose can be written by others"]),
        ("{root}/sticky/link", ["{root}/sticky/link can be written by others"]),
        ("{root}/sticky/none/bin", ["{root}/sticky can be written by others"]),
        ("{root}/bin/none/bin", []),
        ("{root}/loop", []),
    ],
)
@pytest.mark.skipif(os.geteuid() != 0, reason="folders of others need root")
def test_folders_of_a_path_that_others_can_write_to(
    tmp_path: Path, path: str, words: list[str]
) -> None:
    for name, mode in (("", 0o755), ("loose", 0o777), ("sticky", 0o1777), ("theirs", 0o755)):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name).chmod(mode)
        (tmp_path / name / "bin").mkdir(exist_ok=True, mode=0o755)
    os.chown(tmp_path / "theirs", 65534, 0)
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "link").symlink_to(tmp_path / "loose" / "bin")
    for name in ("loose", "sticky"):
        (tmp_path / name / "link").symlink_to(tmp_path / "bin")
    os.chown(tmp_path / "sticky" / "link", 65534, 65534, follow_symlinks=False)
    found = list(programs.loose_folders(path.format(root=tmp_path)))
    assert found == [one.format(root=tmp_path) for one in words]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's PATH is looked at")
def test_roots_path_is_warned_of_once_before_a_program_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", f"bin:{os.environ['PATH']}")
    for arguments in (["check-trim", str(tmp_path)], ["review", str(tmp_path)]):
        target.warn_of_path.cache_clear()
        assert run(arguments) == 2
        assert capsys.readouterr().err.count("warning: PATH of root: bin is relative") == 1
    assert run(["review", "sm951-ahci-128", "--list"]) == 0
    assert "PATH" not in capsys.readouterr().err
    if found := [one for one in doctor.everything() if one.name == "PATH"]:
        assert (found[0].state, "bin is relative" in found[0].found) == ("note", True)
