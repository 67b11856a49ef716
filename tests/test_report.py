"""The report as a file: complete, escaped, self-contained, honest about what is missing.

tests/golden/headline.txt has the headline numbers of a made-up result; after an intended change
rewrite it with: DRIVEBAY_BLESS=1 pytest tests/test_report.py
"""

from __future__ import annotations

import base64
import errno
import gzip
import html
import html.parser
import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import made_result
import pyarrow as pa
import pytest

from drivebay import analysis, report, results
from drivebay.analysis import agreement, headline
from drivebay.analysis.comparable import how
from drivebay.analysis.compare import gone, moved
from drivebay.analysis.measure import measure
from drivebay.cli import review as cli_review
from drivebay.common.errors import EnvironmentProblem, UserError
from drivebay.definitions import suites
from drivebay.definitions.suites import spoken
from drivebay.report.base.markup import el, script_json
from drivebay.report.base.runs import Run, entries
from drivebay.report.charts import stages, time
from drivebay.report.pages import summary
from drivebay.report.pages.review import asset
from drivebay.report.peers import competitors

GOLDEN = Path(__file__).parent / "golden" / "headline.txt"
OWN_DATA_BYTES_MAX = 3_000_000
STILL_BYTES_MAX = 1_000_000


class Page(html.parser.HTMLParser):
    """What a browser would see of a page: its text outside scripts, its scripts, its addresses."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.text = ""
        self.scripts: list[str] = []
        self.addresses: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.packed: dict[str, int] = {}
        self._in = ""
        self.source = path.read_text(encoding="utf-8")
        self.feed(self.source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in = tag if tag in ("script", "style") else ""
        if tag == "script":
            self.scripts.append("")
            self.packed |= {v: len(self.scripts) - 1 for name, v in attrs if name == "id" and v}
        for name, value in attrs:
            if name in ("src", "href") and value:
                outside = tag == "a" and "://" in value  # followed by a reader, never by the page
                (self.links if outside else self.addresses).append(value)
            if name == "id" and value:
                self.ids.append(value)

    def handle_endtag(self, tag: str) -> None:
        self._in = ""

    def handle_data(self, data: str) -> None:
        if self._in == "script":
            self.scripts[-1] += data
        elif not self._in:
            self.text += data

    def unpacked(self, name: str) -> str:
        """A compressed part, as the page's script reads it."""
        return gzip.decompress(base64.b64decode(self.scripts[self.packed[name]])).decode()

    @property
    def data(self) -> dict[str, Any]:
        """The charts' data."""
        names = [name for name in self.packed if name.startswith("data-")]
        return {"charts": {name[5:]: json.loads(self.unpacked(name)) for name in names}}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_result.make(tmp_path_factory.mktemp("whole") / "result")


@pytest.fixture(scope="module")
def page(whole: Path) -> Page:
    return Page(report.write([whole]))


BRIEF = suites.load("anandtech-2015").selected(("consistency-default", "random-read"))


