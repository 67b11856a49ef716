"""Stills: every chart of every suite has one that shows all its series, and round ticks."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import made_result
import pytest

from drivebay.definitions import suites
from drivebay.report.base.runs import entries
from drivebay.report.base.theme import PATTERNS
from drivebay.report.charts.model import Axis, Chart, Panel, Series, View
from drivebay.report.pages.review import all_panels
from drivebay.report.render.svg import still, tiles


def colour(name: str) -> str:
    return f"var(--{name[1:]})" if name.startswith("@") else name


def words(picture: str) -> list[str]:
    return [one.text or "" for one in ElementTree.fromstring(picture).iter("text")]


def places(picture: str, painted: str) -> list[tuple[int, int]]:
    """The corners of the outlines and lines of this colour, in the picture's units."""
    found = []
    for one in ElementTree.fromstring(picture).iter("path"):
        if painted in (one.get("fill"), one.get("stroke")):
            for start, steps in re.findall(r"M([\d\s-]+)l([\d\s-]+)", one.attrib["d"]):
                x, y = map(int, re.findall(r"-?\d+", start))
                found.append((x, y))
                numbers = [int(step) for step in re.findall(r"-?\d+", steps)]
                for dx, dy in zip(numbers[::2], numbers[1::2], strict=True):
                    x, y = x + dx, y + dy
                    found.append((x, y))
    return found


def panel(
    *series: Series, x: Axis | None = None, y: Axis | None = None, stacked: bool = False
) -> Panel:
    axes = (y or Axis(limits=(0, 100)),)
    chart = Chart("a-chart", 300, series, x or Axis(limits=(0, 10)), axes, stacked=stacked)
    return Panel("A chart", chart, "", wide=False)


@pytest.mark.parametrize("suite", suites.names())
def test_every_chart_of_a_suite_shows_its_series_in_their_colours(
    suite: str, tmp_path: Path
) -> None:
    for one in all_panels(entries([made_result.reviewed(tmp_path / "result", suite)])):
        picture, chart = still(one), one.chart
        assert "nan" not in picture and "inf" not in picture, chart.id
        painted = {
            paint
            for path in ElementTree.fromstring(picture).iter("path")
            for paint in (path.get("fill"), path.get("stroke"))
        }
        shown = next(iter(chart.views.values()), View()).shown or range(len(chart.series))
        for series in (chart.series[at] for at in shown):
            if any(value > 0 for value in series.y):
                fill = (one or "" for one in painted)
                assert any(one.endswith(colour(series.colour)) for one in fill), series.title
        for label in [axis.label for axis in chart.y] + [chart.x.label]:
            assert not label or label in words(picture), chart.id


def test_a_line_is_where_its_axes_say_and_broken_where_a_value_is_unknown() -> None:
    nan = float("nan")
    line = Series("line", [0, 5, 6, 8, 10], [0, 50, nan, 100, 0], colour="@c2")
    (left, bottom), (x, y), (third_x, top), (right, last) = places(still(panel(line)), "var(--c2)")
    assert (bottom, third_x - left) == (last, round(0.8 * (right - left)))
    assert abs(x - (left + right) / 2) <= 1 and abs(y - (bottom + top) / 2) <= 1


def test_bars_beside_each_other_do_not_overlap_and_stacked_ones_stand_on_each_other() -> None:
    bars = [
        Series("bar", ["a"], [40], colour="@c1"),
        Series("bar", ["a"], [20], colour="@c2"),
    ]
    for stacked in (False, True):
        picture = still(panel(*bars, x=Axis(scale="category"), stacked=stacked))
        first, second = (places(picture, f"var(--c{at})") for at in (1, 2))
        right, left = max(x for x, _ in first), min(x for x, _ in second)
        assert (left >= right) is not stacked
        base = max(y for _, y in second)
        assert base == (min(y for _, y in first) if stacked else max(y for _, y in first))


