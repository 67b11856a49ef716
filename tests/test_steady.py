"""Steady state by SNIA's criterion: the arithmetic, the suites' data, rounds on both targets."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from fakes import made_test
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from real_files import MIB, a_test, file, keep_the_disk_free, load, results

from drivebay.common.errors import UserError
from drivebay.definitions import profiles as catalog
from drivebay.definitions import suites
from drivebay.definitions.suites import Phase, Prepare, Quick, Steady
from drivebay.targets.base import Progress
from drivebay.targets.fio.parse import Recorder
from drivebay.targets.virtual.target import VirtualTarget

__all__ = ["file", "keep_the_disk_free"]


@given(st.lists(st.floats(1, 1e7), min_size=5, max_size=40))
def test_range_and_slope_are_those_of_a_least_squares_fit(rates: Sequence[float]) -> None:
    found = Steady().window(rates)
    last = np.array(rates[-5:])
    slope = np.polyfit(np.arange(5), last, 1)[0]
    assert found is not None
    assert found.range_percent == pytest.approx(100 * np.ptp(last) / last.mean())
    assert found.slope_percent == pytest.approx(100 * abs(slope) * 4 / last.mean(), abs=1e-6)
    assert found.steady == (found.range_percent <= 20 and found.slope_percent <= 10)


@pytest.mark.parametrize(
    ("rates", "steady"),
    [
        ([100, 100, 100, 100, 100], True),
        ([90, 110, 90, 110, 100], True),
        ([89, 110, 90, 110, 100], False),  # range 21 %
        ([95.1, 97.5, 100, 102.5, 104.9], True),  # slope 9.8 %
        ([94, 97, 100, 103, 106], False),  # range 12 %, slope 12 %
        ([1, 1, 1, 100, 100, 100, 100, 100], True),  # only the window counts
        ([0, 0, 0, 0, 0], False),  # stuck
    ],
)
def test_the_criterion(rates: list[float], steady: bool) -> None:
    window = Steady().window(rates)
    assert window is not None and window.steady is steady


def test_too_few_rounds_have_no_window() -> None:
    assert Steady().window([100] * 4) is None


SUITE = """
schema_version = 1
name = "mine"
title = "Mine"
description = "x"
source = "x"
[[tests]]
id = "write"
title = "Write"
page = "random"
kind = "ladder"
method = "x"
source = "x"
metric_queue_depths = [32]
queue_depths = [32]
quick = { duration_s = 5 }
prepare = [{ kind = "purge" }, { kind = "steady", load = { pattern = "random", read_percent = 0, \
block_bytes = 4096, queue_depth = 32, duration_s = 60 } }]
[tests.workload]
pattern = "random"
read_percent = 0
block_bytes = 4096
duration_s = 60
"""


def test_a_suite_asks_for_it_as_data(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(SUITE)
    (test,) = suites.load(str(path)).tests
    workload, rule = test.prepare[1].rounds
    assert (workload.duration_s, rule) == (60, Steady())
    assert test.drive_seconds() == 60 + 25 * 60
    short = test.shortened().prepare[1]
    assert (short.rounds[0].duration_s, short.rounds[1].rounds_max) == (5, 5)
    wrong = "duration_s = 60 }, until_steady = { window_rounds = 9, rounds_max = 5 } }"
    path.write_text(SUITE.replace("duration_s = 60 } }", wrong))
    with pytest.raises(UserError, match="window_rounds must be at most rounds_max"):
        suites.load(str(path))
    path.write_text(SUITE.replace('kind = "steady", load', 'kind = "fill", load'))
    with pytest.raises(UserError, match="'load' has no meaning for a fill"):
        suites.load(str(path))
    with pytest.raises(ValidationError, match="a steady needs 'load'"):
        Prepare(kind="steady")


@pytest.mark.parametrize("percent", [100.0, 0.001])
def test_rounds_on_a_file(file: Path, percent: float) -> None:
    """The disk's rates decide when they are steady; that decision is the criterion's."""
    rule = Steady(window_rounds=2, rounds_max=3, range_percent=percent, slope_percent=percent)
    one = load(duration_s=1, span_bytes=16 * MIB)
    prepare = Prepare(kind="steady", load=one, until_steady=rule)
    (found,) = results(file, a_test(("run", load()), prepare=(prepare,)))
    (record,) = json.loads(found.artefacts["prepare.json"])
    rates = record["rounds_iops"]
    last = rule.window(rates)
    assert last is not None
    reached = last.steady
    assert reached or len(rates) == 3, "it ends when it is steady, else at its last round"
    assert record["steady"] is reached
    assert record["range_percent"] == pytest.approx(last.range_percent, abs=0.1)
    assert found.metrics["steady_reached"] == float(reached)
    assert found.metrics["steady_rounds"] == len(rates) and min(rates) > 0
    said = [
        warning
        for warning in found.conditions["warnings"]
        if "steady state was not reached" in warning
    ]
    assert len(said) == (0 if reached else 1)
    job = found.artefacts["prepare-1-steady.fio"].decode()
    assert "runtime=3000ms" in job and "rw=randwrite" in job


def test_rates_of_rounds_are_the_counts_between_their_ends() -> None:
    from test_fio_parse import made

    recorder = Recorder()
    for second, done in enumerate((1000, 2000, 5000, 8000, 8500), start=1):
        recorder.add(made(second * 1000 + 3, done), asked_ms=second * 1000)
    assert recorder.rates_per_round(2.0) == pytest.approx([1000, 3000], rel=0.01)
    assert recorder.rates_per_round(10.0) == []


def test_rounds_on_a_virtual_drive() -> None:
    one = load(duration_s=1, span_bytes=64 * MIB, queue_depth=32)
    prepare = (
        Prepare(kind="fill", span_bytes=64 * MIB),
        Prepare(kind="steady", load=one),
    )
    test = made_test(
        Phase(label="run", workload=one),
        kind="ladder",
        prepare=prepare,
        metric_queue_depths=(32,),
        quick=Quick(duration_s=1),
    )
    again = []
    for _ in range(2):
        with contextlib.closing(VirtualTarget(catalog.load("sm951-nvme-256"))) as target:
            (found,) = target.run_test(test, seed=1, progress=Progress())
        assert 5 <= found.metrics["steady_rounds"] <= 25
        assert found.metrics["steady_reached"] == 1.0
        again.append((found.metrics, found.series))
    assert again[0] == again[1], "same seed, same rounds"
