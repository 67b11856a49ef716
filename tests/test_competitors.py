"""The shipped results: written, read, called old, and the drives that a report is ranked among."""

from __future__ import annotations

import copy
import json
import math
import re
import runpy
from pathlib import Path
from typing import Any

import made_result
import pytest

from drivebay import report, results
from drivebay.analysis import fidelity, nearest, review
from drivebay.definitions import profiles, suites
from drivebay.report.base import markup
from drivebay.report.base.markup import Bar
from drivebay.report.base.runs import entries
from drivebay.report.pages import verdict
from drivebay.report.peers import competitors, thin
from drivebay.report.peers.digest import digest

TOP = Path(__file__).resolve().parent.parent
ONLY = ("consistency-default", "random-read", "thermal-write")
XP941 = {**made_result.VIRTUAL, "name": "xp941-512", "drive": "xp941-512", "title": "XP941 512 GB"}


def shipped_from(folder: Path, base: Path, **made: Any) -> list[dict[str, Any]]:
    result = made_result.make(base / f"result-{folder.name}", only=ONLY, target=XP941, **made)
    folder.mkdir(exist_ok=True)
    one = entries([review(results.load(result))])[0]
    competitors.write(one, folder, competitors.fingerprint("xp941-512"))
    return competitors.load(folder)


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    base = tmp_path_factory.mktemp("shipped")
    return shipped_from(base / "new", base, speed=4.0)


@pytest.fixture(scope="module")
def reviewed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_result.make(tmp_path_factory.mktemp("own") / "result", only=ONLY)


def ranks(page: str, title: str) -> list[str]:
    """The names in the bars of a figure, as they stand."""
    begin = rf'<table class="bars ranked" data-title="[^"]*{re.escape(title)}"'
    table = re.search(f"{begin}.*?</table>", page)
    assert table, title
    names = re.findall(r'<th scope="row">(.*?)</th>', table[0])
    return [re.sub("<.*?>", "", name) for name in names]


def test_the_same_review_gives_the_same_bytes(tmp_path: Path) -> None:
    shipped_from(tmp_path / "a", tmp_path)
    shipped_from(tmp_path / "b", tmp_path)
    name = f"xp941-512{competitors.ENDING}"
    assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_shipped_series_keep_every_point_and_only_the_digits_that_a_chart_shows(
    shipped: list[dict[str, Any]], tmp_path: Path
) -> None:
    made = made_result.make(tmp_path / "whole", only=ONLY, target=XP941, speed=4.0)
    whole = digest(entries([review(results.load(made))])[0])
    for name, test in whole["tests"].items():
        kept = shipped[0]["tests"][name]
        assert kept["bars"] == json.loads(json.dumps(test["bars"]))
        for before, after in zip(test["data"]["panels"], kept["data"]["panels"], strict=True):
            assert after["samples"] == before["samples"]
            for old, new in zip(before["chart"]["traces"], after["chart"]["traces"], strict=True):
                assert len(new["y"]) == len(old["y"])
    texts = [json.dumps(one["tests"]["random-read"]["data"]) for one in (whole, shipped[0])]
    assert len(texts[1]) < len(texts[0])


def test_a_number_is_rounded_to_less_than_a_pixel_of_each_view() -> None:
    views = {
        "linear": {"layout": {"yaxis.range": [0, 1000], "yaxis.type": "linear"}},
        "log": {"layout": {"yaxis.range": [0, 3], "yaxis.type": "log"}},
    }
    values = [0, 1.23456, 12.3456, 123.456, 987.654, None]
    trace = {"type": "scatter", "x0": 0, "dx": 1, "y": values}
    chart = {"traces": [trace], "layout": {"yaxis": {}}, "height": 380, "views": views}
    (new,) = thin.rounded({"chart": chart})["chart"]["traces"]
    pixels = 380 - thin.MARGINS_PX
    assert new["y"][0] == 0 and new["y"][-1] is None and len(str(new["y"][1])) < 7
    for before, after in zip(values[1:-1], new["y"][1:-1], strict=True):
        assert before is not None
        assert abs(after - before) * pixels / 1000 < 0.5
        assert abs(math.log10(after / before)) * pixels / 3 < 0.5
    flat = thin.rounded({"chart": {**chart, "views": {}}})["chart"]["traces"][0]["y"]
    assert abs(flat[3] - 123.456) * pixels / (987.654 - 0) < 0.5 and flat[1] in (0, 1, 2)


def drives_of(one: dict[str, Any], *names: str, **more: Any) -> list[dict[str, Any]]:
    """Other drives with the figures of this one."""
    return [{**copy.deepcopy(one), "profile": n, "drive": n, "model": n, **more} for n in names]


