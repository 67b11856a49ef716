"""Scores, rounds until steady, several ladders, ageing: figures against numbers worked out by hand,
and the data of the suites custompc-2015 and snia-client against their publications."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError
from real_files import MIB, file, keep_the_disk_free, load, results
from test_analysis import bins, series

from drivebay.analysis.figures import Measured
from drivebay.analysis.measure import measure
from drivebay.definitions import profiles as catalog
from drivebay.definitions import suites
from drivebay.definitions.suites import Phase, Quick, Replay, Rounds, Score, Test
from drivebay.definitions.suites.model import Workload
from drivebay.results.records import STAGES_SCHEMA, PhaseResult
from drivebay.targets import rounds
from drivebay.targets.base import Progress
from drivebay.targets.fio.steps import ENOUGH
from drivebay.targets.virtual.target import VirtualTarget

__all__ = ["file", "keep_the_disk_free"]


def a_test(kind: str, phases: Sequence[Phase], **more: Any) -> Test:
    return Test.model_validate(
        {
            "id": "made",
            "title": "Made",
            "page": "made",
            "kind": kind,
            "method": "m",
            "source": "s",
            "phases": tuple(phases),
            **more,
        }
    )


def data(label: str, work: Workload, ios: Sequence[int], **metrics: float) -> PhaseResult:
    """A phase of one second per number, all reads or all writes by the load's mix."""
    read = work.read_percent == 100
    total = sum(ios)
    columns = series(list(ios), mean_ns=[1000.0] * len(ios))
    return PhaseResult(
        label=label,
        workload=work,
        duration_s=float(len(ios)),
        reads=total if read else 0,
        writes=0 if read else total,
        read_bytes=total * work.block_bytes if read else 0,
        write_bytes=0 if read else total * work.block_bytes,
        series=columns,
        histogram=bins([("write", 1000, 1010, total)]),
        metrics=metrics,
    )


# --- scores ---------------------------------------------------------------------------------------


def measured_loads(rates_mib_s: dict[str, int]) -> Measured:
    """The AS-SSD-style test with these rates, as blocks of 1 MiB."""
    (test,) = suites.load("custompc-2015").selected(("as-ssd",)).tests
    phases = [
        Phase(
            label=phase.label,
            workload=phase.workload.model_copy(update={"block_bytes": MIB}),
        )
        for phase in test.phases
    ]
    test = test.model_copy(update={"phases": tuple(phases)})
    rows = [data(one.label, one.workload, [rates_mib_s.get(one.label, 1)] * 5) for one in phases]
    return measure(test, rows)


def test_the_as_ssd_style_score_is_the_published_sum() -> None:
    """Tom's Hardware 2952: seq write x 0.15 + seq read x 0.1 + 4K read x 2 + 4K write
    + 64 threads write + 64 threads read x 1.5; the partial scores seq x 0.1 + 4K + 64 threads."""
    rates = {"seq-read": 2000, "seq-write": 1400, "4k-read": 40, "4k-write": 130}
    rates |= {"4k-64-read": 700, "4k-64-write": 400}
    found = measured_loads(rates)
    assert found.figures["score_total"].value == pytest.approx(
        1400 * 0.15 + 2000 * 0.1 + 40 * 2 + 130 + 400 + 700 * 1.5
    )
    assert found.figures["score_read"].value == pytest.approx(2000 * 0.1 + 40 + 700)
    assert found.figures["score_write"].value == pytest.approx(1400 * 0.1 + 130 + 400)
    assert found.main[:3] == ("score_total", "score_read", "score_write")
    assert found.figures["rate_seq-read"].value == pytest.approx(2000 * MIB / 1e6)


def test_a_score_without_a_rate_is_none_and_says_so() -> None:
    found = measured_loads({"seq-read": 0})
    assert found.figures["score_total"].value is None and found.figures["score_total"].note
    assert found.figures["score_write"].value is not None


def test_a_geometric_mean_weighs_its_terms() -> None:
    score = Score(
        key="g",
        label="G",
        rule="geometric-mean",
        terms={"a": 1.0, "b": 3.0},
        factor=10.0,
        source="s",
    )
    assert score.points({"a": 16.0, "b": 1.0}) == pytest.approx(10 * 16**0.25)
    assert score.points({"a": 16.0}) is None


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"terms": {"nothing": 1.0}}, "scores.g.terms: 'nothing' is not allowed; must be a phase"),
        ({"key": "Two Words"}, "key: 'Two Words' is not allowed"),
    ],
)
def test_a_wrong_score_is_named(changes: dict[str, Any], says: str) -> None:
    score = {"key": "g", "label": "G", "rule": "sum", "terms": {"run": 1.0}, "source": "s"}
    phases = [Phase(label="run", workload=load())]
    with pytest.raises(ValidationError, match=says):
        a_test("loads", phases, scores=({**score, **changes},))


