"""Every kind of page in a real browser: nothing keeps anybody out, on any screen, in any colours.

`DRIVEBAY_SCREENSHOTS=FOLDER` keeps pictures of all pages, to look at.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import here
import made_result
import pytest
from browsing import Tab, barriers

from drivebay import report, results
from drivebay.analysis.effects import Factor, Study
from drivebay.report.pages import sweep
from drivebay.report.peers import competitors

KINDS = ("report", "comparison", "bench", "sweep", "import")
ONLY = ("consistency-default", "random-read", "mixed-random", "thermal-write")
DESK, PHONE = {"width": 1440, "height": 900}, {"width": 360, "height": 740}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page of each kind."""
    folder = tmp_path_factory.mktemp("pages")
    first = made_result.make(folder / "first", only=ONLY)
    second = made_result.make(folder / "second", only=ONLY, seed=2, speed=0.7)
    shipped = competitors.load(beside=[results.load(first).target])
    fio = here.DATA / "fio/3.39-answers.json"
    done = here.drivebay("import", "auto", str(fio), "--out", "imported", cwd=folder)
    assert done.returncode == 0, done.stderr
    study = Study([Factor("spare", (7, 28)), Factor("policy", ("greedy", "fifo"))])
    labels = {"random-write": {"iops": ("Mean IOPS", "IOPS", True), "waf": ("WAF", "", False)}}
    for spare, policy, seed in itertools.product((7, 28), ("greedy", "fifo"), (1, 2, 3)):
        iops = 9000 + 900 * spare + 2000 * (policy == "greedy") + 100 * seed
        row = {"test": "random-write", "spare": spare, "policy": policy, "seed": seed}
        study.add({**row, "iops": iops, "waf": 100 / spare}, labels)
    about = sweep.About("Spare flash and policy", True, False, 12, {}, (("Drive", "a drive"),))
    (folder / "sweep.html").write_text(sweep.render(about, study))
    ranked = report.write([first], shipped=shipped)
    html = ranked.read_text()
    assert "<s>12" in html and 'class="small marks"' in html, "a doubted figure, and the legend"
    return {
        "report": ranked,
        "comparison": report.write([first, second], folder / "comparison.html"),
        "bench": report.write_bench([first, second], folder / "site"),
        "sweep": folder / "sweep.html",
        "import": report.write([folder / "imported"]),
    }


def opened(browser: Any, pages: dict[str, Path], kind: str, **options: Any) -> Tab:
    """A page with all its charts drawn."""
    address = pages[kind].as_uri() + ("#drives=first,second" if kind == "bench" else "")
    tab = Tab(browser, address, **options)
    if kind == "bench":
        tab.page.wait_for_selector("html[data-ready]")
    tab.see_all()
    return tab


def keep(tab: Tab, name: str) -> None:
    """Keeps a picture of the whole page, if a folder for it is named."""
    if folder := os.environ.get("DRIVEBAY_SCREENSHOTS"):
        tab.page.evaluate("scrollTo(0, 0)")
        tab.page.screenshot(path=f"{folder}/{name}.png", full_page=True)


@pytest.fixture(scope="module", params=KINDS)
def desk(
    browser: Any, pages: dict[str, Path], request: pytest.FixtureRequest
) -> Iterator[tuple[str, Tab]]:
    """A kind of page, and a tab that shows it in light colours, on a screen of a desk at first."""
    tab = opened(browser, pages, request.param, color_scheme="light", viewport=DESK)
    yield request.param, tab
    tab.close()


def must_keep_nobody_out(kind: str, tab: Tab, theme: str) -> None:
    """On a desk and on a phone."""
    pytest.importorskip("axe_playwright_python")
    assert barriers(tab.page) == []
    keep(tab, f"{kind}-1440-{theme}")
    tab.page.set_viewport_size(PHONE)
    tab.see_all()
    assert tab.page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    assert barriers(tab.page) == []
    keep(tab, f"{kind}-360-{theme}")
    assert tab.troubles == []


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=() if kind == "report" else pytest.mark.long) for kind in KINDS],
)
def test_nothing_keeps_anybody_out_of_a_dark_page(
    browser: Any, pages: dict[str, Path], kind: str
) -> None:
    tab = opened(browser, pages, kind, color_scheme="dark", viewport=DESK)
    must_keep_nobody_out(kind, tab, "dark")
    tab.close()


def test_every_control_is_reached_by_keyboard_and_shows_that(desk: tuple[str, Tab]) -> None:
    unseen = desk[1].page.evaluate(
        """() => {
            const found = [];
            const selector = "a[href], button, input, select, summary, [tabindex='0']";
            for (const node of document.querySelectorAll(selector)) {
                if (node.disabled || !node.checkVisibility({ visibilityProperty: true })) continue;
                if (node.getClientRects().length === 0) continue;
                node.focus({ focusVisible: true });
                if (document.activeElement !== node) found.push("no focus: " + node.outerHTML);
                const places = [node, node.nextElementSibling, node.closest("label")];
                const seen = places.some((place) => {
                    if (!place) return false;
                    const style = getComputedStyle(place);
                    return style.outlineStyle !== "none" || style.boxShadow !== "none";
                });
                if (!seen) found.push("not seen: " + node.outerHTML.slice(0, 160));
            }
            return [...new Set(found.map((line) => line.slice(0, 200)))];
        }"""
    )
    assert unseen == []


def test_nothing_keeps_anybody_out(desk: tuple[str, Tab]) -> None:
    must_keep_nobody_out(*desk, "light")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "bench"])
def test_a_print_is_in_light_colours(browser: Any, pages: dict[str, Path], kind: str) -> None:
    tab = Tab(browser, pages[kind], color_scheme="dark", details=False)
    tab.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    tab.page.emulate_media(media="print")
    ground = tab.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground in ("rgb(255, 255, 255)", "rgba(0, 0, 0, 0)")
    keep(tab, f"{kind}-print")
    tab.close()