def test_peers_are_of_the_same_market_medium_and_time_nearest_in_bus_first(
    shipped: list[dict[str, Any]], reviewed: Path
) -> None:
    (own,) = entries([review(results.load(reviewed))])
    drives = [
        *drives_of(shipped[0], "optane", flash=False, market="data center", released=2017.2),
        *drives_of(shipped[0], "later", released=2019.1),
        *drives_of(shipped[0], "sata", bus="SATA", released=2015.1),
        *drives_of(shipped[0], "tlc", cells="TLC", released=2015.1),
        *drives_of(shipped[0], "pcie", released=2014.2),
        *drives_of(shipped[0], "sibling", released=2015.1, model="Samsung SM951 (AHCI)"),
    ]
    assert [one["profile"] for one in competitors.peers(drives, [own])] == ["pcie", "tlc", "sata"]
    sizes = drives_of(shipped[0], "small", "same", "large", model="a model")
    for one, factor in zip(sizes, (0.25, 1, 4), strict=True):
        one["bytes"] = int(factor * 512e9)
    assert [one["profile"] for one in competitors.peers(sizes, [own])] == ["same"]
    many = drives_of(shipped[0], *map(str, range(20)))
    assert len(competitors.peers(many, [own])) == competitors.NEAR


def test_beside_a_drive_that_is_not_of_the_catalog_the_newest_of_its_bus_come_first(
    shipped: list[dict[str, Any]], tmp_path: Path
) -> None:
    target = {**made_result.REAL, "interface": "NVMe, PCIe 4.0 x4"}
    folder = made_result.make(tmp_path / "real", only=ONLY, target=target)
    (own,) = entries([review(results.load(folder))])
    drives = [
        *drives_of(shipped[0], "old", released=2014.0),
        *drives_of(shipped[0], "sata", released=2023.0, bus="SATA"),
        *drives_of(shipped[0], "new", released=2022.0),
    ]
    assert [one["profile"] for one in competitors.peers(drives, [own])] == ["new", "old", "sata"]


def test_a_drive_is_ranked_among_the_shipped_ones(
    shipped: list[dict[str, Any]], reviewed: Path, tmp_path: Path
) -> None:
    page = report.write([reviewed], tmp_path / "r.html", shipped=shipped).read_text()
    own = "Samsung SM951 512 GB (AHCI)"
    assert ranks(page, "Mean, last 400 s") == ["1. XP941 512 GB", f"2. {own}"]
    assert 'class="mark' in page and "The other drives are virtual drives of the catalog" in page
    assert "The model has changed" not in page
    assert ">Standard deviation, last 400 s<" in page
    with pytest.raises(AssertionError):
        ranks(page, "Standard deviation, last 400 s")  # nobody believes a simulated one


def test_drives_without_a_figure_for_the_same_reason_share_a_sentence(
    shipped: list[dict[str, Any]], reviewed: Path, tmp_path: Path
) -> None:
    drives = drives_of(shipped[0], *"ABC")
    for one in drives:
        (bar,) = [b for b in one["tests"]["thermal-write"]["bars"] if "after" in b["key"]]
        bar["row"] = [None, None, None, "", "it never fell"]
    page = report.write([reviewed], tmp_path / "r.html", shipped=drives).read_text()
    assert "3 other drives: it never fell." in page
    assert "it never fell</td>" not in page


def test_the_drive_under_review_is_no_competitor_of_itself_unless_it_was_changed(
    shipped: list[dict[str, Any]], tmp_path: Path
) -> None:
    same = made_result.make(tmp_path / "same", only=ONLY, target=XP941)
    page = report.write([same], tmp_path / "same.html", shipped=shipped).read_text()
    assert 'class="bars ranked"' not in page
    hot = {"ambient_c": {"value": 40, "source": "what-if, given by the user"}}
    target = {**XP941, "profile": {**XP941["profile"], "thermal": hot}}
    changed = made_result.make(tmp_path / "changed", only=ONLY, target=target)
    (own,) = entries([review(results.load(changed))])
    assert len(competitors.others(shipped, [own])) == 1


def test_beside_a_real_drive_the_others_are_called_simulated(
    shipped: list[dict[str, Any]], tmp_path: Path
) -> None:
    real = made_result.make(tmp_path / "real", only=ONLY, target=made_result.REAL)
    page = report.write([real], tmp_path / "real.html", shipped=shipped).read_text()
    assert "1. XP941 512 GB (simulated)" in ranks(page, "Mean, last 400 s")


