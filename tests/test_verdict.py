"""The verdict names what a figure alone hides: throttling that ends, a drop and its cause, tests
that the model misses; and pictures, CSV and terminal repeat what the page shows."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import made_result
import numpy as np
import pytest

from drivebay import analysis, report, results
from drivebay.analysis.figures import Figure
from drivebay.analysis.headline import Headline
from drivebay.analysis.measure import measure
from drivebay.analysis.thermal import thermal
from drivebay.analysis.timeline import Timeline
from drivebay.cli.compare import _notes
from drivebay.common import documents
from drivebay.common.errors import UserError
from drivebay.definitions import profiles
from drivebay.definitions.template import template
from drivebay.report.base.markup import Bar, Published
from drivebay.report.base.runs import entries
from drivebay.report.charts.bars import bar_panel
from drivebay.report.pages import verdict
from drivebay.report.pages.review import all_panels
from drivebay.report.render.files import csv_of
from drivebay.report.render.svg import picture


def sequential(rate: list[float], stage: list[float]) -> str:
    """The verdict on a run with these data rates and throttle stages, one for each second."""
    unknown = np.full(len(rate), np.nan)
    rates, stages = np.asarray(rate, dtype=float), np.asarray(stage, dtype=float)
    line = Timeline(rates, rates, unknown, unknown, unknown, unknown, stages, float(len(rate)))
    found = thermal(line)
    assert found is not None
    return verdict._sequential(found).replace("\u00a0", " ")


@pytest.mark.parametrize(
    ("rate", "stage", "text"),
    [
        (
            [2000] * 293 + [1200] * 62 + [2000] * 100,
            [0] * 293 + [1] * 62 + [0] * 100,
            "2,000 MB/s, thermal throttling to 1,200 MB/s after 293 s (for 62 of 455 s).",
        ),
        (
            [2000, 1200] * 30,
            [0, 1] * 30,
            "2,000 MB/s, thermal throttling to 1,200 MB/s after 1 s (for 30 of 60 s, at most 1 s "
            "at a time).",
        ),
        (
            [1550] * 120 + [75] * 60,
            [0] * 31 + [1] * 149,
            "1,550 MB/s for 120 s, then 75 MB/s (thermal throttling). The drive reports throttling "
            "from 31 s on.",
        ),
        ([1550] * 60, [0] * 20 + [1] * 40, "1,550 MB/s on average over 60 s, no sustained drop."),
        ([1550] * 60, [np.nan] * 60, "1,550 MB/s on average over 60 s, no sustained drop."),
    ],
)
def test_throttling_is_reported_where_it_reduces_the_rate(
    rate: list[float], stage: list[float], text: str
) -> None:
    assert sequential(rate, stage) == f"Sequential write: {text}"


def test_the_highest_data_rate_is_the_highest_of_all_figures(tmp_path: Path) -> None:
    review = made_result.reviewed(tmp_path / "r", "quick")
    figures = [one for test in review.tests.values() for one in test.figures.values()]
    highest = max(one.value or 0 for one in figures if one.unit == "MB/s")
    line = verdict.sentences(entries([review])[0], ())[-1]
    assert line.startswith("Data rates range from ") and f"to {highest:,.0f}\u00a0MB/s (" in line


def test_random_writes_without_a_burst_have_the_mean_of_the_whole_run(tmp_path: Path) -> None:
    review = made_result.reviewed(tmp_path / "r", "quick")
    measured = review.tests["consistency-short"]
    assert measured.consistency is not None and measured.steps[0].ios is not None
    steady = replace(measured.consistency, burst=None, burst_s=None)
    course = verdict._course(measured, steady)
    whole = measured.steps[0].ios
    assert course.startswith(f"{whole.mean:,.0f}\u00a0IOPS on average over {whole.n} s (standard ")


def test_a_key_test_that_the_model_misses_is_named_as_not_ranked(tmp_path: Path) -> None:
    (entry,) = entries([made_result.reviewed(tmp_path / "r", "anandtech-2015")])
    line = verdict._unranked(entry, [{}])
    assert line.startswith("Not ranked, because the model is known to be wrong: mixed 4 KiB random")
    assert verdict._unranked(entry, []) == ""


@pytest.mark.parametrize("base", ["980-pro-1tb", "sm951-nvme-512"])
def test_a_new_profile_does_not_take_the_identity_of_its_base(base: str) -> None:
    known = profiles.load(base)
    new = profiles.from_document(documents.toml(template("mine", known)), where="mine.toml")
    facts = new.raw["drive"]
    assert facts["model"]["value"] == "mine" and "released" not in facts
    assert {facts[key]["value"] for key in ("controller", "flash", "form_factor")} == {"unknown"}


def rows_of(chart: Any) -> list[dict[str, str]]:
    return list(csv.DictReader(csv_of(chart).splitlines()))


def test_picture_and_csv_of_bars_have_interval_and_published_figure() -> None:
    published = Published(108.0, "108", "AnandTech 8979")
    rows = [
        Bar("mine", 107.4, "@c1", ends=(84.9, 136.1), published=published),
        Bar("other", 90.0, "@other", spread=2.0, other=True),
    ]
    panel = bar_panel("b", "4 KiB random read", "MB/s", rows, better="higher", who="mine alone")
    own, other, mark = rows_of(panel.chart)
    assert (own["low"], own["high"], own["spread"]) == ("84.9", "136.1", "")
    assert (other["low"], other["high"], other["spread"]) == ("88", "92", "2")
    assert (mark["series"], mark["value"]) == ("published", "108")
    svg = picture(panel, "both drives")
    assert "mine alone" in svg and "both drives" not in svg and "Diamond" in svg
    ink, gold = ('stroke="#1d2126"', 'fill="#8a5f00"')
    assert ink in svg and gold in svg, "a whisker and a diamond"
    ElementTree.fromstring(svg)


def test_a_curve_has_its_band_in_the_csv(tmp_path: Path) -> None:
    folder = made_result.make(tmp_path / "r", only=("random-read",))
    review = analysis.review(results.load(folder))
    panels = all_panels(entries([review]))
    chart = next(one.chart for one in panels if one.chart.id == "random-read-rate")
    figure = review.tests["random-read"].figures["rate_qd1"]
    first = rows_of(chart)[0]
    assert figure.interval is not None
    assert [float(first[key]) for key in ("low", "high")] == pytest.approx(
        figure.interval, rel=1e-4
    )


def test_pictures_of_no_review_are_a_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="needs result folders") as mistake:
        report.write_pictures([], tmp_path / "pictures")
    assert "--png" in mistake.value.hint


def test_a_missing_value_is_printed_with_its_reason(tmp_path: Path) -> None:
    folder = made_result.make(tmp_path / "r", only=("thermal-write",))
    step = results.load(folder).step("thermal-write")
    cut = [replace(phase, duration_s=100.0) for phase in step.phases()]
    figure = measure(step.test, cut).figures["throttle_after_s"]
    assert (figure.value, figure.missing) == (None, "never")
    assert Figure("x", "X", None, "s").missing == "\N{EN DASH}"
    row = Headline(**vars(figure), test_id="thermal-write")
    assert _notes([{0: row, 1: row}], ["a", "b"]) == [
        f"thermal-write, {name}: no sustained drop below half of the initial rate" for name in "ab"
    ]
