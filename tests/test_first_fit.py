"""The catalog's SM951 against the published figures: the real command, full size, full durations.

The bound is 15 % for figures with a value; bounds ("over", "under") must hold. A drift beyond that
is a change of the model and belongs into the changelog.

The Storage Bench is replayed from synthesized traces, whose free parameters are not yet fitted to
this model: data rates and mean latencies are held to 30 %. Their shares of I/Os over 10 ms miss
what was published (Destroyer 1.2 % for nearly 2 %, Heavy 0.13 % for 0.06 %) and are not asserted.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drivebay.definitions import profiles as catalog
from drivebay.definitions import suites
from drivebay.definitions.modifications import changed
from drivebay.targets.base import Progress
from drivebay.targets.virtual.target import VirtualTarget

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

BOUND_PERCENT = 15.0
TRACE_BOUND_PERCENT = 30.0
# Misses that docs/fidelity.md explains. A row that comes out again leaves this list.
KNOWN_MISSES = {("mixed-random", "Lowest rate of all mixes")}  # 103 MB/s, about 40 published
TRACES = {"destroyer", "heavy-empty", "heavy-full", "light-empty", "light-full"}


@pytest.fixture(scope="module")
def headline(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], dict[str, Any]]:
    """Figures of a full review, by test and label."""
    out = tmp_path_factory.mktemp("full") / "review"
    program = "from drivebay.cli import main; main()"
    command = [sys.executable, "-c", program, "review", "sm951-ahci-512", "--json"]
    done = subprocess.run(
        [*command, "--out", str(out)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert Path(result["report"]).stat().st_size > 100_000
    return {(f["test_id"], f["label"]): f for f in result["headline"]}


def test_published_figures_come_out(headline: dict[tuple[str, str], dict[str, Any]]) -> None:
    compared = {key: f for key, f in headline.items() if f["published"] is not None}
    assert len(compared) >= 10, sorted(compared)
    wrong = {
        key: (f["value"], f["published_relation"], f["published"])
        for key, f in compared.items()
        if key[0] not in TRACES and not _holds(f, BOUND_PERCENT)
    }
    assert set(wrong) == KNOWN_MISSES, wrong


def test_the_storage_bench_comes_out_roughly(
    headline: dict[tuple[str, str], dict[str, Any]],
) -> None:
    labels = ("Data rate over busy time", "Mean latency")
    compared = {
        key: f
        for key, f in headline.items()
        if key[0] in TRACES and key[1] in labels and f["published"] is not None
    }
    assert len(compared) == 6, sorted(compared)
    wrong = {
        key: (f["value"], f["published"])
        for key, f in compared.items()
        if not _holds(f, TRACE_BOUND_PERCENT)
    }
    assert not wrong


def _holds(figure: dict[str, Any], bound_percent: float) -> bool:
    value, published = figure["value"], figure["published"]
    # With their ends, as in published/validation.toml: "just under two minutes" is up to 120 s.
    if figure["published_relation"] == "gt":
        return bool(value >= published)
    if figure["published_relation"] == "lt":
        return bool(value <= published)
    return bool(abs(value / published - 1) * 100 <= bound_percent)


def test_a_heatsink_lifts_random_writes_by_the_published_ratio() -> None:
    """AnandTech 9396: 10,873 IOPS with a heatsink, 7,878 without."""
    (test,) = suites.load("anandtech-2015").selected(("consistency-default",)).tests
    profile = changed(catalog.load("sm951-ahci-512"), ["heatsink"])
    (phase,) = VirtualTarget(profile).run_test(test, seed=1, progress=Progress())
    steady = np.asarray(phase.series["writes"])[-400:].mean()
    assert abs(steady / 10_873 - 1) * 100 <= BOUND_PERCENT
    assert phase.metrics["throttled_s"] == 0