def test_a_shortened_run_is_ranked_among_shortened_ones_alone(
    shipped: list[dict[str, Any]], tmp_path: Path
) -> None:
    quick = made_result.make(tmp_path / "quick", only=ONLY, quick=True)
    page = report.write([quick], tmp_path / "quick.html", shipped=shipped).read_text()
    assert 'class="bars ranked"' not in page
    other = made_result.make(tmp_path / "xp941", only=ONLY, quick=True, target=XP941)
    one = entries([review(results.load(other))])[0]
    competitors.write_quick([(one, competitors.fingerprint("xp941-512"))], tmp_path)
    known = competitors.load_quick(tmp_path)
    assert [set(test) for test in known[0]["tests"].values()] == [{"how", "title", "bars"}] * 3
    page = report.write([quick], tmp_path / "quick.html", shipped=shipped, quick=known).read_text()
    assert any(
        name.endswith("XP941 512 GB") for name in ranks(page, "Mean of queue depths 1, 2, 4")
    )
    assert "in shortened runs" in page


def test_a_real_drives_shorter_rests_make_no_other_test(shipped: list[dict[str, Any]]) -> None:
    tests = suites.load("anandtech-2015").selected(ONLY).tests
    for test in tests:
        assert competitors.running(shipped, test.in_real_time())
        assert not competitors.running(shipped, test.shortened().in_real_time())


def test_a_load_of_another_tool_finds_the_catalogs_nearest(tmp_path: Path) -> None:
    other = made_result.make(tmp_path / "xp941", only=ONLY, quick=True, target=XP941)
    (entry,) = entries([review(results.load(other))])
    competitors.write_quick([(entry, {"profile": "", "model": ""})], tmp_path)
    (drive,) = competitors.load_quick(tmp_path)
    load = {"pattern": "random", "reads": 97.0, "block": 4096, "depth": 24}
    near = nearest.nearest(drive["loads"], load)
    assert near is not None and (drive["profile"], near["test"], near["depth"]) == (
        "xp941-512",
        "random-read",
        32,
    )
    for change in ({"pattern": "sequential"}, {"reads": 50.0}, {"block": 65536}, {"depth": 1024}):
        assert nearest.nearest(drive["loads"], {**load, **change}) is None


def test_where_others_never_fell_no_drive_has_a_place(
    shipped: list[dict[str, Any]], reviewed: Path
) -> None:
    (own,) = entries([review(results.load(reviewed))])
    others = drives_of(shipped[0], *"AB")
    assert "thermal-write" in {one.measured.test.id for one in verdict.places(own, others)}
    rows = others[0]["tests"]["thermal-write"]["bars"]
    next(bar for bar in rows if bar["key"] == "throttle_after_s")["row"][0] = None
    assert "thermal-write" not in {one.measured.test.id for one in verdict.places(own, others)}


def test_a_real_drive_is_not_ranked_where_the_simulated_ones_are_known_to_be_wrong(
    tmp_path: Path,
) -> None:
    real = made_result.make(tmp_path / "real", only=("mixed-random",), target=made_result.REAL)
    (own,) = entries([review(results.load(real))])
    measured = own.review.tests["mixed-random"]
    assert not verdict.doubt(own, measured, "mean_rate")
    assert "other drives" in verdict.doubt(own, measured, "mean_rate", ranked=True)
    ((_, _, trusted),) = verdict.key_figures([own])
    assert not trusted


def test_the_conclusion_compares_with_rivals_that_have_a_test_in_common(
    shipped: list[dict[str, Any]], reviewed: Path
) -> None:
    (own,) = entries([review(results.load(reviewed))])
    headings = [name for name, _ in verdict.conclusion(own, drives_of(shipped[0], "A"))]
    assert "Compared with A" in headings
    none = drives_of(shipped[0], "A", tests={})
    assert not [name for name, _ in verdict.conclusion(own, none) if name.startswith("Compared")]


def test_figures_closer_than_a_percent_share_a_rank(
    shipped: list[dict[str, Any]], reviewed: Path, tmp_path: Path
) -> None:
    page = report.write([reviewed], tmp_path / "r.html", shipped=drives_of(shipped[0], *"ABC"))
    assert [one[:2] for one in ranks(page.read_text(), "Mean, last 400 s")] == ["1."] * 3 + ["4."]


