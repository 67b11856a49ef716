"""Analysis against numbers worked out by hand, and against exact sorting of every latency."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from fakes import made_test
from hypothesis import given
from hypothesis import strategies as st

from drivebay.analysis import (
    consistency,
    figures,
    ladder,
    latency,
    measure,
    published,
    stages,
    thermal,
    trust,
)
from drivebay.analysis import timeline as timelines
from drivebay.analysis.headline import comparisons_of, rows_of
from drivebay.definitions import suites
from drivebay.definitions.suites import Phase, Stable, Test, Workload
from drivebay.results.records import (
    HISTOGRAM_SCHEMA,
    SERIES_SCHEMA,
    STAGES_SCHEMA,
    PhaseResult,
)


def series(
    ios: list[int],
    *,
    block: int = 4096,
    temperature: list[float | None] | None = None,
    stage: list[int | None] | None = None,
    mean_ns: list[float | None] | None = None,
) -> pa.Table:
    n = len(ios)
    columns = {
        "second": list(range(n)),
        "reads": [0] * n,
        "writes": ios,
        "read_bytes": [0] * n,
        "write_bytes": [count * block for count in ios],
        "latency_ns_mean": mean_ns or [1e6] * n,
        "latency_ns_max": [2_000_000] * n,
        "temperature_c": temperature or [None] * n,
        "power_w": [3.0] * n,
        "throttle_stage": stage or [None] * n,
    }
    return pa.table(columns, schema=SERIES_SCHEMA)


def line(ios: list[int], **more: object) -> timelines.Timeline:
    return timelines.from_table(series(ios, **more), float(len(ios)))  # type: ignore[arg-type]


def bins(rows: list[tuple[str, int, int, int]]) -> pa.Table:
    columns = dict(zip(HISTOGRAM_SCHEMA.names, map(list, zip(*rows, strict=True)), strict=True))
    return pa.table(columns, schema=HISTOGRAM_SCHEMA)


def load(**changes: object) -> Workload:
    base = {
        "pattern": "random",
        "read_percent": 0,
        "block_bytes": 4096,
        "queue_depth": 32,
        "duration_s": 10.0,
    }
    return Workload(**{**base, **changes})


# --- timelines ------------------------------------------------------------------------------------


def test_a_partial_last_second_is_left_out() -> None:
    found = timelines.from_table(series([10, 10, 3]), 2.4)
    assert found.ios.tolist() == [10, 10]
    assert found.seconds_total == 2.4


def test_a_run_that_ends_a_few_milliseconds_early_keeps_its_last_second() -> None:
    assert timelines.from_table(series([10, 10, 10]), 2.97).n == 3


def test_a_second_without_a_row_counts_as_zero_and_its_temperature_as_unknown() -> None:
    table = series([10, 10, 10], temperature=[30.0, 31.0, 32.0]).take([0, 2])
    found = timelines.from_table(table, 3.0)
    assert found.ios.tolist() == [10, 0, 10]
    assert np.isnan(found.temperature_c[1]) and found.temperature_c[2] == 32.0


def test_rates_are_decimal_megabytes() -> None:
    assert line([1000], block=128 * 1024).rate_mb_s.tolist() == [131.072]


# --- consistency ----------------------------------------------------------------------------------


def test_consistency_by_hand() -> None:
    # 100, 100, 100 burst; then 40; then the window 6, 8, 10: mean 8, sd 2, ratio 4.
    found = consistency.consistency(line([100, 100, 100, 40, 6, 8, 10]), window_s=3)
    assert found is not None
    assert found.window == timelines.Spread(8, 2, 3)
    assert (found.mean_over_sd, found.lowest) == (4, 6)
    assert found.burst_s == 3 and found.burst is not None and found.burst.mean == 100
    assert found.after_median == 9.0  # of 40, 6, 8, 10


def test_a_steady_drive_has_no_burst_and_no_ratio() -> None:
    found = consistency.consistency(line([50] * 10), window_s=4)
    assert found is not None
    assert found.window.sd == 0
    assert (found.mean_over_sd, found.burst_s, found.after_median) == (None, None, None)


def test_a_window_longer_than_the_run_says_how_long_it_was() -> None:
    found = consistency.consistency(line([5, 7]), window_s=400)
    assert found is not None and found.window.n == 2


def test_nothing_comes_of_less_than_a_second() -> None:
    assert consistency.consistency(timelines.from_table(series([5]), 0.5), window_s=4) is None


# --- thermal --------------------------------------------------------------------------------------


def test_thermal_by_hand() -> None:
    # 1,000 a second for 20 s, 700 in the second of the fall, then 50 for 20 s.
    ios = [1000] * 20 + [400] + [50] * 20
    heat = [30.0 + i for i in range(41)]
    found = thermal.thermal(line(ios, block=1_000_000, temperature=heat, stage=[0] * 20 + [2] * 21))
    assert found is not None
    assert found.fall_s == 20
    assert found.initial.mean == found.before.mean == 1000.0
    assert found.after is not None and found.after.mean == 50.0 and found.after.n == 20
    assert found.moved_gb == 20.0
    assert found.temperature_at_fall_c == 50.0
    assert found.by_heat is True


def test_a_short_dip_is_no_throttling() -> None:
    found = thermal.thermal(line([1000] * 20 + [10] * 9 + [1000] * 20))
    assert found is not None and found.fall_s is None and found.after is None


def test_a_fall_without_throttling_is_not_blamed_on_heat() -> None:
    found = thermal.thermal(line([1000] * 20 + [10] * 20, stage=[0] * 40))
    assert found is not None and found.fall_s == 20 and found.by_heat is False


# --- ladder ---------------------------------------------------------------------------------------


def step(depth: int, rates: list[int]) -> ladder.Step:
    found = line(rates, block=1_000_000)
    return ladder.step(
        f"qd{depth}",
        depth,
        found,
        latency.empty(),
        total_ios=sum(rates),
        total_bytes=sum(rates) * 1_000_000,
        latency_mean_ns=None,
        metrics={},
    )


def test_mean_over_depths_by_hand() -> None:
    steps = [step(1, [10, 14]), step(2, [20, 20]), step(4, [60, 54]), step(8, [99, 99])]
    found = ladder.mean_over(steps, (1, 2, 4))
    assert found is not None
    assert found.mean == (12 + 20 + 57) / 3
    # Variances of the samples: 8, 0, 18; of their mean of three: 26 / 9.
    assert found.sd == pytest.approx(math.sqrt(26) / 3)
    assert found.n == 6
    assert ladder.mean_over(steps, (1, 16)) is None


# --- latency --------------------------------------------------------------------------------------


def test_percentiles_by_hand() -> None:
    table = bins([("read", 100, 101, 98), ("read", 200, 203, 1), ("write", 5000, 5080, 1)])
    found = latency.from_table(table)
    assert found.total == 100
    assert [latency.percentile_ns(found, q) for q in (50, 98, 98.5, 99, 99.5, 100)] == [
        100,
        100,
        202,
        202,
        5079,
        5079,
    ]
    assert latency.share_slower_percent(found, 203) == 1.0


def test_nearest_rank_does_not_stumble_over_binary_fractions() -> None:
    # In floats 99.9 / 100 * 1000 is a little over 999, whose ceiling would be the maximum.
    found = latency.Histogram(np.array([1, 9]), np.array([2, 10]), np.array([999, 1]))
    assert latency.percentile_ns(found, 99.9) == 1


def test_a_percentile_beyond_the_samples_is_not_given() -> None:
    found = latency.Histogram(np.array([1]), np.array([2]), np.array([999]))
    assert latency.percentiles_us(found) == {50.0: 0.001, 99.0: 0.001, 99.9: None, 99.99: None}


def test_bins_of_different_grids_are_refused() -> None:
    a = latency.Histogram(np.array([0]), np.array([10]), np.array([1]))
    b = latency.Histogram(np.array([5]), np.array([15]), np.array([1]))
    with pytest.raises(ValueError, match="different grids"):
        latency.merge([a, b])


def log_linear(values: np.ndarray) -> latency.Histogram:
    """The recorder's grid: exact below 64 ns, then 64 bins per power of two."""
    shift = np.maximum(np.floor(np.log2(np.maximum(values, 1))).astype(np.int64) - 6, 0)
    low = (values >> shift) << shift
    edges, count = np.unique(np.stack([low, low + (1 << shift)]), axis=1, return_counts=True)
    return latency.Histogram(edges[0], edges[1], count)


