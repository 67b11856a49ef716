"""The short table of a review: its main figures, the published ones beside them.

A published figure stands beside a measured one only where the drive is the same one, unchanged, and
suite and test are those that the statement belongs to. On a shortened run it is shown, but no error
is computed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from drivebay.analysis.figures import Figure, Measured
from drivebay.analysis.published import Mapped, Verdict, error_percent, said
from drivebay.analysis.published import mapped as mapped_rows

FURTHEST = 2


@dataclass(frozen=True)
class Headline(Figure):
    """One row: a measured figure and, where there is one, the published figure beside it.

    `published` is in the same unit as `value`, with its relation ("eq", "approx", "lt", "gt");
    `published_text` is how to print it. `verdict` is None where nothing is published. `source` is
    the publication.
    """

    test_id: str = ""
    test_title: str = ""
    published: float | None = None
    published_id: str | None = None
    published_relation: str | None = None
    published_text: str = ""
    published_note: str = ""
    error_percent: float | None = None
    tolerance_percent: float | None = None
    verdict: Verdict | None = None
    source: str = ""


def rows_of(
    measured: Measured, *, suite: str, drive: str | None, shortened: bool
) -> tuple[Headline, ...]:
    """Headline rows of one test: what its kind always shows, and all with a published figure."""
    compared = {row.metric: row for row in _mapped(measured, suite, drive) if row.primary}
    keys = list(measured.main)
    keys += [key for key in compared if key not in keys]
    order = list(measured.figures)
    keys.sort(key=lambda key: order.index(key) if key in order else len(order))
    return tuple(
        _row(measured, measured.figures[key], compared.get(key), shortened=shortened)
        for key in keys
        if key in measured.figures
    )


def plain_row(measured: Measured, key: str) -> Headline | None:
    """A figure as a row without a published one beside it; None where the test has no such."""
    figure = measured.figures.get(key)
    return None if figure is None else _row(measured, figure, None, shortened=False)


def comparisons_of(
    measured: Measured, *, suite: str, drive: str | None, shortened: bool
) -> tuple[Headline, ...]:
    """Every published figure that this test has an answer to, repeated statements included."""
    return tuple(
        _row(measured, measured.figures[row.metric], row, shortened=shortened)
        for row in _mapped(measured, suite, drive)
        if row.metric in measured.figures
    )


def agreement(rows: Iterable[Headline]) -> str:
    """How many published figures are met, and which lie furthest off; empty if there are none."""
    compared = [one for one in rows if one.verdict in ("within", "off")]
    off = [one for one in compared if one.verdict == "off"]
    if not compared:
        return ""
    words = f"{len(compared) - len(off)} of {len(compared)} published figures within tolerance"
    off = sorted(off, key=lambda one: -abs(one.error_percent or 0.0))[:FURTHEST]
    named = [f"{one.test_title}, {one.label} ({one.error_percent or 0.0:+.1f} %)" for one in off]
    return f"{words}; largest errors: {'; '.join(named)}" if named else words


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
    error = None
    verdict: Verdict
    if figure.value is None:
        verdict = "not measured"
    elif shortened:
        verdict = "shortened"
    else:
        error = error_percent(mapped, figure.value)
        verdict = "within" if abs(error or 0.0) <= mapped.tolerance_percent else "off"
    row = mapped.published
    return replace(
        base,
        published=row.value,
        published_id=row.id,
        published_relation=row.relation,
        published_text=said(row),
        published_note="; ".join(filter(None, (mapped.note, f"host {row.host}"))),
        error_percent=error,
        tolerance_percent=mapped.tolerance_percent,
        verdict=verdict,
        source=row.source,
    )