def test_a_result_of_another_profile_or_model_is_shown_as_old(
    reviewed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    was = competitors.fingerprint("xp941-512")
    monkeypatch.setattr(competitors, "fingerprint", lambda _: {**was, "model": "another"})
    shipped_from(tmp_path / "old", tmp_path)
    monkeypatch.undo()
    (old,) = competitors.load(tmp_path / "old")
    assert old["old"] == "model changed since"
    page = report.write([reviewed], tmp_path / "r.html", shipped=[old]).read_text()
    assert f"update them with {competitors.AGAIN}" in page
    monkeypatch.setattr(competitors, "model_fingerprint", lambda: "")
    monkeypatch.setattr(competitors, "fingerprint", lambda _: {**was, "model": ""})
    assert competitors.load(tmp_path / "old")[0]["old"] == "", "an installed package has no source"


def test_a_model_shown_to_give_the_same_figures_makes_no_result_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    was = competitors.fingerprint("xp941-512")
    monkeypatch.setattr(competitors, "fingerprint", lambda _: {**was, "model": "former"})
    shipped_from(tmp_path / "old", tmp_path)
    monkeypatch.undo()
    said = {"fingerprint": {"model": was["model"]}, "same_models": ["former"]}
    monkeypatch.setattr(fidelity, "kept", lambda: said)
    assert competitors.load(tmp_path / "old")[0]["old"] == ""
    monkeypatch.setattr(fidelity, "kept", lambda: {**said, "fingerprint": {"model": "later"}})
    assert competitors.load(tmp_path / "old")[0]["old"] == "model changed since"


def test_a_fingerprint_is_of_values_and_not_of_words() -> None:
    assert "source" not in str(profiles.values(profiles.load("xp941-512").raw))
    one, other = competitors.fingerprint("xp941-512"), competitors.fingerprint("sm951-ahci-512")
    assert one["model"] == other["model"] and one["profile"] != other["profile"]


def test_a_format_of_another_version_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(competitors, "FORMAT", 0)
    assert len(shipped_from(tmp_path / "a", tmp_path)) == 1
    monkeypatch.undo()
    assert competitors.load(tmp_path / "a") == []


def test_the_bench_has_the_shipped_drives_without_any_review(
    shipped: list[dict[str, Any]], tmp_path: Path
) -> None:
    site = report.write_bench([], tmp_path / "site", shipped=shipped).parent
    assert (site / "data" / "xp941-512" / "random-read.js").exists()
    assert '"shipped":true' in (site / "data" / "index.js").read_text()
    assert list((site / "reviews").iterdir()) == []


def test_what_is_shipped_is_of_the_catalog_and_small() -> None:
    found = competitors.load()
    assert {one["profile"] for one in found} <= set(profiles.names())
    assert not any("shortened run" in one["labels"] for one in found)
    size = sum(path.stat().st_size for path in (TOP / competitors.FOLDER).iterdir())
    assert size < runpy.run_path(str(TOP / "scripts" / "catalog_results.py"))["BYTES_MAX"]


def test_a_bar_far_longer_than_the_next_is_cut_and_its_figure_printed(
    shipped: list[dict[str, Any]], reviewed: Path, tmp_path: Path
) -> None:
    drives = drives_of(shipped[0], *"ABC")
    for one, factor in zip(drives, (60, 1, 1.1), strict=True):
        for bar in one["tests"]["random-read"]["bars"]:
            bar["row"] = [bar["row"][0] * factor, None, None, *bar["row"][3:5]]
    page = report.write([reviewed], tmp_path / "r.html", shipped=drives).read_text()
    table = re.search(r'<table class="bars ranked" data-title="[^"]*Mean of queue.*?</table>', page)
    assert table
    rows = re.findall(r"<tr.*?</tr>", table[0])
    widths = [float(re.findall(r"width:([\d.]+)%", row)[0]) for row in rows]
    assert ["fill cut" in row for row in rows] == [True, False, False, False]
    assert ["more than 5 times" in row for row in rows] == [True, False, False, False]
    assert widths[:2] == [100.0, 80.0] and all(15 < width < 80 for width in widths[2:])
    assert "Bar with a gap: more than 5 times" in page


def test_only_few_bars_are_cut_and_only_among_other_drives() -> None:
    def ends(*values: float, other: bool = True) -> list[bool]:
        html = markup.bars("", "", [Bar("a", value, "@c1", other=other) for value in values])
        return ["fill cut" in row for row in html.split("<tr")[1:]]

    assert ends(900, 20, 10, 9, 8) == [True, False, False, False, False]
    assert ends(900, 800, 10, 9, 8) == [True, True, False, False, False]
    assert ends(900, 100, 10, 9, 8) == [True, True, False, False, False]
    assert ends(900, 800, 700, 9, 8) == [False] * 5, "most of them"
    assert ends(900, 10) == [False] * 2 and ends(50, 10, 10) == [False] * 3
    assert ends(900, 10, 9, other=False) == [False] * 3, "the loads of one drive"
    assert ends(0, 0, 0) == [False] * 3


@pytest.mark.long
def test_every_shipped_result_is_of_its_drive_as_it_is() -> None:
    """`make catalog-results` computes those that are not; maps of large drives take 1 GB of memory
    for 1 TB, and the suite writes at random, which zones do not take."""
    found = {one["profile"]: one["old"] for one in competitors.load()}
    large = {name for name in profiles.names() if profiles.load(name).capacity_bytes > 2.1e12}
    assert set(profiles.names()) - set(found) <= large | {"zn540-1tb"}
    assert {name: why for name, why in found.items() if why} == {}