latencies = st.lists(st.integers(min_value=0, max_value=10**11), min_size=1, max_size=300)


@given(st.lists(latencies, min_size=1, max_size=4), st.sampled_from([1, 50, 99, 99.9, 99.99, 100]))
def test_merged_percentiles_agree_with_sorting(parts: list[list[int]], q: float) -> None:
    merged = latency.merge([log_linear(np.array(part, dtype=np.int64)) for part in parts])
    exact = sorted(value for part in parts for value in part)
    rank = math.ceil(round(q * 100) * len(exact) / 10_000)
    truth = exact[rank - 1]
    found = latency.percentile_ns(merged, q)
    assert truth <= found <= truth * (1 + latency.BIN_ERROR_PERCENT / 100)


@given(latencies)
def test_drawing_loses_no_count_and_keeps_the_edges(values: list[int]) -> None:
    whole = log_linear(np.array(values, dtype=np.int64))
    drawn = latency.for_drawing(whole, bins_per_octave=16)
    assert drawn.total == whole.total == len(values)
    assert drawn.low_ns[0] == whole.low_ns[0] and drawn.high_ns[-1] == whole.high_ns[-1]
    assert np.all(drawn.low_ns[1:] >= drawn.high_ns[:-1])


# --- stages ---------------------------------------------------------------------------------------


