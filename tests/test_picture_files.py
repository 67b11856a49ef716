"""Charts as files: every panel of every suite can be drawn, and a failure leaves nothing behind."""

from __future__ import annotations

import csv
import io
import struct
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import made_result
import pytest

from drivebay import analysis, report, results
from drivebay.analysis import fidelity
from drivebay.definitions import suites
from drivebay.report.base.runs import entries
from drivebay.report.base.theme import PATTERNS
from drivebay.report.charts.model import Axis, Chart, Series
from drivebay.report.pages.review import all_panels
from drivebay.report.render import files as picture_files
from drivebay.report.render.page import plotly
from drivebay.report.render.svg import picture

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("suite", suites.names())
def test_every_panel_of_a_suite_is_drawn_and_has_its_data(suite: str, tmp_path: Path) -> None:
    review = made_result.reviewed(tmp_path / "result", suite)
    panels = all_panels(entries([review]))
    assert len(panels) >= len(review.tests)
    drawn = set()
    for panel in panels:
        rows = list(csv.reader(picture_files.csv_of(panel.chart).splitlines()))
        assert len(rows) > 1 and len({len(row) for row in rows}) == 1, panel.chart.id
        chart = panel.chart
        alike = (panel.title, chart.x.scale, chart.horizontal, len(chart.y), len(chart.series))
        if alike in drawn:
            continue
        drawn.add(alike)
        drawn_as = ElementTree.fromstring(picture(panel, "a drive"))
        words = " ".join(one.text or "" for one in drawn_as.iter(f"{SVG}text"))
        assert "a drive" in words and "var(" not in words, panel.chart.id
        assert any(one.get("d") for one in drawn_as.iter(f"{SVG}path")), panel.chart.id


def test_a_chart_that_fails_leaves_the_folder_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = made_result.make(tmp_path / "r", suite="quick", only=("random-read",), quick=True)
    out = tmp_path / "pictures"
    drawn = []

    def fails_at_the_second(*args: Any) -> str:
        drawn.append(args)
        if len(drawn) > 1:
            raise ValueError("cannot be drawn")
        return picture(*args)

    monkeypatch.setattr(picture_files, "picture", fails_at_the_second)
    with pytest.raises(ValueError, match="cannot be drawn"):
        report.write_pictures([folder], out)
    assert [path.name for path in tmp_path.iterdir()] == ["r"]


def test_a_curve_of_a_virtual_drive_has_a_band_as_wide_as_its_intervals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fidelity, "around", lambda value, kind: (value / 1.179, value * 1.179))
    folder = made_result.make(tmp_path / "r", suite="quick", only=("random-read",), quick=True)
    for intervals in (True, False):
        panels = all_panels(entries([analysis.review(results.load(folder), intervals=intervals)]))
        chart = next(one.chart for one in panels if one.chart.id.endswith("random-read-rate"))
        bands = [one for one in chart.series if one.kind == "band"]
        assert len(bands) == intervals
        if not bands:
            continue
        (line,) = (one for one in chart.series if one.kind == "line")
        (band,) = bands
        assert band.x == [*line.x, *reversed(line.x)]
        assert band.y[0] == pytest.approx(line.y[0] * 1.179, rel=1e-3)
        assert band.y[-1] == pytest.approx(line.y[0] / 1.179, rel=1e-3)
        assert chart.y[0].limits and chart.y[0].limits[1] > max(band.y)
        assert sum(trace.get("fill") == "toself" for trace in plotly(chart)["traces"]) == 1
        rows = list(csv.reader(picture_files.csv_of(chart).splitlines()))
        assert len(rows) == 1 + len(line.x)


