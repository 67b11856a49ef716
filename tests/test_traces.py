"""Traces from Python and from the command line: read, described, drawn, converted, refused."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from drivebay import traces
from drivebay.cli.entry import run as cli_run
from drivebay.common.errors import EnvironmentProblem, UserError

HERE = Path(__file__).parent
MSR = (
    "128166372003061629,src1,1,Read,4096,4096,500\n"
    "128166372003062629,src1,1,Write,8192,512,100\n"
    "128166372003062129,src1,1,Read,8192,4096,100\n"
)
CSV = (
    "at_ns,op,offset_bytes,bytes,device,response_ns\n"
    "0,read,4096,4096,1,50000\n"
    "50000,read,8192,4096,1,10000\n"
    "100000,write,8192,512,1,10000\n"
)
FIELDS = [
    "reads",
    "writes",
    "read_bytes",
    "written_bytes",
    "trims",
    "flushes",
    "size_share",
    "queue_depth_share",
    "queue_depth_mean",
    "sequential_share",
    "idle_s",
    "duration_s",
    "footprint_bytes",
    "overwrite_share",
    "unwritten_read_share",
    "devices",
    "address_start_bytes",
    "address_end_bytes",
]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with a small trace, made the current one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text(MSR)
    return tmp_path


def errors(capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """The error and the hint, and nothing else on either stream."""
    shown = capsys.readouterr()
    assert shown.out == ""
    error, hint = shown.err.splitlines()
    assert error.startswith("error: ") and hint.startswith("hint: ") and len(hint) > 8
    return error, hint


def test_info_as_json_has_exactly_these_fields(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli_run(["trace", "info", "t.csv", "--json"]) == 0
    shown = capsys.readouterr()
    figures = json.loads(shown.out)
    assert list(figures) == ["format", "format_why", *FIELDS] and shown.err == ""
    assert (figures["format"], figures["format_why"]) == ("msr", "3 of 3 lines fit")
    assert (figures["reads"], figures["writes"]) == (2, 1)
    assert figures["size_share"]["4KB"] == pytest.approx(2 / 3)
    assert " ".join(figures["queue_depth_share"]) == "1 2 3 4-5 6-10 11-20 21-32 >32"
    assert figures["sequential_share"] == pytest.approx(1 / 3)
    assert figures["duration_s"] == pytest.approx(110e-6)
    assert figures["idle_s"] == pytest.approx(40e-6)
    assert figures["footprint_bytes"] == 8192 and figures["overwrite_share"] == 0
    assert figures["unwritten_read_share"] == 1 and figures["devices"] == 1
    assert (figures["address_start_bytes"], figures["address_end_bytes"]) == (4096, 12288)


def test_info_as_text(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli_run(["trace", "info", "t.csv"]) == 0
    text = capsys.readouterr().out
    assert re.search(r"addresses +4\.1 KB to 12\.3 KB", text)
    for line in (
        r"format +msr \(3 of 3 lines fit\)",
        r"footprint +8\.2 KB",
        r"4KB +66\.7%",
        r"1 +100\.0%",
    ):
        assert re.search(line, text), text


def test_what_the_trace_does_not_say_is_null_and_said_so(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("a.csv").write_text("1,R,0,512,10\n1,R,512,512,20\n")
    figures = traces.info(Path("a.csv")).figures
    unknown = {key for key in FIELDS if figures[key] is None}
    assert unknown == {"queue_depth_share", "queue_depth_mean", "idle_s", "overwrite_share"}
    assert cli_run(["trace", "info", "a.csv"]) == 0
    assert re.search(r"mean queue depth +not known", capsys.readouterr().out)


def test_what_was_left_out_is_said_on_stderr(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("s.csv").write_text("1.0,0.1,R,0,4096,512\n1.1,,,,,\n1.2,0.1,W,0,4096,512\n")
    assert cli_run(["trace", "info", "s.csv", "--json"]) == 0
    shown = capsys.readouterr()
    assert shown.err == "note: 1 lines with empty fields were left out\n"
    assert json.loads(shown.out)["reads"] == 1


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_compressed_input(here: Path, pack: object) -> None:
    assert callable(pack)
    Path("packed").write_bytes(pack(MSR.encode()))
    assert traces.info(Path("packed")).figures == traces.info(Path("t.csv")).figures


def test_convert_sorts_and_writes_each_kind(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for out in ("o.csv", "o.iolog", "o.parquet"):
        assert cli_run(["trace", "convert", "t.csv", out]) == 0
        shown = capsys.readouterr()
        assert shown.out == f"{out}\n"
        assert shown.err == "converted: 3 requests, read as msr\n"
    assert Path("o.csv").read_text() == CSV
    assert Path("o.iolog").read_text().splitlines() == [
        "fio version 3 iolog",
        "1 device1 add",
        "1 device1 open",
        "1 device1 read 4096 4096",
        "51 device1 read 8192 4096",
        "101 device1 write 8192 512",
        "101 device1 close",
    ]
    table = pq.read_table("o.parquet").to_pydict()
    assert table["op"] == ["read", "read", "write"]
    assert table["at_ns"] == [0, 50_000, 100_000]
    assert table["response_ns"] == [50_000, 10_000, 10_000]
    assert sorted(os.listdir()) == ["o.csv", "o.iolog", "o.parquet", "t.csv"]
    umask = os.umask(0)
    os.umask(umask)
    assert {Path(name).stat().st_mode & 0o777 for name in os.listdir()} == {0o666 & ~umask}


def test_our_own_csv_and_iolog_are_read_back(here: Path) -> None:
    traces.convert(Path("t.csv"), Path("one.csv"))
    traces.convert(Path("one.csv"), Path("two.csv"))
    assert Path("two.csv").read_text() == CSV
    traces.convert(Path("one.csv"), Path("one.iolog"))
    before = traces.info(Path("t.csv")).figures
    after = traces.info(Path("one.iolog")).figures
    for key in ("reads", "writes", "size_share", "sequential_share", "footprint_bytes"):
        assert after[key] == before[key]


def test_parquet_is_read_as_it_was_written(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    traces.convert(Path("t.csv"), Path("t.parquet"))
    assert traces.info(Path("t.parquet")).figures == traces.info(Path("t.csv")).figures
    assert cli_run(["trace", "convert", "t.parquet", "again.csv"]) == 0
    assert capsys.readouterr().err == "converted: 3 requests, read as parquet\n"
    assert Path("again.csv").read_text() == CSV
    traces.convert(Path("again.csv"), Path("t.parquet"), force=True)
    Path("more.csv").write_text(CSV + "200000,flush,0,0,1,\n")
    traces.convert(Path("more.csv"), Path("t.parquet"), force=True)
    assert traces.info(Path("t.parquet")).summary.requests == 4  # not what was unpacked before


def test_parquet_of_other_programs_needs_four_columns(here: Path) -> None:
    columns = {"at_ns": [0, 1000], "op": ["read", "write"], "offset_bytes": [0, 4096]}
    pq.write_table(pa.table(columns), "p.parquet")
    with pytest.raises(UserError, match="without the column bytes"):
        traces.info(Path("p.parquet"))
    pq.write_table(pa.table({**columns, "bytes": [4096, 512], "note": ["", ""]}), "q.parquet")
    figures = traces.info(Path("q.parquet")).figures
    assert (figures["reads"], figures["writes"], figures["idle_s"]) == (1, 1, None)
    Path("q.parquet").write_bytes(Path("q.parquet").read_bytes()[:-20])
    with pytest.raises(UserError, match="cannot be read as Parquet"):
        traces.info(Path("q.parquet"))


def test_columns_of_parquet_and_csv_are_named(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = [0, 1500, 2500]
    plain = {"ts": at, "lba": [8, 16, 8], "n": [8, 1, 8], "rw": ["R", "W", "WS"], "x": [[1]] * 3}
    pq.write_table(pa.table(plain), "plain.parquet")
    named = "time=ts:us,offset=lba:512,length=n:512,op=rw"
    expected = (1, 2, 4096, 4608, 0.0025)

    def found(name: str, columns: str) -> tuple[object, ...]:
        figures = traces.info(traces.file_source(Path(name), columns=columns)).figures
        keys = ("reads", "writes", "read_bytes", "written_bytes", "duration_s")
        return tuple(figures[key] for key in keys)

    assert found("plain.parquet", named) == expected
    times = pa.array([value * 1000 for value in at], pa.timestamp("ns"))
    typed = {"when": times, "offset": [4096.0, 8192.0, 4096.0], "n": plain["n"]}
    is_write = pa.array([False, True, True])
    pq.write_table(pa.table({**typed, "is_write": is_write}), "typed.parquet")
    assert found("typed.parquet", "time=when,length=n:512,op=is_write:false") == expected
    seconds = [value / 1e6 for value in at]
    pq.write_table(pa.table({**plain, "ts": seconds}), "float.parquet")
    assert found("float.parquet", named.replace(":us", ":s")) == expected
    Path("t.tsv").write_text("rw\tn\tlba\tts\nR\t8\t8\t0\nW\t1\t16\t1500\nWS\t8\t8\t2500\n")
    assert found("t.tsv", named) == expected
    assert cli_run(["trace", "convert", "plain.parquet", "o.csv", "--columns", named]) == 0
    assert Path("o.csv").read_text().splitlines()[2] == "1500000,write,8192,512,0,"
    with pytest.raises(
        UserError, match="no column is named lbn; this line has 'ts', 'rw', 'lba', 'n'"
    ):
        traces.info(traces.file_source(Path("plain.parquet"), columns="time=ts,offset=lbn,op=rw"))
    with pytest.raises(UserError, match="when holds timestamps, which have a unit of their own"):
        traces.info(traces.file_source(Path("typed.parquet"), columns="time=when:us"))
    capsys.readouterr()


def test_a_few_odd_lines_are_left_out_and_told(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("odd.csv").write_bytes(MSR.encode() * 500 + b"^C\xff\n" + MSR.encode() * 500)
    assert cli_run(["trace", "info", "odd.csv", "--json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["reads"] == 2000
    note = "note: 1 line that cannot be read was left out; the first is line 1501: 1 columns in"
    assert shown.err.startswith(note)


def test_rates_beyond_reason_are_a_warning_that_names_the_unit(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = (f"1,R,{4096 * i},4096,{7200 * i // 2000}\n" for i in range(2000))
    Path("seconds.csv").write_text("".join(lines))
    assert cli_run(["trace", "info", "seconds.csv", "--format", "alibaba", "--json"]) == 0
    assert capsys.readouterr().err == ""
    Path("burst.csv").write_text("".join(f"1,R,{4096 * i},4096,{i // 10}\n" for i in range(2000)))
    assert cli_run(["trace", "info", "burst.csv", "--json"]) == 0
    shown = capsys.readouterr()
    assert shown.err.startswith("warning: 2000 requests in 0.000199 s by the trace's times")
    assert "--time-unit" in shown.err
    assert cli_run(["trace", "info", "burst.csv", "--time-unit", "s", "--json"]) == 0
    shown = capsys.readouterr()
    assert shown.err == "" and json.loads(shown.out)["duration_s"] == 199


def test_an_unknown_response_is_null_in_parquet(here: Path) -> None:
    Path("a.csv").write_text("1,R,0,512,10\n")
    traces.convert(Path("a.csv"), Path("a.parquet"))
    assert pq.read_table("a.parquet")["response_ns"].to_pylist() == [None]


def test_batches_are_columns_in_order(here: Path) -> None:
    (columns,) = traces.batches(Path("t.csv"))
    assert columns.at_ns.tolist() == [0, 50_000, 100_000]
    assert [traces.OPS[op] for op in columns.op] == ["read", "read", "write"]
    assert columns.offset_bytes.dtype == np.uint64 and columns.response_ns.dtype == np.int64
    assert columns.device.tolist() == [1, 1, 1]


def far_back(path: Path) -> int:
    """A trace whose last line belongs before all others, beyond the reorder window."""
    lines = [f"1,R,0,512,{at}" for at in range(1, 600_000)]
    path.write_text("\n".join([*lines, "1,W,4096,512,0"]) + "\n")
    return len(lines) + 1


def test_a_trace_far_out_of_order_is_sorted_by_itself(here: Path) -> None:
    count = far_back(Path("far.csv"))
    assert traces.info(Path("far.csv")).summary.requests == count
    assert traces.convert(Path("far.csv"), Path("far.parquet")).requests == count
    table = pq.read_table("far.parquet", columns=["at_ns", "op"])
    at = table["at_ns"].to_numpy()
    assert len(at) == count and (np.diff(at) > 0).all() and table["op"][0].as_py() == "write"
    with pytest.raises(UserError, match="s earlier than one that is"):
        list(traces.batches(Path("far.csv")))
    in_order = traces.file_source(Path("far.csv")).sorted()
    sizes = [len(columns.op) for columns in traces.batches(in_order)]
    assert sum(sizes) == count and max(sizes) <= 262_144


def test_a_pipe_is_read_once(here: Path) -> None:
    os.mkfifo("pipe")
    writer = threading.Thread(target=lambda: Path("pipe").write_text(MSR))
    writer.start()
    assert traces.info(Path("pipe")).summary.requests == 3
    writer.join()


def test_the_picture_is_a_png_and_replaces_nothing(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli_run(["trace", "info", "t.csv", "--png", "p.png"]) == 0
    before = Path("p.png").read_bytes()
    assert before.startswith(b"\x89PNG\r\n")
    capsys.readouterr()
    assert cli_run(["trace", "info", "t.csv", "--png", "p.png"]) == 2
    assert "--png: p.png exists already" in errors(capsys)[0]
    assert cli_run(["trace", "info", "t.csv", "--png", "p.png", "--force"]) == 0
    assert sorted(os.listdir()) == ["p.png", "t.csv"]


def test_a_trace_of_one_instant_and_one_without_data_can_be_drawn(here: Path) -> None:
    for name, text in {"one": "5,read,0,512,0,\n", "none": "5,flush,0,0,0,\n"}.items():
        Path(f"{name} $x$.csv").write_text(text)
        path, out = Path(f"{name} $x$.csv"), Path(f"{name}.png")
        traces.picture(path, traces.info(path), out)
        assert out.stat().st_size > 1000


MISTAKES = [
    (["info", "nowhere"], "nowhere does not exist"),
    (["info"], "missing argument 'FILE'"),
    (["info", "."], r"\. ?: is a directory"),
    (["info", "t.csv", "--format", "mrs"], "format 'mrs' is unknown; must be one of msr, "),
    (["info", "t.csv", "--format", "alibaba"], r"t\.csv, line 1: 7 columns in .*; must be 5"),
    (["info", "empty"], "empty: is empty"),
    (["info", "noise"], "noise: is of no known format; it begins with"),
    (["info", "bad.csv"], r"bad\.csv, line 2: Offset is negative"),
    (["info", "cut.csv"], r"cut\.csv, line 3: 6 columns"),
    (["info", "cut.gz"], r"cut\.gz: the compressed data are damaged or cut short after line"),
    (["info", "bomb.gz"], r"bomb\.gz: .* unpacks to more than 250 times its size"),
    (
        ["info", "bpftrace.txt"],
        r"bpftrace\.txt, line 1: these are lines of bpftrace's biosnoop\.bt",
    ),
    (["info", "t.csv", "--columns", "x"], "--columns: 'x' is not FIELD=COLUMN"),
    (["info", "t.csv", "--columns", "time=ts"], r"t\.csv, line 1: no column is named ts; this"),
    (["info", "t.csv", "--columns", "time=1", "--format", "msr"], "--columns: the columns of"),
    (["info", "t.csv", "--png", "."], r"--png: \. is a directory"),
    (["info", "t.csv", "--png", "no/p.png"], "--png: the folder no does not exist"),
    (["convert", "t.csv"], "missing argument 'OUT'"),
    (["convert", "t.csv", "o"], "the name of o does not say in which format to write it"),
    (["convert", "t.csv", "o", "--to", "xml"], "--to: 'xml' is unknown; must be iolog, csv"),
    (["convert", "t.csv", "t.csv"], r"OUT: t\.csv exists already"),
    (
        ["convert", "t.csv", "/dev/null", "--to", "csv", "--force"],
        "/dev/null is not a regular file",
    ),
    (["convert", "bad.csv", "o.csv"], r"bad\.csv, line 2: Offset is negative"),
    (["convert", "bad.csv", "o.parquet"], r"bad\.csv, line 2: Offset is negative"),
    (["convert", "bomb.gz", "o.csv"], "unpacks to more than 250 times"),
    (["convert", "nowhere", "o.csv"], "nowhere does not exist"),
    (["convert", "t.csv", "o.csv", "--format", "x"], "format 'x' is unknown"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES, ids=lambda value: str(value)[:50])
def test_a_mistake_is_one_error_and_one_hint_and_leaves_nothing(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    Path("empty").touch()
    Path("noise").write_bytes(bytes(range(1, 200)) * 50)
    first, *_ = MSR.splitlines(keepends=True)
    Path("bad.csv").write_text(first + "128166372003061629,src1,1,Read,-5,4096,500\n" + first)
    Path("cut.csv").write_text(first * 2 + first[:40])
    Path("cut.gz").write_bytes(gzip.compress(first.encode() * 3)[:-9])
    Path("bomb.gz").write_bytes(gzip.compress(first.encode() + b"\n" * (30 << 20)))
    Path("bpftrace.txt").write_text(
        "TIME(ms)     DISK ID  COMM  PID    LAT(ms)\n611 259 0 a 1 10\n"
    )
    before = sorted(os.listdir())
    assert cli_run(["trace", *arguments]) == 2
    error, _ = errors(capsys)
    assert re.search(message, error), error
    assert sorted(os.listdir()) == before and Path("t.csv").read_text() == MSR


def test_what_the_machine_lacks_is_exit_code_3(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.mkstemp", full)
    assert cli_run(["trace", "convert", "t.csv", "o.csv"]) == 3
    assert "o.csv cannot be written: No space left on device" in errors(capsys)[0]
    with pytest.raises(EnvironmentProblem):
        traces.convert(Path("t.csv"), Path("o.csv"))


def test_a_file_that_appears_meanwhile_is_not_replaced(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fsync

    def late(handle: int) -> None:
        Path("o.csv").write_text("mine")
        real(handle)

    monkeypatch.setattr("os.fsync", late)
    with pytest.raises(UserError, match="exists already"):
        traces.convert(Path("t.csv"), Path("o.csv"))
    assert Path("o.csv").read_text() == "mine" and sorted(os.listdir()) == ["o.csv", "t.csv"]


def test_ctrl_c_leaves_nothing(here: Path) -> None:
    """The input is a pipe that is never closed, so that the reading is under way for certain."""
    os.mkfifo("pipe")
    child = subprocess.Popen(
        [
            *(sys.executable, "-c", "from drivebay.cli import main; main()"),
            *("trace", "convert", "pipe", "o.csv", "--format", "msr"),
        ],
        env={**os.environ, "PYTHONPATH": str(HERE.parent / "python")},
        stderr=subprocess.PIPE,
        text=True,
    )
    pipe = os.open("pipe", os.O_WRONLY)
    signalled = False
    try:
        while child.poll() is None:
            os.write(pipe, MSR.encode() * 20)
            if not signalled and any(name.endswith(".part") for name in os.listdir()):
                child.send_signal(signal.SIGINT)
                signalled = True
    except BrokenPipeError:
        pass
    finally:
        os.close(pipe)
    _, err = child.communicate()
    assert child.returncode == 130, err
    assert err.startswith("error: interrupted\nhint: ")
    assert sorted(os.listdir()) == ["pipe", "t.csv"]


@pytest.mark.parametrize("command", [["trace"], ["trace", "info"], ["trace", "convert"]])
def test_help_has_examples_and_needs_no_heavy_import(command: list[str]) -> None:
    script = (
        "import sys\nfrom drivebay.cli.entry import run\n"
        f"run({[*command, '--help']})\n"
        "print([m for m in ('pyarrow', 'numpy', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(HERE.parent / "python"), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"  drivebay {' '.join(command)}" in done.stdout and "Examples:" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_help_names_every_format(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli_run(["trace", "info", "--help"]) == 0
    listed = " ".join(capsys.readouterr().out.split())
    assert f"Formats: {', '.join(traces.formats())};" in listed
