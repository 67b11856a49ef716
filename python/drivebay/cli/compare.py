"""`drivebay compare`: the headline figures of several results beside each other."""

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

app = options.Verb()


@app.command(
    epilog="""\b
Examples:
  drivebay compare drivebay-results/*
  drivebay compare BASELINE OTHER --json"""
)
def compare(
    folders: list[Path] = argument("DIR DIR...", "Results; the first is the baseline."),
    as_json: options.Json = False,
) -> None:
    """Compare the headline figures of two or more results.

    Percentages are differences from the first result; one that cannot be read is left out. Results
    without a test in common are compared load by load, each with the nearest.
    The report shows all figures and charts: drivebay report DIR DIR --out both.html
    """
    from drivebay import analysis
    from drivebay.analysis.comparable import run_differently
    from drivebay.cli.folders import shown
    from drivebay.definitions.suites import Test

    if len(folders) < 2:
        raise UserError("compare needs at least two results", "drivebay compare DIR DIR")
    figures: dict[tuple[str, str, str], dict[int, Headline]] = {}
    names = []
    tests: dict[str, list[Test]] = {}
    found = shown(folders, least=2)
    folders = [result.folder for result in found]
    for place, result in enumerate(found):
        names.append(str(result.target.get("title") or result.target["name"]))
        for step in result.done:
            tests.setdefault(step.id, []).append(step.test)
        for figure in analysis.headline(result):
            figures.setdefault((figure.test_id, figure.label, figure.unit), {})[place] = figure
    if len(set(names)) < len(names):
        names = [folder.resolve().name for folder in folders]
    rows: list[dict[str, Any]] = [
        {
            "test_id": test_id,
            "label": label,
            "unit": unit,
            "values": [values[at].value if at in values else None for at in range(len(folders))],
            "run_differently": run_differently(tests[test_id]),
        }
        for (test_id, label, unit), values in figures.items()
        if len(values) > 1
    ]
    if not rows:
        _compare_loads(found, names, as_json=as_json)
        return
    if as_json:
        print_json({"results": list(map(str, folders)), "names": names, "figures": rows})
        return
    last = ""
    cells = []
    for row in rows:
        known = figures[row["test_id"], row["label"], row["unit"]]
        base, *others = row["values"]
        like = None if row["run_differently"] else base
        test = "" if row["test_id"] == last else row["test_id"]
        last = row["test_id"]
        values = ["–" if base is None else number(base), *(_against(like, o) for o in others)]
        values = [
            known[place].missing if place in known and row["values"][place] is None else value
            for place, value in enumerate(values)
        ]
        cells.append((test, row["label"], row["unit"], *values))
    table(("test", "figure", "unit", *names), cells, right=range(3, 3 + len(folders)))
    for note in _notes(figures.values(), names):
        show(note)
    different = dict.fromkeys(row["test_id"] for row in rows if row["run_differently"])
    if different:
        words = "run differently (another suite, or a shortened run), so without a difference:"
        show("", words, ", ".join(different))


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


def _compare_loads(found: Sequence[results.Result], names: Sequence[str], *, as_json: bool) -> None:
    """The loads of the first result, each beside the nearest one of every other."""
    from drivebay.analysis import nearest, review

    first, *others = [nearest.loads(review(result)) for result in found]
    near = [(load, [nearest.nearest(other, load) for other in others]) for load in first]
    near = [(load, alike) for load, alike in near if any(alike)]
    if not near:
        raise UserError(
            "these results have no test in common, and no loads near each other",
            "review them with the same suite",
        )
    if as_json:
        folders = [str(result.folder) for result in found]
        rows = [{"load": load, "nearest": alike} for load, alike in near]
        print_json({"results": folders, "names": names, "figures": [], "loads": rows})
        return
    cells = []
    for load, alike in near:
        unit = nearest.unit(load)
        base = nearest.rate(load, unit)
        values = [
            "–" if o is None else f"{_against(base, nearest.rate(o, unit))}, {_named(o)}"
            for o in alike
        ]
        cells.append((_named(load), unit, number(base), *values))
    show("no test in common: each load beside the nearest one of the others", "")
    table(("load", "unit", *names), cells, right=(2,))


def _named(load: dict[str, Any]) -> str:
    return f"{load['title']}, QD {load['depth']}"


def _against(base: float | None, value: float | None) -> str:
    """A value with its difference from the baseline.

    >>> _against(100.0, 125.0), _against(None, 3.0), _against(1.0, None)
    ('125 +25.0 %', '3.00', '–')
    """
    if value is None:
        return "–"
    return number(value) + (f" {value / base - 1:+.1%}".replace("%", " %") if base else "")