# --- rounds ---------------------------------------------------------------------------------------


def one_round(label: str, ios: int, latency_ns: float) -> PhaseResult:
    work = load(duration_s=2)
    stages = {"second": [0, 1], "stage": ["nand", "nand"], "ns": [5, 6]}
    return PhaseResult(
        label=label,
        workload=work,
        duration_s=2.0,
        reads=0,
        writes=2 * ios,
        read_bytes=0,
        write_bytes=2 * ios * 4096,
        series=series([ios, ios], mean_ns=[latency_ns, latency_ns]),
        histogram=bins([("write", 1000, 1010, ios), ("write", 1010, 1020, ios)]),
        stages=pa.table(stages, schema=STAGES_SCHEMA),
        metrics={"waf": ios / 100, "energy_j": 1.0},
    )


def rounds_test(**rule: Any) -> Test:
    phases = [Phase(label="4k", workload=load(duration_s=2))]
    return a_test("rounds", phases, rounds={"tracked": ("4k",), **rule})


def results_of(test: Test, values: Sequence[int]) -> list[PhaseResult]:
    def one(phase: Phase, number: int) -> PhaseResult:
        return one_round(phase.label, values[number], 1000.0 * (number + 1))

    return rounds.run(test, one, lambda _: [])


FALLING = [400, 300, 200, 130, 110, 104, 98, 102, 101]
"""Steady by SNIA's criterion at the end only: the last five are within 20 %, their line 10 %."""


def test_rounds_end_with_the_first_steady_window() -> None:
    (found,) = results_of(rounds_test(), [*FALLING, 1, 1])
    last = FALLING[-5:]
    assert np.ptp(last) / np.mean(last) <= 0.2 < np.ptp(FALLING[-6:-1]) / np.mean(FALLING[-6:-1])
    assert found.metrics["steady_rounds"] == len(FALLING) == 9
    assert found.metrics["steady_reached"] == 1.0
    assert [found.metrics[f"round_{n}_iops"] for n in range(1, 10)] == FALLING
    assert found.metrics["round_3_latency_us"] == pytest.approx(3.0)
    assert found.writes == 2 * sum(last) and found.duration_s == 10.0
    assert found.series["writes"].to_pylist() == [one for ios in last for one in (ios, ios)]
    assert found.series["second"].to_pylist() == list(range(10))
    assert found.stages is not None
    assert found.stages["second"].to_pylist() == list(range(10))
    assert found.histogram.filter(pa.compute.equal(found.histogram["high_ns"], 1010))[
        "count"
    ].to_pylist() == [sum(last)]
    assert found.metrics["energy_j"] == 5.0
    weights = np.array(last) * 1.0
    assert found.metrics["waf"] == pytest.approx((weights**2).sum() / weights.sum() / 100)


def test_rounds_that_never_are_steady_end_at_the_limit() -> None:
    (found,) = results_of(rounds_test(rounds_max=7), [100, 200] * 4)
    assert (found.metrics["steady_rounds"], found.metrics["steady_reached"]) == (7.0, 0.0)


def test_latency_may_be_what_is_tracked() -> None:
    """IOPS never settle here; the latency, 1, 2, 3 ... us, is in a window of 20 % never either."""
    (found,) = results_of(rounds_test(variable="latency", rounds_max=6), [100] * 6)
    assert found.metrics["steady_reached"] == 0.0
    (found,) = results_of(rounds_test(rounds_max=6), [100] * 6)
    assert found.metrics["steady_rounds"] == 5.0


def test_figures_of_rounds_are_those_of_the_window() -> None:
    test = rounds_test()
    (part,) = results_of(test, FALLING)
    found = measure(test, [part])
    assert found.rounds is not None
    (tracked,) = found.rounds.tracked
    last = np.array(FALLING[-5:], dtype=float)
    slope, start = np.polyfit(np.arange(5), last, 1)
    assert tracked.mean == pytest.approx(103.0) == pytest.approx(last.mean())
    assert tracked.line == pytest.approx((start, slope))
    assert tracked.range_percent == pytest.approx(100 * 12 / 103)
    assert tracked.slope_percent == pytest.approx(100 * abs(slope) * 4 / 103)
    assert found.figures["iops_4k"].value == pytest.approx(103.0)
    assert found.figures["steady_rounds"].value == 9
    assert found.figures["latency_max_4k"].value is not None
    assert found.main == ("steady_rounds", "iops_4k")


