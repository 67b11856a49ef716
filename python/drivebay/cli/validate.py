"""`drivebay validate`: compares published figures with reproduced ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from drivebay.cli import complete, options
from drivebay.cli.options import argument, option
from drivebay.cli.output import print_json, show_wrapped, table
from drivebay.common.errors import EXIT_CHECK_FAILED

if TYPE_CHECKING:
    from drivebay.lab.validate.plan import Plan


def validate(
    drives: list[str] | None = argument(autocompletion=complete.drives),
    rows: list[str] | None = option("--row"),
    as_json: options.Json = False,
) -> None:
    """Compare published figures with reproduced ones.

    The first lines score the predicted numbers, to which the model was not fitted: median error and
    share within bounds, each row left out of its own fit; words and ranks count apart. The tables
    show each row of published/figures.csv by its class (predicted, contradicted, fitted) with its
    error, its leverage (0: nothing was tuned to it; 1: it is right because it was put in), its
    error if left out of the fit, and the 90 % interval that other sources' rows like it give.
    Recent drives have their own tables, which do not count in the score. Exit code 1 if a row is
    out of its bounds.

    Examples:
      drivebay validate                            all rows, some minutes
      drivebay validate xp941-512                  the rows about one drive
      drivebay validate --row S061 --row S064      these rows
      drivebay validate --json > validation.json

    Parameters
    ----------
    drives : DRIVE...
        Only the rows about these drives. [default: all]
    rows : ID
        Only this row. Repeatable.
    """
    from drivebay.cli.progress import status
    from drivebay.lab.validate import table as tables
    from drivebay.lab.validate.plan import load_plan
    from drivebay.lab.validate.runs import run_all
    from drivebay.lab.validate.verdicts import judge

    plan = load_plan().of_drives(drives or []).only(rows or [])
    with status() as show:
        runs = run_all(plan, progress=lambda done, count: show(f"{done} of {count} drive states"))
    judged = judge(plan, runs)
    document = tables.as_json(judged)
    if as_json:
        print_json(document)
    else:
        _show_scored(plan.only_scored(), document)
        _show_modern(plan.only_scored(False), document)
    if judged.ok < len(judged.verdicts):
        raise typer.Exit(EXIT_CHECK_FAILED)


def _show_scored(plan: Plan, document: dict[str, Any]) -> None:
    from drivebay.analysis import fidelity

    if not plan.rows:
        return
    summary = document["summary"]
    _show_rows(document, document, fidelity.stale(), scored=True)
    median = summary["median_abs_error_pct"]
    error = "" if median is None else f", median error {median:.1f} %"
    fitted = f"As fitted: {summary['ok']} of {summary['n']} rows within their bounds{error}"
    show_wrapped(f"{fitted}; {_uncovered(plan)}", "\n", 0)


def _show_modern(plan: Plan, document: dict[str, Any]) -> None:
    from drivebay.analysis import fidelity
    from drivebay.lab.validate import table as tables

    if not plan.rows:
        return
    show_wrapped(tables.MODERN, "\n", 0)
    _show_rows(document, document["unscored"], fidelity.stale_modern(), scored=False)
    print(f"\n{_uncovered(plan)}")


def _show_rows(document: dict[str, Any], part: dict[str, Any], stale: str, *, scored: bool) -> None:
    from drivebay.analysis import fidelity
    from drivebay.lab.validate import table as tables

    for name, summary in {"all": part["summary"], **part["drives"]}.items():
        show_wrapped(tables.headline(name, summary))
    if stale:
        what = f"leverage, errors without the row and intervals are stale: {stale}"
        show_wrapped(f"{what}; {fidelity.AGAIN} recomputes them")
    for name in fidelity.CLASSES:
        if rows := tables.lines(document, scored=scored, of_class=name):
            print(f"\n{name.capitalize()}")
            table(tables.HEAD, rows)


def _uncovered(plan: Plan) -> str:
    return f"{sum(bool(row.not_covered) for row in plan.rows)} rows have no figure in the model"
