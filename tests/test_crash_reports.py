"""Failures of crash checks in a pipeline: one command, a paragraph, JUnit, SARIF, a time limit, and
the file that owns a lost sector.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import crash_program
import here
import pytest

from drivebay.common import programs
from drivebay.common.errors import UserError
from drivebay.crash import files, reports, words

PROGRAM = str(Path(crash_program.__file__))
PYTHON = f"{sys.executable} -ISE"


def _pipeline(name: str, folder: Path, *more: str, code: int) -> str:
    """Records and checks a program in one command, with both reports."""
    done = here.drivebay(
        *("crash", "run", "kv.crash", "--workload", f"{PYTHON} {PROGRAM} work {name}"),
        *("--states", "150", "--junit", "out.xml", "--sarif", "out.sarif", *more),
        *("--", *PYTHON.split(), PROGRAM, "check", name, "{}"),
        cwd=folder,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def _junit(path: Path) -> list[ElementTree.Element]:
    """Test cases of a report that has the shape of the JUnit schema."""
    suite = ElementTree.parse(path).getroot()
    assert suite.tag == "testsuite" and {"name", "tests", "failures", "errors"} <= set(suite.attrib)
    cases = suite.findall("testcase")
    failures = suite.findall("testcase/failure")
    assert (len(cases), len(failures)) == (
        int(suite.get("tests", "")),
        int(suite.get("failures", "")),
    )
    assert all(case.get("name") and case.get("classname") for case in cases)
    assert all(one.get("message") and one.get("type") and one.text for one in failures)
    return cases


def _sarif(path: Path) -> list[dict[str, Any]]:
    """Results of a report that has the required fields of SARIF 2.1.0, and those of code hosts."""
    log = json.loads(path.read_text())
    assert log["version"] == "2.1.0" and log["$schema"].endswith("sarif-2.1.0.json")
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] and driver["version"]
    known = {rule["id"] for rule in driver["rules"]}
    for result in run["results"]:
        assert result["ruleId"] in known and result["level"] == "error"
        assert result["message"]["text"] and result["partialFingerprints"]
        (place,) = result["locations"]
        assert place["physicalLocation"]["artifactLocation"]["uri"]
    results: list[dict[str, Any]] = run["results"]
    return results


def test_one_command_records_checks_and_names_the_missing_flush(tmp_path: Path) -> None:
    told = _pipeline("no-fsync", tmp_path, "--seed", "7", code=1)
    (text,) = [line for line in told.splitlines() if line.startswith("A power cut at ")]
    assert "The write #" in text and " of LBA " in text and "no flush came before the mark" in text
    assert "Missing: a flush before the mark " in text and "(seed 7; drivebay crash replay " in text
    (case,) = _junit(tmp_path / "out.xml")
    assert case[0].text == text and text.startswith(case[0].get("message", "-"))
    (result,) = _sarif(tmp_path / "out.sarif")
    assert result["message"]["text"] == text
    words_ = text.partition("drivebay ")[2].rstrip(")").split()
    assert here.drivebay(*words_, cwd=tmp_path).returncode == 0
    assert (tmp_path / "state.img").stat().st_size >= 64 << 20


def test_a_program_without_the_bug_leaves_reports_that_pass(tmp_path: Path) -> None:
    _pipeline("right-no-fsync", tmp_path, code=0)
    reports.refuse_others(tmp_path / "out.xml", tmp_path / "out.sarif")  # the next run may
    (case,) = _junit(tmp_path / "out.xml")
    assert case.get("name") == "every state is good" and not _sarif(tmp_path / "out.sarif")


def test_a_check_that_looks_at_nothing_fails_in_the_report(tmp_path: Path) -> None:
    work = f"{PYTHON} {PROGRAM} work right-no-fsync"
    done = here.drivebay(
        *("crash", "run", "a.crash", "--workload", work, "--json", "--junit", "out.xml"),
        *("--", "true"),
        cwd=tmp_path,
    )
    assert done.returncode == 2, done.stderr
    (case,) = _junit(tmp_path / "out.xml")
    assert "the check passes on an empty drive" in (case[0].text or "")


def test_a_workload_that_fails_is_not_checked(tmp_path: Path) -> None:
    done = here.drivebay(
        *("crash", "run", "a.crash", "--workload", "sh -c 'exit 5'", "--", "true"), cwd=tmp_path
    )
    assert done.returncode == 2 and "the workload fails: exit code 5" in done.stderr


@pytest.mark.parametrize("option", ["--junit", "--sarif"])
def test_a_report_replaces_no_other_file(option: str, tmp_path: Path) -> None:
    """Refused before the recording is opened, which does not exist here."""
    mine, pipe = tmp_path / "mine", tmp_path / "pipe"
    mine.write_text("my only copy")
    os.mkfifo(pipe)
    links = tmp_path / "link", tmp_path / "dangling"
    for link, target in zip(links, ("mine", "nowhere"), strict=True):
        link.symlink_to(target)
    for place in (mine, pipe, *links, tmp_path):
        done = here.drivebay(
            "crash", "run", "a.crash", option, str(place), "--", "true", cwd=tmp_path
        )
        assert done.returncode == 2 and "it is not overwritten" in done.stderr
    assert mine.read_text() == "my only copy" and pipe.is_fifo()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dangling", "link", "mine", "pipe"]


def test_another_json_file_with_the_tools_name_is_kept(tmp_path: Path) -> None:
    mine = tmp_path / "package.json"
    mine.write_text('{\n "name": "drivebay"\n}\n')
    with pytest.raises(UserError, match="it is not overwritten"):
        reports.refuse_others(None, mine)


def test_a_budget_ends_the_checks_and_says_how_many_are_missing(tmp_path: Path) -> None:
    slow = ("--", "sh", "-c", 'sleep 0.3; test "$DRIVEBAY_STATE" != empty')
    work = f"{PYTHON} {PROGRAM} work right-torn-page"
    done = here.drivebay(
        *("crash", "run", "a.crash", "--workload", work, "--budget", "8", "--jobs", "1", *slow),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "note: the time ended after " in done.stderr
    (note,) = [line for line in done.stderr.splitlines() if "the time ended" in line]
    checked, total = (int(word) for word in note.split() if word.isdigit())
    assert 0 < checked < total


@pytest.mark.parametrize("rules", ["nvme", "ata", "disk"])
def test_rules_of_a_standard_add_damage_that_the_check_can_see(rules: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    check = f'echo "$DRIVEBAY_STATE $DRIVEBAY_UNREADABLE" >> {log}; test "$DRIVEBAY_STATE" != empty'
    work = f"{PYTHON} {PROGRAM} work right-torn-page"
    done = here.drivebay(
        *("crash", "run", "a.crash", "--workload", work, "--rules", rules, "--states", "300"),
        *("--", "sh", "-c", check),
        cwd=tmp_path,
    )
    assert done.returncode == 0 and "states have a damaged part" in done.stdout, (
        done.stdout + done.stderr
    )
    lines = [line.split() for line in log.read_text().splitlines()]
    kinds = {line[0].partition("+")[2].partition(":")[0] for line in lines} - {""}
    damaged = {"garbage", "sheared", "unwritten"} if rules != "disk" else set()
    assert kinds == {*damaged, "unreadable"}
    for state, *sectors in lines:
        assert bool(sectors) == ("+unreadable" in state)
        count = {"nvme": 1, "ata": 8, "disk": 1}[rules]
        assert all(one.endswith(f"+{count}") for one in sectors)


@pytest.mark.parametrize(
    ("awupf", "given", "atomic"), [(8, "", 4096), (8, "1KiB", 1024), (0, "", 512)]
)
def test_the_profile_specifies_what_nvme_never_tears(
    awupf: int, given: str, atomic: int, tmp_path: Path
) -> None:
    change = f"identify.atomic_write_power_fail={awupf}"
    done = here.drivebay(
        *("crash", "run", "a.crash", "--workload", f"{PYTHON} {PROGRAM} work right-torn-page"),
        *("--rules", "nvme", "--drive", "sm951-nvme-256", "--set", change, "--states", "5"),
        *(("--atomic", given) if given else ()),
        *("--json", "--", "sh", "-c", 'test "$DRIVEBAY_STATE" != empty'),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    changes = json.loads((tmp_path / "a.crash.run" / "run.json").read_text())["changes"]
    assert changes == {"standard": "nvme", "atomic_bytes": atomic}


# --- the file that owns a sector ------------------------------------------------------------------

MAKE = {
    "ext4": ("mkfs.ext4", "-q", "-d", "tree", "image"),
    "btrfs": ("mkfs.btrfs", "-q", "--rootdir", "tree", "image"),
    "xfs": ("mkfs.xfs", "-q", "-p", "proto", "image"),
}
TOOLS = {"ext4": "debugfs", "btrfs": "btrfs", "xfs": "xfs_db"}


@pytest.mark.parametrize("kind", MAKE)
def test_the_file_of_a_sector_is_found(kind: str, tmp_path: Path) -> None:
    make = programs.find(MAKE[kind][0])
    if make is None or programs.find(TOOLS[kind]) is None:
        pytest.skip(f"not installed: {MAKE[kind][0]} or {TOOLS[kind]}")
    (tmp_path / "tree" / "logs").mkdir(parents=True)
    content = b"".join(bytes([letter]) * 4096 for letter in b"abcdefgh")
    (tmp_path / "tree" / "logs" / "wal").write_bytes(content)
    (tmp_path / "proto").write_text(
        "/\n0 0\nd--755 0 0\nlogs d--755 0 0\nwal ---644 0 0 tree/logs/wal\n$\n$\n"
    )
    with (tmp_path / "image").open("wb") as file:
        file.truncate(320 << 20)
    done = subprocess.run([make, *MAKE[kind][1:]], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    at = (tmp_path / "image").read_bytes().index(b"c" * 4096)
    assert files.owner(tmp_path / "image", at // 512 + 3) == "/logs/wal at offset 9,728"
    assert files.owner(tmp_path / "image", 0) is None


def test_a_drive_without_a_file_system_has_no_files(tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes(bytes(1 << 20))
    assert files.owner(tmp_path / "image", 8) is None


# --- the paragraph --------------------------------------------------------------------------------


def _event(**more: Any) -> dict[str, Any]:
    event = {"op": "write", "number": 5, "lba": 8, "sectors": 8, "lost_units": 1, "why": "no-flush"}
    return {**event, "mark": None, **more}


def _text(*events: dict[str, Any], owner: str = "", **more: Any) -> str:
    found = {"cut_ns": 1_000_000, "mark": "3", "damage": None, "later": [], "events": events}
    return words.paragraph({**found, **more}, lambda _sector: owner, "it is gone", 4)


def test_a_paragraph_names_the_write_the_file_and_the_call() -> None:
    text = _text(_event(), owner="/db-wal at offset 4,096")
    assert "The write #5 of LBA 8-15 (/db-wal at offset 4,096) is lost" in text
    assert text.endswith("Missing: fsync of /db-wal before the mark 3.")
    assert "Missing" not in _text(_event(why="in-flight"))
    assert "2 more writes are lost" in _text(*[_event()] * 5)


def test_a_paragraph_names_the_missing_call_if_no_write_is_lost() -> None:
    text = _text(owner="/db at offset 0", later=[64])
    assert "Nothing that the drive was given is lost" in text
    assert text.endswith("Missing: fsync of /db before the mark 3.")
    assert "or of the folder whose entry changed" in _text(later=[64])


def test_a_paragraph_names_damage() -> None:
    assert "LBA 8-15 is garbage, as the rules permit" in _text(damage=("garbage", 8, 8))
    assert "Sectors without data are unwritten" in _text(damage=("unwritten", 0, 0))


# --- write-back -----------------------------------------------------------------------------------


@pytest.mark.skipif(
    os.geteuid() != 0
    or not all(map(shutil.which, ("nbdfuse", "fusermount3", "mkfs.ext4", "losetup"))),
    reason="mounting needs root, nbdfuse and loop devices",
)
def test_write_back_sends_data_to_the_drive_that_no_program_synced(tmp_path: Path) -> None:
    mounted = Path(PROGRAM).parents[1] / "examples" / "crash" / "mounted.py"
    (tmp_path / "work.py").write_text(
        "import time\n"
        "with open('file', 'wb', 0) as file:\n"
        "    for number in range(8):\n"
        "        file.write(bytes([65 + number]) * 65536)\n"
        "        time.sleep(0.1)\n"
        "    file.truncate(0)\n"
    )

    def writes(*more: str) -> int:
        out = f"recording{len(more)}"
        work = (sys.executable, str(mounted), "--make", "ext4", "{}", "--")
        done = here.drivebay(
            *("crash", "record", "sm951-nvme-256", "--capacity", "64MiB", "--out", out, *more),
            *("--", *work, sys.executable, str(tmp_path / "work.py")),
            cwd=tmp_path,
        )
        assert done.returncode == 0, done.stderr
        return sum(letter * 4096 in (tmp_path / out).read_bytes() for letter in (b"A", b"B", b"C"))

    assert writes() == 0 and writes("--writeback", "100") == 3
