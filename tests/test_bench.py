"""The Bench as files: what is written, what is compared with what, and what is refused."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

import made_result
import pytest

from drivebay import report, results
from drivebay.common.errors import UserError
from drivebay.definitions import suites
from drivebay.definitions.suites import Suite
from drivebay.report.render import files

ONLY = ("consistency-default", "random-read", "thermal-write")


def called(path: Path) -> Any:
    """What a data script hands to the page."""
    found = re.fullmatch(r"DrivebayBench\.(?:index|part)\((.*)\);\n", path.read_text("ascii"), re.S)
    assert found, path
    content = json.loads(found[1])
    if isinstance(content, list):
        content[2] = json.loads(gzip.decompress(base64.b64decode(content[2])))
    return content


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    base = tmp_path_factory.mktemp("reviews")
    return [
        made_result.make(base / "first", only=ONLY),
        made_result.make(base / "second", only=ONLY, seed=2, speed=0.5),
        made_result.make(base / "real", only=ONLY, target=made_result.REAL),
        made_result.make(base / "quick", only=("random-read",), quick=True),
    ]


@pytest.fixture(scope="module")
def site(folders: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    told: list[int] = []
    page = report.write_bench(folders, tmp_path_factory.mktemp("site") / "s", progress=told.append)
    assert told == [1, 2, 3, 4]
    return page.parent


def test_every_review_has_its_report_and_every_test_its_series(site: Path) -> None:
    index = called(site / "data" / "index.js")
    assert [one["key"] for one in index["reviews"]] == ["first", "second", "real", "quick"]
    for one in index["reviews"]:
        page = (site / "reviews" / f"{one['key']}.html").read_text()
        assert '<script data-library="../assets/plotly.min.js">' in page and len(page) < 3_000_000
        for test in one["tests"]:
            review, way, data = called(site / "data" / one["key"] / f"{test}.js")
            assert (review, way) == (one["key"], test)
            assert data["panels"] and all(panel["samples"] for panel in data["panels"])
    assert (site / "assets" / "plotly.min.js").stat().st_size > 1_000_000


def test_a_test_that_was_run_in_two_ways_is_two_tests(site: Path) -> None:
    index = called(site / "data" / "index.js")
    titles = {test["key"]: test["title"] for test in index["tests"]}
    assert titles["random-read"] == "4 KiB random read (AnandTech 2015 Client SSD Suite)"
    assert titles["random-read.2"].endswith("(AnandTech 2015 Client SSD Suite, shortened)")
    by_key = {one["key"]: one for one in index["reviews"]}
    assert by_key["quick"]["tests"] == ["random-read.2"]
    assert (
        "random-read" in by_key["first"]["values"] and "shortened run" in by_key["quick"]["labels"]
    )
    near = by_key["quick"]["values"]["random-read"]["mean_rate"]
    assert near[3].startswith("\u2248 ") and near[4] == "nearest load: 4 KiB random read"
    assert index["five"][0] == ["consistency-default", "mean_iops"], "a column that most have"


def test_figures_are_analysis_own_with_what_was_published(site: Path) -> None:
    index = called(site / "data" / "index.js")
    first, second, real, _ = (one["values"] for one in index["reviews"])
    value, spread, ends, words, detail, published, said, relation, source, address = first[
        "random-read"
    ]["mean_rate"]
    assert (round(value, 3), words) == (101.738, "101.7")
    assert (published, said, relation) == (108, "108 MB/s", "eq")
    assert (source, address) == ("AnandTech 8979", "https://www.anandtech.com/show/8979")
    assert ends[0] < value < ends[1]
    assert spread > 0 and "n\u00a0=\u00a0540" in detail
    assert second["random-read"]["mean_rate"][0] == pytest.approx(value / 2, rel=0.01)
    assert len(real["random-read"]["mean_rate"]) == 5, "another drive's published figures"


def test_what_sets_two_drives_apart_is_said(site: Path) -> None:
    _, _, data = called(site / "data" / "first" / "random-read.js")
    assert set(data["against"]) == {"second"}, "a real drive cannot be seen into"
    assert "of the difference" in data["against"]["second"][0]
    assert data["sentences"]


@pytest.mark.parametrize(
    ("kind", "bars"),
    [
        ("tea-leaves", {"rate_qd32", "rate"}),
        ("trace", {"rate", "latency_mean", "over_10_ms", "over_100_ms"}),
    ],
)
def test_other_kinds_have_sound_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, bars: set[str]
) -> None:
    suite = suites.load("anandtech-2015").selected(("random-read", "thermal-write"))
    change = {"kind": kind, "page": "leaves"}
    strange = [test.model_copy(update=change) for test in suite.tests]
    shown = Suite.model_construct(**{**dict(suite), "tests": tuple(strange)})
    folder = made_result.make(tmp_path / "strange", suite=suite)
    made = results.load(folder)
    steps = tuple(
        type(step)(**{**step.__dict__, "test": test})
        for step, test in zip(made.steps, strange, strict=True)
    )
    other = type(made)(**{**made.__dict__, "suite": shown, "steps": steps})
    for name in ("load", "load_finished"):
        monkeypatch.setattr(results, name, lambda _: other)
    page = report.write([folder]).read_text()
    for words in ("Leaves", "Data rate by load", "Mean latency by load", "Latency breakdown"):
        assert words in page, words
    bench = report.write_bench([folder], tmp_path / "bench").parent
    keys = [bar["key"] for test in called(bench / "data/index.js")["tests"] for bar in test["bars"]]
    assert bars <= set(keys)


def test_names_are_safe_in_paths_addresses_and_scripts(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script>\u2028"
    target = {**made_result.REAL, "model": evil}
    folders = [
        made_result.make(tmp_path / one / "Ärger & <b>", target=target, only=("random-read",))
        for one in ("a", "b")
    ]
    site = report.write_bench(folders, tmp_path / "site").parent
    index = called(site / "data" / "index.js")
    assert [one["key"] for one in index["reviews"]] == ["rger-b", "rger-b-2"]
    for path in [*site.glob("data/**/*.js"), *site.glob("**/*.html")]:
        assert "<script>alert" not in path.read_text(), path
    assert index["reviews"][0]["drive"] == evil.strip()


def test_the_bench_is_written_again_without_what_is_gone(
    folders: list[Path], tmp_path: Path
) -> None:
    out = tmp_path / "site"
    report.write_bench(folders[:2], out)
    (out / "data" / "index.js").unlink()  # as if it had been stopped in the middle
    report.write_bench(folders[1:2], out)
    assert [path.name for path in (out / "reviews").iterdir()] == ["second.html"]
    assert [path.name for path in (out / "data").iterdir() if path.is_dir()] == ["second"]


def test_a_folder_of_others_is_not_written_over(folders: list[Path], tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    for out in (tmp_path, tmp_path / "thesis.tex"):
        with pytest.raises(UserError) as problem:
            report.write_bench(folders, out)
        assert "--out" in problem.value.hint
    with pytest.raises(UserError):
        report.write_bench([], tmp_path / "new")


def test_every_chart_has_pictures_and_data(
    folders: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "ZOOM", 1)  # a quarter of the pixels: packing them takes longest
    paths = report.write_pictures(folders[:1], tmp_path)
    names = {path.name for path in paths}
    assert {
        "consistency-default-whole.png",
        "consistency-default-end.svg",
        "random-read-rate.png",
        "random-read-latency.svg",
        "random-read-tail.png",
        "random-read-stages-time.png",
        "random-read-power.svg",
        "thermal-write-time.png",
    } <= names
    for path in paths:
        content = path.read_bytes()
        assert content.startswith(b"\x89PNG" if path.suffix == ".png" else b"<svg xmlns="), path
    assert "simulated" in (tmp_path / "random-read-rate.svg").read_text()
    rows = (tmp_path / "random-read-rate.csv").read_text().splitlines()
    assert rows[0] == "series,unit,queue depth,value,spread,low,high" and len(rows) == 7
    seconds = (tmp_path / "thermal-write-time.csv").read_text().splitlines()
    assert len(seconds) == 1 + 3 * 433
    slower = (tmp_path / "random-read-tail.csv").read_text().splitlines()
    assert slower[0] == "series,unit,latency in ms,value,spread,low,high"


@pytest.mark.long
def test_the_same_chart_has_the_same_bytes(folders: list[Path], tmp_path: Path) -> None:
    quick = folders[3:]
    for path in report.write_pictures(quick, tmp_path / "a"):
        other = tmp_path / "b" / path.name
        if not other.exists():
            report.write_pictures(quick, tmp_path / "b")
        assert other.read_bytes() == path.read_bytes(), path.name


def test_a_bad_folder_among_good_ones_is_left_out_and_named(
    folders: list[Path], tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    unfinished = made_result.make(tmp_path / "unfinished", only=())
    told: list[str] = []
    bad = [tmp_path / "empty", unfinished]
    report.write_bench(
        [*bad, folders[0]], tmp_path / "site", left_out=lambda one: told.append(one.message)
    )
    assert "holds no result" in told[0] and "no finished test" in told[1]
    with pytest.raises(UserError):
        report.write_bench([*bad, folders[0]], tmp_path / "other")
    with pytest.raises(UserError, match="none of the folders"):
        report.write_bench(bad, tmp_path / "other", left_out=lambda _: None)


def test_of_the_loads_of_a_test_the_bench_ranks_the_first_six(tmp_path: Path) -> None:
    only = ("readers-beside-writers",)
    folder = made_result.make(tmp_path / "made", suite="datacenter", only=only)
    bench = report.write_bench([folder], tmp_path / "bench").parent
    _, test = called(bench / "data/index.js")["tests"]
    assert [bar["title"] for bar in test["bars"]][::5] == [
        "Latency p99.9, writes-alone",
        "Latency p99.9, writer at 50 % of its rate",
    ]
    assert len(test["bars"]) == 6