def test_no_text_of_a_chart_is_a_formula_in_its_csv() -> None:
    names = ("=HYPERLINK(1)", "+1", "-1", "@SUM(1)", "\tx", "\r=1", "a=1")
    series = tuple(
        Series("bar", ["=cmd|' /C calc'!A0", "plain"], [-1.0, 2.0], name=name, unit="@x")
        for name in names
    )
    chart = Chart("x", 100, series, Axis("", scale="category"), (Axis("y"),), horizontal=True)
    _, *rows = csv.reader(io.StringIO(picture_files.csv_of(chart), newline=""))
    assert len(rows) == 2 * len(names)
    for title, unit, place, value, *_ in rows:
        assert not {title[0], unit[0], place[0]} & set("=+-@\t\r")
        assert value in ("-1", "-1.0", "2", "2.0")


def test_points_and_bars_of_two_drives_differ_in_more_than_their_colour(tmp_path: Path) -> None:
    suite = suites.load("anandtech-2015").selected(("consistency-default", "as-ssd"))
    folders = [made_result.make(tmp_path / str(seed), suite=suite, seed=seed) for seed in (1, 2)]
    both = entries([analysis.review(results.load(folder)) for folder in folders])
    panels = {one.chart.id: one for one in all_panels(both)}
    for name, kind, look in (
        ("consistency-default-whole", "scatter", "symbol"),
        ("as-ssd-rate", "bar", "pattern"),
    ):
        drawn = [one for one in panels[name].chart.series if one.kind == kind]
        looks = {one.name: getattr(one, look) for one in drawn}
        assert len(set(looks.values())) == 2
        assert all(looks[key.name] in key.shape.split() for key in panels[name].key)


def test_each_stage_is_drawn_in_its_pattern_in_the_picture_and_by_plotly(tmp_path: Path) -> None:
    folder = made_result.make(tmp_path / "r", suite="quick", only=("random-write",), quick=True)
    panels = [
        one
        for one in all_panels(entries([analysis.review(results.load(folder))]))
        if one.title.startswith("Latency breakdown")
    ]
    assert len(panels) == 2
    for panel in panels:
        names = [one.name for one in panel.key]
        assert len(names) > 8
        described = {one.title: one.pattern for one in panel.chart.series}
        assert [f"tile {described[name]}" for name in names] == [one.shape for one in panel.key]
        for trace in plotly(panel.chart)["traces"]:
            drawn = trace["marker"] if trace["type"] == "bar" else trace
            pattern = drawn.get("pattern") or drawn.get("fillpattern") or {"path": ""}
            assert pattern["path"] == PATTERNS[described[trace["name"]]]
        drawn_as = picture(panel, "a drive")
        for name, pattern in described.items():
            assert name in drawn_as and (pattern == "plain" or f"tile-{pattern}-" in drawn_as)


@pytest.mark.parametrize(
    "name", ["SSD", "An SSD whose maker gave it a name that is very long " * 4]
)
def test_nothing_of_a_picture_is_clipped(name: str, tmp_path: Path) -> None:
    review = made_result.reviewed(tmp_path / "result", "quick")
    for panel in all_panels(entries([review])):
        root = ElementTree.fromstring(picture(panel, name))
        wide, high = map(float, root.attrib["viewBox"].split()[2:])
        for one in root.findall(f"{SVG}text"):  # title, legend and caption
            size = float(one.get("font-size", 2 * 11))
            assert float(one.attrib["x"]) + 0.62 * size * len(one.text or "") <= wide
            assert float(one.attrib["y"]) <= high
        (chart,) = root.findall(f"{SVG}svg")
        assert float(chart.attrib["y"]) + float(chart.attrib["height"]) <= high


def test_the_png_is_the_svg(tmp_path: Path) -> None:
    folder = made_result.make(tmp_path / "r", suite="quick", only=("random-read",), quick=True)
    for path in report.write_pictures([folder], tmp_path / "out"):
        if path.suffix == ".png":
            data = path.read_bytes()
            root = ElementTree.fromstring(path.with_suffix(".svg").read_text())
            width, height = struct.unpack(">II", data[16:24])
            assert (width, height) == (
                2 * int(root.attrib["width"]),
                2 * int(root.attrib["height"]),
            )
            assert len(set(data)) > 200, "something is drawn"