def test_too_few_rounds_have_no_steady_state() -> None:
    test = rounds_test()
    found = measure(test, [data("4k", load(), [10], round_1_iops=10.0)])
    assert found.rounds is None and found.figures["steady_rounds"].value is None


def test_a_dip_that_ends_where_it_began_is_not_steady() -> None:
    """fio's issue 687: a slope over half an hour was near 0 across a fall from 79.6k to 58.9k IOPS
    and back to 79.9k (the minutes between are invented)."""
    down = [79.6, 79.5, 79.0, 77.0, 73.0, 68.0, 63.0, 59.5]
    minutes = [1e3 * rate for rate in (*down, 58.9, *reversed(down), 79.9)]
    rule = Rounds(tracked=("4k",))
    ends = range(rule.window_rounds, len(minutes) + 1)
    windows = {end: rule.window(minutes[:end]) for end in ends}
    # Before the fall, on the floor of the valley, and behind it; not on its slopes.
    assert [end for end, window in windows.items() if window and window.steady] == [5, 11, 17, 18]


@pytest.mark.parametrize(
    ("kind", "more", "says"),
    [
        ("rounds", {}, "a rounds test needs 'rounds'"),
        ("loads", {"rounds": {"tracked": ("run",)}}, "no other kind may have it"),
        ("rounds", {"rounds": {"tracked": ("4k",)}}, "rounds.tracked: '4k' is not allowed"),
        ("loads", {"phases": "replay"}, "'replay' has no meaning for a loads test"),
    ],
)
def test_what_does_not_fit_is_refused(kind: str, more: dict[str, Any], says: str) -> None:
    phases = [Phase(label="run", workload=load())]
    if more.get("phases") == "replay":
        part = Replay(trace="light", drive_s=1)
        phases = [Phase.model_validate({"label": "run", "replay": part})]
        more = {}
    with pytest.raises(ValidationError, match=says):
        a_test(kind, phases, **more)


def test_rounds_on_a_virtual_drive_are_the_same_again() -> None:
    """Each round draws other addresses; the whole is the same for the same seed."""
    work = load(duration_s=1, span_bytes=64 * MIB, read_percent=50)
    phases = [Phase(label="w", workload=work)]
    phases.append(Phase(label="r", workload=work.model_copy(update={"read_percent": 100})))
    test = a_test("rounds", phases, rounds={"tracked": ("w", "r")})
    found = []
    for _ in range(2):
        with contextlib.closing(VirtualTarget(catalog.load("sm951-nvme-256"))) as target:
            found.append(target.run_test(test, seed=1, progress=Progress()))
    (one, other), again = found
    assert one.metrics["steady_rounds"] >= 5.0 and one.duration_s == 5.0
    assert (one.series, other.histogram) == (again[0].series, again[1].histogram)
    iops = [one.metrics[f"round_{n}_iops"] for n in range(1, 6)]
    assert len(set(iops)) > 1, "rounds are no copies of each other"


def test_rounds_on_a_file(file: Path) -> None:
    work = load(duration_s=0.4)
    test = a_test(
        "rounds",
        [Phase(label="w", workload=work)],
        rounds={"tracked": ("w",), "window_rounds": 2, "rounds_max": 2},
    )
    (found,) = results(file, test)
    assert found.metrics["steady_rounds"] == 2.0
    names = ("1-rounds-before-last-w", "w")
    said = [json.loads(found.artefacts[f"{name}.json"])["jobs"][0] for name in names]
    seconds = [job["job_runtime"] / 1000 for job in said]
    writes = [job["write"]["total_ios"] for job in said]
    assert found.duration_s == pytest.approx(sum(seconds)) and min(seconds) >= 0.4 * ENOUGH
    assert found.writes == sum(writes)
    for number, (ios, length) in enumerate(zip(writes, seconds, strict=True), start=1):
        assert found.metrics[f"round_{number}_iops"] == pytest.approx(ios / length)
    jobs = [found.artefacts[f"{name}.fio"] for name in names]
    assert all(b"runtime=400ms" in job for job in jobs), "longer only by its last I/Os"
    assert jobs[0] != jobs[1], "the rounds draw different addresses"


# --- ladders, compression, ageing, saturation -----------------------------------------------------


