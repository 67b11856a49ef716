"""The judge of benchmarks: each rule with and without its flaw, its page, and changed files.

All figures are invented.
"""

from __future__ import annotations

import csv
import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
from test_imports import FIO_3, changed

from drivebay.cli.entry import run
from drivebay.common.errors import DrivebayError, UserError
from drivebay.lab.judge import judge
from drivebay.lab.judge.rules import RULES

TIMES = int(os.environ.get("DRIVEBAY_MUTATIONS", 300))
PAGE = Path(__file__).parent.parent / "docs/concepts/judge.md"
UNKNOWN = "cannot be told from this file"


def job(ios: int = 200_000, **more: Any) -> dict[str, Any]:
    """Random reads of a device for 100 s with direct I/O, in which no rule sees a flaw."""
    options = {"rw": "randread", "bs": "4k", "direct": "1", "ioengine": "io_uring"}
    options |= {"iodepth": "4", "filename": "/dev/nvme0n1", **more.pop("options", {})}
    way, block = more.pop("way", "read"), more.pop("block", 4096)
    runtime, mean = more.pop("runtime_ms", 100_000), more.pop("mean_ns", None)
    mean = 4 * runtime * 1e6 / ios if mean is None else mean
    listed = {"50.000000": round(mean), "99.000000": round(2 * mean)}
    side = {
        "io_bytes": ios * block,
        "io_kbytes": ios * block >> 10,
        "bw": ios * block // runtime,
        "total_ios": ios,
        "runtime": runtime,
        "clat_ns": {"mean": mean, "percentile": more.pop("percentile", listed)},
        "lat_ns": {"mean": mean},
        "bw_min": 95.0,
        "bw_max": 105.0,
        "bw_mean": 100.0,
        "bw_dev": 4.0,
        "bw_samples": 200,
        **more.pop("side", {}),
    }
    return {
        "jobname": "a",
        "groupid": 0,
        "error": 0,
        "job options": {key: value for key, value in options.items() if value is not None},
        way: side,
        "job_runtime": runtime,
        "usr_cpu": 5.0,
        "sys_cpu": 9.0,
        "iodepth_level": {"1": 1.0, "2": 1.0, "4": 98.0},
        **more,
    }


def verdicts(folder: Path, *jobs: dict[str, Any]) -> dict[str, str]:
    path = folder / "a.json"
    counts = [job.pop("disk") for job in jobs if "disk" in job]
    disks = [{"name": name, "read_ios": ios, "write_ios": ios} for name, ios in counts]
    document = {"fio version": "fio-3.33", "jobs": list(jobs), "disk_util": disks}
    path.write_text(json.dumps(document, indent=1))
    ((judged, found),) = judge([path])
    assert judged == path
    return {entry.flaw: entry.verdict for entry in found}


def test_a_clean_run_has_no_flaw(tmp_path: Path) -> None:
    found = verdicts(tmp_path, job())
    assert found.pop("precondition") == UNKNOWN
    assert set(found.values()) == {"excluded"}


WRITES = {"options": {"rw": "randwrite"}, "way": "write"}
SERIAL: dict[str, Any] = {
    "side": {"slat_ns": {"mean": 125_000.0}, "lat_ns": {"mean": 2e6}},
    "runtime_ms": 25_000,
}
SERIAL |= {"options": {"iodepth": "16"}, "iodepth_level": {"16": 100.0}}
DEEP: dict[str, Any] = {**SERIAL, "options": {"iodepth": "64"}, "iodepth_level": {">=64": 100.0}}
DEEP |= {"side": {**SERIAL["side"], "lat_ns": {"mean": 8e6}}}
NETWORK = {"block": 2**16, "runtime_ms": 115_000}
SATA = {"block": 2**18, "runtime_ms": 95_000, "options": {"filename": "/dev/sda"}}
BURST = {"bw_min": 20.0, "bw_max": 250.0, "bw_dev": 60.0}


