#!/usr/bin/env python3
"""Measures a report's loading: first paint, first still picture, first interactive chart.

usage: PYTHONPATH=python:tests .venv/bin/python scripts/page_speed.py REPORT.html [--rounds 7]

Milliseconds from the start of the navigation in Chromium, median and best; the first chart must
appear within 700. The load of the machine is printed too: above 0.5 the times mean little. This is
not a test.
"""

from __future__ import annotations

import argparse
import os
import statistics
from pathlib import Path

import browsing
from playwright.sync_api import sync_playwright

NAMES = ("first paint", "first picture", "first chart", "longest task")
WATCH = """
const found = window.found = { "first picture": 0, "first chart": 0, "longest task": 0 };
new PerformanceObserver((list) => {
  for (const { duration } of list.getEntries()) {
    found["longest task"] = Math.max(found["longest task"], duration);
  }
}).observe({ type: "longtask", buffered: true });
const seen = { "first picture": "svg.still", "first chart": "[data-chart] .main-svg" };
const look = () => {
  for (const [name, what] of Object.entries(seen)) {
    if (!found[name] && document.querySelector(what)) found[name] = performance.now();
  }
  if (!found["first chart"]) requestAnimationFrame(look);
};
requestAnimationFrame(look);
"""
PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"


def main() -> None:
    """Prints one line for each moment."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    rounds = []
    with sync_playwright() as play:
        engine = play.chromium.launch(executable_path=browsing.CHROMIUM, args=browsing.FLAGS)
        for _ in range(given.rounds):
            tab = browsing.Tab(engine, "about:blank", viewport={"width": 1440, "height": 900})
            tab.page.add_init_script(WATCH)
            tab.page.goto(given.report.resolve().as_uri())
            tab.page.wait_for_selector("[data-chart] .main-svg")
            tab.page.wait_for_timeout(200)
            rounds.append(tab.page.evaluate(f"({{ ...found, 'first paint': {PAINT} }})"))
            tab.close()
    print(f"load {os.getloadavg()[0]:.1f}, {given.report.stat().st_size:,} bytes")
    for name in NAMES:
        times = [moments[name] for moments in rounds]
        print(f"{name:14} {statistics.median(times):5.0f} ms, best {min(times):.0f}")


if __name__ == "__main__":
    main()
