"""A drive's life: its ages follow from the model, and makers' ratings are bounds of it."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
import time
import tomllib
import warnings
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import drivebay
from drivebay import Workload
from drivebay.cli.app import app
from drivebay.common import data
from drivebay.common.errors import UserError
from drivebay.definitions import profiles
from drivebay.library import life

RANDOM = Workload(queue_depth=8)
TOP = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def short() -> drivebay.Drive:
    """The 970 EVO Plus with an eighth of the blocks, which live a thirtieth of the cycles."""
    raw = drivebay.drive("970-evo-plus-1tb").scaled(6 / 1104).resolved()
    for section, keys in EIGHTH.items():
        for key in keys:
            at = raw["gc"]["idle"] if section == "idle" else raw[section]
            at[key]["value"] = type(at[key]["value"])(at[key]["value"] / 8)
    raw["drive"]["capacity_sectors"]["value"] -= raw["drive"]["capacity_sectors"]["value"] % 8
    raw["reliability"]["block_life_cycles"]["value"] = 200.0
    _without_ranges(raw)
    return drivebay.drive(raw)


EIGHTH = {
    "drive": ["capacity_sectors"],
    "nand": ["blocks_per_plane", "bad_superblocks"],
    "reliability": ["spare_blocks"],
    "slc_cache": ["static_mb", "dynamic_mb"],
    "gc": ["threshold_mb", "target_mb"],
    "idle": ["free_mb"],
}


def _without_ranges(part: Any) -> None:
    for inner in part.values() if isinstance(part, dict) else part:
        if isinstance(inner, dict | list):
            _without_ranges(inner)
    if isinstance(part, dict):
        part.pop("range", None)


@pytest.fixture(scope="module")
def lived(short: drivebay.Drive) -> drivebay.Life:
    return drivebay.age(short, RANDOM, seeds=2, window=0.1)


def test_a_life_goes_on_until_the_spare_is_gone(lived: drivebay.Life) -> None:
    assert set(lived.ended) <= {"available spare at 10 %", "worn out"}
    for ages in lived.lives:
        assert all(b.written_tb > a.written_tb for a, b in itertools.pairwise(ages))
        assert ages[0].spare_percent >= 98 and ages[-1].spare_percent <= 10
        assert ages[-1].failed_blocks > ages[0].failed_blocks
        assert ages[-1].waf > 1.5 * ages[0].waf, "less spare flash, more copies"
        # Blocks of 200 cycles, of which a few per cent may fail: by Weibull's law of shape 6.
        assert 80 < ages[-1].cycles < 200
    end = lived.estimate()
    assert end.half_width < 0.5 * end.mean
    assert len(lived.columns()["years"]) == sum(len(ages) for ages in lived.lives)
    assert lived.speed > 1e4


def test_the_years_of_a_size_are_those_of_a_life(
    lived: drivebay.Life, short: drivebay.Drive
) -> None:
    waf = lived.lives[0][0].waf
    written = life.writable(short, waf, waf)
    assert written is not None
    assert written / 1e12 == pytest.approx(lived.estimate().mean, rel=0.1)


def test_wear_is_what_was_programmed(lived: drivebay.Life, short: drivebay.Drive) -> None:
    """Cycles, as amplification has them: bytes programmed over the flash, some 7 % more than the
    user's."""
    for ages in lived.lives:
        early = [age for age in ages if age.failed_blocks < 10]
        first, last = early[0], early[-1]
        waf = sum(age.waf for age in early) / len(early)
        cycles = (last.written_tb - first.written_tb) * 1e12 * waf / short.capacity_bytes
        assert (last.cycles - first.cycles) / cycles == pytest.approx(0.95, abs=0.12)


def test_smart_agrees_with_the_flash_at_each_age(
    lived: drivebay.Life, short: drivebay.Drive
) -> None:
    rated = float(short.value("health.rated_cycles"))
    for age in itertools.chain(*lived.lives):
        used = min(255.0, 100 * age.cycles / rated)
        assert age.used_percent == pytest.approx(used, abs=1.0), age


def test_the_same_seed_lives_the_same_life(short: drivebay.Drive) -> None:
    one, other = (drivebay.age(short, RANDOM, seeds=1, window=0.1, until="1%") for _ in range(2))
    assert one.lives == other.lives and one.ended == ("1 % used",)


