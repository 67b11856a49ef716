"""The library: drives that are changed and scaled, loads, results as arrays, devices that stay."""

from __future__ import annotations

import html
import importlib
import math
import pickle
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import drivebay
from drivebay import Device, Drive, Latencies, Trace, Workload
from drivebay.analysis import fidelity, likeness
from drivebay.common.errors import EnvironmentProblem, UserError
from drivebay.definitions import hosts


@pytest.fixture(scope="module")
def small() -> Drive:
    """The SM951 with a thirty-second of its flash, 16 GB: filled in a tenth of a second."""
    return drivebay.drive("sm951-ahci-512").scaled(1 / 32)


@pytest.fixture(scope="module")
def filled(small: Drive) -> Device:
    device = small.device(seed=3)
    device.fill()
    return device


def test_a_drive_is_built_changed_and_refused() -> None:
    drive = drivebay.drive("sm951-ahci-512")
    assert drivebay.drive(drive.resolved()).raw == drive.raw
    changed = drive.with_("heatsink", unused="25%", victim_policy="cost-benefit", ambient_c=30)
    assert isinstance(changed, Drive) and changed.capacity_bytes == pytest.approx(384e9, rel=1e-3)
    assert changed.value("gc.victim_policy") == "cost-benefit"
    assert changed.value("thermal.network.heatsink.to_air_k_per_w") == 5
    throttling = drivebay.drive("sm951-nvme-512")
    assert (
        throttling.value("thermal.throttle.0.on_c")
        == throttling.raw["thermal"]["throttle"][0]["on_c"]["value"]
    )
    with pytest.raises(UserError, match="no value"):
        throttling.value("thermal.throttle.99.on_c")
    for wrong, match in (
        ({"victim_polici": "fifo"}, "did you mean victim_policy"),
        ({"victim_policy": "lifo"}, "one of greedy, fifo"),
        ({"victim_policy": "cost-benefits"}, "did you mean cost-benefit?"),
        ({"policy": "greddy"}, "did you mean victim_policy=greedy?"),
        ({"unused": 25}, "from 0% to 90%"),
    ):
        with pytest.raises(UserError) as caught:
            drive.with_(**wrong)
        said = f"{caught.value.message} {caught.value.hint}"
        assert match in said and "--set" not in said
    for document in ({"base": "sm951-ahci-512", "drive": {"name": "X"}}, {"base": "sm952"}):
        with pytest.raises(UserError):
            drivebay.drive(document)
    with pytest.raises(UserError, match="not TOML"):
        drivebay.drive("a =\nb")
    with pytest.raises(UserError, match="whole number of its 256 pages"):
        drive.scaled(0.3)


@pytest.mark.parametrize(
    "changes",
    [
        {"nand__dies_per_channel": 4, "over_provisioning": "28%"},
        {"gc__threshold_mb": 15000, "unused": "25%"},
        {"link__generation": 1, "link": "pcie2x2"},
        {"drive__capacity_sectors": 4 * 1000215216, "nand__blocks_per_plane": 8256},
    ],
)
def test_changes_are_made_at_once_whatever_their_order(changes: dict[str, Any]) -> None:
    drive = drivebay.drive("sm951-ahci-512")
    one = drive.with_(**changes)
    assert one.raw == drive.with_(**dict(reversed(changes.items()))).raw
    for name, value in changes.items():
        if "__" in name and name != "gc__threshold_mb":
            assert one.value(name.replace("__", ".")) == value
    if "unused" in changes:  # beside what is taken from the user
        taken_mb = (drive.capacity_bytes - one.capacity_bytes) / 1e6
        assert one.value("gc.threshold_mb") == pytest.approx(15000 + taken_mb)


def test_a_run_begins_cool_and_says_if_it_did_not() -> None:
    """An eighth of a drive is hot once it is filled, in air of 50 degrees."""
    drive = drivebay.drive("sm951-ahci-512").scaled(1 / 8).with_(ambient_c=50)
    load = Workload(pattern="sequential", block_bytes=2**17, queue_depth=32, duration_s=5)
    rested = drivebay.run(drive, load)
    assert not rested.began_throttled and rested.mb_per_s == pytest.approx(1550, rel=0.01)
    with pytest.warns(UserWarning, match=r"began with the drive throttled.*device.rest\(1800\)"):
        hot = drivebay.run(drive, load, rest_s=0)
    assert hot.began_throttled and hot.mb_per_s < 0.7 * rested.mb_per_s
    device = drive.device()
    device.prepare()
    assert device.run(load).mb_per_s == rested.mb_per_s


