"""`drivebay compare`: the headline figures of several results beside each other."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from drivebay.cli import options
from drivebay.cli.options import argument
from drivebay.cli.output import number, print_json, show, table
from drivebay.common.errors import UserError

app = options.Verb()


@app.command(
    epilog="""\b
Examples:
  drivebay compare drivebay-results/*
  drivebay compare BASELINE OTHER --json""",
)
def compare(
    folders: Annotated[list[Path], argument("DIR DIR...", "Results; the first is the baseline.")],
    as_json: options.Json = False,
) -> None:
    """Compare the headline figures of two or more results.

    Percentages are differences from the first result; one that cannot be read is left out.
    The report shows all figures and charts: drivebay report DIR DIR --out both.html
    """
    from drivebay import analysis
    from drivebay.analysis.comparable import run_differently
    from drivebay.cli.folders import shown
    from drivebay.definitions.suites import Test

    if len(folders) < 2:
        raise UserError("compare needs at least two results", "drivebay compare DIR DIR")
    figures: dict[tuple[str, str, str], dict[int, float | None]] = {}
    names = []
    tests: dict[str, list[Test]] = {}
    found = shown(folders, least=2)
    folders = [result.folder for result in found]
    for place, result in enumerate(found):
        names.append(str(result.target.get("title") or result.target["name"]))
        for step in result.done:
            tests.setdefault(step.id, []).append(step.test)
        for one in analysis.headline(result):
            figures.setdefault((one.test_id, one.label, one.unit), {})[place] = one.value
    if len(set(names)) < len(names):
        names = [folder.resolve().name for folder in folders]
    rows: list[dict[str, Any]] = [
        {
            "test_id": test_id,
            "label": label,
            "unit": unit,
            "values": [values.get(place) for place in range(len(folders))],
            "run_differently": run_differently(tests[test_id]),
        }
        for (test_id, label, unit), values in figures.items()
        if len(values) > 1
    ]
    if not rows:
        raise UserError("these results have no test in common", "review them with the same suite")
    if as_json:
        print_json({"results": list(map(str, folders)), "names": names, "figures": rows})
        return
    last = ""
    cells = []
    for row in rows:
        base, *others = row["values"]
        like = None if row["run_differently"] else base
        test = "" if row["test_id"] == last else row["test_id"]
        last = row["test_id"]
        values = ["–" if base is None else number(base), *(_against(like, o) for o in others)]
        cells.append((test, row["label"], row["unit"], *values))
    table(("test", "figure", "unit", *names), cells, right=range(3, 3 + len(folders)))
    different = dict.fromkeys(row["test_id"] for row in rows if row["run_differently"])
    if different:
        words = "run differently (another suite, or a shortened run), so without a difference:"
        show("", words, ", ".join(different))


def _against(base: float | None, value: float | None) -> str:
    """A value with its difference from the baseline.

    >>> _against(100.0, 125.0), _against(None, 3.0), _against(1.0, None)
    ('125 +25.0 %', '3.00', '–')
    """
    if value is None:
        return "–"
    return number(value) + (f" {value / base - 1:+.1%}".replace("%", " %") if base else "")
