"""`drivebay replay`, `drivebay trace synth` and the Storage Bench tests on a virtual drive."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drivebay import traces
from drivebay.analysis.storage_bench import storage_bench
from drivebay.cli import entry
from drivebay.common.errors import UserError
from drivebay.definitions import profiles as catalog
from drivebay.definitions import suites
from drivebay.definitions.suites import Phase, Replay, Test
from drivebay.results.records import PhaseResult
from drivebay.targets.base import Progress
from drivebay.targets.virtual.target import VirtualTarget

DRIVE = "sm951-nvme-256"


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = entry.run(list(words))
    out, err = capsys.readouterr()
    return code, out, err


def on_drive(load: Replay) -> PhaseResult:
    whole = next(test for test in suites.load("anandtech-2015").tests if test.id == "light-empty")
    phase = Phase.model_validate({"label": "run", "replay": load})
    test = Test(**{**dict(whole), "phases": (phase,), "quick": None})
    target = VirtualTarget(catalog.load(DRIVE))
    target.check((test,))
    return target.run_test(test, seed=1, progress=Progress())[0]


def test_the_storage_bench_runs_and_repeats() -> None:
    load = Replay(trace="light", scale=0.01, drive_s=10)
    first, second = on_drive(load), on_drive(load)
    assert first.series == second.series and first.histogram == second.histogram
    assert first.metrics == second.metrics
    assert (first.reads, first.writes) == (3726, 4597)
    bench = storage_bench(
        ios=first.reads + first.writes,
        moved_bytes=first.read_bytes + first.write_bytes,
        metrics=first.metrics,
    )
    assert bench is not None and bench.little_holds
    assert bench.rate_wall < bench.rate_busy
    assert sum(bench.depth_percent.values()) == pytest.approx(100.0)


def test_less_idle_time_makes_a_shorter_run_of_the_same_ios() -> None:
    def wall_s(**changes: object) -> float:
        load = Replay.model_validate({"trace": "light", "scale": 0.01, "drive_s": 10} | changes)
        return on_drive(load).metrics["wall_s"]

    assert wall_s(idle_ms_max=1.0) < 0.5 * wall_s()
    assert wall_s(mode="dependencies") < wall_s(idle_ms_max=1.0)


def test_a_written_trace_replays_as_the_stream_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = []
    for name in ("light", "light.csv"):
        trace = name
        if name != "light":
            trace = str(tmp_path / name)
            words = ("trace", "synth", "light", "--scale", "0.01", "--out", trace)
            assert run(capsys, *words)[0] == 0
        code, out, _ = run(capsys, "replay", DRIVE, trace, "--empty", "--scale", "0.01", "--json")
        assert code == 0
        figures.append(json.loads(out))
    assert figures[0] == figures[1]


def test_a_recording_as_parquet_replays_as_its_csv(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = []
    for name in ("light.csv", "light.parquet"):
        traces.convert(traces.source("light", scale=0.001), tmp_path / name)
        code, out, err = run(capsys, "replay", DRIVE, str(tmp_path / name), "--empty", "--json")
        assert code == 0
        told.append((json.loads(out), err))
    assert told[0] == told[1]


def test_a_drive_was_written_before_unless_said_otherwise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "reads.csv"
    lines = (f"0,R,{8192 * i},4096,{1000 * i}\n" for i in range(100))
    trace.write_text("".join(lines))
    code, out, err = run(capsys, "replay", "sm951-ahci-128", str(trace), "--json")
    assert code == 0 and "never written" not in err
    filled = json.loads(out)["latency_mean_us"]
    code, out, err = run(capsys, "replay", "sm951-ahci-128", str(trace), "--empty", "--json")
    assert "note: 100% of the pages that the trace reads were never written" in err
    assert code == 0 and json.loads(out)["latency_mean_us"] < filled


def test_a_replay_says_when_addresses_are_folded_and_devices_share_the_drive(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "two.csv"
    trace.write_text(f"0,R,{2**42},4096,10\n1,W,0,4096,1000\n")
    code, _, err = run(capsys, "replay", DRIVE, str(trace), "--empty", "--json")
    assert code == 0
    assert "note: the trace's addresses reach to 4.4 TB, beyond the drive's 256.1 GB: " in err
    assert "note: 2 devices of the trace share the drive" in err


@pytest.mark.parametrize("ending", ["csv", "iolog", "parquet"])
def test_synth_writes_each_format(tmp_path: Path, ending: str) -> None:
    out = tmp_path / f"light.{ending}"
    source = traces.source("light", scale=0.001)
    assert traces.convert(source, out).requests == 833
    if ending == "parquet":
        import pyarrow.parquet as pq

        assert pq.read_table(out).num_rows == 833
    else:
        assert traces.info(out).summary.requests == 833
    with pytest.raises(UserError, match="exists already"):
        traces.convert(source, out)


def test_synth_describes_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    png = tmp_path / "light.png"
    words = ("trace", "synth", "light", "--scale", "0.01", "--png", str(png), "--json")
    code, out, _ = run(capsys, *words)
    assert code == 0 and png.read_bytes().startswith(b"\x89PNG")
    figures = json.loads(out)
    assert (figures["reads"], figures["writes"]) == (3726, 4597)
    assert figures["sequential_share"] == pytest.approx(0.70, abs=0.01)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("trace", "synth", "lite", "--out", "x.csv"), "unknown"),
        (("trace", "synth", "light", "--scale", "nan"), "--scale"),
        (("trace", "synth", "light", "--seed", "-1"), "--seed"),
        (("trace", "synth", "light", "--out", "/nonexistent/x.csv"), "folder"),
        (("replay", DRIVE, "nothing-here"), "no trace"),
        (("replay", "light", DRIVE), "the drive comes first"),
        (("replay", "light", "./disk.img"), "the drive comes first"),
        (("replay", "sm951-ahci-513", "light"), "sm951-ahci-513"),
        (("replay", DRIVE, "light", "--mode", "fast"), "--mode"),
        (("replay", DRIVE, "light", "--place", "up"), "--place"),
        (("replay", DRIVE, "light", "--time-percent", "0"), "--time-percent"),
        (("replay", DRIVE, "light", "--scale", "100"), "--scale"),
    ],
)
def test_mistakes_are_told_in_two_lines(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    code, out, err = run(capsys, *words)
    assert (code, out) == (2, "")
    error, hint = err.splitlines()
    assert error.startswith("error: ") and said in error and hint.startswith("hint: ")


def test_a_damaged_trace_is_named_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text(
        "at_ns,op,offset_bytes,bytes,device,response_ns\n0,read,0,4096,0,\n5,read,-1,1\n"
    )
    code, _, err = run(capsys, "replay", DRIVE, str(bad))
    assert code == 2 and "line 3" in err