def test_stage_shares_by_hand() -> None:
    table = pa.table(
        {"second": [0, 0, 1, 1], "stage": ["nand", "host", "nand", "odd"], "ns": [60, 20, 10, 10]},
        schema=STAGES_SCHEMA,
    )
    found = stages.shares(table, total_ios=10)
    assert [(one.stage, one.share_percent) for one in found] == [
        ("host", 20.0),
        ("nand", 70.0),
        ("odd", 10.0),
    ]
    assert sum(one.mean_us for one in found) == pytest.approx(0.01)
    assert stages.shares(None, total_ios=10) == ()


# --- one test's figures ---------------------------------------------------------------------------


def consistency_test() -> Test:
    phase = Phase(label="run", workload=load())
    return made_test(phase, id="consistency-default", kind="consistency", metric_window_s=4)


def measured(ios: list[int]) -> figures.Measured:
    data = PhaseResult(
        label="run",
        workload=load(),
        duration_s=float(len(ios)),
        reads=0,
        writes=sum(ios),
        read_bytes=0,
        write_bytes=sum(ios) * 4096,
        series=series(ios, mean_ns=[1000.0] * (len(ios) - 1) + [None]),
        histogram=bins([("write", 1000, 1010, sum(ios))]),
        metrics={"waf": 7.5},
    )
    return measure.measure(consistency_test(), [data])


def test_every_figure_has_unit_label_and_samples() -> None:
    found = measured([100_000] * 12 + [7_500] * 30)
    for key, one in found.figures.items():
        assert one.key == key and one.label
        assert one.value is not None or one.note
        assert one.n > 0 or one.value is None
    assert found.figures["burst_s"].value == 12
    assert found.steps[0].waf == 7.5
    assert found.steps[0].latency_mean_us == 1.0


def test_headline_compares_on_the_same_drive_only() -> None:
    found = measured([100_000] * 12 + [8_000] * 30)
    rows = rows_of(found, suite="anandtech-2015", drive="sm951-ahci-512", shortened=False)
    mean = next(row for row in rows if row.key == "mean_iops")
    assert mean.published == 7500 and mean.published_relation == "approx"
    assert mean.error_percent == pytest.approx(100 * 500 / 7500)
    assert mean.verdict == "within" and mean.n == 4 and mean.spread == 0
    assert "AnandTech" in mean.source
    for drive, suite in (("xp941-512", "anandtech-2015"), ("sm951-ahci-512", "quick"), (None, "x")):
        rows = rows_of(found, suite=suite, drive=drive, shortened=False)
        assert all(row.published is None and row.verdict is None for row in rows)


def test_a_shortened_run_is_shown_beside_the_published_figure_without_an_error() -> None:
    rows = rows_of(
        measured([9_000] * 42), suite="anandtech-2015", drive="sm951-ahci-512", shortened=True
    )
    mean = next(row for row in rows if row.key == "mean_iops")
    assert mean.published == 7500 and mean.error_percent is None and mean.verdict == "shortened"
    burst = next(row for row in rows if row.key == "burst_iops")
    assert burst.value is None and burst.verdict == "not measured" and burst.note


def test_both_publications_of_one_figure_are_compared() -> None:
    rows = comparisons_of(
        measured([100_000] * 12 + [7_700] * 30),
        suite="anandtech-2015",
        drive="sm951-ahci-512",
        shortened=False,
    )
    means = {row.published_id: row.error_percent for row in rows if row.key == "mean_iops"}
    assert means["S061"] == pytest.approx(2.667, abs=0.01)
    assert means["S182"] == pytest.approx(-2.259, abs=0.01)


