"""`drivebay fleet`: logs and traces in, amplification, years and watts of other drives out."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import here
import numpy as np
import pytest

from drivebay.cli import entry
from drivebay.common.errors import UserError
from drivebay.library import drive, fleet, fleet_logs

GB = 10**9


def log(path: Path, hours: float, written: float, **more: Any) -> Path:
    """Writes a log of nvme-cli; `written` in GB."""
    units = round(written * GB / 512_000)
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"power_on_hours": hours, "data_units_written": units, **more}))
    return path


def trace(path: Path, *, sequential: int = 2000, random: int = 20_000) -> Path:
    """Writes a trace of a minute on 100 GB: a log from 50 GB on, 4 KiB at random in 10 GB."""
    rng = np.random.default_rng(1)
    count = sequential + random
    is_random = rng.permutation(count) < random
    offset = np.where(is_random, rng.integers(0, 10 * GB // 4096, count) * 4096, 0)
    offset[~is_random] = 50 * GB // 4096 * 4096 + np.arange(sequential) * 2**17
    size = np.where(is_random, 4096, 2**17)
    rows = zip(np.linspace(0, 60e9, count).astype(int), offset, size, strict=True)
    lines = [f"{at},write,{begin},{length},0,1000" for at, begin, length in rows]
    path.write_text("\n".join(["at_ns,op,offset_bytes,bytes,device,response_ns", *lines]))
    return path


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trace(tmp_path_factory.mktemp("traces") / "db1.csv")


def test_logs_give_the_pace_and_what_they_lack_stays_unknown(tmp_path: Path) -> None:
    written = [(1000, 5000), (1024, 5100), (1072, 5400)]
    paths = [log(tmp_path / f"db1-2026-11-0{at}.json", *row) for at, row in enumerate(written)]
    (use,) = fleet_logs.uses(paths)
    assert (use["name"], use["logs"]) == ("db1", 3)
    assert use["written_per_day"] == pytest.approx([400 * GB / 3, 100 * GB, 150 * GB], rel=1e-3)
    assert use["read_per_day"] is use["waf"] is use["data_bytes"] is use["temperature_c"] is None
    (once,) = fleet_logs.uses(paths[:1])
    assert once["written_per_day"] == pytest.approx([120 * GB] * 3, rel=1e-3)


def test_a_log_of_smartctl_names_its_drive_and_its_data(tmp_path: Path) -> None:
    table = {
        "smartctl": {"exit_status": 0},
        "serial_number": "S1",
        "local_time": {"time_t": 86_400},
        "user_capacity": {"bytes": 960 * GB},
        "nvme_namespaces": [{"id": 1, "utilization": {"bytes": 500 * GB}}],
        "nvme_smart_health_information_log": {"data_units_written": 10**6, "temperature": 40},
        "nand_bytes_written": {"raw": 30_517},
    }
    (tmp_path / "a.json").write_text(json.dumps(table))
    (use,) = fleet_logs.uses([tmp_path / "a.json"])
    assert (use["name"], use["names"]) == ("S1", ["S1", "a"])
    assert (use["capacity_bytes"], use["data_bytes"]) == (960 * GB, 500 * GB)
    assert use["waf"] == pytest.approx(2.0, rel=1e-3)
    assert use["written_per_day"] is None  # one log, without power-on hours


def test_drives_are_told_apart_by_folder_and_counters_do_not_go_back(tmp_path: Path) -> None:
    first = log(tmp_path / "db1/2026-11-01.json", 10, 500)
    second = log(tmp_path / "db2/2026-11-02.json", 20, 400)
    assert [use["name"] for use in fleet_logs.uses([first, second])] == ["db1", "db2"]
    second = log(tmp_path / "db1/2026-11-02.json", 20, 400)
    with pytest.raises(UserError, match=r"2026-11-02.json: written is 400,.* less than .* of db1"):
        fleet_logs.uses([first, second])


def test_a_trace_shows_its_streams(traced: Path) -> None:
    use = {"written_per_day": None, "read_per_day": None, "capacity_bytes": 100 * GB}
    load = fleet._load({**use, "data_bytes": None}, traced)
    random, in_order = load.streams
    assert random.span == pytest.approx((0, 0.1), abs=0.001)
    assert random.fields == {"block_bytes": 4096, "offsets": "uniform", "trim_percent": 0.0}
    assert in_order.fields["pattern"] == "sequential"
    assert in_order.span == pytest.approx((0.1, 1.0), abs=0.001)
    assert random.share == pytest.approx(20_000 / (20_000 + 2000 * 32))
    assert load.written_per_s == pytest.approx(20_000 * 4096 / 60 + 2000 * 2**17 / 60, rel=1e-3)


@pytest.mark.parametrize("theta", [0.7, 1.0, 1.3])
def test_skew_is_found_from_repeats_or_zones(theta: float) -> None:
    rng = np.random.default_rng(1)
    chance = np.arange(1, 10**5 + 1.0) ** -theta
    ranks = rng.choice(10**5, 30_000, p=chance / chance.sum())
    found = fleet._skew(rng.permutation(10**5)[ranks] * 4096, 10**5 * 4096, 4096)
    assert float(found.removeprefix("zipf:")) == pytest.approx(theta, abs=0.1)
    third = (rng.random(30_000) ** 3 * 10**9).astype(np.int64)
    assert fleet._skew(third * 4096, 10**9 * 4096, 4096).startswith("zoned:37/5:10/5:")


def test_placement_keeps_streams_apart_and_years_follow_the_pace(
    tmp_path: Path, traced: Path
) -> None:
    logs = [log(tmp_path / f"db1-{at}.json", 24 * at, 100 * at) for at in (1, 2, 4)]
    (load,) = fleet.loads(logs, [traced])
    rows, refused = fleet.estimates([drive("sm951-nvme-128"), drive("zn540-1tb")], [load], 1, print)
    assert [row["placement"] for row in rows] == [False, True]
    assert list(refused) == ["zn540-1tb"]
    plain, placed = rows
    assert plain["waf"][0] > placed["waf"][0] >= 1
    assert plain["waf"][1] <= plain["waf"][0] < plain["waf"][2]
    assert placed["years_rated"] == plain["years_rated"]
    assert plain["years_flash"] == [None] * 3  # its profile has no model of failing flash
    assert 0 < plain["watts"][1] < plain["watts"][0] == plain["watts"][2]


def test_bad_input_gets_an_error_and_a_hint(tmp_path: Path, traced: Path) -> None:
    empty = tmp_path / "empty.json"
    empty.write_text("{}")
    for name in ("text.json", "text.txt"):
        (tmp_path / name).write_text("SMART")
    one, two = log(tmp_path / "a.json", 1, 1), log(tmp_path / "b.json", 1, 1)
    others = [trace(tmp_path / name, random=10, sequential=1) for name in ("a.csv", "c.csv")]
    text = others[0].read_text()
    (tmp_path / "two.csv").write_text(text.replace("4096,0,", "4096,1,", 5))
    (tmp_path / "reads.csv").write_text(text.replace("write", "read"))
    for words, message in (
        ([traced], "a health log"),
        ([one], "and a trace"),
        ([empty, traced], "no counter"),
        ([tmp_path / "text.json", traced], "is not JSON"),
        ([tmp_path / "none.json", traced], "none.json"),
        ([one, tmp_path / "text.txt"], "no known format"),
        ([one, tmp_path / "two.csv"], "two.csv has requests of 2 devices"),
        ([one, tmp_path / "reads.csv"], "reads.csv has no writes"),
        ([one, traced, "--out", "page.txt"], "must end in .html"),
        ([one, traced, "--drives", "zn540-1tb"], "no drive can run it; zn540-1tb: zones"),
        ([one, two, *others], "none of the 2 traces are of the drive b"),
    ):
        done = here.drivebay("fleet", *map(str, words), cwd=tmp_path)
        assert done.returncode in (2, 3), done.stderr
        lines = done.stderr.splitlines()
        assert [line.partition(":")[0] for line in lines] == ["error", "hint"]
        assert message in lines[0]
    assert not (tmp_path / "fleet.html").exists()


def test_the_page_shows_the_loads_in_words(tmp_path: Path, traced: Path) -> None:
    one = log(tmp_path / "db1.json", 1000, 5000)
    words = ["fleet", str(one), str(traced), "--drives", "sm951-nvme-128"]
    assert here.drivebay(*words, cwd=tmp_path).returncode == 0
    page = (tmp_path / "fleet.html").read_text(encoding="utf-8")
    random = "random (uniform, 4 KiB, trims 0%), 23.8% of the bytes at 0.0% to 19.9%"
    for cell in ("<td>120.0 GB</td>", "<td>not known</td>", random, "; sequential, "):
        assert cell in page
    for code in ("None", "{", "[", "Stream("):
        assert code not in re.sub(r"<(script|style).*?</\1>", "", page, flags=re.DOTALL)


def test_a_trace_of_few_writes_says_so_everywhere(tmp_path: Path, traced: Path) -> None:
    short = trace(tmp_path / "db1.csv", random=0, sequential=1)
    words = ["fleet", str(log(tmp_path / "db1.json", 1000, 5000)), str(short)]
    words += ["--drives", "sm951-nvme-128"]
    done = here.drivebay(*words, "--json", cwd=tmp_path)
    note = "db1: its trace is too short to show streams: 1 write, of at least 1,000"
    assert f"note: {note}" in done.stderr.splitlines()
    assert json.loads(done.stdout)["notes"] == [note]
    assert note in (tmp_path / "fleet.html").read_text(encoding="utf-8")
    assert fleet.loads([tmp_path / "db1.json"], [traced])[0].traced_writes >= fleet.LEAST_WRITES


def test_a_foreign_page_is_refused_before_any_drive_runs(
    tmp_path: Path, traced: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tmp_path / "mine.html"
    mine.write_text("<p>mine</p>")
    monkeypatch.setattr(fleet, "estimates", None)
    words = [str(log(tmp_path / "a.json", 1, 1)), str(traced), "--out", str(mine)]
    assert entry.run(["fleet", *words]) == 2
    assert mine.read_text() == "<p>mine</p>"


def test_the_pairs_are_ten_and_say_what_they_guess() -> None:
    text = (here.DATA.parent.parent / "examples/fleet/pairs.toml").read_text(encoding="utf-8")
    pairs = tomllib.loads(text)["pair"]
    assert len(pairs) == 10
    for pair in pairs:
        assert sum(stream["share"] for stream in pair["stream"]) == pytest.approx(1)
        assert pair["condition"] and pair["source"]
