"""Means with confidence intervals: against closed forms, in the library and in sweeps."""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drivebay
from drivebay import UserError, Workload
from drivebay.analysis.effects import Factor, Study
from drivebay.analysis.replicates import (
    FEWEST,
    Estimate,
    Precision,
    difference,
    estimate,
    next_look,
    t_quantile,
)
from drivebay.lab.sweep import rounds
from drivebay.lab.sweep import spec as specs

SMALL = drivebay.drive("sm951-nvme-512").scaled(1 / 64)


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.99, 0.999])
def test_students_t_is_that_of_scipy(confidence: float) -> None:
    from scipy.special import stdtrit

    for freedom in (1, 2, 3, 4, 7, 30, 31, 999):
        exact = stdtrit(freedom, (1 + confidence) / 2)
        assert t_quantile(confidence, freedom) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize(("n", "confidence"), [(3, 0.95), (5, 0.9), (12, 0.95)])
def test_intervals_cover_the_mean_of_a_normal_as_often_as_they_say(
    n: int, confidence: float
) -> None:
    draws = np.random.default_rng(n).normal(7.0, 2.0, (4000, n))
    found = [estimate(row, confidence=confidence) for row in draws.tolist()]
    covered = np.mean([one.low <= 7.0 <= one.high for one in found])
    # Four standard deviations of a share of 4,000.
    assert covered == pytest.approx(confidence, abs=4 * math.sqrt(0.05 * 0.95 / 4000) + 0.005)


def test_what_stops_at_a_precision_covers_a_little_less_than_it_says() -> None:
    """docs/concepts/sweeps.md has this number."""
    precision = Precision.parse("5% at 95%")
    covered = []
    for row in np.random.default_rng(3).normal(10.0, 1.0, (1500, 200)).tolist():
        look = FEWEST
        while not precision.is_met(row[:look]):
            look = next_look(look)
        found = estimate(row[:look])
        assert found.relative <= 0.05
        covered.append(found.low <= 10.0 <= found.high)
    assert 0.90 < np.mean(covered) < 0.95


def test_a_paired_difference_leaves_out_what_both_have_in_common() -> None:
    rng = np.random.default_rng(1)
    common = rng.normal(100, 10, 8)
    base, other = common + rng.normal(0, 0.1, 8), common + 1 + rng.normal(0, 0.1, 8)
    paired = difference(other.tolist(), base.tolist())
    assert paired.low < 1 < paired.high and paired.half_width < 0.3
    assert estimate(other.tolist()).half_width > 5


def test_one_replicate_has_no_interval_and_equal_ones_an_exact_one() -> None:
    assert estimate([3.0]).half_width == math.inf
    assert estimate([3.0, 3.0]).half_width == 0 == estimate([0.0, 0.0]).relative
    assert estimate([-1.0, 1.0]).relative == math.inf
    with pytest.raises(UserError, match="no replicates"):
        estimate([])
    with pytest.raises(UserError, match="cannot be paired"):
        difference([1.0], [1.0, 2.0])


@pytest.mark.parametrize(
    "text", ["", "1%", "1 at 95", "0% at 95%", "1% at 100%", "1% at 20%", "X 1% at 95%"]
)
def test_what_is_no_precision_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not allowed"):
        Precision.parse(text)
    with pytest.raises(UserError, match="until"):
        drivebay.replicates(SMALL, Workload(ios=10), until=text)


def test_replicates_of_a_load_differ_by_their_seeds_and_stop_at_a_precision() -> None:
    load = Workload(read_percent=100, queue_depth=4, ios=2000)
    base = drivebay.replicates(SMALL, load, seeds=[3, 4, 5])
    alone = drivebay.run(SMALL, load, seed=4)
    assert base.seeds == (3, 4, 5) and base.values()[1] == alone.iops
    assert len(set(base.values())) == 3
    found = base.estimate(lambda result: result.latency.percentile_us(99))
    assert isinstance(found, Estimate) and found.n == 3 and found.low < found.high
    until = drivebay.replicates(SMALL, load, seeds=50, until="2% at 90%")
    assert FEWEST <= len(until) < 50
    assert until.estimate(confidence=0.9).relative <= 0.02
    for wrong in ({"seeds": 0}, {"seeds": [1, 1]}, {"figure": "no", "until": "1% at 95%"}):
        with pytest.raises(UserError):
            drivebay.replicates(SMALL, load, **wrong)
    with pytest.raises(UserError, match="different seeds"):
        base.difference(until)


def test_common_seeds_make_a_small_difference_visible() -> None:
    """Two microseconds more to read flash: beyond doubt by pairs."""
    load = Workload(read_percent=100, queue_depth=1, ios=500)
    base = drivebay.replicates(SMALL, load, seeds=6)
    slower = SMALL.with_(read_us=SMALL.value("nand.read_us") + 2)
    other = drivebay.replicates(slower, load, seeds=6)
    paired = other.difference(base, lambda result: result.latency.mean_us)
    assert paired.low > 1 and paired.high < 3
    assert paired.half_width < base.estimate(lambda result: result.latency.mean_us).half_width