def test_several_ladders_are_told_apart_by_their_mix() -> None:
    phases, rows = [], []
    for percent, ios in ((100, 1000), (70, 700), (0, 10)):
        for depth in (1, 256):
            work = load(read_percent=percent, queue_depth=depth)
            label = f"r{percent}-qd{depth}"
            phases.append(Phase(label=label, workload=work))
            rows.append(data(label, work, [ios * depth] * 3))
    found = measure(a_test("ladders", phases), rows)
    assert found.main == ("iops_read_qd256", "iops_r70_qd256", "iops_write_qd256")
    assert found.figures["iops_r70_qd1"].value == pytest.approx(700)
    assert found.figures["rate_write_qd256"].value == pytest.approx(2560 * 4096 / 1e6)


def test_the_gain_of_compression_is_that_of_the_ends() -> None:
    phases, rows = [], []
    for percent, ios in ((0, 100), (50, 150), (100, 250)):
        work = load(content={"compressible_percent": percent})
        phases.append(Phase(label=f"c{percent}", workload=work))
        rows.append(data(f"c{percent}", work, [ios] * 3))
    found = measure(a_test("compression", phases), rows)
    assert found.figures["gain_write"].value == pytest.approx(2.5)
    assert found.main == ("gain_write",)


def replayed(label: str, busy_s: float) -> tuple[Phase, PhaseResult]:
    """A replay of 1,000 I/Os of 4 KiB in so many seconds of busy time."""
    phase = Phase.model_validate({"label": label, "replay": Replay(trace="light", drive_s=10)})
    metrics = {"busy_s": busy_s, "wall_s": 10.0, "latency_ns_sum": 1e9, "outstanding_mean": 1.0}
    metrics |= {"outstanding_max": 4.0, "over_10_ms": 5.0, "over_100_ms": 0.0, "depth_1": 1000.0}
    return phase, data(label, phase.workload, [100] * 10, **metrics)


def test_an_ageing_drive_has_lowest_and_last_rates() -> None:
    parts = [("degrade-1", 1.0), ("degrade-2", 4.0), ("degrade-3", 2.0), ("recovery-1", 0.5)]
    made = [replayed(label, busy) for label, busy in parts]
    found = measure(a_test("ageing", [phase for phase, _ in made]), [row for _, row in made])
    rate = 1000 * 4096 / 1e6
    assert found.figures["rate_lowest_degrade"].value == pytest.approx(rate / 4)
    assert found.figures["rate_last_degrade"].value == pytest.approx(rate / 2)
    assert found.figures["rate_degrade"].value == pytest.approx(rate * (1 + 1 / 4 + 1 / 2) / 3)
    assert found.figures["rate_lowest_recovery"].value == pytest.approx(rate * 2)
    assert found.figures["busy_rate_degrade-2"].value == pytest.approx(rate / 4)


def test_large_blocks_are_known_by_their_rate() -> None:
    work = load(block_bytes=131_072, duration_s=6)
    phases = [Phase(label="run", workload=work)]
    rows = [data("run", work, [900, 900, 100, 110, 90, 100])]
    found = measure(a_test("consistency", phases, metric_window_s=4), rows)
    assert found.figures["mean_rate"].value == pytest.approx(100 * 131_072 / 1e6)
    assert found.figures["mean_rate"].spread == pytest.approx(
        np.std([100, 110, 90, 100], ddof=1) * 0.131072
    )
    assert found.main[0] == "mean_rate"


def test_saturation_is_told_by_the_first_minute_and_the_last_window() -> None:
    work = load(duration_s=180)
    phases = [Phase(label="run", workload=work)]
    ios = [1000] * 60 + [500] * 60 + [100] * 60
    found = measure(a_test("saturation", phases, metric_window_s=30), [data("run", work, ios)])
    assert found.figures["iops_first"].value == 1000
    assert found.figures["iops_last"].value == 100
    assert found.figures["written_gb"].value == pytest.approx(60 * 1600 * 4096 / 1e9)


def test_an_idle_drive_is_known_by_its_power_and_by_the_way_out_of_sleep() -> None:
    work = load(read_percent=100, rate_iops=0.2, duration_s=180)
    found = measure(
        a_test("idle", [Phase(label="run", workload=work)]), [data("run", work, [1] * 9)]
    )
    assert found.main == ("power_mean", "latency_mean")
    assert set(found.main) <= set(found.figures) and found.figures["latency_mean"].value == 1.0


