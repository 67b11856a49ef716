"""The suite `client-reviews`: loads that end after their span, MB/s per watt, the working set."""

from __future__ import annotations

from pathlib import Path

import made_result
import pytest
from fakes import made_test, workload
from pydantic import ValidationError
from real_files import file, keep_the_disk_free, load, results

from drivebay.analysis.measure import measure
from drivebay.definitions import profiles as catalog
from drivebay.definitions import suites
from drivebay.definitions.scaling import scaled
from drivebay.definitions.suites import Phase, Test, Workload
from drivebay.report.base import text
from drivebay.results import load as load_result
from drivebay.targets.base import Progress
from drivebay.targets.virtual.target import VirtualTarget

__all__ = ["file", "keep_the_disk_free"]
MIB = 2**20


def shipped(test_id: str) -> Test:
    return next(test for test in suites.load("client-reviews").tests if test.id == test_id)


def once(**more: object) -> Workload:
    return workload(
        pattern="sequential", block_bytes=MIB, span_bytes=64 * MIB, duration_s=60, once=True, **more
    )


@pytest.mark.parametrize("read_percent", [0, 100])
def test_a_load_that_goes_once_over_ends_with_its_span(read_percent: int) -> None:
    target = VirtualTarget(scaled(catalog.load("sm951-nvme-512"), 1 / 128))
    test = made_test(Phase(label="run", workload=once(read_percent=read_percent)), kind="loads")
    (phase,) = target.run_test(test, seed=1, progress=Progress())
    assert phase.read_bytes + phase.write_bytes == 64 * MIB
    assert phase.duration_s < 60


def test_a_real_file_is_written_once_over(file: Path) -> None:
    one = load(pattern="sequential", block_bytes=MIB, span_bytes=None, duration_s=600, once=True)
    (phase,) = results(file, made_test(Phase(label="run", workload=one), kind="loads"))
    assert phase.write_bytes >= file.stat().st_size, "fio is asked each second, so it may be more"
    assert phase.duration_s < 600


def test_once_is_said_and_excludes_another_end() -> None:
    assert text.load(once(read_percent=0)).endswith("one pass, at most 1 min 0 s")
    with pytest.raises(
        ValidationError, match="'once', 'bytes' and 'until_written_percent' exclude"
    ):
        once(read_percent=0, until_written_percent=10)


def test_a_smaller_drive_is_copied_whole() -> None:
    for phase in shipped("copy-48gb").phases:
        bytes_max = phase.workload.bytes_max(512 * 10**9)
        assert bytes_max == 48 * 10**9 // phase.workload.block_bytes * phase.workload.block_bytes
        assert phase.workload.bytes_max(4 * 2**30) == 4 * 2**30


def test_working_sets_double_up_to_the_whole_drive() -> None:
    for name in ("working-set-read", "working-set-write"):
        loads = [phase.workload for phase in shipped(name).phases]
        assert [one.span(2**50)[1] >> 30 for one in loads] == [1 << n for n in range(10)]
        assert loads[-1].span(10**11)[1] == 10**11 // 4096 * 4096


def test_a_small_drive_is_used_whole_once() -> None:
    """Of the spans that are all of a drive the first stays; what repeats on purpose stays, too."""
    suite = suites.load("client-reviews")
    small = suite.within(4 * 2**30)
    labels = {test.id: [phase.label for phase in test.phases] for test in small.tests}
    assert labels["working-set-read"] == ["1g", "2g", "4g"]
    assert suite.within(2**50) == suite
    for test in suite.tests:
        if not test.id.startswith("working-set"):
            assert labels[test.id] == [phase.label for phase in test.phases]
    assert small.larger_than(4 * 2**30) == ["efficiency", "copy-48gb"]
    assert not small.larger_than(10**12)


def test_the_latency_of_a_map_cache_rises_with_the_working_set() -> None:
    """A drive with little memory for its map against one that holds all of it."""
    means = {}
    for drive in ("samsung-980-1tb", "980-pro-1tb"):
        target = VirtualTarget(scaled(catalog.load(drive), 1 / 64))
        small = shipped("working-set-read").shortened()
        found = measure(small, target.run_test(small, seed=1, progress=Progress())).figures
        first, last = (found[f"latency_mean_{label}"].value for label in ("1g", "512g"))
        assert first is not None and last is not None
        means[drive] = last / first
    assert means["samsung-980-1tb"] > 1.01
    assert means["980-pro-1tb"] == pytest.approx(1.0, abs=0.005)


def test_efficiency_is_rate_over_power(tmp_path: Path) -> None:
    target = VirtualTarget(scaled(catalog.load("sm951-nvme-512"), 1 / 128))
    test = shipped("efficiency").shortened()
    measured = measure(test, target.run_test(test, seed=1, progress=Progress()))
    assert measured.main == tuple(f"per_watt_{phase.label}" for phase in test.phases)
    for step in measured.steps:
        assert step.power is not None
        value = measured.figures[f"per_watt_{step.label}"].value
        assert value == pytest.approx(step.rate_mb_s / step.power.mean)


def test_without_a_power_meter_the_figure_says_so(tmp_path: Path) -> None:
    made = made_result.make(
        tmp_path / "made",
        suite="client-reviews",
        target=made_result.REAL,
        only=("efficiency",),
    )
    figures = measure(shipped("efficiency"), load_result(made).done[0].phases()).figures
    rows = [one for key, one in figures.items() if key.startswith("per_watt")]
    assert len(rows) == 6
    assert {(one.value, one.note) for one in rows} == {(None, "not reported by this target")}
