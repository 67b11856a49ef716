"""The report and the Bench in Firefox, whose own code unpacks, draws and scrolls."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import firefox
import made_result
import pytest
from firefox import Firefox

from drivebay import report
from drivebay.definitions import suites

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(firefox.FIREFOX is None, reason=firefox.WITHOUT),
]
EMPTY = """return (async () => {
  for (const more of document.querySelectorAll("details")) more.open = true;
  const boxes = [...document.querySelectorAll("[data-chart]")];
  for (const box of boxes) {
    while (!box.dataset.drawn) {
      box.scrollIntoView({ block: "center" });
      await new Promise((go) => setTimeout(go, 20));
    }
  }
  return boxes.filter((box) => !box.querySelector(".main-svg")).map((box) => box.dataset.chart);
})()"""
"""Looks at every chart; the names of those that are not drawn then."""
DOTS = "document.querySelector('[data-chart=whole] .shapelayer path[d^=M]')"


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Path:
    kinds = ("consistency-default", "consistency-25op", "random-read", "thermal-write")
    suite = suites.load("anandtech-2015").selected(kinds)
    return made_result.make(tmp_path_factory.mktemp("firefox") / "whole", suite=suite)


@pytest.fixture
def page(result: Path, tmp_path: Path) -> Iterator[Firefox]:
    with Firefox(report.write([result]), tmp_path) as opened:
        yield opened
        assert opened.troubles == []


def test_every_chart_is_drawn(page: Firefox) -> None:
    assert page.run(EMPTY) == []
    assert page.run(f"return {DOTS}.getAttribute('d').split('M').length - 1") == 3600
    assert page.run(f"return getComputedStyle({DOTS}).strokeLinecap") == "round"


def test_a_switch_and_the_colours_draw_again(page: Firefox) -> None:
    box = "document.querySelector('[data-chart=whole]')"
    page.run(f"{box}.scrollIntoView()")
    page.until(f"{box}.dataset.drawn")
    page.run("document.querySelector('label[for=whole-axis-linear]').click()")
    page.until(f"{box}.layout.yaxis.type === 'linear'")
    before = page.run(f"return {box}.dataset.drawn")
    page.run("document.getElementById('theme').click()")
    page.until(f"{box}.dataset.drawn !== '{before}'")


def test_the_bench_draws_its_charts(result: Path, tmp_path: Path) -> None:
    site = report.write_bench([result], tmp_path / "site")
    (tmp_path / "profile").mkdir()
    with Firefox(site, tmp_path / "profile") as bench:
        bench.until("document.documentElement.dataset.ready !== undefined")
        bench.run("document.querySelector('td input[type=checkbox]').click()")
        bench.run("document.getElementById('test-random-read').scrollIntoView()")
        bench.until("document.querySelector('#test-random-read .plot .main-svg')")
        assert bench.troubles == []