def test_a_thermal_test_that_never_throttles_says_so() -> None:
    stable = Stable(window_s=2, within_percent=5, min_s=2)
    phase = Phase(label="run", workload=load(until_stable=stable))
    test = made_test(phase, id="thermal-write", kind="thermal")
    data = PhaseResult(
        "run", load(), 20.0, 0, 20, 0, 20, series([9] * 20), bins([("write", 1, 2, 20)])
    )
    found = measure.measure(test, [data])
    assert found.figures["throttle_after_s"].value is None
    assert "no sustained drop" in found.figures["throttle_after_s"].note
    assert found.figures["initial_rate"].n == 20


# --- published figures ----------------------------------------------------------------------------


def test_bounds_have_no_error_inside() -> None:
    rows = {row.published.id: row for row in published.mapped()}
    assert published.error_percent(rows["S060"], 7_700) == 0  # under 10,000
    assert published.error_percent(rows["S060"], 11_000) == pytest.approx(10)
    assert published.error_percent(rows["S087"], 120_000) == pytest.approx(-20)  # over 150,000
    assert published.error_percent(rows["S110"], 113) == 0  # just under two minutes
    assert published.error_percent(rows["S110"], 45) == pytest.approx(-50)
    assert published.error_percent(rows["S185"], 1550) == pytest.approx(3.333, abs=0.01)  # 1.5 GB/s


def test_published_files_are_sound() -> None:
    rows = published.figures()
    assert len(rows) == 894
    for row in rows.values():
        assert row.id.startswith("S") and row.drive and row.metric and row.source
        assert row.relation in {"eq", "approx", "lt", "gt", "range", "ratio_to"}
    for mapped in published.mapped():
        assert mapped.published.value is not None
        assert trust.bounds(mapped.published)
    assert {row.source for row in rows.values() if not published.address(row.source)} == {
        "maker's specification, Plextor M6e, 2014"
    }, "all others lead to their publication"
    primaries = [(m.suite, m.test, m.metric) for m in published.mapped() if m.primary]
    assert len(set(primaries)) == len(primaries), "one primary statement per figure"


BENCH = {
    "busy_s": 0.003,
    "wall_s": 3.0,
    "latency_ns_sum": 9e6,
    "outstanding_mean": 3.0,
    "outstanding_max": 4.0,
    "over_10_ms": 3.0,
    "over_100_ms": 0.0,
    "depth_1": 30.0,
}


def test_a_replays_figures_and_littles_law() -> None:
    test = next(t for t in suites.load("anandtech-2015").tests if t.kind == "trace")

    def measured(**changes: float) -> figures.Measured:
        tables = (series([9, 9, 9]), bins([("write", 1, 2, 9)]))
        load = test.phases[0].workload
        metrics = {**BENCH, **changes}
        data = PhaseResult("run", load, 3.0, 0, 30, 0, 30, *tables, metrics=metrics)
        return measure.measure(test, [data])

    found = measured().figures
    # 30 I/Os in 3 ms of busy time, each of 300 us: 10,000/s x 300 us = 3 outstanding.
    assert found["little"].value == pytest.approx(3.0)
    assert found["over_10_ms"].value == pytest.approx(10.0)
    assert found["outstanding"].note == ""
    assert "some time is missing" in measured(outstanding_mean=3.1).figures["outstanding"].note


def a_phase(label: str, load: Workload, ios: int, **more: Any) -> PhaseResult:
    """Three seconds with so many I/Os in each."""
    reads = 3 * ios if load.read_percent else 0
    writes = 0 if reads else 3 * ios
    size = load.block_bytes
    tables = (series([ios] * 3, block=size), bins([("write", 1, 2, 3 * ios)]))
    counts = (reads, writes, reads * size, writes * size)
    return PhaseResult(label, load, 3.0, *counts, *tables, **more)