@pytest.mark.parametrize(
    ("flaw", "verdict", "more"),
    [
        ("precondition", "likely", WRITES),
        ("precondition", "likely", {"mean_ns": 6000.0, "options": {"iodepth": None}}),
        ("cache", "shown", {"options": {"ioengine": "null"}}),
        ("cache", "shown", {"mean_ns": 2500.0}),
        ("cache", "shown", {"mean_ns": 9000.0, "options": {"direct": "0"}}),
        ("cache", "likely", {"options": {"direct": None, "rw": "read"}}),
        ("cache", "likely", {"options": {"direct": "0"}}),
        ("slc", "excluded", {**WRITES, "ios": 1000}),
        ("slc", UNKNOWN, {**WRITES, "ios": 2_000_000, "side": BURST}),
        ("slc", UNKNOWN, {**WRITES, "ios": 2_000_000, "side": {"bw_samples": 0}}),
        ("throttle", "excluded", {"ios": 300_000, "side": {"bw_dev": 20.0}}),
        ("span", "shown", {"options": {"size": "64m"}}),
        ("span", "likely", {"options": {"size": "2g"}}),
        ("span", UNKNOWN, {"options": {"size": "32g"}}),
        ("span", "excluded", {"options": {"size": "100g"}}),
        ("percentiles", "shown", {"percentile": {"99.990000": 900_000}, "ios": 99_000}),
        ("percentiles", "shown", {"percentile": {"99.000000": 10}}),
        ("percentiles", "shown", {"percentile": {"50.000000": 17_112_760_320}}),
        ("percentiles", "excluded", {"percentile": {"99.990000": 900_000}}),
        ("depth", "shown", {"options": {"ioengine": "psync"}}),
        ("depth", "shown", {"options": {"rate_iops": "2000"}}),
        ("depth", "shown", {"options": {"iodepth": "32"}}),
        ("depth", "shown", {"iodepth_level": {"1": 99.0, "4": 1.0}}),
        ("depth", UNKNOWN, {"options": {"iodepth": "6"}}),
        ("depth", "shown", {"options": {"ioengine": "libaio", "direct": "0"}}),
        ("cache", "shown", {"options": {"filename": "/dev/nullb0"}}),
        ("cache", "likely", {"disk": ("loop0", 200_000)}),
        ("cache", "shown", {"options": {"direct": None}, "disk": ("sda", 90_000)}),
        ("cache", "excluded", {"options": {"direct": "0"}, "disk": ("sda", 199_000)}),
        ("cache", "excluded", {"way": "write", "mean_ns": 9000.0, "options": {"rw": "randwrite"}}),
        ("depth", "shown", SERIAL),
        ("depth", "excluded", {**DEEP, "disk": ("sda", 200_000)}),
        ("depth", "shown", {**DEEP, "disk": ("nvme0n1", 200_000)}),
        ("depth", "excluded", {**SERIAL, "usr_cpu": 90.0}),
        ("depth", UNKNOWN, {"options": {"iodepth": "32"}, "iodepth_level": {"32": 100.0}}),
        ("precondition", UNKNOWN, {**WRITES, "options": {"rw": "write", "zonemode": "zbd"}}),
        ("precondition", UNKNOWN, {**WRITES, "options": {"rw": "randwrite", "size": "256m"}}),
        ("precondition", UNKNOWN, {**WRITES, "runtime_ms": 300_000}),
        ("precondition", UNKNOWN, {**WRITES, "options": {"rw": "randwrite", "ioengine": "rbd"}}),
        ("precondition", UNKNOWN, {"mean_ns": 2500.0}),
        ("precondition", UNKNOWN, {"mean_ns": 6000.0, "disk": ("sda", 41)}),
        ("precondition", "likely", {"mean_ns": 6000.0, "disk": ("sda", 200_000)}),
        ("precondition", UNKNOWN, {"way": "write", "block": 2**16, "options": {"rw": "write"}}),
        ("span", UNKNOWN, {"options": {"size": "7%"}}),
        ("bound", UNKNOWN, {"usr_cpu": 99.0, "options": {"ioengine": "xnvme"}}),
        ("bound", "excluded", {**SATA, "side": {"bw_max": 130.0}}),
        ("bound", "excluded", {**SATA, "disk": ("nvme0n1", 200_000)}),
        ("bound", "likely", {**SATA, "disk": ("sda", 200_000), "options": {"filename": "f"}}),
        ("bound", "likely", {"block": 2**20, "runtime_ms": 64_430}),
        ("bound", "excluded", {"block": 2**20, "runtime_ms": 31_000}),
        ("bound", "likely", {**NETWORK, "disk": ("rbd0", 200_000)}),
        ("bound", "excluded", {**NETWORK, "disk": ("sda", 200_000)}),
        ("bound", "shown", {"usr_cpu": 40.0, "sys_cpu": 59.0}),
        ("bound", "likely", {**SATA, "side": {"bw_dev": 1.0}}),
        ("bound", "likely", {"options": {"zero_buffers": "1"}}),
    ],
)
def test_a_rule_tells_its_flaw(
    tmp_path: Path, flaw: str, verdict: str, more: dict[str, Any]
) -> None:
    assert verdicts(tmp_path, job(**more))[flaw] == verdict