def test_a_cache_ends_where_the_rate_falls_and_stays_low() -> None:
    """Cache, direct and folding, a dip that is none, and a run that never leaves the cache."""
    work = load(duration_s=180)
    names = ["run", "short"]
    phases = [Phase(label=name, workload=work) for name in names]
    whole = [4000] * 20 + [1000] * 3 + [4000] * 7 + [2000] * 40 + [1600] * 40 + [500] * 60
    rows = [data("run", work, whole), data("short", work, [4000] * 10)]
    found = measure(a_test("cache", phases), rows).figures
    mega = 4096 / 1e6
    cached = (27 * 4000 + 3 * 1000) * mega
    assert found["cache_gb_run"].value == pytest.approx(cached / 1e3)
    assert found["rate_cache_run"].value == pytest.approx(cached / 30)
    assert found["direct_gb_run"].value == pytest.approx((cached + 144_000 * mega) / 1e3)
    behind = (39 * 2000 + 40 * 1600) / 79 * mega  # the second of the fall is in neither
    assert found["rate_behind_run"].value == pytest.approx(behind)
    assert found["rate_folding_run"].value == pytest.approx(500 * mega)
    assert found["rate_cache_short"].value == pytest.approx(4000 * mega)
    assert found["cache_gb_short"].value is None and found["rate_behind_short"].value is None


# --- the suites' data -----------------------------------------------------------------------------


def test_snia_client_is_the_specifications_matrix() -> None:
    suite = suites.load("snia-client")
    wsat, iops, throughput, latency = suite.tests
    loads = {(p.workload.block_bytes, p.workload.read_percent) for p in iops.phases}
    kib = (0.5, 4, 8, 16, 32, 64, 128, 1024)
    assert loads == {(round(k * 1024), r) for k in kib for r in (100, 95, 65, 50, 35, 5, 0)}
    assert {p.workload.duration_s for p in iops.phases} == {60}
    assert {p.workload.span_percent for p in iops.phases} == {75}
    assert wsat.phases[0].workload.until_written_percent == 400
    assert {(p.workload.block_bytes, p.workload.read_percent) for p in throughput.phases} == {
        (2**20, 100),
        (2**20, 0),
    }
    assert {(p.workload.block_bytes, p.workload.read_percent) for p in latency.phases} == {
        (size, mix) for size in (512, 4096, 8192) for mix in (100, 65, 0)
    }
    assert {p.workload.queue_depth for p in latency.phases} == {1}
    for test in (iops, throughput, latency):
        rule = test.rounds
        assert rule == Rounds(tracked=rule.tracked, variable=rule.variable) if rule else False
        assert [(step.kind, step.passes) for step in test.prepare] == [("purge", 1), ("fill", 2)]


def test_custompc_has_the_parts_of_its_publication() -> None:
    tests = {test.id: test for test in suites.load("custompc-2015").tests}
    ageing = [p for p in tests["pcmark8-consistency"].phases if p.label.endswith("-write")]
    assert [p.workload.duration_s / 60 for p in ageing] == [
        *(10, 15, 20, 25, 30, 35, 40, 45),
        *(45, 45, 45, 45, 45),
    ]
    recovery = [p for p in tests["pcmark8-consistency"].phases if p.label.startswith("recovery")]
    assert [[step.seconds for step in p.before] for p in recovery] == [[300]] * 5
    steady = tests["steady"]
    load_before = steady.prepare[-1].load
    assert load_before is not None and load_before.duration_s == 6 * 3600
    depths = [2**n for n in range(9)]
    for percent in (100, 70, 0):
        some = [p.workload for p in steady.phases if p.workload.read_percent == percent]
        assert [one.queue_depth for one in some] == depths
    for name in ("fob-read", "fob-write", "fob-mixed"):
        assert [step.kind for step in tests[name].prepare] == ["purge"]
        assert [p.workload.queue_depth for p in tests[name].phases] == depths
    for name, percent in (("consistency-4k-75", 75), ("consistency-128k-100", 100)):
        assert tests[name].phases[0].workload.span_percent == percent
        assert tests[name].phases[0].workload.duration_s == 2000
        assert tests[name].prepare[1].passes == 2


@pytest.mark.parametrize("name", ["custompc-2015", "snia-client"])
def test_the_quick_form_is_short(name: str) -> None:
    for test in suites.load(name).shortened().in_real_time().tests:
        assert test.drive_seconds() < 200, test.id


def test_quick_rounds_are_few() -> None:
    quick = Quick(duration_s=1, rounds_max=2)
    short = rounds_test().model_copy(update={"quick": quick}).shortened()
    assert short.rounds is not None
    assert (short.rounds.rounds_max, short.rounds.window_rounds) == (2, 2)
