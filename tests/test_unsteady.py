"""Figures that are not of a steady state are marked; amplification has both of its definitions."""

from __future__ import annotations

import json
import pickle
import warnings
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from typer.testing import CliRunner

import drivebay
from drivebay import Workload
from drivebay.analysis import phases
from drivebay.cli.app import app
from drivebay.common.errors import UserError
from drivebay.lab.sweep import plan, spec, work
from drivebay.library import arrays, objects
from drivebay.library.life import writable
from drivebay.targets.virtual import target


@pytest.fixture(scope="module")
def small() -> drivebay.Drive:
    return drivebay.drive("sm951-nvme-512").scaled(1 / 128)


@pytest.fixture(scope="module")
def burst(small: drivebay.Drive) -> drivebay.Result:
    return drivebay.run(small, Workload(block_bytes=512, bytes=2**23), events=True)


def test_a_burst_into_free_flash_is_not_steady(burst: drivebay.Result) -> None:
    assert "used up free flash" in burst.unsteady
    assert "not steady" in repr(burst) and "not steady" in burst._repr_html_()


def test_writes_that_settled_are_steady(small: drivebay.Drive) -> None:
    device = small.device()
    device.fill()
    device.rest(1800)
    load = Workload(bytes=2 * small.capacity_bytes)
    first = device.run(load)
    assert first.unsteady, "amplification begins at one"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of heat
        later = device.run(load)
    assert later.unsteady == "" and "steady" not in repr(later)


def test_reads_need_no_free_flash(small: drivebay.Drive) -> None:
    assert drivebay.run(small, Workload(read_percent=100, ios=1000)).unsteady == ""


def test_amplification_by_bytes_counts_what_the_host_wrote(burst: drivebay.Result) -> None:
    """A sector of 512 B costs a mapping unit of 4 KiB."""
    programmed = burst.core.after.placed_pages - burst.core.before.placed_pages
    assert burst.waf_bytes == pytest.approx(programmed * 4096 / 2**23)
    assert burst.waf_bytes == pytest.approx(8 * burst.waf, rel=0.02)


def test_jobs_share_the_drives_amplification(small: drivebay.Drive) -> None:
    device = small.device()
    device.fill()
    half = small.capacity_bytes // 2 // 4096 * 4096
    jobs = {
        "a": Workload(span_bytes=half, bytes=2**26),
        "b": Workload(span_start_bytes=half, bytes=2**26, block_bytes=8192),
    }
    both = device.run_jobs(jobs)
    assert both["a"].waf_bytes == both["b"].waf_bytes == pytest.approx(both["a"].waf, rel=0.01)


def test_a_result_pickles(burst: drivebay.Result) -> None:
    again = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(burst))))
    assert repr(again) == repr(burst) and again.waf_bytes == burst.waf_bytes
    assert np.array_equal(again.series.iops, burst.series.iops)
    assert again.inside is not None and burst.inside is not None
    assert again.inside.events.equals(burst.inside.events)


@pytest.mark.long
def test_an_array_settles_before_it_writes_at_random() -> None:
    drive = drivebay.drive("pm9a3-960")
    found = {
        settle: {
            (row.load, row.state): row
            for row in arrays.survey(
                drive, "0", 2, scale=0.003, duration_s=0.5, settle=settle
            ).measured
        }
        for settle in (False, True)
    }
    key = ("4 KiB written at random", "whole")
    assert found[False][key].unsteady and found[True][key].iops < 0.5 * found[False][key].iops


SWEEP: dict[str, Any] = {
    "name": "ends",
    "drives": ["sm951-nvme-512"],
    "set": ["drive.capacity_sectors=8000000", "nand.blocks_per_plane=16", "gc.idle.free_mb=200"],
}
WRITES = {"pattern": "random", "read_percent": 0, "block_bytes": 4096, "queue_depth": 4}


@pytest.mark.parametrize(
    "end", [{"bytes": 2**26}, {"until_stable_s": 2}, {"until_stable_s": 2, "duration_s": 3}]
)
def test_a_sweeps_load_ends_by_bytes_or_when_it_is_stable(end: dict[str, int]) -> None:
    made = plan.make(spec.parse({**SWEEP, "workload": WRITES | end}, where="a.toml"), where="a")
    table = work.row(made, made.point(0))
    (row,) = table.to_pylist()
    assert row["steady"] in (0.0, 1.0)
    if "bytes" in end:
        assert row["steady"] == 0.0
        assert b"did not reach a steady state" in table.schema.metadata[b"drivebay"]


def test_amplification_that_moves_at_a_constant_rate_is_not_steady() -> None:
    """After a fill the flash core limits the rate while victims are still nearly full."""

    def verdict(amplified: list[float]) -> str:
        parts = {f"waf_part_{number}": value for number, value in enumerate(amplified)}
        phase = SimpleNamespace(
            timeline=SimpleNamespace(rate_mb_s=np.full(10, 42.0)), metrics={"freed": 1.0, **parts}
        )
        return phases.unsteady(cast(Any, phase))

    assert verdict([9.3, 9.2, 9.4, 9.3, 9.3]) == ""
    assert "amplification moved" in verdict([17.0, 16.0, 14.0, 13.0, 11.0])


