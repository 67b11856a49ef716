"""docs/guides/paper-figures.md as a reader runs it: each figure against its closed form."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest

from drivebay import Workload

TOP = Path(__file__).resolve().parent.parent
PAGE = TOP / "docs" / "guides" / "paper-figures.md"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the page's blocks leave, run one after the other."""
    folder = tmp_path_factory.mktemp("figures")
    text = PAGE.read_text(encoding="utf-8").replace('"examples/', f'"{TOP}/examples/')
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    names: dict[str, Any] = {"__name__": "page"}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        before = matplotlib.get_backend()
        matplotlib.use("svg")
        exec(compile(code, str(PAGE), "exec"), names)
        names["plt"].close("all")
        matplotlib.use(before)
    names["folder"] = folder
    return names


def test_write_amplification_follows_its_closed_forms_over_the_spare_space(
    page: dict[str, Any],
) -> None:
    for policy in ("fifo", "greedy"):
        exact = [page[policy](1 + share) for share in page["spare"]]
        assert page["by_policy"][policy] == pytest.approx(exact, rel=0.02), policy


def test_with_a_single_frontier_skew_costs_and_with_separate_ones_cost_benefit_gains(
    page: dict[str, Any],
) -> None:
    skewed = page["skewed"]
    for policy in ("greedy", "cost-benefit"):
        single = skewed[f"{policy}, single"]
        assert single[0] < single[1] < single[2] and single[2] > 1.25 * single[0], policy
    greedy, waiting = skewed["greedy, separate"], skewed["cost-benefit, separate"]
    assert greedy[0] < greedy[1] < greedy[2] < 1.2 * greedy[0]
    assert page["bound"][2] < waiting[2] < 0.75 * waiting[0]
    assert skewed["greedy, single"][0] == pytest.approx(page["greedy"](1.2), rel=0.02)


def test_reads_wait_longer_the_more_victims_are_emptied_in_a_row(page: dict[str, Any]) -> None:
    sectors = int(1024 * 64 / 1.2) * 8
    drive = page["flash"].with_(capacity_sectors=sectors, victim_policy="greedy")
    rate: dict[str, Any] = {"rate_process": "poisson", "duration_s": 20, "queue_depth": 64}
    tails = []
    for victims in ({"foreground_victims": 1}, {"foreground_victims": 2}, {}):
        device = drive.with_(frontiers="shared", **victims).device()
        device.fill()
        device.run(Workload(queue_depth=1, bytes=3 * drive.capacity_bytes))
        reads = Workload(read_percent=100, rate_iops=400, **rate)
        both = {"reads": reads, "writes": Workload(rate_iops=300, queue_depth=1, duration_s=20)}
        tails.append(device.run_jobs(both)["reads"].latency.percentile_us(99.9))
    one, two, many = tails
    assert two > 2 * one and many > 1.5 * two, tails


def test_d_choices_follow_the_mean_field(page: dict[str, Any]) -> None:
    assert page["chosen"] == pytest.approx(page["field"], rel=0.02)
    assert page["mean_field"](2, 1.3) == pytest.approx(3.085, abs=0.001)


def test_reads_wait_for_programs_as_the_formula_says_unless_they_are_suspended(
    page: dict[str, Any],
) -> None:
    tail, alone = page["tail"], page["alone_us"]
    waits = np.array([200.0, 400.0, 600.0])
    found = [tail["not suspended"].over(alone + wait) for wait in waits]
    assert found == pytest.approx(list(page["rho"] * (1 - waits / page["PROGRAM_US"])), rel=0.15)
    assert tail["suspended"].percentile_us(99.9) < alone + 100
    assert tail["not suspended"].percentile_us(99.9) > alone + 800


def test_every_picture_of_the_page_is_shipped_and_made_by_it(page: dict[str, Any]) -> None:
    shown = re.findall(r"\(\.\./images/(.*?\.svg)\)", PAGE.read_text(encoding="utf-8"))
    assert sorted(shown) == sorted(path.name for path in page["folder"].glob("*.svg"))
    for name in shown:
        assert (TOP / "docs" / "images" / name).is_file()
