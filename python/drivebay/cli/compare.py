"""`drivebay compare`: compares the headline figures of several results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drivebay.cli import options
from drivebay.cli.options import argument
from drivebay.cli.output import number, print_json, show, table
from drivebay.common.errors import UserError

if TYPE_CHECKING:
    from drivebay import results
    from drivebay.analysis.headline import Headline


def compare(folders: list[Path] = argument(), as_json: options.Json = False) -> None:
    """Compare the headline figures of two or more results.

    Percentages are differences from the first result. Unreadable results are skipped. Results with
    no test in common are compared load by load, each with the most similar one.
    For all figures and charts: drivebay report DIR DIR --out both.html

    Examples:
      drivebay compare drivebay-results/*
      drivebay compare BASELINE OTHER --json

    Parameters
    ----------
    folders : DIR DIR...
        Result folders; the first is the baseline.
    """
    from drivebay import analysis
    from drivebay.analysis.comparable import run_differently
    from drivebay.cli import folders as result_folders
    from drivebay.definitions.suites import Test

    if len(folders) < 2:
        raise UserError("compare needs at least two results", "drivebay compare DIR DIR")
    figures: dict[tuple[str, str, str], dict[int, Headline]] = {}
    tests: dict[str, list[Test]] = {}
    loaded = result_folders.shown(folders, least=2)
    names = result_folders.names(loaded)
    document = {"results": [str(result.folder) for result in loaded], "names": names}
    for index, result in enumerate(loaded):
        for step in result.done:
            tests.setdefault(step.id, []).append(step.test)
        for figure in analysis.headline(result):
            figures.setdefault((figure.test_id, figure.label, figure.unit), {})[index] = figure
    rows: list[dict[str, Any]] = [
        {
            "test_id": test_id,
            "label": label,
            "unit": unit,
            "values": [values[at].value if at in values else None for at in range(len(names))],
            "run_differently": run_differently(tests[test_id]),
        }
        for (test_id, label, unit), values in figures.items()
        if len(values) > 1
    ]
    if not rows:
        _compare_loads(loaded, names, document if as_json else None)
        return
    if as_json:
        print_json(document | {"figures": rows})
        return
    last = ""
    cells = []
    for row in rows:
        known = figures[row["test_id"], row["label"], row["unit"]]
        base, *others = row["values"]
        comparable = None if row["run_differently"] else base
        test = "" if row["test_id"] == last else row["test_id"]
        last = row["test_id"]
        values = [_against(None, base), *(_against(comparable, value) for value in others)]
        for place, figure in known.items():
            if figure.value is None:
                values[place] = figure.missing
        cells.append((test, row["label"], row["unit"], *values))
    table(("test", "figure", "unit", *names), cells, right=range(3, 3 + len(names)))
    for note in _notes(figures.values(), names):
        show(note)
    different = dict.fromkeys(row["test_id"] for row in rows if row["run_differently"])
    if different:
        reason = "run differently (another suite or a shortened run), so no difference is shown:"
        show("", reason, ", ".join(different))


def _notes(figures: Iterable[dict[int, Headline]], names: Sequence[str]) -> list[str]:
    """Reasons for missing values, one line for each test, reason and result."""
    notes = {
        f"{figure.test_id}, {names[place]}: {figure.note}": None
        for known in figures
        if len(known) > 1
        for place, figure in known.items()
        if figure.value is None and figure.note
    }
    return list(notes)


def _compare_loads(
    loaded: Sequence[results.Result], names: Sequence[str], document: dict[str, Any] | None
) -> None:
    """Prints each load of the first result with the most similar load of every other result; as
    JSON if there is a document to add them to."""
    from drivebay.analysis import nearest, review

    first, *others = [nearest.loads(review(result)) for result in loaded]
    pairs = [(load, [nearest.nearest(other, load) for other in others]) for load in first]
    pairs = [(load, matches) for load, matches in pairs if any(matches)]
    if not pairs:
        raise UserError(
            "these results have no test and no similar load in common",
            "review them with the same suite",
        )
    if document is not None:
        rows = [{"load": load, "nearest": matches} for load, matches in pairs]
        print_json(document | {"figures": [], "loads": rows})
        return
    cells = []
    for load, matches in pairs:
        unit = nearest.unit(load)
        base = nearest.rate(load, unit)
        values = [
            "–"
            if match is None
            else f"{_against(base, nearest.rate(match, unit))}, {_named(match)}"
            for match in matches
        ]
        cells.append((_named(load), unit, number(base), *values))
    show("no test in common: each load is shown with the most similar load of the others", "")
    table(("load", "unit", *names), cells, right=(2,))


def _named(load: dict[str, Any]) -> str:
    return f"{load['title']}, QD {load['depth']}"


def _against(base: float | None, value: float | None) -> str:
    """Formats a value with its difference from the baseline.

    >>> _against(100.0, 125.0), _against(None, 3.0), _against(1.0, None)
    ('125 +25.0 %', '3.00', '–')
    """
    if value is None:
        return "–"
    return number(value) + (f" {value / base - 1:+.1%}".replace("%", " %") if base else "")
