"""For all tests: real reviews of this run wait for one another only, not for other people's."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator

import pytest

from drivebay.targets import turns


@pytest.fixture(autouse=True, scope="session")
def locks_of_our_own() -> Iterator[None]:
    """A folder for the lock files of drivebay's turns, as long as the tests run."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, turns.DIRECTORY_VARIABLE, folder)
        yield