def test_whiskers_of_bars_stand_on_their_own_bars() -> None:
    bars = [
        Series("bar", ["a"], [40], colour="@c1", spread=[10]),
        Series("bar", ["a"], [20], colour="@c2", ends=[(15, 40)]),
    ]
    picture = still(panel(*bars, x=Axis(scale="category")))
    (*_, first_top), (*_, second_top) = (
        sorted(y for _, y in places(picture, f"var(--c{at})"))[:2] for at in (1, 2)
    )
    bottom = max(y for _, y in places(picture, "var(--c1)"))
    whiskers = places(picture, "var(--ink)")
    for at, low, high in ((1, 30, 50), (2, 15, 40)):
        left, *_, right = sorted(x for x, _ in places(picture, f"var(--c{at})"))
        own = [y for x, y in whiskers if left < x < right]
        scale = (bottom - first_top) / 40
        assert abs(min(own) - (bottom - high * scale)) <= 1
        assert abs(max(own) - (bottom - low * scale)) <= 1
    assert second_top > first_top


def test_areas_of_one_unit_stand_on_each_other() -> None:
    areas = [
        Series("area", [0, 10], [30, 30], colour="@c1", unit="µs"),
        Series("area", [0, 10], [20, 20], colour="@c2", unit="µs"),
    ]
    picture = still(panel(*areas))
    lower, upper = (places(picture, f"var(--c{at})") for at in (1, 2))
    assert min(y for _, y in lower) == max(y for _, y in upper)


@pytest.mark.parametrize(
    ("limits", "ticks"),
    [
        ((0.9, 120), ["1", "2", "5", "10", "20", "50", "100"]),
        ((0.00005, 20), ["0.0001", "0.001", "0.01", "0.1", "1", "10"]),
        ((2.5, 4.5), ["3", "4"]),
    ],
)
def test_ticks_of_a_logarithmic_axis_are_one_two_five_as_far_as_there_is_room(
    limits: tuple[float, float], ticks: list[str]
) -> None:
    x = Axis(scale="log", limits=limits)
    drawn = ElementTree.fromstring(still(panel(Series("line", [1, 2], [10, 20]), x=x)))
    found = [one.text or "" for one in drawn.iter("text") if one.get("text-anchor") == "middle"]
    assert sorted(found, key=float) == ticks


def test_numbers_have_separators_or_prefixes() -> None:
    line = Series("line", [1, 2], [10, 20])
    x, y = Axis(limits=(0, 2_000_000)), Axis(limits=(0, 250_000), tick_form="si")
    said = words(still(panel(line, x=x, y=y)))
    assert {"1,000,000", "2,000,000", "50k", "250k"} <= set(said)


def test_markup_in_names_is_shown_as_it_is() -> None:
    said = still(panel(Series("bar", ["<b>"], [1]), x=Axis(scale="category")))
    assert "&lt;b&gt;" in said and "<b>" not in said


def test_bars_and_areas_are_filled_with_their_pattern_on_their_colour() -> None:
    bar = Series("bar", ["a"], [40], colour="#8e6897", pattern="falling")
    area = Series("area", [0, 10], [30, 30], colour="@c1", pattern="dots", unit="µs")
    one, other = panel(bar, x=Axis(scale="category")), panel(area)
    for drawn, tile, paint in (
        (one, "tile-falling-8e6897", "#8e6897"),
        (other, "tile-dots-c1", "var(--c1)"),
    ):
        fills = {path.get("fill") for path in ElementTree.fromstring(still(drawn)).iter("path")}
        assert f"url(#{tile}) {paint}" in fills
    patterns = ElementTree.fromstring(tiles([one, other, one]) or "")
    assert [(own.get("id"), own[0].get("fill"), own[1].get("d")) for own in patterns] == [
        ("tile-falling-8e6897", "#8e6897", PATTERNS["falling"]),
        ("tile-dots-c1", "var(--c1)", PATTERNS["dots"]),
    ]
    assert tiles([panel(Series("bar", ["a"], [40]), x=Axis(scale="category"))]) is None
