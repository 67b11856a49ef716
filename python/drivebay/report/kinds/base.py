"""What a kind of test must say of itself, so that it has a page in the report and on the Bench."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from drivebay.analysis import Measured
from drivebay.report.entries import Run
from drivebay.report.markup import Child, Html
from drivebay.report.panels import Panel

HIGHER = "higher"
LOWER = "lower"


@dataclass(frozen=True)
class BarOf:
    """A figure that is shown as bars: on the page beside the published one, on the Bench in rank
    order. `half` lets two stand side by side."""

    key: str
    title: str
    unit: str
    better: str = HIGHER
    half: bool = False


def _nothing(_prefix: str, _found: Sequence[Run]) -> Child:
    return None


def _no_remarks(_measured: Measured) -> list[str]:
    return []


@dataclass(frozen=True)
class Kind:
    """How the tests of one kind are shown.

    Parameters
    ----------
    bars : the figures shown as bars; their keys are keys of `Measured.figures`.
    panels : the charts of some runs; the first argument begins their ids. Runs of the Bench come
        one by one, and are laid over each other by the page (`entries.by_drive`).
    say : sentences for the summary.
    table : all figures.
    remarks : sentences that stand between the bars and the charts.
    shared : what stands above the charts and sets the first part of their views.
    together : the tests of one page share their charts in the report of a lone review.
    """

    bars: Callable[[Measured], Sequence[BarOf]]
    panels: Callable[[str, Sequence[Run]], list[Panel]]
    say: Callable[[Measured], list[str]]
    table: Callable[[Sequence[Run]], Html]
    remarks: Callable[[Measured], list[str]] = _no_remarks
    shared: Callable[[str, Sequence[Run]], Child] = _nothing
    together: bool = False
