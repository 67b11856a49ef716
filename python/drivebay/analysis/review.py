"""Analysis of a whole review: every test's figures, the headline table, missing tests.

This module connects the package with the result folder; the others work on tables and arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from drivebay.analysis import fidelity, published
from drivebay.analysis import headline as headlines
from drivebay.analysis.figures import Measured
from drivebay.analysis.headline import Headline
from drivebay.analysis.measure import measure
from drivebay.analysis.modified import changes
from drivebay.results import Result


@dataclass(frozen=True)
class Review:
    """A result and its figures; `tests` has the finished tests by id, in the suite's order.

    `drive` is the name under which figures of this drive are published, None if there are none or
    the drive was changed.
    """

    result: Result
    tests: Mapping[str, Measured]
    drive: str | None

    @property
    def headline(self) -> tuple[Headline, ...]:
        """The short table, in the suite's order."""
        return self._rows(headlines.rows_of)

    @property
    def comparisons(self) -> tuple[Headline, ...]:
        """Rows for every published figure that this review measures."""
        return self._rows(headlines.comparisons_of)

    def _rows(self, rows_of: Callable[..., tuple[Headline, ...]]) -> tuple[Headline, ...]:
        """Rows of all tests."""
        suite, shortened = self.result.suite.name, self.result.quick
        return tuple(
            row
            for measured in self.tests.values()
            for row in rows_of(measured, suite=suite, drive=self.drive, shortened=shortened)
        )


def review(result: Result, *, intervals: bool = True) -> Review:
    """Computes a result; a partial one has figures of the finished tests. Raises UserError if a
    step's files cannot be read. `intervals`: also compute 90 % intervals for a virtual drive
    of the catalog, by kind of figure, or a calibrated one, from its parameters.
    """
    tests = {step.id: measure(step.test, step.phases()) for step in result.done}
    if intervals and result.simulated:
        profile = result.target.get("profile") or {}
        known = fidelity.known_of(str(result.target.get("name")), profile)
        tests = {name: _with_intervals(test, known) for name, test in tests.items()}
    return Review(result, tests, published_drive(result))


def _with_intervals(measured: Measured, known: fidelity.Known | None) -> Measured:
    figures = {
        key: fidelity.with_interval(known, measured.test, figure)
        for key, figure in measured.figures.items()
    }
    return replace(measured, figures=figures)


def headline(result: Result, *, intervals: bool = True) -> list[Headline]:
    """The short table of a review: main figures, each with the published one."""
    return list(review(result, intervals=intervals).headline)


def published_drive(result: Result) -> str | None:
    """The drive of figures.csv that was tested, if it is one of them and unchanged.

    A virtual drive is identified by its profile's name unless it was changed for a what-if; this
    includes a profile that somebody is still fitting, and the report says that it is not the
    catalog's. A real drive is identified by its model number.
    """
    target = result.target
    if result.simulated:
        name = str(target.get("name"))
        known = any(row.drive == name for row in published.figures().values())
        return name if known and not changes(target) else None
    return published.drive_of_model(str(target.get("model") or ""))