def test_years_of_rest_take_no_time_and_hours_are_as_they_were(small: Drive) -> None:
    """A run after years is one after hours: nothing happens any more, and the clock holds it."""
    device = small.device()
    device.prepare(rest_s=0)
    device.run(Workload(duration_s=2))
    begun = time.process_time()
    late = device.copy()
    late.rest(3e8)
    assert time.process_time() - begun < 30  # half an hour, if each tenth of a second were a step
    device.rest(40_000)
    load = Workload(read_percent=100, queue_depth=4, ios=2000)
    found = [one.run(load, seed=5) for one in (late, device)]
    assert found[0].latency.mean_us == pytest.approx(found[1].latency.mean_us, rel=1e-3)
    assert late.health().power_on_s > 3e8
    with pytest.raises(UserError, match="31 years"):
        late.rest(1e9)


def _short_lived(cycles: float = 20) -> Device:
    raw = drivebay.drive("970-evo-plus-1tb").scaled(12 / 1104).resolved()
    raw["reliability"]["block_life_cycles"] = {"value": cycles, "source": "guess: a short life"}
    device = drivebay.drive(raw).device()
    device.prepare(rest_s=10)
    return device


def test_a_drive_that_wears_out_gives_what_was_measured_until_then() -> None:
    device = _short_lived()
    with pytest.warns(UserWarning, match="wore out"):
        last = device.run(Workload(bytes=400 * device.capacity_bytes))
    assert last.worn_out and 0 < last.bytes < 400 * device.capacity_bytes
    assert last.waf > 1 and last.series.time_s[-1] <= last.duration_s + 1
    assert device.run(Workload(read_percent=100, ios=1000)).ios == 1000
    with pytest.raises(UserError, match="end of life"):
        device.run(Workload(ios=1000))


def test_jobs_and_traces_of_a_drive_that_wears_out_give_what_was_measured_until_then() -> None:
    device = _short_lived(6)
    endless = Workload(bytes=400 * device.capacity_bytes)
    count = 20 * device.capacity_bytes // 2**20
    trace = Trace.from_arrays(
        at_s=np.arange(count) / 1e3,
        is_write=np.ones(count, dtype=bool),
        offset_bytes=np.arange(count) * 2**20 % (device.capacity_bytes - 2**20),
        bytes=np.full(count, 2**20),
    )
    other = device.copy()
    with pytest.warns(UserWarning, match="wore out"):
        jobs = device.run_jobs({"a": endless, "b": endless.model_copy(update={"queue_depth": 4})})
    assert all(job.worn_out and job.bytes > device.capacity_bytes / 100 for job in jobs.values())
    with pytest.warns(UserWarning, match="wore out"):
        replayed = other.run(trace)
    assert replayed.worn_out and other.capacity_bytes < replayed.bytes < count * 2**20
    with pytest.raises(UserError, match="end of life"):
        other.run(trace)
    with pytest.raises(UserError, match="end of life"):
        device.run_jobs({"a": endless})


def test_the_xp941_writes_on_as_its_review_saw_it_since_no_throttling_of_it_is_published() -> None:
    """S190: ten minutes at 607.7 MB/s. Its heat is the SM951's, as none of it was found."""
    writes = Workload(pattern="sequential", block_bytes=131072, queue_depth=1, duration_s=600)
    hot = drivebay.drive("xp941-512").with_(ambient_c=60)  # above 100 degrees inside
    result = drivebay.run(hot, writes)
    assert result.throttled_s == 0
    assert result.mb_per_s == pytest.approx(607.7, rel=0.1)
    assert result.series.temperature_c.max() > 100


def test_a_tenant_of_more_weight_gets_more_where_commands_wait_for_the_controller() -> None:
    device = drivebay.drive("980-pro-1tb").scaled(12 / 1536).with_(commands_max=8).device()
    device.prepare(rest_s=10)
    reads = Workload(read_percent=100, queue_depth=32, duration_s=0.5)
    both = device.copy().run_jobs({"a": reads, "b": reads})
    assert both["a"].iops == pytest.approx(both["b"].iops, rel=0.02)
    third = device.copy().run_jobs({"a": reads.model_copy(update={"weight": 3}), "b": reads})
    assert third["a"].iops == pytest.approx(3 * third["b"].iops, rel=0.05)
    assert third["a"].ios + third["b"].ios == pytest.approx(both["a"].ios + both["b"].ios, rel=0.03)
    with pytest.raises(UserError, match="weight"):
        Workload(weight=0)


