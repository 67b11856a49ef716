"""The report in a real browser: opens from a file, offline, draws, switches, prints, stays text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import made_result
import pytest
from browsing import Tab

from drivebay import report, results
from drivebay.analysis import review
from drivebay.definitions import profiles, suites
from drivebay.report.base.runs import entries
from drivebay.report.peers import competitors

PAGE_BYTES_MAX = 4_000_000
OTHERS = 25
SCREENS_MAX = 7


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("browser")


@pytest.fixture(scope="module")
def whole(folder: Path) -> Path:
    kinds = ("consistency-default", "consistency-25op", "random-read", "thermal-write")
    suite = suites.load("anandtech-2015").selected(kinds)
    return report.write([made_result.make(folder / "whole", suite=suite)])


@pytest.fixture
def tab(browser: Any, whole: Path) -> Iterator[Tab]:
    opened = Tab(browser, whole)
    yield opened
    assert opened.troubles == []
    assert [url for url in opened.requests if not url.startswith(("data:", "blob:"))] == [
        whole.as_uri()
    ]
    opened.close()


def near(tab: Tab, name: str) -> str:
    """Scrolls to a chart and waits until it is drawn; its selector."""
    box = f"[data-chart={name}]"
    tab.page.locator(box).scroll_into_view_if_needed()
    tab.page.wait_for_selector(f"{box} .main-svg")
    return box


def test_it_opens_from_a_file_and_draws_every_chart(tab: Tab) -> None:
    tab.see_all()
    empty = tab.page.evaluate(
        "[...document.querySelectorAll('[data-chart]')]"
        ".filter((box) => !box.querySelector('.main-svg')).map((box) => box.dataset.chart)"
    )
    assert empty == []


def test_the_scatter_shows_every_second(tab: Tab) -> None:
    box = near(tab, "consistency-default-whole")
    dots = tab.page.locator(f"{box} .shapelayer path[d^=M]").first.get_attribute("d")
    assert dots is not None and dots.count("M") == 3600


def test_a_scatter_answers_and_is_saved_as_it_is_seen(tab: Tab) -> None:
    """Its dots are one path on the page; a pointer reads each of them, and a picture has them."""
    box = near(tab, "whole")
    tab.page.locator(box).press("ArrowRight")
    tab.until(f"document.querySelector('{box} + .sr-only').textContent.includes('IOPS')")
    with tab.page.expect_download() as saved:
        tab.page.get_by_label("Save as SVG: ").first.click()
    assert saved.value.path().read_text().count('class="point"') == 3600


def test_a_switch_changes_the_axis_and_the_caption(tab: Tab) -> None:
    name = "consistency-default-whole"
    near(tab, name)
    assert tab.chart(name, "chart._fullLayout.yaxis.type") == "log"
    caption = tab.page.locator(f"figure:has([data-chart={name}]) figcaption")
    assert "Logarithmic axis, does not start at zero." in caption.inner_text()
    assert "The axis starts at zero." not in caption.inner_text()
    tab.page.locator(f"label[for={name}-axis-linear]").click()
    assert tab.chart(name, "chart._fullLayout.yaxis.type") == "linear"
    assert tab.chart(name, "chart._fullLayout.yaxis.range[0]") == 0
    assert "Logarithmic axis, does not start at zero." not in caption.inner_text()
    assert "The axis starts at zero." in caption.inner_text()


def test_switches_work_from_the_keyboard(tab: Tab) -> None:
    first = tab.page.locator("#consistency-default-whole-axis-log")
    first.focus()
    tab.page.keyboard.press("ArrowRight")
    assert tab.page.locator("#consistency-default-whole-axis-linear").is_checked()


def test_colours_follow_the_reader_and_the_button(browser: Any, whole: Path) -> None:
    tab = Tab(browser, whole, color_scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = tab.page.evaluate(ground)
    tab.see_all()
    assert tab.chart("random-read-rate", "chart.dataset.drawn") == "dark"
    tab.page.get_by_role("button", name="Dark or light colours").click()
    assert tab.page.evaluate(ground) != dark
    assert tab.chart("random-read-rate", "chart.dataset.drawn") == "light"
    assert tab.troubles == []
    tab.close()


def test_print_shows_the_chapters_in_light_colours_and_no_details(
    browser: Any, whole: Path
) -> None:
    tab = Tab(browser, whole, color_scheme="dark")
    near(tab, "heat-time")
    tab.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    widths = "chart._fullLayout.width, chart.closest('main').clientWidth"
    width, paper = tab.chart("heat-time", f"[{widths}]")
    assert width > 0.9 * paper, "drawn for the paper's width while the window's rules still hold"
    tab.page.emulate_media(media="print")
    assert tab.chart("heat-time", "chart.dataset.drawn") == "light"
    assert tab.page.evaluate(
        "[...document.querySelectorAll('#top > .page [data-chart]')].every((box) =>"
        " box.dataset.drawn === 'light'"
        " || box.querySelector('svg.still').getBoundingClientRect().height > 50)"
    )
    ink = "getComputedStyle(document.querySelector('.still text')).fill"
    assert tab.page.evaluate(ink) == "rgb(91, 98, 106)"
    assert not tab.page.locator("#details").is_visible()
    tab.page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert tab.troubles == []
    tab.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_without_javascript_every_chart_is_a_picture(browser: Any, whole: Path, theme: str) -> None:
    tab = Tab(browser, whole, java_script_enabled=False, color_scheme=theme)
    charts = tab.page.locator("[data-chart]")
    assert charts.count() == tab.page.locator("[data-chart] svg.still").count() > 10
    points = tab.page.locator("#chart-consistency-default-whole path[stroke-linecap]").first
    assert len((points.get_attribute("d") or "").split("m")) > 1000
    assert "var(--c1)" in (points.get_attribute("stroke") or "")
    words = tab.page.locator("#chart-random-read-rate .still text").all_text_contents()
    assert {"MB/s", "queue depth", "32"} <= set(words)
    tab.close()


def test_markup_in_names_runs_nowhere(browser: Any, folder: Path) -> None:
    evil = "<script>alert(1)</script><img src=x onerror=alert(2)><b>bold</b> %{y}"
    one = made_result.make(
        folder / "evil",
        target={**made_result.REAL, "model": evil, "serial": evil},
        only=("consistency-default", "random-read"),
    )
    two = made_result.make(folder / "other", only=("consistency-default", "random-read"))
    tab = Tab(browser, report.write([one, two], folder / "evil.html"))
    tab.see_all()
    assert tab.troubles == []
    assert evil in tab.page.locator("header").inner_text()
    rows = tab.page.locator("#chart-random-read-rate .legend li").all_text_contents()
    drawn = "".join("".join(rows).split())
    assert "<b>bold</b>" in drawn and "<script>alert(1)" in drawn
    assert tab.page.locator("[data-chart] img, [data-chart] script").count() == 0
    assert tab.page.locator("main b:text-is('bold')").count() == 0
    tab.page.locator(near(tab, "random-read-rate")).press("ArrowRight")
    tab.page.wait_for_selector("[data-chart=random-read-rate] .hovertext")
    assert tab.troubles == []
    tab.close()


def test_a_partial_review_opens_without_complaint(browser: Any, folder: Path) -> None:
    made = made_result.make(
        folder / "part", only=("thermal-write",), failed={"thermal-write": "out of power"}
    )
    tab = Tab(browser, report.write([made]))
    assert "out of power" in str(tab.page.locator("main").text_content())
    assert tab.troubles == []
    tab.close()


@pytest.mark.parametrize(
    ("form", "begins"), [("csv", b"series,"), ("png", b"\x89PNG"), ("svg", b"<svg")]
)
def test_a_chart_can_be_saved(tab: Tab, form: str, begins: bytes) -> None:
    with tab.page.expect_download() as download:
        tab.page.locator(f"button[data-save={form}][data-of=random-read-rate]").click()
    saved = Path(download.value.path()).read_bytes()
    assert saved.startswith(begins) and len(saved) > 130
    assert download.value.suggested_filename == f"random-read-rate.{form}"
    tab.requests = [url for url in tab.requests if not url.startswith("blob:")]


def test_the_csv_of_a_chart_and_of_bars_has_their_numbers(tab: Tab) -> None:
    with tab.page.expect_download() as download:
        tab.page.locator("button[data-save=csv][data-of=consistency-default-end]").click()
    rows = Path(download.value.path()).read_text().splitlines()
    assert rows[0] == "series,unit,seconds,value,spread,low,high" and len(rows) == 1 + 400
    assert rows[1].startswith(",IOPS,3200,")
    with tab.page.expect_download() as download:
        tab.page.get_by_role("button", name="Save as CSV: Mean, last 400 s").first.dispatch_event(
            "click"
        )
    rows = Path(download.value.path()).read_text().splitlines()
    assert rows[1].startswith('"Mean, last 400 s",IOPS,simulated,7778.')


@pytest.fixture(scope="module")
def ranked(folder: Path) -> Path:
    """A whole review among as many drives as the catalog has besides."""
    target = {**made_result.VIRTUAL, "name": "xp941-512", "title": "Samsung XP941 512 GB"}
    made = made_result.make(folder / "xp941", target=target, speed=0.7)
    of = competitors.fingerprint("xp941-512")
    competitors.write(entries([review(results.load(made))])[0], folder, of)
    (one,) = competitors.load(folder)
    names = {*profiles.names()} - {made_result.VIRTUAL["name"], "xp941-512"}
    shipped = [
        {**one, "profile": name, "drive": name, "model": name}
        for name in ("xp941-512", *sorted(names))
    ]
    own = made_result.make(folder / "ranked")
    return report.write([own], folder / "ranked.html", shipped=shipped[:OTHERS])


def test_a_page_with_competitors_stays_small(ranked: Path) -> None:
    assert ranked.stat().st_size < PAGE_BYTES_MAX


def test_ranked_bars_are_saved_with_the_bare_names_of_drives(browser: Any, ranked: Path) -> None:
    tab = Tab(browser, ranked)
    with tab.page.expect_download() as download:
        tab.page.locator("#among button[data-save=bars]").first.dispatch_event("click")
    names = [line.split(",")[-6] for line in download.value.path().read_text().splitlines()]
    assert "Samsung SM951 512 GB (AHCI)" in names and "xp941-512" in names
    tab.close()


@pytest.mark.parametrize(("form", "begins"), [("png", b"\x89PNG"), ("svg", b"<svg")])
def test_ranked_bars_are_saved_as_a_picture(
    browser: Any, ranked: Path, form: str, begins: bytes
) -> None:
    tab = Tab(browser, ranked)
    button = tab.page.locator(f"#among button[data-save={form}]").first
    with tab.page.expect_download() as download:
        button.dispatch_event("click")
    saved = download.value.path().read_bytes()
    assert saved.startswith(begins) and len(saved) > 2000
    words = re.findall(r"<text[^>]*>(.*?)</text>", saved.decode(errors="replace"))
    assert form == "png" or "Samsung SM951 512 GB (AHCI), simulated" in " ".join(words)
    assert tab.troubles == []
    tab.close()


def test_a_review_is_about_six_screens_and_a_print_a_dozen_pages(
    browser: Any, ranked: Path
) -> None:
    screen = {"width": 1440, "height": 900}
    tab = Tab(browser, ranked, details=False, viewport=screen)
    tab.page.wait_for_selector("[data-chart=whole]")
    height = tab.page.evaluate("document.documentElement.scrollHeight")
    assert height <= SCREENS_MAX * screen["height"]
    box = tab.page.locator(".verdict").last.bounding_box()
    assert box is not None and box["y"] + box["height"] < screen["height"] / 2
    printed = tab.page.pdf(format="A4")
    assert 2 <= len(re.findall(rb"/Type\s*/Page[^s]", printed)) <= 12
    assert tab.troubles == []
    tab.close()


def test_a_link_into_the_details_opens_them(browser: Any, whole: Path) -> None:
    tab = Tab(browser, f"{whole.as_uri()}#random-read", details=False)
    tab.until("document.getElementById('details').open")
    box = tab.page.locator("#random-read").bounding_box()
    assert box is not None and 0 <= box["y"] < 400
    tab.close()


def test_a_zoom_is_in_time_outlasts_switches_and_has_a_reset(tab: Tab) -> None:
    name = "thermal-write-time"
    box = f"[data-chart={name}]"
    tab.page.locator(box).scroll_into_view_if_needed()
    tab.page.wait_for_selector(f"{box} .main-svg")
    span = "chart._fullLayout.xaxis.range"
    whole, before = tab.chart(name, span), tab.chart(name, "chart._fullLayout.yaxis.range")
    drag = tab.page.locator(f"{box} .nsewdrag").first.bounding_box()
    assert drag is not None
    middle = drag["y"] + drag["height"] / 2
    tab.page.mouse.move(drag["x"] + 0.3 * drag["width"], middle - 30)
    tab.page.mouse.down()
    tab.page.mouse.move(drag["x"] + 0.5 * drag["width"], middle + 30, steps=5)
    tab.page.mouse.up()
    reset = tab.page.locator(f"figure:has({box})").get_by_role("button", name="Reset zoom")
    reset.wait_for()
    zoomed = tab.chart(name, span)
    assert whole[0] < zoomed[0] < zoomed[1] < whole[1]
    assert tab.chart(name, "chart._fullLayout.yaxis.range") == before
    tab.page.get_by_role("button", name="Dark or light colours").click()
    assert tab.chart(name, span) == zoomed
    reset.click()
    assert tab.chart(name, span) == whole
    assert not reset.is_visible()


def test_a_narrow_window_folds_the_sections_into_a_menu(browser: Any, whole: Path) -> None:
    tab = Tab(browser, whole, viewport={"width": 390, "height": 740})
    link = tab.page.locator("nav a", has_text="Scaling")
    assert not link.is_visible()
    tab.page.get_by_role("button", name="Sections").click()
    link.click()
    assert not link.is_visible() and tab.page.evaluate("location.hash") == "#scaling"
    assert tab.troubles == []
    tab.close()


def test_every_section_is_in_sight_on_a_desktop(browser: Any, ranked: Path) -> None:
    tab = Tab(browser, ranked, viewport={"width": 1440, "height": 900})
    links = tab.page.locator("nav a")
    assert links.count() == 8
    assert all(one.is_visible() for one in links.all())
    assert tab.page.evaluate("document.documentElement.scrollWidth") == 1440
    tab.close()


def test_the_legend_switches_series(tab: Tab) -> None:
    name = "consistency-default-stages"
    tab.page.locator(f"[data-chart={name}]").scroll_into_view_if_needed()
    tab.page.wait_for_selector(f"[data-chart={name}] .main-svg")
    entry = tab.page.locator(f"#chart-{name} .legend button").first
    hidden = "chart._fullData.filter((trace) => trace.visible !== true).length"
    before = tab.chart(name, hidden)
    entry.click()
    assert tab.chart(name, hidden) == before + 1
    assert entry.get_attribute("aria-pressed") == "false"
    tab.page.get_by_role("button", name="Dark or light colours").click()
    assert tab.chart(name, hidden) == before + 1, "colours keep it"
    entry.click()
    assert tab.chart(name, hidden) == before


def test_the_address_opens_the_same_view(tab: Tab, browser: Any, whole: Path) -> None:
    thermal = near(tab, "thermal-write-time")
    tab.page.locator(thermal).press("+")
    tab.page.locator("label[for=consistency-default-whole-axis-linear]").click()
    tab.page.locator("#chart-consistency-default-stages .legend button").first.click()
    link = tab.page.locator("#chart-consistency-default-whole .save a").get_attribute("href")
    again = Tab(browser, f"{whole.as_uri()}{link}")
    box = "[data-chart=consistency-default-whole]"
    again.page.wait_for_selector(f"{box} .main-svg")
    top = again.page.locator("#chart-consistency-default-whole").bounding_box()
    assert top is not None and 0 <= top["y"] < 150
    axis = "chart._fullLayout.yaxis.type"
    assert again.chart("consistency-default-whole", axis) == "linear"
    near(again, "thermal-write-time")
    span = "chart._fullLayout.xaxis.range"
    assert again.chart("thermal-write-time", span) == tab.chart("thermal-write-time", span)
    assert again.page.locator("#chart-thermal-write-time .reset").is_visible()
    off = again.page.locator("#chart-consistency-default-stages .legend button").first
    near(again, "consistency-default-stages")
    assert off.get_attribute("aria-pressed") == "false"
    assert again.troubles == []
    again.close()


def test_back_leads_to_the_place_and_the_view_before(tab: Tab) -> None:
    name = "consistency-default-whole"
    near(tab, name)
    tab.page.locator(f"label[for={name}-axis-linear]").click()
    tab.page.locator("nav a", has_text="Heat").click()
    assert tab.page.evaluate("location.hash") == f"#heat&{name}-axis=linear"
    tab.page.evaluate(f"location.hash = '#chart-{name}'")
    tab.until(f"document.getElementById('{name}-axis-log').checked")
    assert tab.chart(name, "chart._fullLayout.yaxis.type") == "log"
    tab.page.go_back()
    tab.until(f"document.getElementById('{name}-axis-linear').checked")
    assert tab.chart(name, "chart._fullLayout.yaxis.type") == "linear"


def test_an_address_of_nonsense_does_no_harm(browser: Any, whole: Path) -> None:
    nonsense = (
        "#chart-none&zoom.thermal-write-time=9,%E0&off.x=a&&=&consistency-default-whole-axis=no"
    )
    tab = Tab(browser, f"{whole.as_uri()}{nonsense}")
    near(tab, "thermal-write-time")
    assert not tab.page.locator("#chart-thermal-write-time .reset").is_visible()
    assert tab.troubles == []
    tab.close()


def test_keys_read_and_zoom(tab: Tab) -> None:
    name = "thermal-write-time"
    box = tab.page.locator(near(tab, name))
    said = tab.page.locator(f"#chart-{name} [role=status]")
    box.press("ArrowRight")
    box.press("Shift+ArrowRight")
    tab.until(
        f"/10 s.*MB.s.*°C.* W.* \\d+ %/.test("
        f"document.querySelector('#chart-{name} [role=status]').textContent)"
    )
    span = "chart._fullLayout.xaxis.range"
    whole = tab.chart(name, span)
    box.press("+")
    low, high = tab.chart(name, span)
    assert whole[0] <= low < 10 < high < whole[1]
    box.press("0")
    assert tab.chart(name, span) == whole
    box.press("Escape")
    box.press("End")
    tab.until(f"document.querySelector('#chart-{name} .hoverlayer text').textContent > '400'")
    assert said.count() == 1


def test_fingers_read_zoom_and_scroll(browser: Any, whole: Path) -> None:
    tab = Tab(browser, whole, viewport={"width": 390, "height": 800}, has_touch=True)
    events = tab.context.new_cdp_session(tab.page)
    name = "thermal-write-time"
    frame = tab.page.locator(near(tab, name)).bounding_box()
    assert frame is not None
    x, y = frame["x"], frame["y"] + 60

    def touch(kind: str, *points: float) -> None:
        places = [{"x": x + at, "y": y, "id": finger} for finger, at in enumerate(points)]
        events.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": places})

    touch("touchStart", 100)
    touch("touchMove", 130)
    touch("touchMove", 200)
    tab.page.wait_for_selector(f"#chart-{name} .hoverlayer text:text-matches('°C')")
    touch("touchEnd")
    span = "chart._fullLayout.xaxis.range"
    whole_span = tab.chart(name, span)
    touch("touchStart", 150, 250)
    touch("touchMove", 120, 280)
    touch("touchMove", 90, 310)
    tab.page.wait_for_selector(f"#chart-{name} .reset:not([hidden])")
    touch("touchEnd")
    low, high = tab.chart(name, span)
    assert whole_span[0] < low < high < whole_span[1]
    assert tab.page.evaluate("visualViewport.scale") == 1
    assert tab.troubles == []
    tab.close()
