"""Charts as files: every panel of every suite can be drawn, and a failure leaves nothing behind."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import made_result
import pytest
from matplotlib.figure import Figure

from drivebay import analysis, report, results
from drivebay.analysis import fidelity
from drivebay.definitions import suites
from drivebay.report import render_file
from drivebay.report.render_page import plotly
from drivebay.report.runs import entries
from drivebay.report.sections import all_panels


@pytest.mark.parametrize("suite", suites.names())
def test_every_panel_of_a_suite_is_drawn_and_has_its_data(suite: str, tmp_path: Path) -> None:
    review = made_result.reviewed(tmp_path / "result", suite)
    panels = all_panels(entries([review]))
    assert len(panels) >= len(review.tests)
    drawn = set()
    for panel in panels:
        rows = list(csv.reader(render_file.csv_of(panel.chart).splitlines()))
        assert len(rows) > 1 and len({len(row) for row in rows}) == 1, panel.chart.id
        chart = panel.chart
        alike = (panel.title, chart.x.scale, chart.horizontal, len(chart.y), len(chart.series))
        if alike in drawn:
            continue
        drawn.add(alike)
        for _, view in render_file.views(panel):
            figure = render_file.draw(panel, view, "a drive")
            assert any(axes.has_data() for axes in figure.axes), panel.chart.id


def test_a_chart_that_fails_leaves_the_folder_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = made_result.make(tmp_path / "r", suite="quick", only=("random-read",), quick=True)
    out = tmp_path / "pictures"
    drawn = []

    def fails_at_the_second(*args: Any) -> Figure:
        drawn.append(args)
        if len(drawn) > 1:
            raise ValueError("cannot be drawn")
        return draw(*args)

    draw = render_file.draw
    monkeypatch.setattr(render_file, "draw", fails_at_the_second)
    with pytest.raises(ValueError, match="cannot be drawn"):
        report.write_pictures([folder], out)
    assert [path.name for path in tmp_path.iterdir()] == ["r"]


def test_a_curve_of_a_virtual_drive_has_a_band_as_wide_as_its_intervals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {"figures": {"sm951-ahci-512": {"random-read": {"rate_qd1": [0.1, "MB/s"]}}}}
    monkeypatch.setattr(fidelity, "kept", lambda: known)
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
        rows = list(csv.reader(render_file.csv_of(chart).splitlines()))
        assert len(rows) == 1 + len(line.x)
