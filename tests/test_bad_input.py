"""Bad input of every kind to every command: one error line, one hint line, the exit code, no trace.

One table of command lines and one of files; each kind of bad file goes to every command that reads
such a file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from drivebay.cli.entry import run

LONG = "x" * 5000
DRIVE = "sm951-ahci-128"
NOT_UTF8 = os.fsdecode(b"b\xff.img")
TOML = {
    "nested arrays": b"a = " + b"[" * 100_000,
    "nested tables": b"a = " + b"{a = " * 5_000,
    "closed nested arrays": b"a = " + b"[" * 400 + b"]" * 400,
    "a key of 16,000 parts": b".".join([b"a"] * 16_000) + b" = 1",
    "a header of 16,000 parts": b"[" + b".".join([b"a"] * 16_000) + b"]",
    "quoted parts": b".".join([b'"a"'] * 16_000) + b" = 1",
    "a number of 10,000 digits": b"a = " + b"9" * 10_000,
    "a hexadecimal number of 10,000 digits": b"a = 0x" + b"f" * 10_000,
    "NUL in a text": b'a = "b\\u0000c"',
    "not UTF-8": b"a = '\xff\xfe'",
    "over 1 MB": b"# comment\n" * 200_000,
    "a name of 5,000 letters": f"name = '{LONG}'\n[drive]\nname = '{LONG}'\n".encode(),
    "a date for a table": b"drive = 2026-11-22\ntests = 2026-11-22\nfault = 2026-11-22",
    "numbers for all": b"drive = 1\ntests = 1\nfault = 1\nbase = 1\nname = 1\nwithout = 1",
    "empty": b"",
}
TOML_READERS = (
    ["review", "{file}"],
    ["review", DRIVE, "--suite", "{file}"],
    ["replay", "{file}", "light"],
    ["serve", "{file}", "--nbd", "unix:socket"],
    ["serve", "--config", "{file}", "--nbd", "unix:socket"],
    ["serve", DRIVE, "--nbd", "unix:socket", "--faults", "{file}"],
    ["sweep", "{file}"],
    ["calibrate", "S088", "--from", "{file}", "--out", "out.toml", "--fit", "nand.read_us"],
)
SERVES = {"empty", "over 1 MB"}
"""Scripts of faults that are right, as they have no faults, would be served for ever."""
JSON = {
    "nested arrays": b"[" * 100_000,
    "closed nested arrays": b'{"schema": 2, "steps": ' + b"[" * 500 + b"]" * 500 + b"}",
    "nested objects": b'{"a":' * 50_000,
    "a number of 10,000 digits": b'{"schema": 2, "steps": [' + b"9" * 10_000 + b"]}",
    "half of a surrogate pair": b'{"schema": 2, "steps": ["\\ud800"]}',
    "NUL in a text": b'{"schema": 2, "steps": ["\\u0000"]}',
    "NaN": b'{"schema": 2, "steps": [NaN]}',
    "not UTF-8": b"\xff\xfe\xfd",
    "no table": b"[1, 2]",
    "another schema": b'{"schema": 99, "steps": []}',
    "an empty manifest": b'{"schema": 2, "steps": []}',
    "a damaged sweep": b'{"kind": "sweep", "schema": 1}',
    "empty": b"",
}
JSON_READERS = (
    ["report", "{folder}"],
    ["report", "{folder}", "--out", "bench"],
    ["report", "{folder}", "--png", "pictures"],
    ["review", "--resume", "{folder}"],
    ["compare", "{folder}", "{folder}"],
    ["explain", "{folder}", "test"],
    ["query", "SELECT 1", "{folder}"],
    ["calibrate", "{folder}", "--from", DRIVE, "--out", "out.toml", "--fit", "nand.read_us"],
    ["sweep", "sweep.toml", "--out", "{folder}", "--resume"],
    ["import", "fio", "{file}", "--out", "imported"],
)
GOOD_FOR = {("query", "a damaged sweep")}
"""A sweep without parts has no rows, which is no mistake."""
SWEEP = f'name = "one"\ndrives = ["{DRIVE}"]\nsuite = "quick"\nquick = true\n'
LINES: tuple[tuple[list[str], str], ...] = (
    (["replay", "disk.img", "light", "--seconds", "nan"], "--seconds"),
    (["replay", "disk.img", "light", "--seconds", "inf"], "--seconds"),
    (["replay", "disk.img", "light", "--seconds", "1e308"], "--seconds"),
    (["replay", "disk.img", "light", "--seconds", "-1"], "--seconds"),
    (["replay", "disk.img", "light", "--idle-cap", "nan"], "--idle-cap"),
    (["replay", "disk.img", "light", "--idle-cap", "1e308"], "--idle-cap"),
    (["replay", "disk.img", "light", "--idle-cap", "-1"], "--idle-cap"),
    (["replay", DRIVE, "light", "--idle-cap", "nan"], "--idle-cap"),
    (["replay", DRIVE, "light", "--idle-cap", "1e308"], "--idle-cap"),
    (["replay", DRIVE, "light", "--scale", "nan"], "--scale"),
    (["replay", DRIVE, "light", "--time-percent", "-5"], "--time-percent"),
    (["replay", DRIVE, "light", "--time-percent", str(2**40)], "--time-percent"),
    (["replay", DRIVE, "light", "--trace-seed", "-1"], "--trace-seed"),
    (["replay", "disk.img", "light", "--spin", "-1"], "--spin"),
    (["replay", "disk.img", "light", "--spin", str(2**40)], "--spin"),
    (["replay", "disk.img", "light", "--depth", "-1"], "--depth"),
    (["replay", "disk.img", "light", "--failures", "-1"], "--failures"),
    (["replay", "disk.img", "light", "--seed", "-1"], "--seed"),
    (["replay", "disk.img", "light", "--seed", str(2**70)], "--seed"),
    (["review", DRIVE, "--quick", "--seed", "-1"], "--seed"),
    (["review", DRIVE, "--quick", "--seed", str(2**70)], "--seed"),
    (["serve", DRIVE, "--nbd", "unix:s", "--seed", str(2**70)], "--seed"),
    (["serve", DRIVE, "--nbd", "unix:s", "--memory", "9999999999999T"], "--memory"),
    (["serve", DRIVE, "--nbd", "unix:s", "--memory", "999999999999T"], "--memory"),
    (["serve", DRIVE, "--nbd", "unix:s", "--namespace", "4G@8388608T"], "--namespace"),
    (["serve", DRIVE, "--nbd", "unix:s", "--namespace", "8388607T@8388607T"], "--namespace"),
    (["serve", DRIVE, "--nbd", "unix:s", "--capacity", "999999999999T"], "--capacity"),
    (["review", "./new.img", "--size", "999999999999999T"], "--size"),
    (["review", "./new.img", "--size", "8388607T"], "new.img"),
    (["serve", DRIVE, "--nbd", "unix:s", "--faults", "pipe"], "pipe is not a regular file"),
    (["serve", "--config", "pipe", "--nbd", "unix:s"], "pipe is not a regular file"),
    (["review", NOT_UTF8], r"b\xff.img: its name is not UTF-8"),
    (["prepare", NOT_UTF8], r"b\xff.img: its name is not UTF-8"),
    (["replay", NOT_UTF8, "light"], r"b\xff.img: its name is not UTF-8"),
    (["review", "link"], r"b\xff.img: its name is not UTF-8"),
    (["serve", DRIVE, "--nbd", f"unix:{LONG}"], "unix:"),
    (["serve", DRIVE, "--nbd", "unix:s", "--data", LONG], LONG[:50]),
    (["serve", DRIVE, "--nbd", "unix:s", "--record", "pipe"], "--record: pipe exists already"),
    (["serve", DRIVE, "--nbd", "unix:s", "--state", LONG], LONG[:50]),
    (["serve", DRIVE, "--nbd", "unix:s", "--power-cut", "after=nan"], "nan"),
    (["serve", DRIVE, "--nbd", "unix:s", "--power-cut", "after=1e308"], "after"),
    (["serve", DRIVE, "--nbd", "unix:s", "--power-cut", "at-random=-1"], "at-random"),
    (["trace", "synth", "light", "--out", "out.csv", "--scale", "nan"], "--scale"),
    (["trace", "record", "/dev/null", "--out", "out.csv", "--seconds", "nan"], "--seconds"),
    (["trace", "info", LONG], LONG[:50]),
    (["trace", "info", f"./{LONG}"], LONG[:50]),
    (["trace", "convert", "disk.img", LONG], ""),
    (["review", LONG], "too long"),
    (["review", f"./{LONG}"], LONG[:50]),
    (["review", f"{LONG}.toml"], LONG[:50]),
    (["review", DRIVE, "--suite", LONG], "is unknown"),
    (["review", DRIVE, "--suite", f"./{LONG}"], LONG[:50]),
    (["review", DRIVE, "--quick", "--only", LONG], LONG[:50]),
    (["review", DRIVE, "--quick", "--set", LONG], LONG[:50]),
    (["review", DRIVE, "--quick", "--set", f"ambient_c={'[' * 100_000}"], "ambient_c"),
    (["review", DRIVE, "--quick", "--set", "ambient_c=NaN"], "ambient_c"),
    (["review", DRIVE, "--quick", "--set", f"ambient_c={'9' * 5000}"], "ambient_c"),
    (["review", DRIVE, "--quick", "--out", LONG], ""),
    (["review", "--resume", LONG], LONG[:50]),
    (["review", f"./{LONG}", "--size", "4G"], ""),
    (["review", "./disk.img", "--power", LONG], ""),
    (["check-trim", LONG], ""),
    (["check-trim", f"./{LONG}"], ""),
    (["replay", DRIVE, LONG], "--trace"),
    (["replay", "disk.img", LONG], "too long"),
    (["replay", LONG, "light"], ""),
    (["replay", "disk.img", "light", "--out", LONG], ""),
    (["report", LONG], LONG[:50]),
    (["compare", LONG, LONG], LONG[:50]),
    (["explain", LONG, "test"], LONG[:50]),
    (["query", "SELECT 1", LONG], LONG[:50]),
    (["query", "", "."], "statement"),
    (["query", ";", "."], "statement"),
    (["query", "SELECT 1; SELECT 2", "."], "2 statements"),
    (["query", "COPY (SELECT 1) TO 'out.csv'", "."], "reads nothing but"),
    (["query", "SELECT * FROM read_csv('/etc/passwd')", "."], "reads nothing but"),
    (["query", "SELECT * FROM '/etc/passwd'", "."], "/etc/passwd"),
    (["query", "ATTACH 'new.db'", "."], "reads nothing but"),
    (["query", "EXPORT DATABASE 'folder'", "."], "reads nothing but"),
    (["query", "INSTALL httpfs", "."], "reads nothing but"),
    (["query", "LOAD httpfs", "."], "reads nothing but"),
    (["query", "SET memory_limit = '9GB'", "."], "memory_limit"),
    (["query", "SELECT * FROM range(10_000_000)", "."], "rows"),
    (["query", "SELECT list(range) FROM range(1_000_000_000)", "."], "emory"),
    (["query", f"SELECT {'(' * 5000}1{')' * 5000}", "."], ""),
    (["drives", "--nonsense"], "--nonsense"),
    (["import", "fio", LONG, "--out", "imported"], ""),
    (["calibrate", LONG, "--from", DRIVE, "--out", "o.toml", "--fit", "nand.read_us"], LONG[:50]),
    (["calibrate", "S088", "--from", DRIVE, "--out", f"{LONG}.toml", "--fit", "nand.read_us"], ""),
    (["calibrate", "S060", "--from", DRIVE, "--out", "o.toml", "--fit", "nand.read_us=nan..nan"],
     "nan"),
    (["sweep", LONG], LONG[:50]),
    (["sweep", "sweep.toml", "--out", LONG], ""),
    (["sweep", "sweep.toml", "--out", "nonsense://x"], "--out"),
    (["sweep", "sweep.toml", "--scheduler", "foo://"], "foo://"),
    (["sweep", "sweep.toml", "--scheduler", "nonsense"], "nonsense"),
    (["worker", "nonsense", "--no-drives"], "nonsense"),
    (["worker", "foo://", "--no-drives"], "foo://"),
)  # fmt: skip


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    with Path("disk.img").open("wb") as file:
        file.truncate(2**30)
    os.link("disk.img", NOT_UTF8)
    os.symlink(NOT_UTF8, "link")
    os.mkfifo("pipe")
    Path("sweep.toml").write_text(SWEEP)
    yield tmp_path


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The error's line; all else that a mistake has is checked here."""
    code = run(arguments)
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert code in (2, 3), (code, err[-2000:])
    assert [line.split(":")[0] for line in lines[-2:]] == ["error", "hint"], err[-2000:]
    assert "Traceback" not in err and len(err) < 10_000
    assert not out or json.loads(out) is not None
    return lines[-2]