@pytest.fixture(scope="module")
def brief(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A result of two tests, where the page's other chapters do not matter."""
    return made_result.make(tmp_path_factory.mktemp("brief") / "result", suite=BRIEF)


def test_headline_numbers_are_the_golden_ones(whole: Path) -> None:
    lines = []
    for row in headline(results.load(whole)):
        numbers = [row.value, row.spread, row.error_percent]
        shown = ["-" if number is None else f"{number:.6g}" for number in numbers]
        ends = [row.published_text or "-", row.verdict or "-"]
        lines.append(" | ".join([row.test_id, row.key, *shown, row.unit, str(row.n), *ends]))
    text = "\n".join(
        ["test | figure | value | spread | error % | unit | n | published", *lines, ""]
    )
    if os.environ.get("DRIVEBAY_BLESS"):
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")


def test_the_report_lies_in_the_result_and_may_be_written_again(brief: Path) -> None:
    first = report.write([brief])
    assert first == brief / "report.html"
    before = first.read_bytes()
    assert report.write([brief]).read_bytes() == before
    assert results.load(brief).missing == ()


def test_every_kind_of_chart_is_in_the_bundle(page: Page) -> None:
    """plotly.js-basic draws bars, pies and scatters, and nothing else."""
    charts = page.data["charts"].values()
    assert {trace["type"] for chart in charts for trace in chart["traces"]} == {"bar", "scatter"}


def test_plotly_is_written_so_that_a_browser_reads_it_once(page: Page) -> None:
    """What begins with `(function` is compiled at once; an arrow function is skimmed before."""
    script = page.unpacked("plotly")
    assert '"use strict";var Plotly=(function(){' in script
    assert (
        "=> {\n" not in script.partition("var Plotly=")[0] and "module.exports" not in script[:999]
    )
    assert script.count("@license") > 0, "the licences stay"


def test_it_asks_for_nothing_from_outside(page: Page) -> None:
    assert all(address.startswith("#") for address in page.addresses)
    assert all(where.startswith("https://") for where in page.links)
    assert html.escape("default-src 'none'") in page.source
    assert "plotly.js (basic - minified) v" in page.unpacked("plotly")
    styles = re.sub(r"<script.*?</script>", "", page.source, flags=re.S)
    assert not re.search(r"@import|url\((?!#tile-|\"data:image/svg)", styles)


def test_every_chart_has_a_small_picture_of_its_first_view(page: Page) -> None:
    pictures = re.findall(r'(<svg class="still".*?</svg>)</div>', page.source)
    assert len(pictures) == len(page.data["charts"])
    for picture in pictures:
        drawn = ElementTree.fromstring(picture)
        data = " ".join(path.attrib["d"] for path in drawn.iter("path"))
        assert re.fullmatch(r"[MmLlHhz\d\s-]+", data) and "nan" not in picture
        assert len(list(drawn.iter("text"))) >= 3
    assert max(map(len, pictures)) < 40_000 and sum(map(len, pictures)) < STILL_BYTES_MAX


def test_curves_of_one_chart_differ_in_more_than_their_colour(page: Page) -> None:
    for name in ("random-read-latency", "random-write-latency"):
        traces = page.data["charts"][name]["traces"]
        looks = [(one["line"].get("dash"), one["marker"].get("symbol")) for one in traces]
        assert len(set(looks)) == len(looks) > 3


def test_each_pattern_of_a_still_is_on_the_page(page: Page) -> None:
    used = set(re.findall(r"url\(#([\w-]+)\)", page.source))
    assert len(used) > 6 and used <= set(page.ids)


def test_the_shipped_results_are_of_the_default_suite_as_it_is() -> None:
    ways = {test.id: how(test) for test in suites.load("anandtech-2015").tests}
    shipped = competitors.load()
    for test_id, way in ways.items():
        same = [
            one
            for one in shipped
            if test_id in one["tests"] and one["tests"][test_id]["how"] == way
        ]
        assert len(same) > 8, f"{test_id} has too few drives to be ranked among"


def test_every_link_has_its_target_and_every_id_is_unique(page: Page) -> None:
    assert len(set(page.ids)) == len(page.ids)
    assert {address[1:] for address in page.addresses} <= set(page.ids)


def test_its_own_data_are_small(page: Page) -> None:
    library = max(page.scripts, key=len)
    assert len(page.source.encode()) - len(library.encode()) < OWN_DATA_BYTES_MAX


def test_what_the_issue_of_a_review_needs_is_there(page: Page) -> None:
    for words in (
        "Samsung SM951 512 GB (AHCI)",
        "AnandTech 2015 Client SSD Suite",
        "seed 1",
        "Virtual drive: figures are simulated",
        "Specification",
        "guess",
        "Performance consistency",
        "Mean divided by standard deviation, last 400 s",
        "25 % over-provisioning",
        "about 7,500",
        "Thermal throttling",
        "Latency breakdown",
        "Source",
    ):
        assert words in page.text, words
    for test in suites.load("anandtech-2015").tests:
        assert test.title in page.text
        assert " ".join(test.method.split()) in page.text, "the method is one click away"


def test_every_chart_is_in_the_page_and_says_samples_and_axes(page: Page) -> None:
    charts = page.data["charts"]
    boxes = re.findall(r'data-chart="([^"]+)"', page.source)
    assert sorted(boxes) == sorted(charts)
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", page.source, flags=re.S)
    assert len(captions) == len(charts)
    for caption in captions:
        assert "n = " in caption, caption
        assert "zero" in caption, caption


def test_the_scatter_has_every_second_of_the_hour(page: Page) -> None:
    chart = page.data["charts"]["consistency-default-whole"]
    points = [trace["y"] for trace in chart["traces"] if trace["mode"] == "markers"]
    assert [len(y) for y in points] == [3600]
    window = page.data["charts"]["consistency-default-end"]["traces"]
    assert [len(trace["y"]) for trace in window] == [400]
    assert window[0]["x0"] == 3200


def test_switches_name_only_views_that_exist(page: Page) -> None:
    for chart_id, chart in page.data["charts"].items():
        fields = re.findall(
            r'<fieldset[^>]*data-chart-of="([^"]*)" data-position="(\d)">(.*?)</fieldset>',
            page.source,
            re.S,
        )
        positions: dict[int, list[str]] = {}
        for of, position, body in fields:
            if of == chart_id:
                positions[int(position)] = re.findall(r'value="([^"]+)"', body)
        if not positions:
            continue
        keys = [""]
        for position in sorted(positions):
            keys = [f"{key}|{value}".lstrip("|") for key in keys for value in positions[position]]
        assert set(keys) == set(chart["views"]), chart_id


def test_linear_axes_start_at_zero_unless_the_view_says_otherwise(page: Page) -> None:
    for chart in page.data["charts"].values():
        for name, view in chart["views"].items():
            limits = view["layout"].get("yaxis.range")
            if limits and "linear" in name.split("|"):
                assert limits[0] == 0


def test_markup_in_names_is_text(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>\u2028<img src=x onerror=alert(2)> %{x} </style>"
    target = {**made_result.REAL, "model": evil, "serial": evil, "name": evil}
    folder = made_result.make(
        tmp_path / "evil",
        target=target,
        only=("consistency-default", "consistency-25op", "random-read", "random-write"),
        failed={"random-write": f"fio said {evil}"},
    )
    other = made_result.make(tmp_path / "other", only=("random-read",))
    for folders in ([folder], [folder, other]):
        page = Page(report.write(folders, tmp_path / "out.html"))
        assert "<script>alert" not in page.source
        assert "<img" not in page.source
        assert page.text.count(evil) >= 2
        assert f"fio said {evil}" in page.text
        assert "\u2028" not in "".join(page.scripts[:2])
        names = [
            trace.get("name", "") for c in page.data["charts"].values() for trace in c["traces"]
        ]
        assert not any("<" in name or "%{x}" in name for name in names)


def test_script_json_cannot_end_its_element() -> None:
    encoded = script_json({"a": "</script><!--\u2028\u2029&"})
    assert not set("<>&\u2028\u2029") & set(encoded)
    assert json.loads(encoded) == {"a": "</script><!--\u2028\u2029&"}
    assert el("p", "<b>", title='"') == '<p title="&quot;">&lt;b&gt;</p>'


def test_a_partial_review_says_what_is_missing_and_why(tmp_path: Path) -> None:
    folder = made_result.make(
        tmp_path / "part",
        only=("consistency-default", "random-write"),
        failed={"random-write": "fio ended with exit code 1"},
    )
    page = Page(report.write([folder]))
    tests = len(suites.load("anandtech-2015").tests)
    assert f"1 of {tests} tests are complete." in page.text
    assert "Incomplete review" in page.text
    assert "4 KiB random write failed: fio ended with exit code 1" in page.text
    assert "Thermal throttling, 128 KiB sequential write has not been run yet" in page.text
    assert "drivebay review --resume part" in page.text


def test_a_review_without_any_finished_test_still_makes_a_page(tmp_path: Path) -> None:
    page = Page(report.write([made_result.make(tmp_path / "none", only=())]))
    assert "No test has figures yet." in page.text and page.data["charts"] == {}


def test_a_shortened_run_is_labelled_and_not_compared(tmp_path: Path) -> None:
    page = Page(report.write([made_result.make(tmp_path / "quick", quick=True)]))
    assert "Shortened run: not comparable" in page.text
    assert "shortened run, not compared" in page.text
    assert "about 7,500 IOPS" in page.text
    assert "published figures are met" not in page.text
    for chart_id, chart in page.data["charts"].items():
        assert chart["traces"], chart_id


def test_a_target_without_sensors_names_them(tmp_path: Path) -> None:
    folder = made_result.make(tmp_path / "real", suite=BRIEF, target=made_result.REAL)
    page = Page(report.write([folder]))
    assert "Real drive: figures are measured" in page.text
    assert "Temperature: not reported by this target." in page.text
    assert "Power: not reported by this target." in page.text
    assert "Latency breakdown" not in page.text
    assert "about 7,500" not in page.text, "another drive's published figures"


def test_drives_side_by_side_keep_their_labels(brief: Path, tmp_path: Path) -> None:
    real = made_result.make(tmp_path / "real", suite=BRIEF, target=made_result.REAL, speed=0.5)
    again = made_result.make(tmp_path / "again", suite=BRIEF, seed=2)
    page = Page(report.write([brief, real, again], tmp_path / "site"))
    assert (tmp_path / "site" / "report.html").exists()
    assert "Samsung SM951 512 GB (AHCI) (virtual), seed 1" in page.text
    assert "Samsung SM951 512 GB (AHCI) (virtual), seed 2" in page.text
    assert "ACME <b>Bold</b> SSD (real)" in page.text
    assert "figures are not comparable" not in page.text
    rate = page.data["charts"]["random-read-rate"]["traces"]
    assert len({trace["line"]["color"] for trace in rate if trace["x"]}) == 3


def test_runs_of_different_length_are_not_compared_in_silence(brief: Path, tmp_path: Path) -> None:
    quick = made_result.make(tmp_path / "quick", suite=BRIEF, quick=True)
    page = Page(report.write([brief, quick], tmp_path / "both.html"))
    assert "its figures are not comparable" in page.text


def test_runs_too_short_for_a_second_or_without_any_io_still_make_a_page(tmp_path: Path) -> None:
    for share in (0.0, 0.4, 1.0):
        folder = made_result.make(tmp_path / f"short-{share}", suite="quick", cut_s=share)
        page = Page(report.write([folder]))
        assert ("run too short for this figure" in page.text) == (share < 1)
        for row in headline(results.load(folder)):
            assert row.value is not None or row.note


def test_no_folder_or_too_many_is_wrong_usage(brief: Path) -> None:
    for folders in ([], [brief] * 25):
        with pytest.raises(UserError) as problem:
            report.write(folders)
        assert problem.value.hint


def test_a_place_that_cannot_be_written_is_named(brief: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentProblem) as problem:
        report.write([brief], tmp_path / "file" / "report.html")
    assert "file" in problem.value.message and "--out" in problem.value.hint


def test_a_full_disk_at_a_reviews_end_says_how_to_go_on(
    brief: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("drivebay.results.files.replace", full)
    with pytest.raises(EnvironmentProblem, match=r"cannot be written: No space left") as error:
        report.write([brief])
    assert error.value.hint == f"free some space, then: drivebay report {brief}"
    with pytest.raises(EnvironmentProblem) as error:
        report.write([brief], tmp_path / "page.html")
    assert error.value.hint.endswith(f"drivebay report {brief} --out {tmp_path / 'page.html'}")


def test_a_real_drive_of_the_same_model_is_compared(tmp_path: Path) -> None:
    target = {**made_result.REAL, "model": "SAMSUNG MZHPV512HDGL-000L1"}
    folder = made_result.make(tmp_path / "real", target=target, only=("random-read",))
    rows = {row.key: row for row in headline(results.load(folder))}
    assert rows["mean_rate"].published == 108


def test_a_changed_virtual_drive_is_labelled_and_not_compared(tmp_path: Path) -> None:
    profile = made_result.VIRTUAL["profile"]
    sink = {"nand": {"read_ns": {"value": 1, "source": "a variant"}}}
    what_if = {"dies": {"value": 8, "source": "what-if, given by the user"}}
    changed: dict[str, tuple[dict[str, Any], str]] = {
        "what-if": ({"profile": {**profile, "nand": what_if}}, "Changed: nand.dies = 8"),
        "variant": ({"profile": {**profile, **sink, "variants": {"sink": sink}}}, "Changed: sink"),
    }
    for name, (change, label) in changed.items():
        target = {**made_result.VIRTUAL, **change}
        folder = made_result.make(tmp_path / name, target=target, only=("random-read",))
        assert all(row.published is None for row in headline(results.load(folder)))
        assert label in Page(report.write([folder])).text
    target = {**made_result.VIRTUAL, "drive": "./mine.toml"}
    folder = made_result.make(tmp_path / "own", target=target, only=("random-read",))
    assert any(row.published for row in headline(results.load(folder))), "a profile being fitted"
    assert "Profile: ./mine.toml" in Page(report.write([folder])).text
    unused = {**profile, "variants": {"sink": sink}}
    target = {**made_result.VIRTUAL, "profile": unused}
    folder = made_result.make(tmp_path / "unused", target=target, only=("random-read",))
    assert any(row.published for row in headline(results.load(folder)))


def test_the_verdict_is_written_from_the_numbers(page: Page) -> None:
    for words in (
        "drivebay validate sm951-ahci-512: 71 of 97 published figures within their bounds, "
        "14 of 22 that were predicted.",
        "Random writes start at 100,141\u00a0IOPS. The rate falls after 12\u00a0s; over the last "
        "400\u00a0s it is 7,779\u00a0IOPS, 7.8\u00a0% of the start. ",
        "for 113\u00a0s. Then the drive overheats, and they fall to 75\u00a0MB/s.",
    ):
        assert words in page.text, words


def test_every_rule_of_a_style_sheet_is_closed() -> None:
    for name in ("page.css", "bench.css"):  # what follows an open one is nothing
        text = asset(name)
        assert text.count("{") == text.count("}"), name


def test_details_are_closed_and_hold_every_test(page: Page) -> None:
    above, _, details = page.source.partition('<details id="details">')
    assert details and above.count("<figure") <= 8
    for test in suites.load("anandtech-2015").tests:
        assert f'id="{test.id}"' in details


def test_two_reviews_say_how_far_apart_they_are(brief: Path, tmp_path: Path) -> None:
    half = made_result.make(tmp_path / "half", suite=BRIEF, speed=0.5)
    both = Page(report.write([brief, half], tmp_path / "both.html"))
    assert "Largest differences, from" in both.text and "Difference" in both.text
    assert "(\N{MINUS SIGN}50." in both.text
    one, other = (analysis.review(results.load(folder)) for folder in (brief, half))
    found = moved(one, other)
    assert found["random-read", "mean_rate"].percent == pytest.approx(-50, abs=0.1)
    assert all(row.before.key == row.after.key for row in found.values())
    assert moved(one, analysis.review(results.load(brief))).values()
    charts = both.data["charts"]
    ends = {
        chart_id: chart["views"]["time"]["layout"]["yaxis.range"]
        for chart_id, chart in charts.items()
        if chart_id.startswith("random-read-stages-time")
    }
    assert len(ends) == 2 and len({tuple(end) for end in ends.values()}) == 1, "one scale"


def test_stages_over_the_run_end_with_the_last_interval(whole: Path) -> None:
    made = analysis.review(results.load(whole))
    measured = made.tests["random-read"]
    panel = stages.stages("t", [Run(entries([made])[0], measured, "", "@c1")])[-1]
    areas = [one for one in panel.chart.series if one.kind == "area" and one.unit == "µs"]
    seconds = sum(phase.timeline.n for phase in measured.phases)
    assert areas and {one.x[-1] for one in areas} == {seconds}
    assert all(
        list(one.x).index(seconds) == len(one.x) - 1 and one.y[-1] == one.y[-2] for one in areas
    )


def bar_tables(page: Page) -> list[tuple[str, list[str]]]:
    """Title and names of the rows of every table of bars, in their order."""
    tables = re.findall(r'<table class="bars" data-title="(.*?)".*?>(.*?)</table>', page.source)
    names = [re.findall(r'<th scope="row">(.*?)</th>', rows) for _, rows in tables]
    return list(zip((title for title, _ in tables), names, strict=True))


def test_loads_of_a_test_share_a_scale_and_the_summary_has_the_first_of_each_page(
    tmp_path: Path,
) -> None:
    first = ("latency-by-load", "readers-beside-writers", "quality-of-service", "waf-by-skew")
    suite = suites.load("datacenter").selected((*first, "low-queue-depths", "waf-by-fill"))
    page = Page(report.write([made_result.make(tmp_path / "made", suite=suite)]))
    tables, tests = bar_tables(page), suite.tests
    loads = {test.title: [spoken(phase.label) for phase in test.phases] for test in tests}
    load, beside, service, skew = (
        "Latency by load",
        "Reads during writes at a fixed rate",
        "Quality of service in steady state",
        "Write amplification by skew",
    )
    readers = [name for name in loads[beside] if name.startswith("reader")]
    assert tables[:4] == [
        (f"{load}: Latency p99.9", loads[load]),
        (f"{beside}: Latency p99.9", readers),
        (f"{service}: Latency p99.9", loads[service]),
        (f"{skew}: Write amplification", loads[skew]),
    ]
    own = [names for title, names in tables[4:] if title == "Latency p99.9"]
    assert loads[load] in own and loads[beside] in own
    for what in ("rate", "latency"):
        (trace,) = page.data["charts"][f"quality-of-service-{what}"]["traces"]
        assert trace["type"] == "bar"
    lines = page.data["charts"]["latency-by-load-load"]["traces"]
    assert [one["type"] for one in lines] == ["scatter"] * 3, "latency over IOPS: mean, p99, p99.9"


def test_the_summary_of_the_client_suite_names_what_it_measures(tmp_path: Path) -> None:
    page = Page(report.write([made_result.make(tmp_path / "made", suite="client-2024")]))
    titles = [title for title, _ in bar_tables(page)[:6]]
    assert titles[0] == "Sequential write of the whole drive: Data rate in the SLC cache"
    assert "Random writes, steady state: Mean, last 600 s" in titles
    assert any(title.startswith("Idle power and first read: ") for title in titles)


def test_temperature_and_power_have_room_above_them(page: Page) -> None:
    charts = {name: one for name, one in page.data["charts"].items() if "yaxis3" in one["layout"]}
    assert {"consistency-default-whole", "thermal-write-time"} <= set(charts)
    for name, chart in charts.items():
        for number in (2, 3):
            own = [one["y"] for one in chart["traces"] if one.get("yaxis") == f"y{number}"]
            high = max(value for one in own for value in one if value is not None)
            assert chart["layout"][f"yaxis{number}"]["range"][1] >= 1.05 * high, name


def test_whatever_else_a_target_tells_of_each_second_is_drawn(tmp_path: Path) -> None:
    folder = made_result.make(tmp_path / "more", only=("thermal-write",))
    made = results.load(folder)
    step = made.step("thermal-write")
    data = step.phases()
    column = pa.array(range(data[0].series.num_rows), pa.int64())
    more = replace(data[0], series=data[0].series.append_column("warning_count", column))
    measured = measure(step.test, [more])
    assert measured.whole.more["warning_count"][-1] == data[0].series.num_rows - 1
    run = Run(entries([analysis.review(made)])[0], measured, "", "@c1")
    chart = time.over_time("t", [run]).chart
    drawn = [one.unit for one in chart.series if one.kind != "words"]
    assert drawn == ["MB/s", "°C", "W", "warning count"]


def test_what_only_one_of_two_reviews_has_is_said(tmp_path: Path) -> None:
    whole = made_result.make(tmp_path / "whole", only=("thermal-write",))
    step = results.load(whole).step("thermal-write")
    cut = [replace(phase, duration_s=100.0) for phase in step.phases()]
    one = analysis.review(results.load(whole))
    cool = replace(one, tests={"thermal-write": measure(step.test, cut)})
    ((title, before, after),) = gone(one, cool)
    assert title == step.title and before.value == 113 and after.value is None
    assert "no sustained drop" in after.note
    assert gone(one, one) == []
    line = summary.difference(*entries([one, cool]))[0]
    assert line == (
        "Thermal throttling, 128 KiB sequential write, time until the rate drops: 113\u00a0s; then "
        "no sustained drop below half of the initial rate."
    )


def test_a_review_prints_twenty_figures_and_how_many_published_ones_it_meets(whole: Path) -> None:
    figures = headline(results.load(whole))
    shown = cli_review._most_important(figures, cli_review.ROWS_MAX)
    assert len(shown) == cli_review.ROWS_MAX < len(figures)
    assert {one.test_id for one in shown} == {one.test_id for one in figures}
    assert shown == [one for one in figures if one in shown], "in the suite's order"
    words = agreement("sm951-ahci-512")
    assert re.fullmatch(
        r"drivebay validate sm951-ahci-512: \d+ of \d+ published figures within their bounds.*"
        r"Largest errors: .+ [+-].+ %",
        words,
    )
    assert agreement(None) == agreement("no such drive") == ""