def test_a_phase_has_the_amplification_of_its_parts(small: drivebay.Drive) -> None:
    device = small.device()
    device.fill()
    result = device.run(Workload(duration_s=6))
    parts = list(target._metrics(result.core, superblock=1e6).items())
    found = [value for name, value in parts if name.startswith("waf_part_")]
    assert len(found) == 5 and found[0] == pytest.approx(result.series.waf[0])
    assert min(found) < result.waf < max(found)


def test_a_sweeps_load_has_one_amount() -> None:
    with pytest.raises(UserError, match="exclude each other"):
        spec.parse({**SWEEP, "workload": {**WRITES, "bytes": 1, "once": True}}, where="a.toml")


def test_drives_are_sized_in_one_table() -> None:
    words = ["size", "pm9a3-960", "checkpoint:64MiB/2s", "--scale", "0.1", "--layout", "files"]
    words = [*words, "--scale", "0.01"]
    many = CliRunner().invoke(app, [*words, "--list", "7450-max-800"])
    assert many.exit_code == 0, many.output
    assert "7450-max-800" in many.output and "longest checkpoint" in many.output
    both = CliRunner().invoke(app, [*words, "--list", "7450-max-800", "--json"])
    assert set(json.loads(both.stdout)) == {"pm9a3-960", "7450-max-800"}


def test_a_file_that_is_replaced_is_discarded() -> None:
    asked = objects.checkpoints(size_bytes=2**20, every_s=1.0, count=3)
    placed = objects.place(asked, 2**30, "files")
    from drivebay import traces

    ops = [traces.OPS[op] for c in traces.batches(placed.trace.source(1)) for op in c.op]
    assert ops == ["write", "write", "trim", "write", "read"]


def test_a_checkpoint_and_its_restore_have_seconds_of_their_own() -> None:
    drive = drivebay.drive("970-evo-plus-1tb")
    asked = objects.checkpoints(size_bytes=2**30, every_s=20.0)
    found = objects.size(drive, asked, scale=0.02)
    assert 0.1 < found.longest_read_s < found.longest_write_s < 20
    assert found.longest_write_s > found.write_us[1] / 1e6
    written = writable(drive, 1.0, 1.0)
    assert written is not None
    cycles = written / drive.flash_bytes
    assert 0.5 < cycles / drive.value("reliability.block_life_cycles") < 0.7


def test_the_hint_of_a_share_is_a_share() -> None:
    for name in ("pm9a3-960", "sm951-nvme-512", "p41-plus-1tb"):
        drive = drivebay.drive(name)
        with pytest.raises(UserError) as refused:
            drive.scaled(0.10001)
        above, below = refused.value.hint.removeprefix("scaled(").rstrip(")").split(" / ")
        assert drive.scaled(int(above) / int(below)).capacity_bytes < drive.capacity_bytes / 9


def test_mistakes_have_hints(small: drivebay.Drive) -> None:
    for wrong in (
        lambda: drivebay.run(small, {}),  # type: ignore[arg-type]
        lambda: drivebay.replicates(small, {}, seeds=2),  # type: ignore[arg-type]
        lambda: drivebay.replicates(small, Workload(), seeds=1.5),  # type: ignore[arg-type]
        lambda: drivebay.replicates("x", Workload()),  # type: ignore[arg-type]
        lambda: drivebay.age("980-pro-1tb"),  # type: ignore[arg-type]
        lambda: drivebay.age(drivebay.drive("980-pro-1tb"), {}),  # type: ignore[arg-type]
        lambda: drivebay.age(drivebay.drive("980-pro-1tb"), until="99y"),
        lambda: drivebay.age(drivebay.drive("980-pro-1tb"), seeds=1.5),  # type: ignore[arg-type]
        lambda: small.device(seed=1.5),  # type: ignore[arg-type]
        lambda: drivebay.run(small, Workload(), seed=1.5),  # type: ignore[arg-type]
        lambda: drivebay.Trace.from_arrays(at_s=[0], is_write=True, offset_bytes=0, bytes=0),
    ):
        with pytest.raises(UserError) as refused:
            wrong()
        assert refused.value.hint


def test_replicates_and_arrays_say_which_figures_are_not_steady(small: drivebay.Drive) -> None:
    writes = drivebay.replicates(small, Workload(ios=100), seeds=2)
    assert set(writes.unsteady) == {1, 2} and "free flash" in writes.unsteady[1]
    assert drivebay.replicates(small, Workload(read_percent=100, ios=100), seeds=2).unsteady == {}
    words = ["array", "sm951-nvme-512", "--level", "0", "--members", "2", "--duration", "0.1"]
    shown = CliRunner().invoke(app, [*words, "--scale", "0.008"])
    load, latency = shown.stdout.partition("4 KiB written at random")[2].splitlines()[:2]
    assert load.count("*") == latency.count("*") == 2 and "* not steady" in shown.output


def test_progress_is_reported(small: drivebay.Drive) -> None:
    seen: list[int] = []
    load = Workload(ios=100)
    drivebay.replicates(small, load, seeds=2, progress=lambda n, _: seen.append(n))
    assert seen == [1, 2]
    drivebay.run(small, load, progress=lambda now: seen.append(now.iops))


def test_a_copy_into_a_device_goes_on_bit_for_bit(small: drivebay.Drive) -> None:
    device, old = small.device(seed=3), small.device(seed=4)
    device.fill()
    copy = device.copy(into=old)
    load = Workload(ios=1000)
    assert copy is old and copy.seed == 3
    assert copy.run(load).core.after == device.run(load).core.after
