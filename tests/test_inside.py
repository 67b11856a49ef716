"""What a virtual drive tells of its inside: in the library, and in a review's result."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest
from fakes import CtrlC

import drivebay
from drivebay import Device, Result, Trace, Workload, results, review
from drivebay.common.errors import Interrupted, UserError
from drivebay.definitions import suites
from drivebay.lab.query import query
from drivebay.results.inside import ACTIVITY_SCHEMA, EVENTS_SCHEMA, SCHEMAS, SUPERBLOCKS_SCHEMA
from drivebay.targets.virtual.busy import busy
from drivebay.targets.virtual.target import VirtualTarget


@pytest.fixture(scope="module")
def steady() -> Device:
    """A 128th of the SM951's flash, which needs garbage collection."""
    device = drivebay.drive("sm951-nvme-512").scaled(1 / 128).device(seed=3)
    device.fill()
    device.run(Workload(bytes=device.capacity_bytes))
    return device


def run(steady: Device, **more: Any) -> Result:
    load = Workload(read_percent=30, queue_depth=8, duration_s=1.5)
    return steady.copy().run(load, seed=7, **more)


def test_events_are_tables_that_add_up_and_change_no_figure(steady: Device) -> None:
    plain, watched = run(steady), run(steady, events=True)
    assert plain.inside is None
    assert np.array_equal(plain.series.iops, watched.series.iops)
    assert plain.core.after == watched.core.after
    inside = watched.inside
    assert inside is not None and inside.dropped == 0
    assert inside.events.schema == EVENTS_SCHEMA
    assert inside.activity.schema == ACTIVITY_SCHEMA
    assert inside.superblocks.schema == SUPERBLOCKS_SCHEMA

    before, after = watched.core.before, watched.core.after
    kinds = {
        row["values"]: row["counts"] for row in inside.events["kind"].value_counts().to_pylist()
    }
    assert kinds["erase"] == after.erases - before.erases > 0
    victims = inside.events.filter(pc.field("kind") == "collection")
    assert pc.sum(victims["copied_pages"]).as_py() == after.copied_pages - before.copied_pages
    assert set(victims["trigger"].to_pylist()) <= {"behind", "foreground", "idle"}
    assert pc.all(pc.less_equal(victims["copied_pages"], victims["valid_pages"])).as_py()
    begin = victims["begin_s"].to_numpy()
    assert np.all(np.diff(begin) >= 0) and begin[0] >= 0 and begin[-1] <= watched.duration_s
    assert pc.sum(inside.superblocks["erases"]).as_py() == after.erases

    activity = inside.activity
    for name in ("host_pages", "placed_pages", "copied_pages", "erases", "page_reads"):
        total = getattr(after, name) - getattr(before, name)
        assert pc.sum(activity[name]).as_py() == total, name
    assert activity["time_s"].to_pylist()[-1] == watched.duration_s
    depth = activity["queue_depth"].to_numpy()
    assert depth.mean() == pytest.approx(8, rel=0.02) and depth.max() < 8.001
    dies, channels = 64, 8
    assert inside.busy("die_program").shape == (activity.num_rows, dies)
    assert inside.busy("channel").shape == (activity.num_rows, channels)
    percent = busy(steady.drive.raw, before, after, watched.duration_s)
    parts = sum(inside.busy(f"die_{part}").mean() for part in ("read", "program", "erase"))
    assert 100 * parts == pytest.approx(percent["busy_dies_percent"], rel=0.03)
    moved = 100 * inside.busy("channel").mean()
    assert moved == pytest.approx(percent["busy_channels_percent"], rel=0.01)
    core = 100 * activity["flash_core"].to_numpy().mean()
    assert core == pytest.approx(percent["busy_flash_core_percent"], rel=0.001)


@pytest.mark.parametrize(("name", "part"), [("p5520-1920", 432), ("pm9a3-960", 512)])
def test_erases_of_a_scaled_drive_take_the_same_share(name: str, part: int) -> None:
    """One whole erase in `part` of as many smaller blocks, in turn or all dies together: as long as
    the whole drive's."""
    whole = drivebay.drive(name)
    device = whole.scaled(1 / part).device()
    nand = device.drive.raw["nand"]
    assert nand["erase_one_in"]["value"] == part
    assert nand["erase_us"]["value"] == whole.raw["nand"]["erase_us"]["value"]
    device.fill()
    load = Workload(queue_depth=64, bytes=4 * device.capacity_bytes)
    result = device.run(load, events=True)
    assert result.inside is not None and result.core is not None
    erases = result.core.after.erases - result.core.before.erases
    share = erases * nand["erase_us"]["value"] / part / 1e6 / result.duration_s
    assert share > 0.001
    assert result.inside.busy("die_erase").mean() == pytest.approx(share, rel=0.05)
    percent = busy(device.drive.raw, result.core.before, result.core.after, result.duration_s)
    parts = sum(result.inside.busy(f"die_{part}").mean() for part in ("read", "program", "erase"))
    assert 100 * parts == pytest.approx(percent["busy_dies_percent"], rel=0.03)