def test_a_span_that_an_earlier_job_wrote_is_prepared(tmp_path: Path) -> None:
    size = {"size": "1g"}
    fill = job(2 * 2**18, way="write", options={"rw": "write", **size})
    later = job(way="write", options={"rw": "randwrite", **size}, groupid=1)
    assert verdicts(tmp_path, later)["precondition"] == "likely"
    assert verdicts(tmp_path, fill, later)["precondition"] == UNKNOWN


@pytest.mark.parametrize("way", ["read", "write"])
def test_logs_show_a_fall(tmp_path: Path, way: str) -> None:
    rates = [3000] * 50 + [1000] * 50
    logged = {"rw": f"rand{way}", "log_avg_msec": "1000", "write_iops_log": "x"}
    lines = [
        f"{1000 * (at + 1)}, {rate}, {int(way == 'write')}, 0" for at, rate in enumerate(rates)
    ]
    (tmp_path / "x_iops.1.log").write_text("\n".join(lines))
    found = verdicts(tmp_path, job(way=way, options=logged, block=2**15))
    assert found["throttle" if way == "read" else "slc"] == "shown"


def test_reads_and_writes_of_one_rate_have_a_limit(tmp_path: Path) -> None:
    jobs = [
        job(100 * (3000 + at), way=way, options={"rw": f"rand{way}"}, groupid=at)
        for at, way in enumerate(("read", "write", "write"))
    ]
    assert verdicts(tmp_path, *jobs)["throttle"] == "likely"
    assert verdicts(tmp_path, *jobs[1:])["throttle"] == "excluded"