def test_what_cannot_be_aged_is_refused() -> None:
    sm951 = drivebay.drive("sm951-ahci-512")
    with pytest.raises(UserError, match="no model of flash that fails"):
        drivebay.age(sm951)
    with pytest.raises(UserError, match="no load 'enterprize'"):
        drivebay.age(sm951, "enterprize")
    with pytest.raises(UserError, match="must write"):
        drivebay.age(sm951, Workload(read_percent=100))
    for until in ("soon", "nany", "nan%", "0y", "5", "99y"):
        with pytest.raises(UserError, match="not understood"):
            drivebay.age(sm951, until=until)
    for name, said in (("zn540-1tb", "zones"), ("p4800x-375", "written in place")):
        with pytest.raises(UserError, match=said):
            drivebay.age(drivebay.drive(name), until="100%")


def test_every_rating_is_of_a_drive_of_the_catalog_and_has_a_source() -> None:
    rows = tomllib.loads((data.path("published") / "endurance.toml").read_text())
    for name, row in rows.items():
        tb, load = life.rated(drivebay.drive(name))
        assert name in profiles.names() and row["source"] and load in life.LOADS
        assert tb is not None and tb > 100


def test_every_public_run_has_a_source_and_the_flash_of_a_drive_of_the_catalog() -> None:
    runs = tomllib.loads((data.path("published") / "endurance-runs.toml").read_text())["run"]
    for run in runs:
        assert run["drive"] in profiles.names() and run["source"] and run["load"], run["tested"]
        assert run.keys() & {"written_tb", "indicator_cycles"}, run["tested"]


@pytest.mark.parametrize(
    ("name", "wear"),
    [("samsung-840-pro-512", "planar-mlc"), ("samsung-850-pro-512", "mlc-v-nand")],
)
def test_wear_of_mlc_flash_can_be_laid_over_a_drive(name: str, wear: str) -> None:
    drive = drivebay.drive(name).with_(ailment=f"{TOP}/examples/endurance/{wear}.toml")
    written = life.writable(drive, 1.0, 1.0)
    cycles = drive.value("reliability.block_life_cycles")
    assert written is not None and "wears out" in drive.title
    assert 0.5 * cycles < written / drive.capacity_bytes < 0.8 * cycles


def test_age_on_the_command_line(tmp_path: Path) -> None:
    chart = tmp_path / "life.svg"
    words = ["age", "sm951-ahci-512", "--load", "sequential", "--until", "3%", "--seeds", "1"]
    done = CliRunner().invoke(app, [*words, "--window", "0.5", "--json", "--chart", str(chart)])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["ended"] == ["3 % used"] and found["ages"]["used_percent"][-1] in (3, 4)
    assert chart.read_text().startswith("<?xml")
    again = CliRunner().invoke(app, [*words, "--chart", str(chart)])
    assert again.exit_code != 0


def test_a_rating_is_a_bound_of_whole_lives_alone(short: drivebay.Drive, tmp_path: Path) -> None:
    profile = tmp_path / "short.toml"
    short.save(profile, name="970-evo-plus-1tb")
    words = ["age", str(profile), "--load", "random", "--seeds", "2", "--window", "0.1"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of heat: not of a life
        part = CliRunner().invoke(app, [*words, "--until", "0.02y"])
        whole = CliRunner().invoke(app, words)
    assert part.exit_code == whole.exit_code == 0, part.output + whole.output
    assert "0.02 years after" in part.output and "rated" not in part.output
    assert "rated for 600 TB" in whole.output


def test_two_windows_give_the_same_life(short: drivebay.Drive) -> None:
    """The window is a choice of the method, whose error is part of the interval."""
    skewed = Workload(queue_depth=8, offsets="zoned:80/20:20/80")
    lives = [drivebay.age(short, skewed, seeds=2, window=window) for window in (0.1, 0.5)]
    short_window, long_window = (found.estimate() for found in lives)
    assert short_window.low < long_window.high and long_window.low < short_window.high
    assert short_window.mean == pytest.approx(long_window.mean, rel=0.05)
    for found in lives:
        assert all(0 <= error < 0.1 for error in found.errors)
        early = [age.waf for age in found.lives[0] if age.spare_percent > 95]
        assert max(early) < 1.1 * min(early), "settled before the first age"
        assert len(repr(found)) < 200


def test_ctrl_c_ends_a_life_within_a_second(tmp_path: Path) -> None:
    program = "import drivebay; print(1, flush=True); drivebay.age(drivebay.drive('980-pro-1tb'))"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "1\n"
        time.sleep(3)
        process.send_signal(signal.SIGINT)
        _, problem = process.communicate(timeout=60)
    assert process.returncode != 0 and "KeyboardInterrupt" in problem
    assert "Cancelled" not in problem.splitlines()[-1]
