"""The report in a real browser: opens from a file, offline, draws, switches, prints, stays text.

Chromium comes from the system (`make test` installs it); Playwright only drives it.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import made_result
import pytest

from drivebay import report

sync_api = pytest.importorskip("playwright.sync_api")

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
OPEN_S_MAX = 20.0  # generous: the machine may be busy; the real figure is about 1 s

pytestmark = pytest.mark.skipif(
    not Path(CHROMIUM).exists(), reason="Chromium is not installed: apt-get install chromium"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as play:
        engine = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield engine
        engine.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("browser")


@pytest.fixture(scope="module")
def whole(folder: Path) -> Path:
    return report.write([made_result.make(folder / "whole")])


class Tab:
    """A page that was opened offline, with all that it complained of and all that it asked for."""

    def __init__(self, browser: Any, path: Path, **options: Any) -> None:
        self.context = browser.new_context(
            **{"offline": True, "viewport": {"width": 1280, "height": 900}, **options}
        )
        self.page = self.context.new_page()
        self.troubles: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda line: self.troubles.append(f"{line.type}: {line.text}"))
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("dialog", self._dialog)
        started = time.monotonic()
        self.page.goto(path.as_uri())
        self.opened_s = time.monotonic() - started

    def _dialog(self, dialog: Any) -> None:
        self.troubles.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def see_all(self) -> None:
        """Scrolls through the page, so that every chart is drawn."""
        self.page.evaluate(
            """async () => {
                for (let y = 0; y < document.documentElement.scrollHeight; y += 500) {
                    scrollTo(0, y);
                    await new Promise((go) => setTimeout(go, 30));
                }
            }"""
        )
        self.page.wait_for_function(
            "[...document.querySelectorAll('[data-chart]')].every((box) => box.dataset.drawn)"
        )

    def chart(self, chart_id: str, what: str) -> Any:
        """Something of a drawn chart's Plotly object, as a JavaScript expression of `chart`."""
        return self.page.evaluate(
            f"(() => {{ const chart = document.querySelector('[data-chart=\"{chart_id}\"]'); "
            f"return {what}; }})()"
        )

    def close(self) -> None:
        self.context.close()


@pytest.fixture
def tab(browser: Any, whole: Path) -> Iterator[Tab]:
    opened = Tab(browser, whole)
    yield opened
    assert opened.troubles == []
    assert [url for url in opened.requests if not url.startswith(("data:", "blob:"))] == [
        whole.as_uri()
    ]
    opened.close()


def test_it_opens_from_a_file_and_draws_every_chart(tab: Tab) -> None:
    assert tab.opened_s < OPEN_S_MAX
    tab.see_all()
    empty = tab.page.evaluate(
        "[...document.querySelectorAll('[data-chart]')]"
        ".filter((box) => !box.querySelector('.main-svg')).map((box) => box.dataset.chart)"
    )
    assert empty == []


def test_the_scatter_shows_every_second(tab: Tab) -> None:
    tab.page.locator("[data-chart=performance-consistency-whole]").scroll_into_view_if_needed()
    tab.page.wait_for_selector("[data-chart=performance-consistency-whole] .points path")
    points = tab.page.locator("[data-chart=performance-consistency-whole] .points path").count()
    assert points == 3600


def test_switches_change_test_and_axis(tab: Tab) -> None:
    name = "performance-consistency-whole"
    tab.page.locator(f"[data-chart={name}]").scroll_into_view_if_needed()
    tab.page.wait_for_selector(f"[data-chart={name}] .points path")
    seen = "chart._fullData.map((trace) => trace.visible)"
    assert tab.chart(name, seen)[:2] == [True, False]
    assert tab.chart(name, "chart._fullLayout.yaxis.type") == "linear"
    assert tab.chart(name, "chart._fullLayout.yaxis.range[0]") == 0
    tab.page.get_by_text("25 % over-provisioning", exact=True).and_(
        tab.page.locator("label")
    ).click()
    assert tab.chart(name, seen)[:2] == [False, True]
    tab.page.locator("label[for=performance-consistency-whole-axis-log]").click()
    assert tab.chart(name, "chart._fullLayout.yaxis.type") == "log"
    caption = tab.page.locator(f"figure:has([data-chart={name}]) figcaption")
    assert "Logarithmic axis, does not start at zero." in caption.inner_text()
    assert "The axis starts at zero." not in caption.inner_text()
    tab.page.locator("label[for=performance-consistency-which-all]").click()
    assert tab.chart(name, seen)[:2] == [True, True]


def test_switches_work_from_the_keyboard(tab: Tab) -> None:
    first = tab.page.locator("#performance-consistency-which-consistency-default")
    first.focus()
    tab.page.keyboard.press("ArrowRight")
    assert tab.page.locator("#performance-consistency-which-consistency-25op").is_checked()


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


def test_a_phone_needs_no_sideways_scrolling(browser: Any, whole: Path) -> None:
    tab = Tab(browser, whole, viewport={"width": 360, "height": 740}, has_touch=True)
    tab.see_all()
    assert tab.page.evaluate("document.documentElement.scrollWidth") == 360
    assert tab.troubles == []
    tab.close()


def test_print_draws_everything_in_light_colours_and_opens_what_is_folded(
    browser: Any, whole: Path
) -> None:
    tab = Tab(browser, whole, color_scheme="dark")
    tab.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert tab.page.evaluate(
        "[...document.querySelectorAll('[data-chart]')].every((b) => b.dataset.drawn === 'light')"
    )
    assert tab.page.evaluate("document.querySelectorAll('details:not([open])').length") == 0
    tab.page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert tab.page.evaluate("document.querySelectorAll('details[open]').length") == 0
    assert tab.troubles == []
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
    rows = tab.page.locator("[data-chart=random-read-spread] .ytick").all_text_contents()
    drawn = "".join("".join(rows).split())
    assert "<b>bold</b>" in drawn and "<script>alert(1)" in drawn
    assert tab.page.locator("[data-chart] img, [data-chart] script").count() == 0
    assert tab.page.locator("main b:text-is('bold')").count() == 0
    tab.page.locator("[data-chart=random-read-rate]").scroll_into_view_if_needed()
    tab.page.locator("[data-chart=random-read-rate] .points path").first.hover(force=True)
    tab.page.wait_for_selector("[data-chart=random-read-rate] .hovertext")
    assert tab.troubles == []
    tab.close()


def test_a_partial_review_opens_without_complaint(browser: Any, folder: Path) -> None:
    made = made_result.make(
        folder / "part", only=("thermal-write",), failed={"thermal-write": "out of power"}
    )
    tab = Tab(browser, report.write([made]))
    assert "out of power" in tab.page.locator("main").inner_text()
    assert tab.troubles == []
    tab.close()


def test_a_chart_can_be_saved_as_a_picture(tab: Tab) -> None:
    tab.page.locator("[data-chart=random-read-rate]").scroll_into_view_if_needed()
    tab.page.wait_for_selector("[data-chart=random-read-rate] .points path")
    picture = tab.page.evaluate(
        "Plotly.toImage(document.querySelector('[data-chart=random-read-rate]'), {format: 'png'})"
    )
    assert picture.startswith("data:image/png;base64,") and len(picture) > 5_000
