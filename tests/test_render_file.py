"""Charts as files: every panel of every suite can be drawn, and a failure leaves nothing behind."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import made_result
import pytest
from matplotlib.figure import Figure

from drivebay import report
from drivebay.definitions import suites
from drivebay.report import render_file
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