def test_the_map_cache_is_seen(steady: Device) -> None:
    device = drivebay.drive("samsung-980-250gb").scaled(1 / 16).device()
    device.fill()
    result = device.run(Workload(read_percent=100, duration_s=0.2), events=True)
    assert result.inside is not None
    sums = {
        name: pc.sum(result.inside.activity[name]).as_py()
        for name in ("map_look_ups", "map_sram_hits", "map_host_hits", "map_loads")
    }
    assert sums["map_look_ups"] >= result.ios > 0
    found = sums["map_sram_hits"] + sums["map_host_hits"] + sums["map_loads"]
    assert found == sums["map_look_ups"], "everything was written"
    steady_run = run(steady, events=True).inside
    assert steady_run is not None, "a drive with its map in memory looks nothing up"
    assert pc.sum(steady_run.activity["map_look_ups"]).as_py() == 0


def test_a_limit_keeps_the_first_and_counts_the_others(steady: Device) -> None:
    whole, few = run(steady, events=True).inside, run(steady, events=5).inside
    assert whole is not None and few is not None
    assert few.events.num_rows == 5 and few.dropped == whole.events.num_rows - 5
    assert few.activity.equals(whole.activity)


def test_a_limit_below_zero_is_refused(steady: Device) -> None:
    with pytest.raises(UserError, match="events = -1 is not allowed"):
        run(steady, events=-1)


def test_a_trace_and_jobs_keep_them_as_a_workload_does(steady: Device) -> None:
    trace = Trace(trace="light", scale=1e-3)
    plain, watched = steady.copy().run(trace), steady.copy().run(trace, events=True)
    assert plain.inside is None and plain.core.after == watched.core.after
    jobs = {
        "short": Workload(queue_depth=4, duration_s=0.3),
        "long": Workload(read_percent=100, queue_depth=4, duration_s=0.6),
    }
    together = steady.copy().run_jobs(jobs, events=True)
    assert together["long"].inside is None, "it is the drive's, so once"
    for result in (watched, together["short"]):
        inside, core = result.inside, result.core
        assert inside is not None
        made = pc.sum(inside.activity["host_pages"]).as_py()
        assert made == core.after.host_pages - core.before.host_pages > 0
    inside = together["short"].inside
    assert inside is not None
    assert inside.activity["time_s"].to_pylist()[-1] == together["long"].duration_s == 0.6
    depth = inside.activity["queue_depth"].to_numpy()
    assert depth[:250].mean() == pytest.approx(8, rel=0.02)
    assert depth[350:].mean() == pytest.approx(4, rel=0.02)


def test_a_review_keeps_them_with_each_test_and_a_query_reads_them(tmp_path: Path) -> None:
    profile = drivebay.drive("sm951-nvme-512").scaled(1 / 128)
    suite = suites.load("quick").selected(("random-read", "random-write"))
    go = partial(review.run, lambda: VirtualTarget(profile, events=True), suite, quick=True, jobs=1)
    folder = tmp_path / "r"
    with pytest.raises(Interrupted):
        go(out=folder, sink=CtrlC(2))
    go(out=folder, resume=True)
    with pytest.raises(UserError, match="events was True, is None"):
        review.run(lambda: VirtualTarget(profile), suite, out=folder, quick=True, resume=True)
    for step in results.load(folder).steps:
        assert {f"{name}.parquet" for name in SCHEMAS} <= {
            one.name for one in step.folder.iterdir()
        }
    asked = (
        "SELECT phase, sum(host_pages), avg(list_avg(die_program)) FROM activity "
        "WHERE test = 'random-write' GROUP BY phase"
    )
    rows = query(asked, [folder]).rows
    assert rows and all(pages > 0 and busy > 0 for _, pages, busy in rows)
    for name in ("events", "superblocks"):
        assert query(f"SELECT count(*) FROM {name}", [folder]).rows[0][0] > 0
