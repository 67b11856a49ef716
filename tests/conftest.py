"""One browser for all tests that need one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import browsing
import pytest


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium, started once; skips where it or Playwright is missing."""
    sync_api = pytest.importorskip("playwright.sync_api")
    if not browsing.installed():
        pytest.skip(browsing.WITHOUT)
    with sync_api.sync_playwright() as play:
        engine = play.chromium.launch(executable_path=browsing.CHROMIUM, args=browsing.FLAGS)
        yield engine
        engine.close()
