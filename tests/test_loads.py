"""Loads as papers have them: skewed, weighted sizes, rates, think time, trims, flushes, jobs;
virtual and by fio."""

from __future__ import annotations

import inspect
import math
import runpy
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import drivebay
from drivebay import Workload, _core
from drivebay.common.errors import UserError
from drivebay.definitions import suites
from drivebay.definitions.scaling import scaled_test
from drivebay.library.result import Samples
from drivebay.targets.fio import job as fio_job
from drivebay.targets.fio import target as fio_target
from drivebay.targets.fio.job import jobs_together

TOP = Path(__file__).resolve().parent.parent
BLOCKS = 10_000
SPAN = BLOCKS * 4096


def samples(**load: Any) -> Samples:
    """Every I/O of a load on 10,000 blocks of a small drive."""
    device = drivebay.drive("sm951-ahci-512").scaled(1 / 64).device()
    kept = device.run(Workload(**{"span_bytes": SPAN, **load}), sample_every=1).samples
    assert kept is not None
    return kept


def by_popularity(taken: Samples) -> NDArray[np.int64]:
    """I/Os per block, the most popular first."""
    counted = Counter((taken.offset_bytes // 4096).tolist()).values()
    return np.sort(np.array(list(counted)))[::-1]


@pytest.mark.parametrize("theta", [0.8, 1.0, 1.3])
def test_a_zipf_load_asks_for_popular_blocks_as_often_as_the_law_says(theta: float) -> None:
    count = 200_000
    taken = samples(offsets=f"zipf:{theta}", ios=count)
    weights = np.arange(1, BLOCKS + 1.0) ** -theta
    expected = count * weights / weights.sum()
    found = by_popularity(taken)
    for top in (1, 10, 100, 1000):
        assert found[:top].sum() == pytest.approx(expected[:top].sum(), rel=0.04), top
    hot = Counter(taken.offset_bytes.tolist()).most_common(20)
    places = np.array([offset for offset, _ in hot]) / SPAN
    assert places.min() < 0.3 and places.max() > 0.7, "they lie all over the span"


def test_a_test_for_a_scaled_drive_skews_as_on_the_whole_one() -> None:
    """The popular hundredth by an exponent of one: in every load of the test, once and twice."""
    load = suites.Workload(
        pattern="random", read_percent=0, block_bytes=4096, queue_depth=1, duration_s=1,
        offsets="zipf:1.0",
    )  # fmt: skip
    before = (suites.Prepare(kind="load", load=load), suites.Prepare(kind="purge"))
    phase = suites.Phase(label="run", workload=load, before=before)
    other = suites.Phase(label="even", workload=load.model_copy(update={"offsets": "uniform"}))
    test = suites.Test(
        id="skew", title="skew", page="x", kind="waf", method="so", source="here", prepare=before,
        phases=(phase, other),
    )  # fmt: skip
    assert scaled_test(test, 1) is test
    small = scaled_test(scaled_test(test, 1 / 4), 1 / 16)
    loads = [step.load for step in (*small.prepare, *small.phases[0].before) if step.load]
    assert {one.offsets for one in [*loads, small.phases[0].workload]} == {"zipf:1.0/64"}
    assert len(loads) == 2 and small.phases[1] == other
    found = by_popularity(samples(offsets="zipf:1.0/64", ios=200_000))
    weights = 1 / np.arange(1, 64 * BLOCKS + 1.0)
    of_blocks = weights.reshape(BLOCKS, 64).sum(axis=1) / weights.sum()
    for top in (1, 10, 100, 1000):
        assert found[:top].sum() == pytest.approx(2e5 * of_blocks[:top].sum(), rel=0.04), top


def test_zones_get_their_share_of_the_accesses() -> None:
    taken = samples(offsets="zoned:80/20:20/80", ios=50_000)
    assert (taken.offset_bytes < SPAN // 5).mean() == pytest.approx(0.8, abs=0.01)


def test_a_zone_that_gets_all_accesses_is_worn_as_a_span_of_its_size_is() -> None:
    def amplification(**load: Any) -> float:
        device = drivebay.drive("sm951-ahci-512").scaled(1 / 128).device()
        device.fill()
        device.run(Workload(bytes=device.capacity_bytes, **load))
        return device.run(Workload(bytes=device.capacity_bytes, **load)).waf

    half = drivebay.drive("sm951-ahci-512").scaled(1 / 128).device().capacity_bytes // 2
    zone = amplification(offsets="zoned:100/50:0/50")
    assert zone == pytest.approx(amplification(span_bytes=half // 4096 * 4096), rel=0.02)


def test_sizes_come_in_their_shares_and_stay_in_the_span() -> None:
    shares = {4096: 0.6, 8192: 0.0, 65_536: 0.4}
    for offsets in ("uniform", "zipf:1.2", "zoned:50/50:50/50"):
        taken = samples(bssplit="4k/60:8k/0:65536/40", offsets=offsets, bytes=2**30)
        found = {size: (taken.bytes == size).mean() for size in shares}
        assert found == pytest.approx(shares, abs=0.015)
        assert (taken.offset_bytes + taken.bytes).max() <= SPAN


def test_a_rate_is_kept_and_what_the_drive_cannot_do_is_not() -> None:
    slow = samples(read_percent=100, rate_iops=1000.0, duration_s=5.0)
    assert len(slow) == pytest.approx(5000, abs=1)
    assert np.ptp(np.diff(np.sort(slow.at_s))) < 2e-9, "at equal distances"
    random = samples(read_percent=100, rate_iops=1000.0, rate_process="poisson", duration_s=20.0)
    gaps = np.diff(np.sort(random.at_s))
    assert gaps.mean() == pytest.approx(1e-3, rel=0.03)
    assert gaps.std() == pytest.approx(1e-3, rel=0.05), "of an exponential: the mean"
    device = drivebay.drive("sm951-ahci-512").scaled(1 / 64).device()
    most = device.copy().run(Workload(read_percent=100, queue_depth=1, duration_s=1))
    asked = Workload(read_percent=100, queue_depth=1, duration_s=1, rate_iops=10 * most.iops)
    assert device.run(asked).iops == pytest.approx(most.iops, rel=0.001)


def test_a_cap_on_bandwidth_is_kept_whatever_the_sizes() -> None:
    device = drivebay.drive("sm951-ahci-512").scaled(1 / 64).device()
    device.prepare()
    for words in ({"block_bytes": 2**17}, {"bssplit": "4k/70:128k/30"}, {"pattern": "sequential"}):
        load = Workload(read_percent=60, duration_s=4, rate_mb_per_s=40.0, **words)
        assert device.copy().run(load).mb_per_s == pytest.approx(40, rel=0.005), words
    both = Workload(read_percent=100, duration_s=4, rate_mb_per_s=40.0, rate_iops=2000.0)
    assert device.copy().run(both).iops == pytest.approx(2000, rel=0.005), "the lower one holds"


def test_large_requests_keep_the_rate_too() -> None:
    taken = samples(block_bytes=2**21, rate_iops=50.0, duration_s=4.0)
    assert len(taken) == pytest.approx(200, abs=2)


@pytest.mark.parametrize(
    ("load", "says"),
    [
        ({"offsets": "zipf"}, "zipf:THETA"),
        ({"offsets": "zipf:nan"}, "zipf:THETA"),
        ({"offsets": "zipf:5.1"}, "zipf:THETA"),
        ({"offsets": "zipf:1/0"}, "zipf:THETA"),
        ({"offsets": "zipf:1/4097"}, "zipf:THETA"),
        ({"offsets": "zoned:50/50:49/50"}, "add up to 100 each"),
        (
            {"offsets": "zoned:100/50:0/50", "span_bytes": 4096},
            "with at least one block in every zone",
        ),
        ({"offsets": "zipf:1.1", "pattern": "sequential"}, "uniform for a sequential workload"),
        ({"bssplit": "4k/50"}, "add up to 100"),
        ({"bssplit": "6000/100"}, "multiples of 512"),
        ({"bssplit": "4k/100", "block_bytes_max": 8192}, "without bssplit"),
        ({"bssplit": "4k/100", "offsets": "permutation"}, "other than permutations"),
        ({"rate_iops": 0.0}, "rate_iops: 0 is not allowed; must be above 0"),
        ({"rate_process": "poisson"}, "linear without a rate_iops"),
        ({"rate_mb_per_s": 0.0}, "rate_mb_per_s: 0 is not allowed; must be above 0"),
        ({"rate_iops": 10.0, "queue_depth": 64}, "at most 32, the limit of the interface"),
        ({"rate_iops": 1e-6, "ios": 100, "duration_s": None}, "at most 115 days"),
        ({"rate_iops": 1e-6, "bytes": 2**20, "duration_s": None}, "at most 115 days"),
        ({"thinktime_us": 10**9, "ios": 10**5, "duration_s": None}, "at most 115 days"),
        ({"thinktime_us": 0}, "thinktime_us: 0 is not allowed; must be 1 to 1e9"),
        ({"thinktime_us": 10, "queue_depth": 64}, "at most 32, the limit of the interface"),
        ({"thinktime_blocks": 4}, "1 without a thinktime_us"),
        ({"trim_percent": 60, "read_percent": 50}, "at most 100 with read_percent"),
        ({"trim_percent": 100}, "must be 0 to below 100"),
        ({"trim_percent": 10, "pattern": "sequential"}, "for random offsets"),
        ({"percentage_random": 101}, "percentage_random: 101 is not allowed; must be 0 to 100"),
        ({"percentage_random": 50, "offsets": "permutation"}, "only for random, uniform offsets"),
        ({"fsync": 0}, "fsync: 0 is not allowed; must be at least 1"),
        ({"fsync": 1, "read_percent": 100}, "with writes"),
        ({"fsync": 1, "read_percent": 90, "trim_percent": 10}, "with writes"),
        ({"fsync": 1, "rate_iops": 10.0}, "one queue and no rate"),
        ({"fsync": 1, "queues": 2}, "one queue"),
        ({"read_percent": 100.5}, "read_percent: 100.5 is not allowed; must be 0 to 100"),
        ({"bssplit": "8k/100", "ios": 5}, "'ios' needs requests of one size"),
    ],
)
def test_a_load_that_makes_no_sense_is_refused(load: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError) as caught:
        samples(**{"duration_s": 1.0, **load})
    assert says in str(caught.value)


def test_whole_shares_are_whole_however_they_are_written() -> None:
    assert repr(Workload(read_percent=70.0)) == repr(Workload(read_percent=70))
    both = [Workload(read_percent=share).model_dump_json() for share in (70.0, 70)]
    assert both[0] == both[1] and '"read_percent":70,' in both[0], "seeds are drawn from such words"
    assert Workload(read_percent=66.7, trim_percent=2.5, thinktime_us=1500).words() == (
        "66.7 % random reads with 2.5 % trims, 4 KiB, 1,500 us think time, QD 32, 60 s"
    )


def test_flushes_of_a_mix_count_apart_and_cost_the_writes_behind_them() -> None:
    device = drivebay.drive("sm951-ahci-512").scaled(1 / 128).device()
    device.fill()
    load: dict[str, Any] = {"pattern": "sequential", "queue_depth": 1, "ios": 2000}
    plain = device.copy().run(Workload(**load))
    assert plain.flushes == 0 and math.isnan(plain.flush_latency_us)
    often, seldom = (device.copy().run(Workload(**load, fsync=fsync)) for fsync in (1, 10))
    assert (often.flushes, seldom.flushes) == (1999, 199), "the last write ends the run"
    assert often.ios == seldom.ios == plain.ios == 2000
    assert often.iops < seldom.iops < plain.iops
    program_us = min(device.drive.value("nand.program_us"))
    assert often.flush_latency_us > program_us, "what was written is on flash"
    assert often.latency.mean_us < often.flush_latency_us
    assert Workload(fsync=8, duration_s=1).words() == (
        "random writes, a flush after every 8 writes, 4 KiB, QD 32, 1 s"
    )


def test_trims_of_a_mix_count_apart_and_free_space() -> None:
    device = drivebay.drive("sm951-ahci-512").scaled(1 / 128).device()
    device.fill()

    def amplification(trims: float) -> float:
        worn = device.copy()
        worn.run(Workload(bytes=device.capacity_bytes, trim_percent=trims))
        last = worn.run(Workload(ios=200_000, trim_percent=trims))
        assert last.ios + last.trims == 200_000
        assert last.trims / 200_000 == pytest.approx(trims / 100, abs=0.005)
        return last.waf

    assert amplification(20) < amplification(0) / 2, "a fifth of the pages is free"


def test_jobs_at_the_same_time_have_results_of_their_own() -> None:
    device = drivebay.drive("sm951-nvme-512").scaled(1 / 64).device()
    device.fill()
    reads = Workload(read_percent=100, queue_depth=2, duration_s=2)
    alone = device.copy().run(reads, seed=5)
    same = device.copy().run_jobs({"one": reads.model_copy(update={"seed": 5})})["one"]
    assert same.read_latency.percentile_us(50) == alone.read_latency.percentile_us(50)
    half = device.capacity_bytes // 2 // 4096 * 4096
    jobs = {
        "reader": reads,
        "writer": Workload(
            span_start_bytes=half, span_bytes=half, queue_depth=8, rate_iops=5_000, duration_s=1
        ),
    }
    first, second = device.copy().run_jobs(jobs), device.copy().run_jobs(jobs)
    assert first["writer"].ios == pytest.approx(5_000, abs=2)
    assert first["reader"].duration_s == 2 and first["writer"].duration_s == 1
    assert first["reader"].latency.percentile_us(99) > alone.latency.percentile_us(99)
    assert [r.latency.mean_us for r in first.values()] == [
        r.latency.mean_us for r in second.values()
    ]
    with pytest.raises(UserError, match="in all jobs"):
        device.run_jobs({str(n): Workload(queue_depth=1024) for n in range(64)})


def test_suites_and_the_library_describe_the_cores_loads() -> None:
    script = runpy.run_path(str(TOP / "scripts" / "load_fields.py"))
    made = Path(inspect.getfile(suites.LoadFields)).read_text(encoding="utf-8")
    assert script["generated"]() == made, ".venv/bin/python scripts/load_fields.py"
    fields = {field["name"]: field for field in _core.workload_fields()}
    assert drivebay.Workload.model_fields["weight"].default == int(fields["weight"]["default"]), (
        "arbitration among jobs is the library's; fio has none to give a suite on a real drive"
    )
    described = suites.Workload.model_json_schema()["properties"]
    for name, field in suites.LoadFields.model_fields.items():
        assert drivebay.Workload.model_fields[name].default == field.default
        assert described[name]["description"].startswith(fields[name]["doc"])
        assert f"    {name}\n        {fields[name]['doc'][:40]}" in (
            drivebay.Workload.__doc__ or ""
        )


def test_a_real_drive_gets_or_refuses_every_field_of_a_load() -> None:
    code = inspect.getsource(fio_job) + inspect.getsource(fio_target)
    fields = [name for name in suites.LoadFields.model_fields if not name.startswith("zone_")]
    assert [name for name in fields if name not in code] == [], "these need a line in fio/job.py"


@pytest.mark.parametrize("share", [0, 30])
def test_a_share_of_the_offsets_is_random_and_the_others_follow_their_predecessor(
    share: int,
) -> None:
    taken = samples(percentage_random=share, read_percent=50, ios=20_000, queue_depth=1)
    for side in (taken.is_write, ~taken.is_write):
        offsets = taken.offset_bytes[side].astype(np.int64)
        follows = (offsets[1:] - offsets[:-1]) % SPAN == 4096
        assert follows.mean() == pytest.approx(1 - share / 100, abs=0.015)
    words = ", 30 % at random offsets and the others in sequence, 4 KiB"
    assert (words in Workload(percentage_random=share).words()) == (share == 30)


def test_fio_gets_the_same_load_in_its_own_words() -> None:
    load = suites.Workload(
        pattern="random", read_percent=70, block_bytes=4096, queue_depth=8, duration_s=1,
        offsets="zoned:80/20:20/80", bssplit="4k/40:64k/60",
        rate_iops=1000, rate_process="poisson", thinktime_us=500, thinktime_blocks=16,
    )  # fmt: skip
    job = jobs_together([("x", load, 0, 2**24)], engine="psync", seed=1)
    for line in (
        "norandommap=1",
        "random_distribution=zoned:80/20:20/80",
        "bssplit=4k/40:64k/60",
        "blockalign=4096",
        "rate_iops=700,300",
        "rate_process=poisson",
        "thinktime=500",
        "thinktime_blocks=16",
        "thinktime_blocks_type=issue",
    ):
        assert f"\n{line}\n" in job
    assert "fsync" not in job and "\nrate=" not in job and "percentage_random" not in job
    capped = load.model_copy(update={"rate_mb_per_s": 10.0})
    job = jobs_together([("x", capped, 0, 2**24)], engine="psync", seed=1)
    assert "\nrate=7000000,3000000\n" in job and "\nrate_iops=700,300\n" in job
    flushes = load.model_copy(update={"rate_iops": None, "rate_process": "linear", "fsync": 8})
    job = jobs_together([("x", flushes, 0, 2**24)], engine="psync", seed=1)
    assert "\nfsync=8\n" in job
    partly = suites.Workload(
        pattern="random", read_percent=70, block_bytes=4096, queue_depth=8, duration_s=1,
        percentage_random=30,
    )  # fmt: skip
    job = jobs_together([("x", partly, 0, 2**24)], engine="psync", seed=1)
    assert "\npercentage_random=30\n" in job
    next_to = load.model_copy(update={"offsets": "zipf:1.0"})
    job = jobs_together([("x", next_to, 0, 2**24)], engine="psync", seed=1)
    assert "\nrandom_distribution=zipf:1.0001\n" in job, "fio refuses 1"


def test_open_zones_are_for_virtual_drives_and_a_real_review_goes_on_without() -> None:
    suite = suites.load("datacenter")
    rest = suite.in_real_time()
    assert set(suite.ids) - set(rest.ids) == {"waf-by-open-zones"}
    alone = suite.selected(("waf-by-open-zones",))
    assert alone.in_real_time().ids == alone.ids, "what was asked for is refused, not left out"
    with pytest.raises(ValueError, match="open zones only for random writes"):
        suites.Workload(
            pattern="random", read_percent=1, block_bytes=4096, queue_depth=1, duration_s=1,
            offsets="open-zones:4/93",
        )  # fmt: skip
    for wrong in ("open-zones:0/4", "open-zones:4/4", "open-zones:4", "open-zones:1/65537"):
        with pytest.raises(ValueError, match="fewer open than zones"):
            suites.Workload(
                pattern="random", read_percent=0, block_bytes=4096, queue_depth=1, duration_s=1,
                offsets=wrong,
            )  # fmt: skip


def test_what_open_zones_have_not_written_yet_is_spare_flash() -> None:
    """With few zones open nearly all of the span is full; with most of them open, half."""
    drive = drivebay.drive("sm951-ahci-512").scaled(1 / 128)

    def amplification(few: int) -> float:
        device = drive.device()
        device.fill()
        zones = Workload(
            offsets=f"open-zones:{few}/40", block_bytes=65536, queue_depth=4,
            bytes=4 * drive.capacity_bytes,
        )  # fmt: skip
        device.run(zones)
        result = device.run(zones)
        assert result.ios * 65536 == pytest.approx(4 * drive.capacity_bytes, rel=1e-3)
        return result.waf

    one, few, most = map(amplification, (1, 8, 39))
    assert one < 1.2 < few and most < few, (one, few, most)