def shown(arguments: list[str]) -> str:
    return " ".join(arguments)[:70].replace(LONG[:20], "x")


@pytest.mark.parametrize(("arguments", "words"), LINES, ids=[shown(one) for one, _ in LINES])
def test_a_bad_command_line(
    arguments: list[str], words: str, in_a_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = sorted(in_a_folder.iterdir())
    if arguments[0] == "query":
        arguments = [*arguments[:2], *([] if arguments[2] == "." else arguments[2:])]
        arguments += [] if len(arguments) > 2 else [str(an_empty_sweep(in_a_folder))]
        there = sorted(in_a_folder.iterdir())
    assert words in refused(arguments, capsys)
    assert sorted(in_a_folder.iterdir()) == there, "nothing is left behind"


def an_empty_sweep(folder: Path) -> Path:
    place = folder / "empty"
    place.mkdir()
    (place / "manifest.json").write_text('{"kind": "sweep", "schema": 1}')
    return place


@pytest.mark.parametrize("kind", TOML)
@pytest.mark.parametrize("reader", TOML_READERS, ids=shown)
def test_a_bad_toml_file(kind: str, reader: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    if "--faults" in reader and kind in SERVES - {"over 1 MB"}:
        pytest.skip("a script without faults is right")
    Path("bad.toml").write_bytes(TOML[kind])
    refused([word.replace("{file}", "bad.toml") for word in reader], capsys)


@pytest.mark.parametrize("kind", JSON)
@pytest.mark.parametrize("reader", JSON_READERS, ids=shown)
def test_a_bad_json_file(kind: str, reader: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path("result")
    folder.mkdir()
    (folder / "manifest.json").write_bytes(JSON[kind])
    names = {"{folder}": "result", "{file}": "result/manifest.json"}
    arguments = [names.get(word, word) for word in reader]
    if (reader[0], kind) in GOOD_FOR:
        assert run(arguments) == 0
    else:
        refused(arguments, capsys)


def test_times_with_a_zone_need_no_package(
    in_a_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["query", "SELECT now() AS time, 1 AS one", str(an_empty_sweep(in_a_folder))]) == 0
    assert "time" in capsys.readouterr().out