def test_mixes_are_averaged_and_the_worst_is_named() -> None:
    """4 KiB: 1,000 I/Os a second are 4.096 MB/s."""
    test = next(t for t in suites.load("anandtech-2015").tests if t.id == "mixed-random")
    ios = [12_000, 11_000, 9_000, 10_000, 15_000, 30_000]
    data = [
        a_phase(phase.label, phase.workload, count)
        for phase, count in zip(test.phases, ios, strict=True)
    ]
    found = measure.measure(test, data)
    assert found.figures["mean_rate"].value == pytest.approx(4.096 * 87 / 6)
    assert found.figures["mean_rate"].n == 18
    assert found.figures["mean_rate"].spread == pytest.approx(0, abs=1e-9)
    lowest = found.figures["rate_lowest"]
    assert lowest.value == pytest.approx(4.096 * 9) and lowest.place == "at 60/40"
    assert found.figures["iops_r0"].value == pytest.approx(30_000)
    assert found.main[0] == "mean_rate"
    empty = measure.measure(test, [])
    assert empty.figures["mean_rate"].value is None and empty.figures["mean_rate"].note


def test_sizes_have_a_highest_rate_for_each_direction() -> None:
    test = next(t for t in suites.load("anandtech-2015").tests if t.id == "atto")
    data = [
        a_phase(p.label, p.workload, (5_000_000 if p.workload.read_percent else 4_000_000) // size)
        for p in test.phases
        if (size := p.workload.block_bytes) <= 4096
    ]
    found = measure.measure(test, data)
    assert found.main == ("highest_read", "highest_write")
    assert found.figures["highest_read"].value == pytest.approx(5.0, rel=1e-3)
    assert found.figures["rate_write_4096"].value == pytest.approx(4.0, rel=1e-3)
    assert "rate_write_8192" not in found.figures


def test_what_trim_gives_back_is_a_share_of_the_clean_rate() -> None:
    test = next(t for t in suites.load("anandtech-2014").tests if t.id == "trim")
    rates = {"clean": 8_000, "torture": 500, "after-trim": 6_000}
    data = [a_phase(p.label, p.workload, rates[p.label]) for p in test.phases]
    found = measure.measure(test, data)
    assert found.figures["left_percent"].value == pytest.approx(75)
    assert found.main == ("left_percent", "rate_clean", "rate_after-trim")
    only_clean = measure.measure(test, data[:1])
    assert "left_percent" not in only_clean.figures


def test_power_is_the_mean_over_all_phases_and_the_highest_reading() -> None:
    test = next(t for t in suites.load("anandtech-2015").tests if t.id == "as-ssd")
    peaks = [{"power_w_peak_100ms": 5.5}, {"power_w_peak_100ms": 6.5}]
    data = [
        a_phase(p.label, p.workload, 100, metrics=peak)
        for p, peak in zip(test.phases, peaks, strict=True)
    ]

    def drawing(*watts: list[float | None]) -> list[PhaseResult]:
        return [
            replace(one, series=one.series.set_column(8, "power_w", pa.array(power, pa.float64())))
            for one, power in zip(data, watts, strict=True)
        ]

    found = measure.measure(test, drawing([4.0, 5.0, 4.5], [6.0, 6.2, 6.1])).figures
    assert found["power_mean"].value == pytest.approx(5.3) and found["power_mean"].n == 6
    assert found["power_peak"].value == 6.5 and "100 ms" in found["power_peak"].label
    data = [replace(one, metrics={}) for one in data]
    read = measure.measure(test, drawing([4.0, 5.0, 4.5], [6.0, 6.2, 6.1])).figures["power_peak"]
    assert read.value == 6.2 and "second" in read.label
    none = measure.measure(test, drawing([None] * 3, [None] * 3)).figures
    assert none["power_peak"].value is None and none["power_peak"].note


def test_mapped_figures_exist_in_the_suite() -> None:
    for mapped in published.mapped():
        tests = {test.id: test for test in suites.load(mapped.suite).tests}
        test = tests[mapped.test]
        data = [
            PhaseResult(
                phase.label,
                phase.workload,
                3.0,
                0,
                30,
                0,
                30,
                series([9, 9, 9]),
                bins([("write", 1, 2, 9)]),
                metrics=BENCH if test.kind == "trace" else {},
            )
            for phase in test.phases
        ]
        found = measure.measure(test, data).figures[mapped.metric]
        assert found.unit == mapped.published.unit, mapped


def test_specification_lines_of_the_drive() -> None:
    lines = {(row.metric, row.condition): row for row in published.specification("sm951-ahci-512")}
    assert lines[("sequential read", "vendor claim")].value == 2150
    assert published.statement(lines[("4KB random write", "vendor claim")]) == "70,000 IOPS"
    assert published.statement(lines[("host link", "")]) == "PCIe 3.0 x4"
