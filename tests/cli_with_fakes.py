"""The drivebay program, in which every catalog drive is the fake target: as a process to be killed,
or in a test's own process.

`FAKE_WALL_S` is how long each test takes; `FAKE_KIND` and `FAKE_HOURS` make it a real drive with
an estimate of that many hours.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from fakes import FakeTarget, small_suite

from drivebay.cli import main, report, target
from drivebay.common import provenance
from drivebay.definitions import suites


class Slow(FakeTarget):
    """A fake that estimates what it is told to."""

    def estimate_s(self, test: object) -> float:
        return float(os.environ.get("FAKE_HOURS", "0")) * 3600 + 1


def make() -> Slow:
    """The target that every DRIVE means."""
    kind = os.environ.get("FAKE_KIND", "virtual")
    assert kind in ("virtual", "file", "block")
    return Slow(kind=kind, wall_s=float(os.environ.get("FAKE_WALL_S", "0")))  # type: ignore[arg-type]


def write_report(
    *folders: Path, out: Path | None = None, intervals: bool = True, competitors: bool = True
) -> Path:
    """Stands for the report's room, which has its own tests."""
    page = out or folders[0] / "report.html"
    page.write_text("<p>a report</p>")
    return page


INSTEAD: tuple[tuple[Any, str, Any], ...] = (
    (provenance, "git_commit", lambda: None),
    (target, "check_options", lambda *_: None),
    (target, "target_factory", lambda *_, **__: make),
    (report, "write", write_report),
    (suites, "load", lambda _name: small_suite()),
)
"""What the program has in place of its own, by module and name."""

if __name__ == "__main__":
    for module, name, value in INSTEAD:
        setattr(module, name, value)
    main()
