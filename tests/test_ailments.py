"""Sick drives: each ailment does what its file says, on any drive, and the logs tell of it."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import Any

import pytest
from here import drivebay as drivebay_cli

import drivebay
from drivebay import Workload
from drivebay.common.errors import UserError
from drivebay.definitions import ailments, profiles, suites
from drivebay.definitions.modifications import changed
from drivebay.lab.sweep import plan, spec
from drivebay.targets.base import Progress
from drivebay.targets.virtual.target import VirtualTarget

TOP = Path(__file__).resolve().parent.parent
DRIVES = ("sm951-ahci-512", "980-pro-1tb", "pm9a3-960", "samsung-850-pro-512", "p41-plus-1tb")
IN_PLACE = "p4800x-375"


def sick(*words: str) -> drivebay.Drive:
    """A small drive with these ailments."""
    drive = drivebay.drive("sm951-nvme-256").with_(*(f"ailment={word}" for word in words))
    return drive.scaled(1 / 32)


def read(drive: drivebay.Drive, **load: Any) -> tuple[Any, drivebay.Device]:
    """Random reads of the filled drive."""
    device = drive.device(seed=1)
    device.fill()
    device.rest(10)
    return device.run(
        Workload(read_percent=100, **{"duration_s": 2, "queue_depth": 1, **load})
    ), device


@pytest.mark.parametrize("drive", DRIVES)
@pytest.mark.parametrize("name", [*ailments.names(), ailments.AGED])
def test_every_ailment_makes_every_kind_of_drive_sick(drive: str, name: str) -> None:
    well = profiles.load(drive)
    ill = changed(well, [f"ailment={name}"])
    assert ill.core.capacity_bytes == well.core.capacity_bytes
    if name != ailments.AGED:
        assert f", sick: {ailments.load(name).title}" in ill.title


def test_every_number_of_an_ailment_has_a_source() -> None:
    def leaves(node: object) -> list[dict[str, object]]:
        if not isinstance(node, dict):
            return []
        return [node] if "value" in node else [x for one in node.values() for x in leaves(one)]

    for name in ailments.names():
        found = leaves(ailments.load(name).sections)
        assert found and all(str(leaf["source"]).strip() for leaf in found), name


def test_one_slow_die_is_seen_by_the_slowest_reads_alone() -> None:
    well, _ = read(sick())
    ill, _ = read(sick("slow-die"))
    assert ill.latency.percentile_us(50) == pytest.approx(well.latency.percentile_us(50), rel=0.1)
    assert ill.latency.percentile_us(99) > 4 * well.latency.percentile_us(99)


def test_a_stall_every_minute_lets_nothing_pass_for_its_time() -> None:
    well, _ = read(sick(), duration_s=130, rate_iops=200)
    ill, _ = read(sick("stalls-every-minute"), duration_s=130, rate_iops=200)
    assert well.series.latency_us_max.max() < 20e3
    stalls = [us for us in ill.series.latency_us_max if us > 100e3]
    assert len(stalls) in (2, 3)
    assert max(stalls) == pytest.approx(800e3, rel=0.02)


def test_a_link_that_flaps_holds_commands_up_and_is_counted() -> None:
    ill, device = read(sick("link-flaps"), duration_s=400, rate_iops=50)
    waits = [us for us in ill.series.latency_us_max if us > 100e3]
    assert len(waits) in (1, 2)
    assert max(waits) == pytest.approx(3e6, rel=0.02)
    assert 1 <= device.health().link_outages <= 2


def test_a_hot_drive_throttles_and_says_so() -> None:
    def run(drive: drivebay.Drive) -> tuple[Any, Any]:
        device = drive.device(seed=1)
        load = Workload(pattern="sequential", block_bytes=131072, queue_depth=32, duration_s=60)
        return device.run(load), device.health()

    (well, cool), (ill, hot) = run(sick()), run(sick("hot"))
    assert hot.temperature_c > cool.temperature_c + 10
    assert sum(seconds for _, seconds in hot.throttling) > 30
    assert ill.mb_per_s < 0.7 * well.mb_per_s


def test_a_map_cache_that_thrashes_costs_a_second_read() -> None:
    well, _ = read(sick())
    ill, device = read(sick("map-cache-thrash"))
    assert ill.latency.mean_us > 1.4 * well.latency.mean_us
    assert device.counters().page_reads > 1.9 * ill.ios


def test_dying_flash_retries_fails_and_runs_out_of_spares() -> None:
    ill, device = read(sick("dying-flash"), duration_s=10, queue_depth=8)
    health = device.health()
    assert health.percentage_used == 95
    assert health.available_spare_percent == 8
    assert health.media_errors > 0
    assert health.media_errors < 0.001 * ill.ios
    well, _ = read(sick(), duration_s=10, queue_depth=8)
    retried = well.latency.percentile_us(50) + 100
    assert ill.latency.over(retried) > well.latency.over(retried) + 0.01


def test_a_drive_soon_read_only_counts_down_and_refuses_to_be_written() -> None:
    device = sick("read-only-soon").device(seed=1)
    before = device.health()
    assert (before.percentage_used, before.available_spare_percent) == (99, 4)
    load: dict[str, Any] = {"pattern": "sequential", "block_bytes": 131072, "queue_depth": 8}
    more = Workload(duration_s=10, **load)
    device.run(Workload(bytes=10**9, **load))
    assert device.health().available_spare_percent == 2
    with pytest.warns(UserWarning, match="wore out"):
        assert device.run(more).worn_out
    with pytest.raises(UserError, match=r"read-only|worn out"):
        device.run(more)
    assert device.health().available_spare_percent == 0
    assert device.run(Workload(read_percent=100, duration_s=1)).ios > 0


def test_a_review_keeps_what_was_measured_until_the_drive_wore_out() -> None:
    test = suites.load("quick").tests[0]
    load: dict[str, Any] = {"pattern": "sequential", "block_bytes": 131072, "read_percent": 0}
    workload = test.phases[0].workload.model_copy(update={**load, "duration_s": 30.0})
    phase = test.phases[0].model_copy(update={"workload": workload, "before": ()})
    test = test.model_copy(update={"prepare": (), "phases": (phase,)})
    (result,) = VirtualTarget(sick("read-only-soon")).run_test(test, seed=1, progress=Progress())
    assert 1 < result.duration_s < 30 and result.writes > 1000
    (said,) = result.conditions["warnings"]
    assert said.startswith("the drive wore out") and phase.label in said


@pytest.mark.parametrize("share", ["0%", "35%", "80%", "140%"])
def test_an_aged_drive_has_used_what_was_asked_for(share: str) -> None:
    drive = drivebay.drive("sm951-ahci-512").with_(aged=share)
    health = drive.device().health()
    assert health.percentage_used == int(share.rstrip("%"))
    assert health.power_on_s == pytest.approx(5 * 365.25 * 86400 * int(share[:-1]) / 100, abs=1)
    assert (health.data_units_written > 0) == (share != "0%")


def test_the_same_seed_makes_the_same_sick_drive() -> None:
    names = ("slow-die", "stalls-every-minute", "dying-flash")
    first, second = (read(sick(*names))[0] for _ in range(2))
    assert first.series.latency_us.tolist() == second.series.latency_us.tolist()
    assert first.latency.percentile_us(99.9) == second.latency.percentile_us(99.9)


def test_a_sweep_takes_ailments_as_values() -> None:
    table = {
        "name": "sick",
        "drives": ["sm951-nvme-512"],
        "suite": "quick",
        "tests": ["random-read"],
        "parameters": [
            {"name": "ails", "change": "ailment={}", "values": ["hot", "slow-die", "aged:50%"]}
        ],
    }
    made = plan.make(spec.parse(table, where="a.toml"), where="a.toml")
    raw = [made.profile(made.point(i)).raw for i in range(made.runs)]
    assert raw[0]["thermal"]["ambient_c"]["value"] == 60
    assert raw[1]["nand"]["slow_dies"]["dies"]["value"] == 1
    assert raw[2]["health"]["worn_percent"]["value"] == 50


def test_what_cannot_be_is_refused_in_two_lines(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text("[nand]\n")
    for words, said in (
        (["sm951-ahci-512", "--ailment", "slow-dei"], "did you mean slow-die"),
        (["sm951-ahci-512", "--ailment", "aged"], "--set aged=: must be from 0% to 255%"),
        (["sm951-ahci-512", "--aged", "300%"], "--set aged=300%: must be from 0% to 255%"),
        (["sm951-ahci-512", "--ailment", str(mine)], "must have [ailment] with title"),
        ([IN_PLACE, "--ailment", "slow-die"], "nand.slow_dies"),
        ([IN_PLACE, "--ailment", "dying-flash"], "must be left out with nand.in_place"),
        (["--aged", "80%"], "drivebay drives NAME --aged 80%"),
    ):
        done = drivebay_cli("drives", *words, cwd=tmp_path)
        assert done.returncode == 2, words
        lines = done.stderr.strip().splitlines()
        assert [line.partition(":")[0] for line in lines] == ["error", "hint"], done.stderr
        assert said in done.stderr, done.stderr


def test_drives_lists_ailments_and_tells_a_sick_drives_health(tmp_path: Path) -> None:
    listed = drivebay_cli("drives", "--ailments", cwd=tmp_path).stdout
    assert all(f"{name}: " in listed for name in ailments.names())
    found = json.loads(drivebay_cli("drives", "--ailments", "--json", cwd=tmp_path).stdout)
    assert [one["name"] for one in found["ailments"]] == list(ailments.names())
    done = drivebay_cli("drives", "sm951-ahci-512", "--aged", "80%", "--json", cwd=tmp_path)
    health = json.loads(done.stdout)["health"]
    assert health["percentage_used"] == 80
    table = drivebay_cli("drives", "980-pro-1tb", "--ailment", "dying-flash", cwd=tmp_path).stdout
    assert "available spare percent" in table and "sick: dying flash" in table


GUIDE = TOP / "docs" / "guides" / "alerts.md"
ALERTS = {
    "none": "none",
    "aged:80%": "none",
    "dying-flash": "DriveCriticalWarning, DriveSpareLow, DriveWornOut, DriveMediaErrors",
    "hot": "DriveHot, DriveCriticalWarning where the drive has a warning temperature",
    "link-flaps": "none by SMART over NVMe; connections end",
    "map-cache-thrash": "DriveSlow",
    "read-only-soon": "DriveCriticalWarning, DriveSpareLow, DriveWornOut",
    "slow-die": "none by a mean; a quantile of latency",
    "stalls-every-minute": "DriveStalls",
}


def guide_row(name: str) -> str:
    """What the log of a sick drive says after it was filled and read at random for 100 s, one
    request at a time: that is a seventh of the work of a deep queue, and as long for the heat."""
    drive = sick() if name == "none" else sick(name)
    device = drive.device(seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it has worn out
        ended = device.fill().worn_out
    device.run(Workload(read_percent=100, queue_depth=1, duration_s=100))
    end = "; it refuses to be written" if ended else ""
    health = device.health()
    used = "not rated" if health.percentage_used is None else str(health.percentage_used)
    cells = (
        f"`{name}`",
        f"{health.temperature_c:.0f}",
        str(health.available_spare_percent),
        used,
        f"{health.media_errors:,}",
        ALERTS[name] + end,
    )
    return f"| {' | '.join(cells)} |"


def test_the_guide_of_alerts_shows_what_the_logs_say() -> None:
    """`DRIVEBAY_BLESS=1` writes the rows anew."""
    rows = "\n".join(guide_row(name) for name in ALERTS)
    text = GUIDE.read_text()
    head = text.index("|---|---|---|---|---|---|\n") + len("|---|---|---|---|---|---|\n")
    end = text.index("\n\n", head)
    if os.environ.get("DRIVEBAY_BLESS"):
        GUIDE.write_text(text[:head] + rows + text[end:])
    assert set(ALERTS) == {"none", ailments.AGED, *ailments.names()}
    assert GUIDE.read_text()[head : head + len(rows)] == rows