def test_a_text_with_its_terse_line_is_judged_by_the_text(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    stats = (
        "\nDisk stats (read/write):\n  sda: ios=9/0, sectors=9/0, merge=0/0, ticks=1/0, util=1%\n"
    )
    path.write_text(f"{FIO_3}{stats}3;fio-3.33;a;0;0;1;2\n")
    ((_, found),) = judge([path])
    assert {entry.flaw: entry.verdict for entry in found}["cache"] == "shown"


def test_a_manual_is_no_result(tmp_path: Path) -> None:
    path = tmp_path / "HOWTO.txt"
    path.write_text(f".. option:: rw=str\n\n.. option:: bs=int\n\n{FIO_3}")
    with pytest.raises(UserError, match="this is a manual, not the output of a run"):
        list(judge([path]))


def test_options_of_a_run_that_was_stopped_are_not_those_of_the_next(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    head, _, rest = FIO_3.partition("fio-3.33\n")
    stopped = head.replace("iodepth=8", "iodepth=64").replace("libaio", "psync")
    path.write_text(f"{stopped}fio-3.33\nStarting 3 processes\n^Cbs: 3\n{head}fio-3.33\n{rest}")
    ((_, found),) = judge([path])
    (reason,) = [entry.reason for entry in found if entry.flaw == "depth"]
    (tmp_path / "plain.txt").write_text(FIO_3)
    ((_, plain),) = judge([tmp_path / "plain.txt"])
    assert found == plain and "does not tell" not in reason


def test_options_of_a_command_line_in_the_text_are_known(tmp_path: Path) -> None:
    path, head = tmp_path / "a.txt", FIO_3.partition("mixed: (g=1)")[0]
    text = head + FIO_3[FIO_3.index("fio-3.33") : FIO_3.index("mixed: (groupid=1")]
    command = "$ fio --name=reads --rw=randread --size=32m --numjobs=2 \\\n --direct=0\n"
    told = {}
    for name, given in (("plain", text), ("told", command + text)):
        path.write_text(given)
        ((_, found),) = judge([path])
        told[name] = {entry.flaw: entry.verdict for entry in found}
    assert (told["plain"]["span"], told["told"]["span"]) == (UNKNOWN, "shown")
    assert (told["plain"]["depth"], told["told"]["depth"]) == ("excluded", "shown")


def test_the_command_prints_words_and_json_and_exits_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    verdicts(tmp_path, job(options={"ioengine": "null"}))
    path = str(tmp_path / "a.json")
    assert run(["judge", path]) == 1
    said = capsys.readouterr().out
    assert "Memory answered instead of the drive: shown" in said and "ioengine=null" in said
    assert run(["judge", path, "--json"]) == 1
    rows = json.loads(capsys.readouterr().out)
    assert [row["flaw"] for row in rows] == [rule.name for rule in RULES]
    assert {"verdict": "shown", "reason": "ioengine=null"}.items() <= rows[1].items()
    verdicts(tmp_path, job())
    assert run(["judge", path]) == 0
    (tmp_path / "a.json").write_text("nothing")
    capsys.readouterr()
    assert run(["judge", path]) == 2
    said = capsys.readouterr().err
    assert said.count("error:") == said.count("hint:") == 1


def test_the_page_has_the_words_of_each_rule() -> None:
    page = " ".join(PAGE.read_text().split())
    for rule in RULES:
        parts = [" ".join(part.split()) for part in (rule.test.__doc__ or "").split("\n\n")]
        title, *words, settle = parts
        assert (title, settle) == (f"{rule.title}.", f"To settle it: {rule.settle}")
        kinds = [part.partition(":")[0] for part in words]
        assert kinds == ["Physics", "Source", "False alarm"]
        assert all(part in page for part in (rule.title, *words, settle)), rule.name


def test_a_figure_that_only_a_rule_reads_is_refused_in_words(tmp_path: Path) -> None:
    wrong = job()
    wrong["read"]["clat_ns"]["mean"] = -1e4
    with pytest.raises(UserError, match=r"cannot be judged: .*clat_ns\.mean: -10000"):
        verdicts(tmp_path, wrong)


def test_changed_files_are_judged_or_refused_in_words(tmp_path: Path) -> None:
    draw, judged = random.Random(68), 0
    logged = {"log_avg_msec": "1000", "write_iops_log": "x", "size": "1g"}
    document = {"fio version": "fio-3.33", "jobs": [job(runtime_ms=9000, options=logged)]}
    log = "\n".join(f"{1000 * (at + 1)}, {2000 * (9 - at)}, 0, 0" for at in range(9))
    for turn in range(TIMES):
        is_text = turn % 3 == 0
        path = tmp_path / ("a.txt" if is_text else "a.json")
        path.write_text(changed(FIO_3 if is_text else json.dumps(document, indent=1), draw))
        (tmp_path / "x_iops.1.log").write_text(changed(log, draw))
        try:
            ((_, found),) = judge([path])
            for entry in found:
                assert entry.verdict in ("shown", "likely", UNKNOWN, "excluded")
                words = entry.reason.lower().split()
                assert words and not {"nan", "inf", "-inf"} & set(words)
            judged += 1
        except DrivebayError as problem:
            assert problem.message and problem.hint
            assert "\n" not in problem.message + problem.hint
    assert 0 < judged < TIMES


def test_the_table_of_public_files_names_each_file_s_place() -> None:
    rows = list(csv.DictReader((PAGE.parent / "judge-files.csv").open()))
    assert len({row["repository"] for row in rows}) >= 40 and len(rows) >= 150
    assert all(len(row["commit"]) == 40 and row["path"] for row in rows)
