"""For all tests: one browser; locks of our own, so that real reviews of this run wait for one
another only, not for other people's; and signals that arrive, even if our shell ignores them."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from typing import Any

import browsing
import hypothesis
import pytest

from drivebay.targets.safety import locks, marks

# No limit of time for an example: on a busy machine any may be slow.
hypothesis.settings.register_profile(
    "busy", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("busy")

# The files that take longest: begun first, as a file's tests stay in one process.
LONGEST_FIRST = (
    "test_real_review.py",
    "test_protections.py",
    "test_resume_real.py",
    "test_report_browser.py",
    "test_damaged_results.py",
    "test_purge.py",
    "test_listeners.py",
    "test_validate.py",
    "test_crash.py",
    "test_report.py",
    "test_blockdev.py",
    "test_fleet.py",
)


_remembered = tempfile.TemporaryDirectory(prefix="drivebay-state-")
"""What drivebay remembers while these tests run, also in the programs that they start: set before
their files are imported."""
os.environ[marks.STATE_VARIABLE] = _remembered.name
os.environ["XDG_CONFIG_HOME"] = _remembered.name  # no defaults of whoever runs the tests


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the longest files first; the order of all else stays."""
    place = {name: number for number, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: place.get(item.path.name, len(place)))


@pytest.fixture(autouse=True, scope="session")
def signals_arrive() -> None:
    """Undoes what a shell (or nohup) does to jobs in the background, and their children inherit."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(autouse=True, scope="session")
def locks_of_our_own() -> Iterator[None]:
    """A folder for the lock files of drivebay's turns, as long as the tests run."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, locks.DIRECTORY_VARIABLE, folder)
        yield


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