def test_replicates_are_a_sequence_of_results(small: Drive) -> None:
    runs = drivebay.replicates(small, Workload(read_percent=100, ios=500), seeds=3)
    assert [one.iops for one in runs] == runs.values() == [runs[i].iops for i in range(len(runs))]


def test_a_scaled_drive_behaves_as_the_whole_one(small: Drive) -> None:
    """Rates and amplification stay; what takes the whole drive takes its share of the time."""
    half = drivebay.drive("sm951-ahci-512").scaled(1 / 16).with_("heatsink")
    found = []
    for drive, share in ((small.with_("heatsink"), 1 / 32), (half, 1 / 16)):
        device = drive.device()
        device.fill()
        burst = device.run(Workload(duration_s=3.2 * share))
        device.run(Workload(duration_s=3200 * share))
        steady = device.run(Workload(duration_s=640 * share))
        found.append((burst.iops, steady.iops, steady.waf))
    for one, other in zip(*found, strict=True):
        assert one == pytest.approx(other, rel=0.03)
    assert "scaled to 1/32 of its flash" in small.title


def test_columns_agree_with_each_other(filled: Device) -> None:
    load = Workload(read_percent=50, queue_depth=8, duration_s=2.5)
    result = filled.copy().run(load, sample_every=7)
    series = result.series
    lengths = np.array([1.0, 1.0, 0.5])
    assert series.time_s.tolist() == [1.0, 2.0, 2.5]
    assert (series.iops * lengths).sum() == pytest.approx(result.ios)
    assert (series.mb_per_s * lengths).sum() == pytest.approx(result.bytes / 1e6)
    assert result.latency.count == result.ios
    assert sum(result.stages_us.values()) == pytest.approx(result.latency.mean_us, rel=1e-9)
    # Little's law: the queue is never empty.
    assert result.iops * result.latency.mean_us / 1e6 == pytest.approx(8, rel=0.01)
    assert (series.waf[:2] >= 1).all() and np.isnan(series.temperature_c[2])
    samples = result.samples
    assert samples is not None and len(samples) == result.ios // 7
    assert samples.latency_us.mean() == pytest.approx(result.latency.mean_us, rel=0.05)
    assert set(samples.bytes) == {4096} and 0.45 < samples.is_write.mean() < 0.55
    assert (samples.at_s + samples.latency_us / 1e6).max() <= 2.5
    # Keeping samples changes nothing else.
    assert filled.copy().run(load).latency.bins.count.tolist() == result.latency.bins.count.tolist()
    assert list(result.frame().columns) == list(series.columns())
    with pytest.raises(EnvironmentProblem, match="no polars"):
        _without("polars", lambda: result.frame("polars"))
    assert len(result.plot().axes) == 4
    assert "50 % random reads, 4 KiB, QD 8" in repr(result)


