"""The Bench in a real browser, offline: choose, sort, filter, compare; links keep the choice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import made_result
import pytest
from browsing import Tab

from drivebay import report

ONLY = ("consistency-default", "random-read")
EVIL = "<img src=x onerror=alert(1)> <b>Bold</b> %{x}"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("bench")
    evil = {**made_result.REAL, "model": EVIL}
    folders = [
        made_result.make(base / "first", only=ONLY),
        made_result.make(base / "second", only=ONLY, seed=2, speed=0.5),
        made_result.make(base / "evil", only=("random-read",), target=evil, speed=0.7),
    ]
    return report.write_bench(folders, base / "site")


@pytest.fixture
def tab(browser: Any, site: Path) -> Iterator[Tab]:
    opened = Tab(browser, f"{site.as_uri()}#drives=first,second")
    opened.page.wait_for_selector("html[data-ready]")
    yield opened
    assert opened.troubles == []
    outside = ("data:", "blob:", site.parent.as_uri())
    assert [url for url in opened.requests if not url.startswith(outside)] == []
    opened.close()


def follow(tab: Tab, test: str) -> None:
    """Follows a link to a test."""
    tab.page.evaluate(
        """(id) => {
            const link = document.body.appendChild(document.createElement("a"));
            link.href = `#test-${id}`;
            link.click();
            link.remove();
        }""",
        test,
    )


def show(tab: Tab, test: str = "random-read") -> None:
    """Follows a link to a test and waits for its charts."""
    follow(tab, test)
    tab.page.wait_for_selector(f"#test-{test}[data-ready]")


def by_random_read(tab: Tab) -> None:
    """Sorts by the head of a column."""
    tab.page.locator("#columns").select_option("tests")
    tab.page.get_by_role("button", name="4 KiB random read, MB/s").click()


def address(tab: Tab) -> str:
    return str(tab.page.evaluate("location.hash"))


def names(tab: Tab) -> list[str]:
    return [name.split(" (")[0] for name in tab.page.locator("#list tbody label").all_inner_texts()]


def test_the_link_keeps_the_choice(tab: Tab, browser: Any, site: Path) -> None:
    checked = tab.page.locator("#list input:checked")
    assert checked.count() == 2
    tab.page.locator("#choose-evil").check()
    by_random_read(tab)
    tab.page.locator("#q").fill("sm951")
    again = Tab(browser, f"{site.as_uri()}{address(tab)}")
    again.page.wait_for_selector("html[data-ready]")
    assert again.page.locator("#chosen .chip").count() == 3
    assert again.page.locator("#list [aria-sort=descending]").inner_text().startswith("4 KiB")
    assert again.page.locator("#q").input_value() == "sm951"
    assert again.page.locator("#list tbody tr").count() == 2
    again.close()


def test_the_list_sorts_and_filters(tab: Tab) -> None:
    tab.page.locator("#columns").select_option("tests")
    heads = tab.page.locator("#list thead th.figure").all_inner_texts()
    assert len(heads) == len(set(heads)) == 2, "a figure for each test, up to five"
    assert tab.page.locator("#list .group-row").all_inner_texts() == ["Reviews"]
    by_random_read(tab)
    rows = tab.page.locator("#list tbody tr")
    assert tab.page.locator("#list .group-row").count() == 0
    values = [row.locator("td.figure").last.inner_text() for row in rows.all()]
    assert values == ["101.7", "71.22", "50.85"]
    tab.page.locator("#kind").select_option("real")
    assert names(tab) == [EVIL]
    tab.page.locator("#kind").select_option("")
    tab.page.locator("#q").fill("no such drive")
    assert "Clear the filter" in tab.page.locator("#list").inner_text()


def test_results_of_one_drive_are_told_apart_by_their_folders(tab: Tab) -> None:
    below = tab.page.locator("#list tbody th small").all_inner_texts()
    assert [text.split("; ")[0] for text in below[1:]] == ["first", "second"], "of the SM951"
    tab.page.locator("#q").fill("sec")
    assert tab.page.locator("#list tbody td input").evaluate_all(
        "(all) => all.map(({ id }) => id)"
    ) == ["choose-second"]


def test_keys_rank_filter_and_leave_a_link(tab: Tab, browser: Any, site: Path) -> None:
    heads = tab.page.locator("#list thead th.figure").all_inner_texts()
    assert heads[0].startswith("Depth of 95"), "the keys that any result has"
    tab.page.locator("#sort").select_option("_rank/depth")
    assert "sort=_rank/depth" in address(tab)
    cells = tab.page.locator("#list tbody td.by").all_inner_texts()
    assert len(cells) == 3 and all(cells)
    tab.page.locator("#size").select_option("512 GB")
    tab.page.locator("#form").select_option("M.2 2280")
    assert tab.page.locator("#list tbody tr").count() == 2, "one has an unknown form factor"
    link = tab.page.get_by_role("link", name="Link to this choice").get_attribute("href")
    assert link == address(tab).replace("#", "#choose&", 1)
    again = Tab(browser, f"{site.as_uri()}{link}")
    again.page.wait_for_selector("html[data-ready]")
    assert [again.page.locator(f"#{name}").input_value() for name in ("size", "form", "sort")] == [
        "512 GB",
        "M.2 2280",
        "_rank/depth",
    ]
    assert again.page.locator("#list tbody tr").count() == 2
    again.close()
    follow(tab, "_rank")
    tab.page.wait_for_selector("#test-_rank .rank")
    assert tab.page.locator("#test-_rank .charts").count() == 0


def test_series_are_loaded_when_they_are_looked_at(tab: Tab) -> None:
    show(tab)
    asked = [url.rsplit("/data/")[-1] for url in tab.requests if "/data/" in url]
    assert {"first/random-read.js", "second/random-read.js"} <= set(asked)
    assert not any(url.startswith("evil/") for url in asked)
    tab.page.locator("#choose-evil").check()
    show(tab)
    tab.page.wait_for_selector("#test-random-read[data-ready*=evil]")
    asked = [url.rsplit("/data/")[-1] for url in tab.requests if "/data/" in url]
    assert asked.count("first/random-read.js") == 1, "what was loaded is not loaded again"
    assert "evil/random-read.js" in asked


def test_chosen_drives_lie_over_each_other_in_every_chart(tab: Tab) -> None:
    show(tab)
    chart = "document.querySelector('[data-panel=random-read-rate] .plot')"
    assert tab.page.evaluate(f"{chart}.data.filter((t) => t.x.length && !t.fill).length") == 2
    colours = tab.page.evaluate(f"{chart}.data.filter((t) => t.x.length).map((t) => t.line.color)")
    assert len(set(colours)) == 2
    for look in ("t.line.dash", "t.marker.symbol"):
        looks = tab.page.evaluate(
            f"{chart}.data.filter((t) => t.x.length && !t.fill).map((t) => {look})"
        )
        assert len(set(looks)) == 2, "the drives differ without their colours, too"
    tops = tab.page.evaluate(f"{chart}._fullLayout.yaxis.range")
    highest = tab.page.evaluate(f"Math.max(...{chart}.data.flatMap((t) => [...t.y]))")
    assert tops[0] == 0 and tops[1] > highest
    figure = tab.page.locator("[data-panel=random-read-latency]")
    figure.get_by_text("Linear", exact=True).click()
    box = "document.querySelector('[data-panel=random-read-latency] .plot')"
    assert tab.page.evaluate(f"{box}._fullLayout.yaxis.type") == "linear"
    assert "The axis starts at zero." in figure.locator("figcaption").inner_text()
    rows = tab.page.locator("[data-panel=random-read-stages] .ytick").count()
    assert rows == 12
    text = tab.page.locator("#test-random-read").inner_text()
    assert "per I/O" in text and "published" in text


def test_two_that_are_chosen_are_two_that_are_shown(tab: Tab) -> None:
    show(tab)
    assert tab.page.locator("#test-random-read .rank").first.locator("tbody tr").count() == 2
    tab.page.locator("#bars").select_option("all")
    show(tab)
    rows = "document.querySelectorAll('#test-random-read .rank:first-of-type tbody tr').length"
    tab.until(f"{rows} >= 3")


def test_the_keyboard_chooses_too(tab: Tab) -> None:
    tab.page.locator("#choose-second").uncheck()
    tab.page.locator("#choose-evil").check()
    assert "drives=first,evil" in address(tab)
    tab.page.locator("#choose-second").focus()
    tab.page.keyboard.press("Space")
    assert "drives=first,evil,second" in address(tab)
    assert tab.page.evaluate("document.activeElement.id") == "choose-second"
    tab.page.get_by_role("button", name="Clear selection").click()
    assert tab.page.locator("#chosen .chip").count() == 0
    assert "drives=" not in address(tab)


def test_a_link_ends_at_its_test_though_charts_above_are_drawn_later(tab: Tab) -> None:
    top = "document.getElementById('test-random-read').getBoundingClientRect().top"
    show(tab)
    grown = "height: 4000px"
    tab.page.evaluate(
        f"document.getElementById('test-consistency-default').style = '{grown}';"
        "new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)))"
    )
    above = tab.page.evaluate("document.getElementById('chosen').getBoundingClientRect().bottom")
    assert above <= tab.page.evaluate(top) < 100, "below the chosen drives"
    tab.page.mouse.wheel(0, 500)
    tab.until(f"{top} < -300")
    tab.page.evaluate("document.querySelector('main').style.paddingBottom = '900px'")
    assert tab.page.evaluate(top) < -300, "the reader's scrolling is not undone"


def test_a_link_to_a_chart_opens_it_with_its_zoom(tab: Tab, browser: Any, site: Path) -> None:
    show(tab)
    chart = tab.page.locator("[data-panel=random-read-rate]")
    chart.locator(".plot").press("+")
    link = chart.locator(".save a").get_attribute("href")
    again = Tab(browser, f"{site.as_uri()}{link}")
    again.page.wait_for_selector("#test-random-read[data-ready]")
    place = again.page.locator("#chart-random-read-rate")
    place.locator(".reset").wait_for()
    again.until(
        "Math.abs(document.querySelector('#chart-random-read-rate')"
        ".getBoundingClientRect().top - 64) < 50"
    )
    assert again.troubles == []
    again.close()


def test_links_within_the_page_leave_the_choice_in_the_address(tab: Tab) -> None:
    tab.page.locator("nav a", has_text="Random").click()
    assert "drives=first,second" in address(tab)


def test_bars_stand_in_rank_order_and_markup_is_text(tab: Tab) -> None:
    tab.page.locator("#choose-evil").check()
    show(tab)
    bars = tab.page.locator("#test-random-read .rank").first.locator(
        "tbody tr:not(:has(.published))"
    )
    heads = [row.split("\n")[0] for row in bars.locator("th").all_inner_texts()]
    assert [head.split(".")[0] for head in heads] == ["1", "2", "3"]
    assert EVIL in heads[1]
    tab.page.wait_for_selector("#test-random-read[data-ready*=evil]")
    assert tab.page.locator("main img, main b:text-is('Bold')").count() == 0


def test_a_missing_file_is_said_and_a_wrong_link_does_no_harm(browser: Any, site: Path) -> None:
    tab = Tab(browser, f"{site.as_uri()}#drives=nobody,first&sort=x/y&kind=<b>&bars=7")
    tab.page.wait_for_selector("html[data-ready]")
    assert tab.page.locator("#chosen .chip").count() == 1
    tab.close()
    gone = site.parent / "data" / "evil" / "random-read.js"
    kept = gone.read_bytes()
    gone.unlink()
    try:
        tab = Tab(browser, f"{site.as_uri()}#drives=evil")
        follow(tab, "random-read")
        tab.page.wait_for_selector("text=could not be loaded")
        tab.close()
    finally:
        gone.write_bytes(kept)


def test_a_review_of_the_bench_leads_back_to_it(browser: Any, site: Path) -> None:
    tab = Tab(browser, site.parent / "reviews" / "first.html")
    tab.page.locator("[data-chart=random-read-rate]").scroll_into_view_if_needed()
    tab.page.wait_for_selector("[data-chart=random-read-rate] .points path")
    tab.page.get_by_role("link", name="The Bench").click()
    tab.page.wait_for_selector("html[data-ready]")
    assert tab.troubles == []
    tab.close()
