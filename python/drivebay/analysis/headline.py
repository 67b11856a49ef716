"""Short table of a review: its main figures, each with the published one.

A published figure is added to a measured one only if the drive is the same and unchanged, and suite
and test are those that the statement belongs to. On a shortened run it is shown, but no error is
computed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from drivebay.analysis import trust
from drivebay.analysis.figures import Figure, Measured
from drivebay.analysis.published import Mapped, Verdict, error_percent, statement
from drivebay.analysis.published import mapped as mapped_rows


@dataclass(frozen=True)
class Headline(Figure):
    """One row: a measured figure with the published figure, if there is one.

    `published` is in the same unit as `value`, with its relation ("eq", "approx", "lt", "gt");
    `published_text` is its printed form, `bounds` the range that agrees with it. `verdict` is None
    if nothing is published. `source` is the publication.
    """

    test_id: str = ""
    test_title: str = ""
    published: float | None = None
    published_id: str | None = None
    published_relation: str | None = None
    published_text: str = ""
    published_note: str = ""
    error_percent: float | None = None
    bounds: tuple[float, float] | None = None
    verdict: Verdict | None = None
    source: str = ""


def rows_of(
    measured: Measured, *, suite: str, drive: str | None, shortened: bool
) -> tuple[Headline, ...]:
    """Headline rows of one test: the figures that its kind always shows, and all with a
    published figure.
    """
    compared = {row.metric: row for row in _mapped(measured, suite, drive) if row.primary}
    shown = {*measured.main, *compared}
    return tuple(
        _row(measured, figure, compared.get(key), shortened=shortened)
        for key, figure in measured.figures.items()
        if key in shown
    )


def plain_row(measured: Measured, key: str) -> Headline | None:
    """A figure as a row without a published one; None if the test does not have it."""
    figure = measured.figures.get(key)
    return None if figure is None else _row(measured, figure, None, shortened=False)


def comparisons_of(
    measured: Measured, *, suite: str, drive: str | None, shortened: bool
) -> tuple[Headline, ...]:
    """Rows for every published figure that this test measures, repeated statements included."""
    return tuple(
        _row(measured, measured.figures[row.metric], row, shortened=shortened)
        for row in _mapped(measured, suite, drive)
        if row.metric in measured.figures
    )


def _mapped(measured: Measured, suite: str, drive: str | None) -> list[Mapped]:
    return [
        row
        for row in mapped_rows()
        if row.published.drive == drive and (row.suite, row.test) == (suite, measured.test.id)
    ]


def _row(measured: Measured, figure: Figure, mapped: Mapped | None, *, shortened: bool) -> Headline:
    base = Headline(**vars(figure), test_id=measured.test.id, test_title=measured.test.title)
    if mapped is None:
        return base
    error, bounds = None, trust.bounds(mapped.published)
    verdict: Verdict | None
    if figure.value is None:
        verdict = "not measured"
    elif shortened:
        verdict = "shortened"
    else:
        error = error_percent(mapped, figure.value)
        inside = bounds is not None and bounds[0] <= figure.value <= bounds[1]
        verdict = None if bounds is None else "within" if inside else "off"
    row = mapped.published
    return replace(
        base,
        published=row.value,
        published_id=row.id,
        published_relation=row.relation,
        published_text=statement(row),
        published_note="; ".join(filter(None, (mapped.note, f"host {row.host}"))),
        error_percent=error,
        bounds=bounds,
        verdict=verdict,
        source=row.source,
    )
