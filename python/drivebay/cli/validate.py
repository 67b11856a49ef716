"""`drivebay validate`: published figures beside reproduced ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from drivebay.cli import complete, options
from drivebay.cli.options import argument, option
from drivebay.cli.output import print_json, table
from drivebay.common.errors import EXIT_CHECK_FAILED

if TYPE_CHECKING:
    from drivebay.lab.validate.plan import Plan

app = options.Verb()


@app.command(
    epilog="""\b
Examples:
  drivebay validate                            all rows, some minutes
  drivebay validate xp941-512                  the rows about one drive
  drivebay validate --row S061 --row S064      these rows
  drivebay validate --json > validation.json""",
)
def validate(
    drives: list[str] | None = argument(
        "DRIVE...", "Only rows about these drives. [default: all]", autocompletion=complete.drives
    ),
    rows: list[str] | None = option("ID", "Only this row; repeatable.", "--row"),
    as_json: options.Json = False,
) -> None:
    """Compare published figures with reproduced ones.

    Says first how well the model does where it was not calibrated: the median error and the share
    within bounds of all rows whose leverage is under 0.5, each with itself left out of the fit.
    Below, each row of published/figures.csv with its error; its leverage, from 0 (nothing was tuned
    to it) to 1 (it is there because it was put in); its error if it is left out of the fit; and the
    90 % interval that the model's parameters leave it. Drives of today have tables of their own,
    which the score leaves out. Exit code 1 if a row is not within its bounds."""
    from drivebay.cli.progress import status
    from drivebay.lab.validate import table as tables
    from drivebay.lab.validate.plan import load_plan
    from drivebay.lab.validate.runs import run_all
    from drivebay.lab.validate.verdicts import judge

    plan = load_plan().of_drives(drives or []).only(rows or [])
    with status() as show:
        runs = run_all(
            plan,
            progress=lambda done, count: show(f"{done} of {count} drives in their states"),
        )
    found = judge(plan, runs)
    document = tables.as_json(found)
    if as_json:
        print_json(document)
    else:
        _show_scored(plan.only_scored(), document)
        _show_modern(plan.only_scored(False), document)
    if found.ok < len(found.verdicts):
        raise typer.Exit(EXIT_CHECK_FAILED)


def _show_scored(plan: Plan, document: dict[str, Any]) -> None:
    from drivebay.analysis import fidelity

    if not plan.rows:
        return
    summary = document["summary"]
    _show_rows(document, document, fidelity.stale(), scored=True)
    median = summary["median_abs_error_pct"]
    error = "" if median is None else f", median error {median:.1f} %"
    print(f"\nAs fitted: {summary['ok']} of {summary['n']} rows within their bounds{error}; "
          f"{_uncovered(plan)}")  # fmt: skip


def _show_modern(plan: Plan, document: dict[str, Any]) -> None:
    from drivebay.analysis import fidelity
    from drivebay.lab.validate import table as tables

    if not plan.rows:
        return
    print(f"\n{tables.MODERN}")
    _show_rows(document, document["unscored"], fidelity.stale_modern(), scored=False)
    print(f"\n{_uncovered(plan)}")


def _show_rows(document: dict[str, Any], part: dict[str, Any], stale: str, *, scored: bool) -> None:
    from drivebay.analysis import fidelity
    from drivebay.lab.validate import table as tables

    print(tables.headline("all", part["summary"]))
    for name, one in part["drives"].items():
        print(tables.headline(name, one))
    if stale:
        print(f"leverage, errors without the row and intervals are stale: {stale}; "
              f"{fidelity.AGAIN} computes them again")  # fmt: skip
    for title, predicted in (("Predicted", True), ("Fitted, or in the profile", False)):
        if rows := tables.lines(document, scored=scored, predicted=predicted):
            print(f"\n{title}")
            table(tables.HEAD, rows)


def _uncovered(plan: Plan) -> str:
    return f"{sum(bool(row.not_covered) for row in plan.rows)} rows without a figure in the model"
