"""Pages in a real browser: opened from a file, offline, with all that they complain of kept.

Chromium comes from the system (`make test` installs it); Playwright only drives it.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

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
WITHOUT = "Chromium is not installed: apt-get install chromium"
WAIT_S = 300
"""However busy the machine is; a test of what never comes ends then."""
DRAWN_S = 120
"""For one chart, and the first one brings the library with it."""
SERIOUS = ("serious", "critical")


def installed() -> bool:
    """Whether there is a browser to test with."""
    return Path(CHROMIUM).exists()


def barriers(page: Any) -> list[str]:
    """What axe-core finds that would keep somebody out, one line each."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [
        f"{one['id']}: {one['help']}: {one['nodes'][0]['html'][:200]}"
        for one in found
        if one["impact"] in SERIOUS
    ]


class Tab:
    """A page that was opened offline, with all that it complained of and all that it asked for."""

    def __init__(
        self, browser: Any, path: Path | str, *, details: bool = True, **options: Any
    ) -> None:
        self.context = browser.new_context(
            **{"offline": True, "viewport": {"width": 1280, "height": 900}, **options}
        )
        self.page = self.context.new_page()
        self.page.set_default_timeout(WAIT_S * 1000)
        self.troubles: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda line: self.troubles.append(f"{line.type}: {line.text}"))
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("dialog", self._dialog)
        self.page.goto(path if isinstance(path, str) else path.as_uri())
        if details:  # what is closed is not drawn
            self.page.evaluate("document.querySelector('#details')?.setAttribute('open', '')")

    def _dialog(self, dialog: Any) -> None:
        self.troubles.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def see_all(self) -> None:
        """Looks at one chart after the other, so that every one is drawn."""
        stuck = self._draw_all()
        if stuck and not stuck["frames"]:  # not the page's doing: the browser paints nothing
            self.page.bring_to_front()
            stuck = self._draw_all()
        assert not stuck, f"not drawn within {DRAWN_S} s: {stuck}; {self.troubles}"

    def _draw_all(self) -> Any:
        """None, or a dict: the chart not drawn in time, and what the page was doing then."""
        return self.page.evaluate(
            """async (limit) => {
                let frames = 0;
                const count = () => { frames += 1; requestAnimationFrame(count); };
                requestAnimationFrame(count);
                for (const box of document.querySelectorAll("[data-chart]")) {
                    const end = performance.now() + limit;
                    for (let turn = 0; !box.dataset.drawn; turn += 1) {
                        if (turn % 20 === 0) box.scrollIntoView({ block: "center" });
                        await new Promise((go) => setTimeout(go, 5));
                        if (performance.now() < end) continue;
                        const { top, height } = box.getBoundingClientRect();
                        const library = typeof Plotly !== "undefined";
                        const seen = document.visibilityState;
                        return { chart: box.dataset.chart, frames, top, height, seen, library };
                    }
                }
                return null;
            }""",
            DRAWN_S * 1000,
        )

    def chart(self, chart_id: str, what: str) -> Any:
        """Something of a drawn chart's Plotly object, as a JavaScript expression of `chart`."""
        return self.page.evaluate(
            f"(() => {{ const chart = document.querySelector('[data-chart=\"{chart_id}\"]'); "
            f"return {what}; }})()"
        )

    def until(self, what: str) -> None:
        """Waits until a JavaScript expression is true; the pages' policy forbids Playwright's own
        way, which evaluates text in the page."""
        end = time.monotonic() + WAIT_S
        while not self.page.evaluate(what):
            assert time.monotonic() < end, f"not within {WAIT_S} s: {what}"
            self.page.wait_for_timeout(20)

    def close(self) -> None:
        self.context.close()