def test_a_change_that_was_never_asked_for_is_told() -> None:
    """A fresh drive collects no garbage, so its victim policy decides nothing."""
    few = Workload(ios=500)
    base, other = (
        drivebay.replicates(drive, few, seeds=2, prepare=lambda device: None)
        for drive in (SMALL, SMALL.with_(victim_policy="fifo"))
    )
    with pytest.warns(UserWarning, match="cannot matter under this load"):
        assert other.difference(base).half_width == 0


def test_points_of_a_sweep_have_intervals_and_paired_differences() -> None:
    study = Study([Factor("a", (1, 2))])
    labels = {"t": {"y": ["Y", "MB/s", True], "z": ["Z", "", False]}}
    for a, values in ((1, (10.0, 20.0, 30.0)), (2, (11.0, 21.0, 31.5))):
        for seed, y in enumerate(values):
            study.add({"test": "t", "a": a, "seed": seed, "y": y, "z": 1.0}, labels)
    (found,) = study.points("t")
    first, second = found.points
    assert found.key == "y" and first.values == {"a": 1} and first.difference is None
    assert first.estimate == estimate([10.0, 20.0, 30.0])
    assert second.difference == difference([11.0, 21.0, 31.5], [10.0, 20.0, 30.0])
    once = Study([Factor("a", (1, 2))])
    once.add({"test": "t", "a": 1, "seed": 1, "y": 1.0, "z": 1.0}, labels)
    assert once.points("t") == ()


class Parts:
    """A store whose runs have figures by chance, the first point's scattered more."""

    def __init__(self, there: set[int], seeds: int) -> None:
        self.there, self.seeds = there, seeds

    def rows(self, _: str) -> Any:
        labels = {"labels": {"t": {"y": ["Y", "", True], "z": ["Z", "", False]}}}
        for run in sorted(self.there):
            rng = np.random.default_rng(run)
            spread = 5.0 if run < self.seeds else 0.1
            yield {"run": run, "test": "t", "y": rng.normal(100, spread), "z": rng.normal()}, labels


class APlan:
    fingerprint = ""

    def __init__(self, until: str | None, seeds: int) -> None:
        table = {"name": "x", "drives": ["sm951-ahci-512"], "seeds": seeds}
        load = {"pattern": "random", "read_percent": 0, "block_bytes": 4096, "queue_depth": 1}
        table |= {"workload": load | {"duration_s": 1}} | ({"until": until} if until else {})
        self.spec = specs.parse(table, where="x")
        self.runs = 2 * seeds


def test_seeds_of_a_sweep_come_in_rounds_until_the_precision_is_reached() -> None:
    def complete(until: str | None, lost: int | None = None) -> list[set[int]]:
        there: set[int] = set()
        found: list[set[int]] = []
        plan = APlan(until, 40)
        while left := rounds.missing(plan, Parts(there, 40), there):  # type: ignore[arg-type]
            found.append(set(left))
            there |= set(left) - ({lost} if len(found) == 1 else set())
        return found

    every = complete(None)
    assert every == [set(range(80))]
    some = complete("y 2% at 95%")
    assert some[0] == {*range(5), *range(40, 45)}
    assert len(some) > 2 and all(max(one) < 40 for one in some[1:]), "the second point is enough"
    ended = set().union(*some)
    assert set().union(*complete("y 2% at 95%", lost=3)) == ended, "whatever was interrupted"
    assert set().union(*complete("2% at 95%")) == ended, "all main figures are y"
    scattered = set().union(*complete("z 2% at 95%"))
    assert scattered == set(range(80)), "never reached: all seeds"


def test_a_precision_needs_seeds_to_choose_from() -> None:
    with pytest.raises(UserError, match="needs at least 5 seeds"):
        APlan("1% at 95%", 4)
    with pytest.raises(UserError, match="is not allowed"):
        APlan("1", 40)


def test_a_trace_of_arrays_can_be_pickled() -> None:
    at = np.arange(500) / 1e3
    trace = drivebay.Trace.from_arrays(at_s=at, is_write=at > 0.2, offset_bytes=0, bytes=4096)
    again = pickle.loads(pickle.dumps(trace))
    assert again.words() == trace.words() and again.trace != trace.trace
    means = [drivebay.run(SMALL, one).latency.mean_us for one in (trace, again)]
    assert means[0] == means[1]


@pytest.mark.parametrize("host", [None, "spdk"])
def test_a_changed_drive_can_be_saved_as_a_profile(tmp_path: Path, host: str | None) -> None:
    changed = drivebay.drive("sm951-nvme-512", host=host).with_("heatsink", unused="7%")
    changed.save(tmp_path / "mine.toml", name="mine")
    again = drivebay.drive(tmp_path / "mine.toml")
    assert (again.name, again.host) == ("mine", changed.host)
    first, second = (dict(one.raw) for one in (changed, again))
    assert first | {"drive": 0} == second | {"drive": 0}
    with pytest.raises(UserError, match="exists already"):
        changed.save(tmp_path / "mine.toml")
    with pytest.raises(UserError, match="lower-case"):
        changed.save(tmp_path / "other.toml", name="My Drive")