def _without(module: str, work: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        found = importlib.util.find_spec
        patch.setattr(
            "importlib.util.find_spec", lambda name: None if name == module else found(name)
        )
        work()


@given(
    st.lists(st.integers(0, 10**11), min_size=1, max_size=200),
    st.lists(st.integers(0, 10**11), max_size=200),
    st.floats(0.01, 100),
)
def test_latencies_merge_and_percentiles_keep_their_error(
    one: list[int], other: list[int], q: float
) -> None:
    together = Latencies.of(np.array(one + other))
    merged = sum([Latencies.of(np.array(one)), Latencies.of(np.array(other, dtype=int))])
    assert isinstance(merged, Latencies)
    assert merged.bins.count.tolist() == together.bins.count.tolist()
    assert merged.mean_us == pytest.approx(np.mean(one + other) / 1e3)
    exact = float(np.percentile(one + other, q, method="inverted_cdf")) / 1e3
    low, high = merged.bounds_us(q)
    assert low <= exact <= high == merged.percentile_us(q) <= max(exact * (1 + 1 / 64), exact)


def test_a_result_has_the_intervals_of_its_kind(
    filled: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def around(value: float, kind: str) -> tuple[float, float] | None:
        asked.append(kind)
        return None if kind == likeness.HEAT else (value / 2, value * 3)

    monkeypatch.setattr(fidelity, "around", around)
    result = filled.copy().run(Workload(read_percent=100, ios=2000))
    assert result.interval("iops") == (result.iops / 2, result.iops * 3)
    assert fidelity.around(result.power_w, result._kind("W")) is None
    result.load = Workload(read_percent=50, ios=10)
    assert result.interval("latency_us") is not None
    assert asked == [likeness.SATURATED, likeness.HEAT, likeness.MIXED]
    monkeypatch.setattr(fidelity, "_drives", frozenset)
    assert filled.copy().run(Workload(read_percent=100, ios=10)).interval() is None


def test_the_grid_is_the_recorders(filled: Device) -> None:
    result = filled.copy().run(Workload(read_percent=100, ios=20_000), sample_every=1)
    assert result.samples is not None
    again = Latencies.of(np.rint(result.samples.latency_us * 1e3))
    assert again.bins.low_ns.tolist() == result.latency.bins.low_ns.tolist()
    assert again.bins.count.tolist() == result.latency.bins.count.tolist()
    assert again.sum_ns == result.latency.sum_ns


@pytest.mark.parametrize("host", hosts.names())
def test_a_device_in_any_host_is_copied_saved_and_loaded(host: str, tmp_path: Path) -> None:
    load = Workload(read_percent=50, ios=200)
    name = "sm951-ahci-512" if host == "windows-7" else "sm951-nvme-512"  # it has no NVMe driver
    device = drivebay.drive(name, host=host).scaled(1 / 32).device()
    device.run(load)
    device.save(tmp_path / "a.state")
    others = [device.copy(), Device.load(tmp_path / "a.state"), pickle.loads(pickle.dumps(device))]
    iops = device.run(load).iops
    assert [(one.drive.host, one.run(load).iops) for one in others] == [(host, iops)] * 3


def test_a_device_stays_is_copied_and_saved(filled: Device, tmp_path: Path) -> None:
    load = Workload(duration_s=1)
    device = filled.copy()
    first = device.run(load)
    device.save(tmp_path / "worn.state")
    copy, loaded = device.copy(), Device.load(tmp_path / "worn.state")
    outcomes = [one.run(load) for one in (device, copy, loaded)]
    for outcome in outcomes[1:]:
        assert np.array_equal(outcome.series.iops, outcomes[0].series.iops)
        assert outcome.seed == outcomes[0].seed == first.seed + 1
    assert device.health() == loaded.health() and device.health().host_writes > first.ios
    (tmp_path / "worn.state.json").unlink()
    with pytest.raises(UserError, match="which drive"):
        Device.load(tmp_path / "worn.state")
    with pytest.raises(UserError, match="cannot save"):
        device.save(tmp_path / "nowhere" / "state")


def test_a_state_replaces_a_state_and_no_other_file(small: Drive, tmp_path: Path) -> None:
    device = small.device()
    for name in ("mine", "mine.json"):
        stranger = tmp_path / name
        text = 'somebody\'s thesis: dbstate\n, {"profile": {'
        stranger.write_text(text)
        with pytest.raises(UserError, match="not a saved state"):
            device.save(tmp_path / "mine")
        assert stranger.read_text() == text
        assert [one.name for one in tmp_path.iterdir()] == [name]
        stranger.unlink()
    device.save(tmp_path / "mine")
    device.fill()
    device.save(tmp_path / "mine")
    load = Workload(read_percent=50, ios=500)
    again = Device.load(tmp_path / "mine").run(load, seed=5)
    assert again.iops == device.run(load, seed=5).iops


def test_trim_and_power_cut_reach_the_drive(filled: Device) -> None:
    device = filled.copy()
    device.run(Workload(ios=5000))
    cut = device.power_cut()
    assert 0 < cut.lost_bytes <= 8192 * 1024 and cut.ready_after_s > 0
    assert device.health().unsafe_shutdowns == 1
    full = device.copy()
    device.trim(0, device.capacity_bytes)
    steady = Workload(duration_s=8)
    assert device.run(steady).iops > 2 * full.run(steady).iops
    with pytest.raises(UserError, match=device.drive.name):
        device.trim(0, device.capacity_bytes + 4096)


def test_wrong_calls_are_refused_in_two_lines(filled: Device) -> None:
    wrong: tuple[tuple[Callable[[], object], str], ...] = (
        (lambda: Workload(read_percent=101), "read_percent: 101 is not allowed; must be 0 to 100"),
        (lambda: Workload(pattern="rnd"), "pattern"),  # type: ignore[arg-type]
        (lambda: Workload(block_bytes="4k"), "block_bytes"),  # type: ignore[arg-type]
        (lambda: Workload(depth=4), "depth"),  # type: ignore[call-arg]
        (lambda: Workload(queue_depth=1025), "1 to 1024, 10 bits for a command's slot"),
        (lambda: Workload(duration_s=float("nan")), "duration_s"),
        (lambda: Workload(ios=5, block_bytes_max=8192), "ios"),
        (lambda: Workload(content=101), "content"),  # type: ignore[arg-type]
        (lambda: Trace(trace="light", scale=-1), "scale"),
        (lambda: filled.run(Workload(block_bytes=1000)), "block_bytes"),
        (lambda: filled.run(Workload(span_start_bytes=1 << 50)), "span"),
        (lambda: filled.run(Trace(trace="nothing")), "no trace"),
        (lambda: filled.run("heavy"), "no load"),  # type: ignore[arg-type]
        (lambda: filled.trim(-4096, 4096), "before the drive"),
        (lambda: filled.rest(-1), "rest"),
        (lambda: filled.drive.scaled(float("nan")), "scaled"),
    )
    for call, match in wrong:
        with pytest.raises(UserError, match=match) as caught:
            call()
        assert caught.value.hint and "\n" not in caught.value.message
    nothing = filled.copy().run(Workload(duration_s=1e-9))
    assert nothing.ios == 0 and "no I/O" in repr(nothing)


def test_a_trace_runs_too(filled: Device) -> None:
    result = filled.copy().run(Trace(trace="light", scale=0.002))
    assert result.ios > 1000 and result.latency.count == result.ios
    assert "light" in repr(result)


def test_a_trace_of_arrays_asks_for_just_these_requests(filled: Device, tmp_path: Path) -> None:
    """In any order, of any library, and as the same requests in a file do."""
    rng = np.random.default_rng(1)
    at = rng.exponential(1e-4, 5000).cumsum()
    writes, places = rng.random(5000) < 0.3, rng.integers(0, 1000, 5000) * 4096
    mixed = rng.permutation(5000)
    trace = Trace.from_arrays(
        at_s=pa.array(at[mixed]),
        is_write=list(map(bool, writes[mixed])),
        offset_bytes=places[mixed],
        bytes=4096,
    )
    lines = ["at_ns,op,offset_bytes,bytes,device,response_ns"]
    for when, write, place in zip(np.rint(at * 1e9).astype(int), writes, places, strict=True):
        lines.append(f"{when},{'write' if write else 'read'},{place},4096,0,")
    path = tmp_path / "trace.csv"
    path.write_text("\n".join(lines) + "\n")
    result = filled.copy().run(trace)
    assert (result.ios, result.read_latency.count) == (5000, int((~writes).sum()))
    assert "5,000 I/Os from arrays" in repr(result)
    again = filled.copy().run(Trace(trace=str(path)))
    assert result.latency.bins.count.tolist() == again.latency.bins.count.tolist()


def test_arrays_that_are_no_trace_are_refused() -> None:
    right: dict[str, Any] = {"at_s": [0.0, 1.0], "is_write": True, "offset_bytes": 0, "bytes": 512}
    for wrong, says in (
        ({"at_s": [-1.0, 0.0]}, "at_s must be seconds"),
        ({"at_s": [0.0, math.nan]}, "at_s must be seconds"),
        ({"at_s": []}, "at_s must be seconds"),
        ({"is_write": [True]}, "2 times and 1 values of is_write"),
        ({"is_write": "write"}, "is_write cannot be taken"),
        ({"offset_bytes": [0, -4096]}, "negative"),
        ({"bytes": 0.5}, "bytes cannot be taken"),
    ):
        with pytest.raises(UserError, match=says) as caught:
            Trace.from_arrays(**{**right, **wrong})
        assert caught.value.hint


def test_two_threads_run_two_devices(filled: Device) -> None:
    """The lock is released: while a run is under way, others go on."""
    devices = [filled.copy(), filled.copy()]
    load, results = Workload(duration_s=20, seed=9), []

    def work(device: Device) -> None:
        results.append(device.run(load))

    threads = [threading.Thread(target=work, args=(device,)) for device in devices]
    for thread in threads:
        thread.start()
    turns = 0
    while any(thread.is_alive() for thread in threads):
        time.sleep(0.001)
        turns += 1
    assert turns > 3, "Python went on meanwhile"
    assert np.array_equal(results[0].series.iops, results[1].series.iops)


def test_the_same_seed_gives_the_same_run(small: Drive) -> None:
    load = Workload(read_percent=100, queue_depth=1, duration_s=1)
    one, again, other = (drivebay.run(small, load, seed=seed) for seed in (5, 5, 6))
    assert one.latency.bins.count.tolist() == again.latency.bins.count.tolist()
    assert one.ios == again.ios and one.stages_us == again.stages_us
    assert one.latency.bins.count.tolist() != other.latency.bins.count.tolist()


def test_unused_is_space_left_unused(small: Drive) -> None:
    """A drive told to keep a quarter, and one whose host writes to three quarters only."""
    told = small.with_("heatsink", unused="25%").device()
    told.fill()
    left = small.with_("heatsink").device()
    span = told.capacity_bytes
    left.run(Workload(pattern="sequential", block_bytes=131_072, span_bytes=span, bytes=span))
    outcomes = []
    for device in (told, left):
        for _ in range(2):  # the burst, and what comes after it
            result = device.run(Workload(duration_s=15, span_bytes=span))
        outcomes.append(result)
    one, other = outcomes
    assert one.waf == pytest.approx(other.waf, rel=0.03) and 1 < one.waf < 5
    assert one.iops == pytest.approx(other.iops, rel=0.03)


def test_a_device_and_a_drive_are_pickled_with_their_state(small: Drive, filled: Device) -> None:
    assert pickle.loads(pickle.dumps(small)) == small
    again = pickle.loads(pickle.dumps(filled))
    load = Workload(duration_s=1)
    assert (again.seed, again.runs) == (filled.seed, filled.runs)
    assert again.run(load).stages_us == filled.copy().run(load).stages_us


def test_what_is_no_drive_and_names_that_do_not_exist_are_told_with_a_hint() -> None:
    with pytest.raises(UserError, match="'sm951-ahci-512' is no drive"):
        drivebay.run("sm951-ahci-512", Workload(duration_s=1))  # type: ignore[arg-type]
    with pytest.raises(AttributeError, match="drivebay has no 'Workloads'; did you mean Workload"):
        _ = drivebay.Workloads


def test_a_notebook_shows_a_result_as_a_table_and_a_line() -> None:
    drive = drivebay.drive("sm951-nvme-512").scaled(1 / 128)
    result = drivebay.run(drive, Workload(queue_depth=4, duration_s=3), seed=1)
    shown = result._repr_html_()
    assert f"{result.iops:,.0f} IOPS" in shown
    assert f"{result.latency.percentile_us(99):,.1f} µs p99" in shown
    assert shown.count("<polyline") == 1 and "simulated" in shown
    assert html.escape(result.load.words()) in shown
    short = drivebay.run(drive, Workload(ios=10), seed=1)
    assert "<polyline" not in short._repr_html_()


def test_a_sanitize_takes_its_time_and_overwrites_where_the_drive_can(small: Drive) -> None:
    device = small.with_("sanitize_overwrite").device()
    device.fill()
    most = device.health().erases[1]
    once = device.copy().sanitize("overwrite")
    assert device.copy().sanitize("overwrite", passes=3) == pytest.approx(3 * once, rel=0.01)
    assert 0 < device.copy().sanitize() < once and device.copy().sanitize("crypto") < 1
    device.sanitize("overwrite", passes=2)
    assert device.health().erases[1] >= most + 2
    for words, said in (
        (("overwrite", 0), "passes=0 is not allowed; must be 1 to 16"),
        (("gutmann", 1), 'unknown method "gutmann"; must be block, crypto or overwrite'),
    ):
        with pytest.raises(UserError, match=said):
            device.sanitize(words[0], passes=words[1])
    with pytest.raises(UserError, match="this drive's Sanitize does not overwrite"):
        small.device().sanitize("overwrite")
